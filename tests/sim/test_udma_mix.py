"""AllGather+GEMM over UDMA as in the field: AIV 1 of the first AI cores pushes, others copy, the cubes multiply."""

from __future__ import annotations

import pytest

from fusegen.sim.findings import UdmaRule

ALLGATHER_GEMM = """
M, N, K = 32, 16, 16


@triton.jit
def allgather_gemm(a_ptr, b_ptr, c_ptr, gathered_ptr, ranks, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rank = dl.rank()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    own = gathered_ptr + rank * M * K
    if sub_vec_id() == 1 and core < ranks:
        if core != rank:
            libshmem_device.putmem(own, a_ptr, M * K * 2, core)
    else:
        rows = tl.arange(0, 8)
        columns = tl.arange(0, K)
        if sub_vec_id() == 0:
            for tile in range(core, M // 8, cores):
                place = (tile * 8 + rows)[:, None] * K + columns[None, :]
                tl.store(own + place, tl.load(a_ptr + place))
    libshmem_device.barrier_all()
    for source in range(core, ranks, cores):
        offset_m = source * M + tl.arange(0, M)
        offset_k = tl.arange(0, K)
        offset_n = tl.arange(0, N)
        a = tl.load(gathered_ptr + offset_m[:, None] * K + offset_k[None, :])
        b = tl.load(b_ptr + offset_k[:, None] * N + offset_n[None, :])
        tl.store(c_ptr + offset_m[:, None] * N + offset_n[None, :], tl.dot(a, b).to(c_ptr.dtype.element_ty))


def check(rank, ranks):
    generator = torch.Generator().manual_seed(5)
    a = torch.randint(-2, 3, (ranks, M, K), generator=generator).half()
    b = torch.randint(-2, 3, (K, N), generator=generator).half()
    gathered = ash.aclshmem_create_tensor([ranks, M, K], dtype=torch.float16)
    c = torch.full((ranks * M, N), float("nan"), dtype=torch.float16).npu()
    dist.barrier()
    allgather_gemm[(NPUUtils().get_aicore_num(),)](a[rank].npu(), b.npu(), c, gathered, ranks, M=M, N=N, K=K)
    return difference(c, (a.reshape(-1, K).float() @ b.float()).half())
"""

GUARD = "if sub_vec_id() == 1 and core < ranks:"
PUT = "libshmem_device.putmem(own, a_ptr, M * K * 2, core)"


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("schedule", ["round-robin", "random"])
def test_values(run_source, ranks: int, schedule: str) -> None:
    result = run_source(ALLGATHER_GEMM, ranks=ranks, cores=4, schedule=schedule, target="Ascend950PR_9599")
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0


def test_a_putmem_that_every_core_of_the_ai_core_runs(run_source) -> None:
    """Without the guard the call is placed on the AIC and on both AIVs."""
    source = ALLGATHER_GEMM.replace(GUARD, "if core < ranks:").replace("    else:\n", "    if core >= 0:\n", 1)
    (finding,) = run_source(source, ranks=2, cores=4).findings
    assert isinstance(finding, UdmaRule)
    assert finding.rule == "single core"
    assert finding.other is not None
    assert finding.actor.program == finding.other.program == finding.peer
    assert (finding.actor.kind, finding.actor.sub_vec_id) != (finding.other.kind, finding.other.sub_vec_id)
    assert finding.location.source == PUT


def test_rows_one_by_one_before_a_barrier(run_source) -> None:
    rows = "for row in range(M):\n                libshmem_device.putmem(own + row * K, a_ptr + row * K, K * 2, core)"
    (finding,) = run_source(ALLGATHER_GEMM.replace(PUT, rows), ranks=2, cores=4).findings
    assert isinstance(finding, UdmaRule)
    assert finding.rule == "whole block"
    assert "expected one putmem of 1024 bytes with rank 1, got 32 adjacent ones of at most 32 bytes" in finding.message
    assert str(finding.actor) == "rank 0 core 1 AIV 1 program 1"


def test_a_barrier_between_halves_makes_two_blocks(run_source) -> None:
    halves = """libshmem_device.putmem(own, a_ptr, M * K, core)
    libshmem_device.barrier_all()
    if sub_vec_id() == 1 and core < ranks:
        if core != rank:
            libshmem_device.putmem(own + M * K // 2, a_ptr + M * K // 2, M * K, core)"""
    result = run_source(
        ALLGATHER_GEMM.replace(PUT, halves).replace("    else:\n", "    if sub_vec_id() == 0:\n"), ranks=2, cores=4
    )
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0
