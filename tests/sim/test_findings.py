"""Every finding: a seeded bug that must cause it, next to the clean kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import IntegerOverflow, MisalignedSlot, OutOfBounds, run_module
from fusegen.sim.findings import HostError, LeakedCollective, StepLimit

SHAPE = {"S": 300, "H": 3, "D": 72}
CONSUMER_SLOT = "slot = (ring * ring_slots + source * rank_slots + h * blocks_d + block_d) * SLOT_WORDS"


def only_finding(path: Path, **options):
    result = run_module(path, **{"ranks": 2, "cores": 4, "shape": SHAPE, **options})
    assert not result.ok
    assert result.max_abs_err is None
    (finding,) = result.findings
    json.dumps(finding.to_json())
    assert finding.to_json()["kind"] == finding.kind
    return finding


def test_the_twin_is_clean(signal_module: Path, barrier_module: Path) -> None:
    for path in (signal_module, barrier_module):
        assert run_module(path, ranks=2, cores=4, shape=SHAPE).ok


def test_mask_removed(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ("tl.load(a_ptr + a_offset, mask=mask)", "tl.load(a_ptr + a_offset)"))
    finding = only_finding(path)
    assert isinstance(finding, OutOfBounds)
    assert (finding.tensor, finding.elements) == ("a_ptr", 2 * 300 * 3 * 72)
    assert finding.last >= finding.elements
    assert finding.actor is not None
    assert finding.location is not None
    assert finding.location.source == "tile = tl.load(a_ptr + a_offset)"
    assert path.read_text().splitlines()[finding.location.line - 1].strip() == finding.location.source
    assert f"{path.name}:{finding.location.line}" in finding.message


def test_slot_off_by_one_word(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, (CONSUMER_SLOT, CONSUMER_SLOT + " + 1"))
    finding = only_finding(path)
    assert isinstance(finding, MisalignedSlot)
    assert finding.tensor == "signal_ptr"
    assert finding.word % 8 == 1
    assert finding.slot is not None
    assert finding.slot.index == finding.word // 8
    assert dict(finding.slot.position).keys() == {"ring", "source_rank", "tile"}
    assert (
        f"signal_ptr: word {finding.word} does not start a 64-byte slot: it is word 1 of {finding.slot}"
        in finding.message
    )


def test_slot_past_the_end(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, (CONSUMER_SLOT, CONSUMER_SLOT.replace("block_d)", "block_d + 1)")))
    finding = only_finding(path)
    assert isinstance(finding, OutOfBounds)
    slots = 2 * 2 * 3
    assert finding.slot is not None
    assert finding.slot.index == slots
    assert (finding.first, finding.elements) == (slots * 8, slots * 8)
    assert "element 96 (slot 12) on rank" in finding.message
    assert "the module declares 12 slots" in finding.message


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("wide = S * 100000000", "300 * 100000000 = 30000000000 does not fit the 32 bits"),
        ("wide = S + 2147483647", "300 + 2147483647 = 2147483947 does not fit the 32 bits"),
        ("wide = S - 2147483647 - 1000", "-2147483347 - 1000 = -2147484347 does not fit the 32 bits"),
        ("wide = S << 30", "300 << 30 = 322122547200 does not fit the 32 bits"),
        ("wide = (rank - 5) // 2", "// 2 has a negative operand: Triton rounds to zero where Python rounds down"),
        ("wide = (rank - 5) % 2", "% 2 has a negative operand"),
        ("wide = tl.arange(0, 64) - 1\n    wide = wide // 2", "tile // has a negative operand"),
        ("wide = tl.arange(0, 64) * 100000000 < S", "tile index = 6300000000 does not fit the 32 bits"),
        ("wide = tl.cdiv(rank - 5, 2)", "has a negative operand"),
        ("wide = tl.cdiv(S + 2147483300, 64 * ranks)", "2147483600 + 128 = 2147483728 does not fit"),
    ],
)
def test_integer_overflow(barrier_module: Path, mutant, statement: str, message: str) -> None:
    path = mutant(barrier_module, ("    core = tl.program_id(0)\n", f"    core = tl.program_id(0)\n    {statement}\n"))
    finding = only_finding(path)
    assert isinstance(finding, IntegerOverflow)
    assert message in finding.message
    assert finding.location is not None
    assert finding.location.source == statement.splitlines()[-1].strip()


@pytest.mark.parametrize(
    "statement", ["wide = S.to(tl.int64) * 100000000", "wide = (5 - rank) // 2", "wide = -(rank - 5) % 2"]
)
def test_no_integer_overflow(barrier_module: Path, mutant, statement: str) -> None:
    path = mutant(barrier_module, ("    core = tl.program_id(0)\n", f"    core = tl.program_id(0)\n    {statement}\n"))
    assert run_module(path, ranks=2, cores=4, shape=SHAPE).ok


def test_division_by_zero(barrier_module: Path, mutant) -> None:
    path = mutant(barrier_module, ("item = work // ranks", "item = work // (ranks - ranks)"))
    finding = only_finding(path)
    assert finding.kind == "DivisionByZero"
    assert "0 // 0 divides by zero" in finding.message


def test_endless_loop(barrier_module: Path, mutant) -> None:
    edit = (
        "    cores = tl.num_programs(0)\n",
        "    cores = tl.num_programs(0)\n    while core == 1:\n        cores += 0\n",
    )
    finding = only_finding(mutant(barrier_module, edit), step_limit=20_000)
    assert isinstance(finding, StepLimit)
    assert finding.limit == 20_000
    assert "did not end within 20000 steps and loop iterations" in finding.message
    assert finding.location is not None
    assert finding.location.line in (
        next(i for i, line in enumerate(finding_lines(barrier_module, edit), 1) if "while core == 1" in line) + offset
        for offset in (0, 1)
    )


def finding_lines(path: Path, edit: tuple[str, str]) -> list[str]:
    return path.read_text().replace(*edit).splitlines()


def test_polling_loop_ends_too(run_source) -> None:
    source = """
@triton.jit
def kernel(x_ptr):
    while tl.load(x_ptr) == 0:
        pass


def check(rank, ranks):
    x = torch.zeros(1, dtype=torch.int32).npu()
    kernel[(1,)](x)
    torch.npu.synchronize()
"""
    (finding,) = run_source(source, step_limit=5_000).findings
    assert finding.kind == "StepLimit"


def test_host_raising_on_one_rank(signal_module: Path, mutant) -> None:
    edit = (
        "    S, H, D = workspace.shape\n    rank, ranks",
        "    S, H, D = workspace.shape\n    if workspace.rank == 1:\n"
        "        raise RuntimeError('out of luck')\n    rank, ranks",
    )
    finding = only_finding(mutant(signal_module, edit))
    assert isinstance(finding, LeakedCollective)
    assert (finding.exception, finding.ranks) == ("RuntimeError", (1,))
    assert "rank 1 raised RuntimeError at reverse_all2all_mte_signal.py:" in finding.message
    assert "`raise RuntimeError('out of luck')`: out of luck; meanwhile" in finding.message
    assert finding.trace[-1].endswith("in launch: raise RuntimeError('out of luck')")
    assert all(entry.startswith("reverse_all2all_mte_signal.py:") for entry in finding.trace)
    assert any("rank 0 program on a slot at" in entry for entry in finding.waiting)


def test_host_raising_names_those_left_in_a_collective(run_source) -> None:
    source = """
def check(rank, ranks):
    if rank == 2:
        raise KeyError("shape")
    dist.barrier()
    return 0.0
"""
    (finding,) = run_source(source, ranks=3).findings
    assert isinstance(finding, LeakedCollective)
    assert finding.ranks == (2,)
    assert [entry.split(" at ")[0] for entry in finding.waiting] == ["rank 0 host in barrier", "rank 1 host in barrier"]


def test_launcher_checks_on_all_ranks_are_one_finding(signal_module: Path) -> None:
    finding = only_finding(signal_module, ranks=3, cores=1)
    assert isinstance(finding, HostError)
    assert (finding.exception, finding.ranks) == ("ValueError", (0, 1, 2))
    assert "cores: expected 2" in finding.message
    assert finding.message.endswith("got 1")


@pytest.mark.parametrize(
    ("grid", "got"), [("(0,)", "(0,)"), ("(256, 256)", "(256, 256)"), ("(1, 2, 3, 4)", "(1, 2, 3, 4)")]
)
def test_grids_that_the_runtime_rejects(run_source, grid: str, got: str) -> None:
    source = f"""
@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, 1)


def check(rank, ranks):
    kernel[{grid}](torch.zeros(1).npu())
"""
    (finding,) = run_source(source).findings
    assert f"kernel: expected a grid of 1 to 65535 programs, got {got}" in finding.message


def test_grid_beyond_the_cores_of_independent_programs(run_source) -> None:
    source = """
@triton.jit
def kernel(y_ptr):
    program = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
    tl.store(y_ptr + program, program)


def check(rank, ranks):
    y = torch.zeros(21, dtype=torch.int32).npu()
    kernel[(7, 3)](y)
    return difference(y, list(range(21)))
"""
    assert run_source(source, cores=4).ok


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("dl.symm_at(x_ptr, 0)", "NotSymmetric", "x_ptr: expected a pointer into the symmetric heap"),
        (
            "dl.notify(dl.symm_at(heap_ptr, 1 - dl.rank()), 1 - dl.rank(), 1)",
            "NotSymmetric",
            "itself, which dl.notify translates, got one that dl.symm_at has mapped to rank",
        ),
        (
            "dl.symm_at(dl.symm_at(heap_ptr, 1 - dl.rank()), dl.rank())",
            "NotSymmetric",
            "itself, which dl.symm_at translates, got one that dl.symm_at has mapped to rank",
        ),
        ("dl.symm_at(heap_ptr, 2)", "InvalidPeer", "heap_ptr: expected a rank from 0 to 1, got 2"),
        (
            "tl.store(dl.symm_at(heap_ptr, 1) + 64, 1)",
            "OutOfBounds",
            "heap_ptr: element 64 on rank 1, expected 0 to 63",
        ),
        ("tl.load(x_ptr - 1)", "OutOfBounds", "x_ptr: element -1 on rank"),
        ("dl.wait(heap_ptr + 56, 2, 'sys', 'acquire')", "OutOfBounds", "heap_ptr: elements 56 to 64 (slot 7)"),
        (
            "libshmem_device.putmem(heap_ptr, x_ptr, 72, 1 - dl.rank())",
            "OutOfBounds",
            "x_ptr: elements 0 to 71 on rank",
        ),
        (
            "libshmem_device.putmem(heap_ptr, x_ptr, 8, 2)",
            "InvalidPeer",
            "heap_ptr: expected a rank from 0 to 1, got 2",
        ),
    ],
)
def test_addresses(run_source, call: str, kind: str, message: str) -> None:
    source = f"""
@triton.jit
def kernel(heap_ptr, x_ptr):
    {call}


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([64], dtype=torch.int64, device_id=rank)
    kernel[(1,)](heap, torch.zeros(8, dtype=torch.int64).npu())
    torch.npu.synchronize()
"""
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == kind
    assert message in finding.message


def test_use_after_free(run_source) -> None:
    source = """
@triton.jit
def kernel(heap_ptr, peer):
    tl.store(dl.symm_at(heap_ptr, peer), 1)


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([64], dtype=torch.int64, device_id=rank)
    if rank == 1:
        ash.aclshmem_free_tensor(heap)
    dist.barrier()
    if rank == 0:
        kernel[(1,)](heap, 1)
        torch.npu.synchronize()
"""
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "UseAfterFree"
    assert "heap_ptr: the symmetric memory is freed on rank 1" in finding.message
