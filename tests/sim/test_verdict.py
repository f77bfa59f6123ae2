"""The end of a run: processes that exit, errors of any kind, and results that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import WrongValues, run_module
from fusegen.sim.findings import HostError

SHAPE = {"S": 300, "H": 3, "D": 72}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("raise SystemExit(3)", "exited with status 3 at small.py"),
        ("__import__('sys').exit('no device')", "exited with status no device at small.py"),
    ],
)
def test_a_process_that_exits_with_a_status(run_source, call: str, text: str) -> None:
    source = f"def check(rank, ranks):\n    if rank == 1:\n        {call}\n    dist.barrier()\n    return 0.0\n"
    (finding,) = run_source(source, ranks=2).findings
    assert isinstance(finding, HostError)
    assert (finding.exception, finding.ranks) == ("SystemExit", (1,))
    assert f"rank 1 {text}" in finding.message
    assert "meanwhile rank 0 host in barrier at small.py" in finding.message


@pytest.mark.parametrize("status", ["", "0"])
def test_a_process_that_exits_without_a_result(run_source, status: str) -> None:
    source = f"def check(rank, ranks):\n    raise SystemExit({status})\n"
    (finding,) = run_source(source, ranks=2).findings
    assert isinstance(finding, HostError)
    assert finding.message == "ranks 0, 1 exited with status 0 before self_check returned an error"


def test_a_process_that_exits_while_others_wait_for_it(run_source) -> None:
    source = "def check(rank, ranks):\n    if rank == 1:\n        raise SystemExit\n    dist.barrier()\n"
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "Deadlock"
    assert "a rank does not take part: rank 1 host has ended" in finding.message


def test_system_exit_in_a_kernel(run_source) -> None:
    source = """
@triton.jit
def kernel(x_ptr):
    raise SystemExit(2)


def check(rank, ranks):
    kernel[(1,)](torch.zeros(1).npu())
    torch.npu.synchronize()
"""
    (finding,) = run_source(source).findings
    assert finding.kind == "KernelError"
    assert "`raise SystemExit(2)`: SystemExit: 2" in finding.message


def test_an_error_that_cannot_be_printed(run_source) -> None:
    source = """
class Odd(Exception):
    def __str__(self):
        raise ValueError


def check(rank, ranks):
    raise Odd
"""
    (finding,) = run_source(source).findings
    assert "rank 0 raised Odd at small.py:" in finding.message
    assert finding.message.endswith("<exception str() failed>")


def test_a_finding_is_not_swallowed_by_the_code_under_test(run_source) -> None:
    source = """
def check(rank, ranks):
    try:
        dist.barrier() if rank else dist.all_reduce(torch.ones(1).npu())
    except Exception:
        pass
    return 0.0
"""
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "CollectiveMismatch"


@pytest.mark.parametrize(
    ("result", "ranks", "largest", "text"),
    [
        ("0.5 * rank", (1, 2), 1.0, "ranks 1, 2 of 3: expected an error of at most 0, got 1"),
        (
            "float('inf') if rank == 1 else 0.0",
            (1,),
            None,
            "rank 1 of 3: expected an error of at most 0, got inf: elements that were never written count as infinite",
        ),
        (
            "float('nan') if rank == 2 else 0.0",
            (2,),
            None,
            "rank 2 of 3: expected an error of at most 0, got inf: elements that were never written count as infinite",
        ),
    ],
)
def test_wrong_values(run_source, result: str, ranks: tuple[int, ...], largest: float | None, text: str) -> None:
    outcome = run_source(f"def check(rank, ranks):\n    return {result}\n", ranks=3)
    (finding,) = outcome.findings
    assert not outcome.ok
    assert outcome.max_abs_err == (float("inf") if largest is None else largest)
    assert isinstance(finding, WrongValues)
    assert (finding.ranks, finding.largest, finding.tolerance) == (ranks, largest, 0.0)
    assert finding.message == text
    json.dumps(finding.to_json(), allow_nan=False)


def test_errors_within_the_tolerance_are_no_finding(run_source) -> None:
    outcome = run_source("TOLERANCE = 0.5\n\n\ndef check(rank, ranks):\n    return 0.5 * rank\n", ranks=2)
    assert outcome.ok
    assert (outcome.findings, outcome.max_abs_err) == ((), 0.5)


def test_tiles_stored_in_the_wrong_place_are_wrong_values(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ("(source * H + h) * stride_ch", "(source * H + H - 1 - h) * stride_ch"))
    result = run_module(path, ranks=2, cores=4, shape=SHAPE)
    (finding,) = result.findings
    assert isinstance(finding, WrongValues)
    assert finding.ranks == (0, 1)
    assert result.max_abs_err == finding.largest


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "def check(rank, ranks):\n    return None\n",
            "HostError",
            "ranks 0, 1 raised TypeError: self_check: expected the largest error, a number, got None",
        ),
        ("def check(rank, ranks)\n", "HostError", "ranks 0, 1 raised SyntaxError: expected ':' (small.py, line 5"),
    ],
)
def test_modules_that_break_the_contract(run_source, text: str, kind: str, message: str) -> None:
    (finding,) = run_source(text, ranks=2).findings
    assert finding.kind == kind
    assert message in finding.message


ONE_TILE = {"S": 1, "H": 1, "D": 1}


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            [("block_d) * SLOT_WORDS", "block_d + 1) * SLOT_WORDS")],
            "signal_ptr on rank 0: slot 0 (ring 0, source_rank 0, tile 0) is never used, 1 of 2 declared slots are; "
            "slot 1 (ring 1, source_rank 0, tile 0) is: the slot address is shifted against the declared axes",
        ),
        (
            [("triton.cdiv(D, TILE_D) * SLOT_WORDS", "triton.cdiv(D, TILE_D) * SLOT_WORDS + 8")],
            "signal_ptr on rank 0: 192 bytes are allocated, the module declares 2 slots of 64 bytes",
        ),
        (
            [("triton.cdiv(D, TILE_D) * SLOT_WORDS", "triton.cdiv(D, TILE_D) * SLOT_WORDS - 1")],
            "signal_ptr on rank 0: 120 bytes are allocated, the module declares 2 slots of 64 bytes",
        ),
        (
            [('"ring": BUFFER_NUM,', '"ring": 2 * BUFFER_NUM,')],
            "signal_ptr on rank 0: 128 bytes are allocated, the module declares 4 slots of 64 bytes",
        ),
    ],
)
def test_slots_that_are_not_the_declared_ones(signal_module: Path, mutant, edits: list, message: str) -> None:
    result = run_module(mutant(signal_module, *edits), ranks=1, cores=2, shape=ONE_TILE)
    assert [(finding.kind, finding.message) for finding in result.findings] == [("SlotLayout", message)]


@pytest.mark.parametrize("shape", [ONE_TILE, {"S": 65, "H": 2, "D": 130}, {"S": 300, "H": 3, "D": 72}])
def test_slots_in_use_are_the_declared_ones(signal_module: Path, shape: dict[str, int]) -> None:
    for ranks in (1, 3):
        assert run_module(signal_module, ranks=ranks, cores=5, shape=shape, launches=2).ok


ANNOUNCE_TO_OTHERS = """
@triton.jit
def kernel(flag_ptr, rank, ranks):
    for shift in range(FIRST, ranks):
        dl.notify(flag_ptr + (rank + SHIFT) * 8, (rank + shift) % ranks, 1)
    for shift in range(FIRST, ranks):
        dl.wait(flag_ptr + ((rank + shift) % ranks + SHIFT) * 8, 1, "sys", "acquire", waitValue=1)


def slot_axes(*, ranks, cores):
    return {"flag": {"AXIS": ranks + 1}}


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8 * (ranks + 1)], dtype=torch.int64, device_id=rank)
    flags.zero_()
    dist.barrier()
    kernel[(1,)](flags, rank, ranks)
    torch.npu.synchronize()
    return 0.0
"""


@pytest.mark.parametrize(
    ("first", "shift", "axis", "message"),
    [
        (0, 0, "source_rank", None),
        (1, 0, "source_rank", None),
        (0, 1, "source_rank", "flag_ptr on rank 1: slot 0 (source_rank 0) is never used, 3 of 4 declared slots are"),
        (1, 0, "tile", "flag_ptr on rank 0: slot 0 (tile 0) is never used, 2 of 4 declared slots are; slot 1 (tile 1)"),
        (1, 1, "source_rank", "flag_ptr on rank 1: slot 0 (source_rank 0) is never used, 2 of 4 declared slots are"),
    ],
)
def test_what_a_rank_has_for_itself_need_not_be_announced(
    run_source, first: int, shift: int, axis: str, message: str | None
) -> None:
    source = ANNOUNCE_TO_OTHERS.replace("FIRST", str(first)).replace("SHIFT", str(shift)).replace("AXIS", axis)
    messages = [finding.message for finding in run_source(source, ranks=3).findings]
    assert (messages == []) if message is None else any(message in found for found in messages), messages
