"""triton and triton_dist as scripts use them: what stands around kernels, the published swizzles, the launch limit."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from fusegen.sim.errors import SimulationError
from tests.sim.scripts import assert_clean, run_script

WORLDS = [1, 2, 3, 8]

FILL = """
@triton.jit
def fill(x_ptr, n, VALUE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, VALUE, mask=at < n)

"""


@pytest.mark.parametrize("ranks", WORLDS)
def test_jit_with_and_without_options(tmp_path: Path, ranks: int) -> None:
    text = """
    import triton_dist

    @triton.jit
    def one(x_ptr):
        tl.store(x_ptr, 1.0)

    @triton.jit(do_not_specialize=["n"])
    def two(x_ptr, n):
        tl.store(x_ptr + n, 2.0)

    @triton_dist.jit
    def three(x_ptr, n: tl.constexpr):
        tl.store(x_ptr + n, 3.0)

    x = torch.zeros(3).npu()
    one[(1,)](x)
    two[1,](x, 1, num_warps=4, multibuffer=True, enable_linearize=True)
    three[lambda meta: (meta["n"] - 1,)](x, n=2)
    assert x.tolist() == [1.0, 2.0, 3.0]
    one.run(x, grid=(1,), warmup=True)
    one.run(x.zero_(), grid=(1,))
    assert x.tolist() == [1.0, 0.0, 0.0]
    assert (triton.cdiv(7, 2), triton.next_power_of_2(5)) == (4, 8)
    """
    assert_clean(run_script(tmp_path, text, ranks=ranks))


def test_autotune_takes_the_first_configuration(tmp_path: Path) -> None:
    text = """
    seen = []
    configs = [
        triton.Config({"VALUE": 3, "BLOCK": 4}, num_warps=2, pre_hook=lambda named: seen.append(sorted(named))),
        triton.Config({"VALUE": 5, "BLOCK": 8}, 4, 2),
    ]
    tuned = triton.autotune(configs=configs, key=["n"], reset_to_zero=["x_ptr"], warmup=1)(fill)
    x = torch.ones(6).npu()
    tuned[lambda meta: (triton.cdiv(3, meta["BLOCK"]),)](x, 3)
    assert x.tolist() == [3, 3, 3, 0, 0, 0], x
    x.fill_(1)
    tuned[(1,)](x, n=3)
    assert x.tolist() == [3, 3, 3, 1, 1, 1], x
    assert seen == [["BLOCK", "VALUE", "n", "num_warps", "x_ptr"]] * 2
    """
    assert_clean(run_script(tmp_path, FILL + dedent(text)))


def test_autotune_prunes(tmp_path: Path) -> None:
    text = """
    def prune(configs, named, **keywords):
        assert named["n"] == 6 and keywords == {}
        return [config for config in configs if config.kwargs["BLOCK"] >= named["n"]]

    configs = [triton.Config({"VALUE": block, "BLOCK": block}) for block in (4, 8)]
    x = torch.zeros(6).npu()
    triton.autotune(configs, key=[], prune_configs_by={"early_config_prune": prune})(fill)[(1,)](x, 6)
    assert x.tolist() == [8] * 6
    """
    assert_clean(run_script(tmp_path, FILL + dedent(text)))


def test_autotune_without_configurations(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="expected at least one configuration, got none"):
        run_script(tmp_path, FILL + "triton.autotune([], key=[])(fill)\n")


def test_heuristics_compute_parameters(tmp_path: Path) -> None:
    text = """
    values = {"BLOCK": lambda named: triton.next_power_of_2(named["n"]), "VALUE": lambda named: 2 * named["BLOCK"]}
    configs = [triton.Config({}, num_stages=1)]
    x = torch.zeros(6).npu()
    triton.heuristics(values)(fill)[(1,)](x, 5)
    assert x.tolist() == [16] * 5 + [0]
    triton.autotune(configs, key=["n"])(triton.heuristics(values)(fill))[(1,)](x, n=3)
    assert x.tolist() == [8] * 3 + [16] * 2 + [0]
    """
    assert_clean(run_script(tmp_path, FILL + dedent(text)))


def test_do_bench(tmp_path: Path) -> None:
    text = """
    from triton.testing import do_bench
    calls = []
    x = torch.zeros(4).npu()

    def launch():
        calls.append(RANK)
        fill[(1,)](x, 4, VALUE=1, BLOCK=4)

    milliseconds = do_bench(launch, warmup=10, rep=50, return_mode="mean")
    assert milliseconds > 0 and calls == [RANK] * 3
    assert len(triton.testing.do_bench(launch, quantiles=[0.5, 0.2])) == 2
    """
    assert_clean(run_script(tmp_path, FILL + dedent(text)))


@pytest.mark.parametrize(("core_unit", "vector", "ai"), [("vector", 6, 3), ("AI", 12, 6)])
def test_core_counts(tmp_path: Path, core_unit: str, vector: int, ai: int) -> None:
    text = f"""
    from triton.backends.ascend.driver import NPUUtils
    import triton.runtime.driver as driver

    assert NPUUtils().get_aivector_core_num() == {vector} and NPUUtils().get_aicore_num() == {ai}
    properties = driver.active.utils.get_device_properties(torch.npu.current_device())
    assert properties == {{"num_aicore": {ai}, "num_vectorcore": {vector}}}
    assert driver.active.get_current_device() == RANK
    assert driver.active.get_active_torch_device() == torch.device("npu", RANK)
    """
    assert_clean(run_script(tmp_path, text, cores=6, core_unit=core_unit))


def test_gemm_swizzle(tmp_path: Path) -> None:
    """Every tile once; odd groups of columns from the last row to the first."""
    text = """
    from triton_dist.language.extra.ascend.algorithm import gemm_swizzle2d_Nz

    @triton.jit
    def kernel(out_ptr, tiles, rows, cols):
        for index in range(tl.program_id(0), tiles, tl.num_programs(0)):
            row, col = gemm_swizzle2d_Nz(index, rows, cols, 128, 256, swizzle_offset=2)
            tl.store(out_ptr + 2 * index, row)
            tl.store(out_ptr + 2 * index + 1, col)

    out = torch.zeros(6, 2, dtype=torch.int32).npu()
    kernel[(1,)](out, 6, 200, 700)
    assert out.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [0, 2]], out
    """
    assert_clean(run_script(tmp_path, text))


SWIZZLE = """
from triton_dist.language.extra.ascend.algorithm import dist_swizzle2d_Nz

@triton.jit
def kernel(out_ptr, tasks, ranks, SPLIT: tl.constexpr):
    for index in range(tl.program_id(0), tasks, tl.num_programs(0)):
        row, col, rank, row_size, col_size = dist_swizzle2d_Nz(index, ranks, 70, 300, 64, 256, comm_npu_split=SPLIT)
        tl.store(out_ptr + 5 * index, row)
        tl.store(out_ptr + 5 * index + 1, col)
        tl.store(out_ptr + 5 * index + 2, rank)
        tl.store(out_ptr + 5 * index + 3, row_size)
        tl.store(out_ptr + 5 * index + 4, col_size)

"""


def test_comm_swizzle(tmp_path: Path) -> None:
    text = """
    for ranks in (1, 2, 3, 8):
        out = torch.zeros(4 * ranks, 5, dtype=torch.int32).npu()
        kernel[(1,)](out, 4 * ranks, ranks, SPLIT=1)
        sizes = {(0, 0): (64, 256), (0, 1): (64, 44), (1, 0): (6, 256), (1, 1): (6, 44)}
        places = [(tile // 2, tile % 2, (position + tile) % ranks) for tile in range(4) for position in range(ranks)]
        assert out.tolist() == [[*place, *sizes[place[:2]]] for place in places]
    """
    assert_clean(run_script(tmp_path, SWIZZLE + dedent(text), ranks=1))


def test_the_published_split_repeats_ranks(tmp_path: Path) -> None:
    text = """
    out = torch.zeros(8, 5, dtype=torch.int32).npu()
    kernel[(1,)](out, 8, 8, SPLIT=2)
    assert out[:, 2].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    """
    assert_clean(run_script(tmp_path, SWIZZLE + dedent(text), ranks=1))


def test_a_split_above_the_ranks_divides_by_zero(tmp_path: Path) -> None:
    text = "kernel[(1,)](torch.zeros(5, dtype=torch.int32).npu(), 1, 1, SPLIT=2)\n"
    (finding,) = run_script(tmp_path, SWIZZLE + text, ranks=1).findings
    assert finding.kind == "DivisionByZero"


def test_swizzles_in_a_mix_kernel(tmp_path: Path) -> None:
    """The order of tiles is computed on the AIC, which stores a product, and on the AIVs, which meet it in barriers."""
    text = """
    from triton_dist.language.extra import libshmem_device
    from triton_dist.language.extra.ascend.algorithm import gemm_swizzle2d_Nz

    @triton.jit
    def kernel(a_ptr, c_ptr, M, N, K: tl.constexpr):
        k = tl.arange(0, K)
        for index in range(tl.program_id(0), tl.cdiv(M, 16) * tl.cdiv(N, 16), tl.num_programs(0)):
            row, col = gemm_swizzle2d_Nz(index, M, N, 16, 16)
            m, n = row * 16 + tl.arange(0, 16), col * 16 + tl.arange(0, 16)
            a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None], other=0.0)
            b = tl.load(a_ptr + n[None, :] * K + k[:, None], mask=(n < N)[None, :], other=0.0)
            tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b), mask=(m < M)[:, None] & (n < N)[None, :])
        libshmem_device.barrier_all()

    a = torch.randn(40, 32).npu()
    c = torch.zeros(40, 40).npu()
    kernel[(3,)](a, c, 40, 40, K=32)
    torch.testing.assert_close(c, a @ a.T)
    """
    assert_clean(run_script(tmp_path, text, cores=3, core_unit="AI"))


LAUNCHES = """
x = torch.zeros(4).npu()
for launch in range(4):
    fill[(1,)](x, 4, VALUE=launch, BLOCK=4)
    print("launched", launch)
    dist.barrier()
print("done", x.tolist())
"""


@pytest.mark.parametrize("ranks", WORLDS)
def test_the_launch_limit_stops_every_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    result = run_script(tmp_path, FILL + LAUNCHES, ranks=ranks, launch_limit=2)
    assert_clean(result)
    assert (result.launches, result.stopped) == (2, True)
    expected = [f"[rank {rank}] launched {launch}" for rank in range(ranks) for launch in range(2)]
    assert sorted(capsys.readouterr().out.splitlines()) == expected


def test_a_launch_limit_that_is_not_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_script(tmp_path, FILL + LAUNCHES, launch_limit=4)
    assert_clean(result)
    assert (result.launches, result.stopped) == (4, False)
    assert "[rank 0] done [3.0, 3.0, 3.0, 3.0]" in capsys.readouterr().out


def test_ranks_that_wait_for_a_stopped_one_are_no_deadlock(tmp_path: Path) -> None:
    text = """
    x = torch.zeros(4).npu()
    for _ in range(3 - 2 * RANK):
        fill[(1,)](x, 4, VALUE=1, BLOCK=4)
    dist.barrier()
    """
    result = run_script(tmp_path, FILL + dedent(text), launch_limit=2)
    assert_clean(result)
    assert result.stopped


HANG = """
@triton.jit
def wait(x_ptr, rank):
    if rank == 1:
        dl.wait(x_ptr, 1, "sys", "acquire", waitValue=1)

x = torch.zeros(8, dtype=torch.int64).npu()
wait[(1,)](x, RANK)
fill[(1,)](x, 4, VALUE=1, BLOCK=4)
"""


def test_a_kernel_that_hangs_before_the_launch_limit_is_a_deadlock(tmp_path: Path) -> None:
    for limit, stopped in ((1, True), (2, False)):
        result = run_script(tmp_path, FILL + HANG, launch_limit=limit, races=False)
        assert [finding.kind for finding in result.findings] == ["Deadlock"]
        assert result.stopped is stopped


def test_a_launch_limit_below_1(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="launch_limit: expected at least 1, got 0"):
        run_script(tmp_path, "", launch_limit=0)
