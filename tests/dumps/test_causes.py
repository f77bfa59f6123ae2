"""Seeded bugs of every kind: the dumps of the run that hangs name the right cause first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import run_module
from tests.dumps.hanging import GEMM, HEADS, ROWS, UDMA, Edits, cause_names, diagnosed, run_edited
from tests.kernels.cases import Condition, edited, rendered, small

REVERSE, ALL2ALL_UDMA = "reverse_all2all_mte_signal", "all2all_udma_signal"
SCATTER, GATHER_GEMM, GEMM_SCATTER = (
    "reduce_scatter_mte_signal",
    "allgather_gemm_mte_signal",
    "gemm_reduce_scatter_mte_signal",
)
READY = "dl.notify(signal_ptr + slot, target, 2 * use + 1)"
CREDIT = "dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)"
PLAIN_READY = "dl.notify(signal_ptr + slot, target, 1)"
PLAIN_CREDIT = "dl.notify(signal_ptr + (ring * ring_slots + source * rank_slots + block_n) * SLOT_WORDS, rank, 0)"
COUNTED_READY = "dl.notify(ready_ptr + slot, target, turn + 1)"
COUNTED_CREDIT = "dl.notify(credit + slot, source, (turn + 1) % (4 * uses))"
ARRIVED = "dl.notify(arrived_ptr + (block_s * arrived_block + rank) * SLOT_WORDS, target, launch + 1)"
OTHER_RING = "(((ring + 1) % BUFFER_NUM) * ring_slots + rank * rank_slots + h * blocks_d + block_d) * SLOT_WORDS"
SEVERAL: dict[str, Any] = {"ranks": 2, "cores": 8, "shape": {"S": 800, "H": 3, "D": 130}}


def only(condition: str, notify: str) -> tuple[str, str]:
    """The notify under a condition."""
    return notify, f"({notify}) if {condition} else None"


def removed(notify: str) -> tuple[str, str]:
    return notify, "pass"


CASES: dict[str, tuple[str, Edits, dict[str, Any], str, str]] = {
    "credit, numbered": (
        REVERSE,
        (removed(CREDIT),),
        HEADS,
        "credit return missing",
        "5 rounds share 2 ring positions",
    ),
    "credit, some tiles": (
        REVERSE,
        (only("h != 1", CREDIT),),
        HEADS,
        "credit return missing",
        "behind the others ready",
    ),
    "credit, next launch": (
        REVERSE,
        (removed(CREDIT),),
        {**HEADS, "shape": {"S": 100, "H": 3, "D": 72}, "launches": 2},
        "credit return missing",
        "2 launches share the ring",
    ),
    "credit, plain": (
        SCATTER,
        (removed(PLAIN_CREDIT),),
        ROWS,
        "credit return missing",
        "6 rounds share 3 ring positions",
    ),
    "credit, counted": (
        GATHER_GEMM,
        (removed(COUNTED_CREDIT),),
        GEMM,
        "credit return missing",
        "have not come back: credit slot 0 (ring 0, parity 0, reader_rank 0, reader_core 0) on rank 0 holds 0",
    ),
    "credit of one core": (
        GEMM_SCATTER,
        (only("vector_core != 1", COUNTED_CREDIT),),
        {**GEMM, "shape": {"M": 3200, "N": 300, "K": 40}},
        "credit return missing",
        "credit slot 1 (ring 0, parity 0, reader_rank 0, reader_core 1) on rank 0 holds 0",
    ),
    "silent, some tiles": (
        REVERSE,
        (only("h < 2", READY),),
        HEADS,
        "producer did not notify",
        "still 0 while others of the ring position are in use: signal slot 2 (ring 0, source_rank 0, tile 2) on rank 0",
    ),
    "silent, all": (REVERSE, (removed(READY),), HEADS, "producer did not notify", "every slot is 0 (signal)"),
    "silent, later use": (
        REVERSE,
        (only("h < 2 or use == 0", READY),),
        HEADS,
        "producer did not notify",
        "free for a later use, and no tile comes: signal slot 2",
    ),
    "silent, one rank": (
        SCATTER,
        (only("rank == 0", PLAIN_READY),),
        ROWS,
        "producer did not notify",
        "signal slot 3 (ring 0, source_rank 1, tile 0) on rank 0 holds 0",
    ),
    "silent, counted": (
        GATHER_GEMM,
        (only("target == rank", COUNTED_READY),),
        GEMM,
        "producer did not notify",
        "ready slot 32 (ring 0, source_rank 1, comm_row 0, comm_column 0) on rank 0 holds 0",
    ),
    "silent, next turn": (
        GATHER_GEMM,
        (only("turn < 1", COUNTED_READY),),
        GEMM,
        "producer did not notify",
        "are read and their credits back, and the next ones do not come",
    ),
    "silent, block": (
        ALL2ALL_UDMA,
        (only("block_s != 1 or launch == 0", ARRIVED),),
        {**UDMA, "launches": 3},
        "producer did not notify",
        "without the block of launch 2, which others have: arrived slot 3 (block 1, source_rank 1) on rank 0 holds 1",
    ),
    "drift, next slot": (
        REVERSE,
        ((READY, READY.replace("+ slot", "+ slot + (h == 1) * SLOT_WORDS")),),
        HEADS,
        "slot address drift",
        "announced, and nobody has read it: signal slot 2 (ring 0, source_rank 0, tile 2) on rank 0 holds 1",
    ),
    "drift, many cores": (
        REVERSE,
        ((READY, READY.replace("+ slot", "+ slot + (h == 1) * SLOT_WORDS")),),
        {**HEADS, "cores": 8, "shape": {"S": 600, "H": 3, "D": 130}},
        "slot address drift",
        "no later round has begun",
    ),
    "drift, no task": (
        REVERSE,
        ((READY, READY.replace("+ slot", f"+ {OTHER_RING}")),),
        {**HEADS, "shape": {"S": 60, "H": 3, "D": 72}},
        "slot address drift",
        "no task has this slot: signal slot 6 (ring 1, source_rank 0, tile 0) on rank 0 holds 1",
    ),
    "drift, no waiter": (
        REVERSE,
        (("waitValue=2 * use + 1)", "waitValue=2 * use + 3)"),),
        {**HEADS, "shape": {"S": 60, "H": 3, "D": 72}},
        "slot address drift",
        "ready, perhaps without a waiter: signal slot 0",
    ),
    "zeroing": (
        REVERSE,
        (("self.signal.fill_(0)", "pass"),),
        HEADS,
        "host zeroing missing",
        "holds 0x5a5a5a5a5a5a5a5a",
    ),
    "zeroing, other value": (
        REVERSE,
        (("self.signal.fill_(0)", "self.signal.fill_(7)"),),
        HEADS,
        "host zeroing missing",
        "signal slot 0 (ring 0, source_rank 0, tile 0) on rank 0 holds 7",
    ),
    "zeroing of credits": (
        GEMM_SCATTER,
        (("self.credit.fill_(0)", "pass"),),
        {**GEMM, "shape": {"M": 300, "N": 300, "K": 40}},
        "host zeroing missing",
        "credit slot 0",
    ),
    "absent rank": (
        REVERSE,
        (("        for a, c in runs:\n", "        for a, c in runs[: launches - rank]:\n"),),
        {**HEADS, "launches": 2},
        "a rank did not launch",
        "launches of rank 1: 1; of others: 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_right_cause_comes_first(tmp_path: Path, case: str) -> None:
    kernel, edits, conditions, name, text = CASES[case]
    result = run_edited(tmp_path, kernel, edits, conditions)
    assert not result.ok
    assert len(result.dumps) == conditions["ranks"]
    diagnosis = diagnosed(tmp_path)
    assert cause_names(diagnosis)[0] == name
    assert text in " ".join(diagnosis.causes[0].evidence)
    assert diagnosis.causes[0].guide
    assert diagnosis.causes[0].advice


@pytest.mark.parametrize("seed", [2, 3])
def test_a_credit_returned_twice(tmp_path: Path, seed: int) -> None:
    twice = (CREDIT, f"{CREDIT}\n                    {CREDIT}")
    result = run_edited(tmp_path, REVERSE, (twice,), {**SEVERAL, "schedule": "random", "seed": seed})
    assert result.dumps
    diagnosis = diagnosed(tmp_path)
    assert cause_names(diagnosis)[0] == "signal erased"
    assert "given back, and without its next tile" in diagnosis.causes[0].evidence[0]


@pytest.mark.parametrize("sync", ["signal", "barrier"])
def test_a_grid_above_the_cores(tmp_path: Path, sync: str) -> None:
    """The kernel counts its programs: the launcher's own number says nothing about an edited grid."""
    condition = Condition(2, 8, (600, 65), "round-robin", 1)
    text = rendered("allgather", (condition,), **small("allgather", sync=sync, debug={"total_cores": True}))
    module = tmp_path / "kernel.py"
    module.write_text(edited(text, ("[(cores,)]", "[(2 * cores,)]")))
    shape = condition.named("allgather")
    result = run_module(module, ranks=2, cores=8, shape=shape, dump_dir=tmp_path)
    assert [facts["total_cores"] for facts in result.dumps] == [16, 16]
    diagnosis = diagnosed(tmp_path)
    assert cause_names(diagnosis)[0] == "grid above the cores"
    assert diagnosis.causes[0].evidence[0] == (
        "rank 0: the kernel has counted 16 programs, the device has 8 vector cores"
    )
