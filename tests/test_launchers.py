"""Launchers of every pattern on the emulated machine: values, refusals on all ranks together, the watchdog's dump."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import RunResult, run_module
from tests.render.host_plans import TOYS

SHAPE = {"M": 7, "N": 5, "K": 6, "S": 3, "H": 2, "D": 9}


def run_toy(folder: Path, name: str, *edits: tuple[str, str], ranks: int = 2, **options: object) -> RunResult:
    """Run a toy with texts replaced, each of which must occur; `shape` changes some dimensions."""
    toy = TOYS[name]
    text = toy.text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / f"{name}.py"
    path.write_text(text)
    changes = options.pop("shape", {})
    shape = {each.name: {**SHAPE, **changes}[each.name] for each in toy.plan.dimensions}  # type: ignore[dict-item]
    return run_module(path, ranks=ranks, **{"cores": 2, "shape": shape, **options})  # type: ignore[arg-type]


def checking(body: str) -> tuple[str, str]:
    """An edit after which the self-check runs `body`, in which `rank` and `ranks` are known, and nothing else."""
    rest = "    own = torch.Generator()"
    return rest, "".join(f"    {line}\n" for line in body.splitlines()) + f"    return 0.0\n{rest}"


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", [name for name in TOYS if name != "allreduce_split"])
def test_values(tmp_path: Path, name: str, ranks: int) -> None:
    result = run_toy(tmp_path, name, ranks=ranks, launches=5, schedule="random", seed=ranks)
    assert result.findings == ()
    assert result.ok
    tolerance = TOYS[name].plan.tolerance.value
    assert result.max_abs_err is not None
    assert result.max_abs_err <= tolerance


@pytest.mark.parametrize("name", TOYS)
def test_shapes_with_a_zero(tmp_path: Path, name: str) -> None:
    for dimension in TOYS[name].plan.dimensions:
        result = run_toy(tmp_path, name, shape={dimension.name: 0}, launches=3)
        assert (result.findings, result.max_abs_err, result.tiles) == ((), 0.0, 0), dimension


@pytest.mark.parametrize(
    ("name", "old"), [("gemm_allreduce_bias", "out.copy_(bias"), ("gemm_allreduce", "out.zero_()")]
)
def test_an_output_that_is_not_prepared_shows(tmp_path: Path, name: str, old: str) -> None:
    result = run_toy(tmp_path, name, (f"    {old}", f"    0 and {old}"))
    assert result.max_abs_err == float("inf")


def test_a_kernel_that_does_not_add_to_the_output_loses_the_bias(tmp_path: Path) -> None:
    edit = ("total = tl.load(c_row, mask=columns < N).to(tl.float32)", "total = tl.zeros((BLOCK,), tl.float32)")
    (finding,) = run_toy(tmp_path, "gemm_allreduce_bias", edit).findings
    assert finding.kind == "WrongValues"


def test_launches_are_numbered(tmp_path: Path) -> None:
    """With one buffer instead of two, a launch overwrites what a slower rank still reads."""
    edit = ("peer_ptr += launch % 2 * M * N", "peer_ptr += 0 * launch * M * N")
    options = {"ranks": 3, "launches": 4, "schedule": "random", "shape": {"M": 1}}
    results = [run_toy(tmp_path, "allreduce", edit, **options, seed=seed) for seed in range(20)]  # type: ignore[arg-type]
    assert any(not result.ok for result in results)


ONE_CALL = """
a = torch.ones({a}, dtype=DTYPE, device="npu")
b = torch.ones({b}, dtype=DTYPE, device="npu")
{call}
"""


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("allgather", "allgather(a[0] if rank == 1 else a)", "rank 1: a: expected [M, N], got (6,)"),
        (
            "allgather",
            "allgather(a.float() if rank == 1 else a)",
            "rank 1: a: expected torch.float16 (7, 6), got torch.float32 (7, 6)",
        ),
        (
            "allgather",
            "allgather(a[1:] if rank == 1 else a)",
            "rank 0, 2: expected the same on every rank, got shape (7, 6), cores 2; "
            "rank 1: expected the same on every rank, got shape (6, 6), cores 2",
        ),
        ("allgather_gemm", "allgather_gemm(a, b[rank == 2 :])", "rank 2: b: expected torch.float16 (6, 5), got"),
        ("allgather_gemm", "allgather_gemm(a, b if rank else b[0])", "rank 0: a, b: expected [M, K] and [K, N], got"),
        (
            "gemm_allreduce_bias",
            "gemm_allreduce(a, b, b[0, rank == 1 :])",
            "rank 1: bias: expected torch.float16 (5,), got torch.float16 (4,)",
        ),
        ("all2all", "all2all(a.view(7, 6, 1)[:, rank == 1 :])", "rank 1: a: expected [S, ranks * H, D] on 3 ranks"),
    ],
)
def test_one_rank_with_wrong_tensors_in_the_one_call_form(tmp_path: Path, name: str, call: str, message: str) -> None:
    body = ONE_CALL.format(a=(7, 6), b=(6, 5), call=call).strip()
    (finding,) = run_toy(tmp_path, name, checking(body), ranks=3).findings
    assert finding.kind == "HostError"
    assert "ranks 0, 1, 2 raised ValueError" in finding.message
    assert message in finding.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-7 if rank else 7, 5", "rank 1: shape: expected M, N from 0 to below 2**30, got (-7, 5)"),
        ("7, 5, cores=rank", "rank 0: cores: expected 1 to 2 vector cores, got 0"),
        ("7, 5, cores=3", "rank 0, 1: cores: expected 1 to 2 vector cores, got 3"),
        (
            "7, 5, cores=rank + 1",
            "rank 0: expected the same on every rank, got shape (7, 5), cores 1; "
            "rank 1: expected the same on every rank, got shape (7, 5), cores 2",
        ),
        (
            "2**20, 2**12 if rank else 5",
            "rank 1: a: expected fewer than 2**31 elements for 32-bit offsets, got 4294967296",
        ),
    ],
)
def test_one_rank_with_another_workspace(tmp_path: Path, arguments: str, message: str) -> None:
    (finding,) = run_toy(tmp_path, "allgather", checking(f"Workspace({arguments})")).findings
    assert finding.kind == "HostError"
    assert "ranks 0, 1 raised ValueError" in finding.message
    assert message in finding.message


def test_rank_counts_that_the_split_of_the_rank_order_does_not_suit(tmp_path: Path) -> None:
    assert run_toy(tmp_path, "allreduce_split", ranks=4).ok
    (finding,) = run_toy(tmp_path, "allreduce_split", ranks=5).findings
    assert "rank 0, 1, 2, 3, 4: NPU_SPLIT: expected a split that visits each of 5 ranks once" in finding.message


def test_fewer_cores_than_there_are(tmp_path: Path) -> None:
    edit = ("with Workspace(M, N) as workspace:", "with Workspace(M, N, cores=1) as workspace:")
    assert run_toy(tmp_path, "allreduce", edit, launches=3).ok


def test_one_rank_that_cannot_join(tmp_path: Path) -> None:
    edit = ("status = ash.aclshmem_init(attributes)", "status = ash.aclshmem_init(attributes) or -7 * (rank == 1)")
    (finding,) = run_toy(tmp_path, "allgather", edit).findings
    assert finding.kind == "HostError"
    assert "ranks 0, 1 raised RuntimeError" in finding.message
    assert "rank 1: aclshmem_init returned -7" in finding.message


def test_one_rank_with_a_wrong_address(tmp_path: Path) -> None:
    edit = ('os.environ.get("ASH_MASTER_PORT", "8666")', '"80x" if os.environ["RANK"] == "1" else "80"')
    (finding,) = run_toy(tmp_path, "allgather", edit).findings
    assert "ranks 0, 1 raised RuntimeError" in finding.message
    assert "rank 1: ASH_MASTER_PORT: expected a port, got '80x'" in finding.message


def test_a_dump_of_two_groups_of_slots(tmp_path: Path) -> None:
    edit = ("dl.notify(left_ptr + rank * SLOT_WORDS, q, 1)", "pass")
    (finding,) = run_toy(tmp_path, "allgather", edit, ranks=3, dump_dir=tmp_path / "dumps").findings
    assert finding.kind == "Deadlock"
    assert "left_ptr slot 0 (source_rank 0) on rank 0" in finding.message
    facts = json.loads((tmp_path / "dumps" / "allgather_toy.rank1.json").read_text())
    for name in ("arrived", "left"):
        assert facts["slots"][name]["axes"] == {"source_rank": 3}
        assert facts["slots"][name]["nonzero"] == []


def test_slots_of_each_group_have_their_own_axes(tmp_path: Path) -> None:
    edit = ("dl.notify(left_ptr + rank * SLOT_WORDS, q, 1)", "dl.notify(left_ptr + rank * SLOT_WORDS, q, 2)")
    (finding,) = run_toy(tmp_path, "allgather", edit, dump_dir=tmp_path / "dumps").findings
    assert "left_ptr slot 0 (source_rank 0) on rank 1" in finding.message
    facts = json.loads((tmp_path / "dumps" / "allgather_toy.rank0.json").read_text())
    assert facts["slots"]["arrived"]["nonzero"] == []
    assert facts["slots"]["left"]["nonzero"] == [
        {"slot": 0, "value": 2, "source_rank": 0},
        {"slot": 1, "value": 2, "source_rank": 1},
    ]
