"""Dumps of runs that have ended: every slot is at rest, whatever the pattern, and all of it is decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusegen.dumps import Diagnosis, State, diagnose, load_dumps
from fusegen.plan.ir import KernelPlan
from fusegen.sim import run_module
from tests.dumps.hanging import GENERATED
from tests.kernels.cases import Condition, edited, rendered, small
from tests.plan.plans import plan_for, plan_from

END = "        synchronize(workspace, dump_dir=dump_dir)\n"
DUMPED = (END, END + '        dist.barrier()\n        dump(workspace, dump_dir / f"rank{rank}.json")\n')
"""Without the barrier, ranks that are slower may not have returned their credits yet."""
KERNELS = sorted(path.stem for path in GENERATED.glob("*.py"))


def finished(folder: Path, text: str, **conditions: Any) -> Diagnosis:
    """What the dumps say that all ranks of a run without findings write after its end."""
    module = folder / "kernel.py"
    module.write_text(edited(text, DUMPED))
    result = run_module(module, **conditions, dump_dir=folder)
    assert (result.findings, result.dumps) == ((), ())
    return diagnose(load_dumps(sorted(folder.glob("rank*.json"))))


def assert_at_rest(diagnosis: Diagnosis, plan: KernelPlan) -> None:
    """No cause, no stuck slot; plan and dump agree about what the slots are."""
    assert diagnosis.causes == ()
    assert [str(slot) for slot in diagnosis.stuck] == []
    assert {slot.reading.state for slot in diagnosis.slots} <= {State.READY, State.CREDITED}
    for dump in diagnosis.dumps:
        assert (dump.pattern, dump.sync, dump.buffer_num) == (plan.pattern, plan.choices.sync, plan.buffer_num)
        assert not dump.hangs
        assert list(dump.slots) == [group.name for group in plan.slots]
        for group in plan.slots:
            told = dump.slots[group.name]
            assert (told.purpose, told.values) == (group.purpose.value, group.protocol.values.value)
            assert told.buffer == group.buffer
            assert list(told.axes) == [axis.name for axis in group.layout.axes]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(tmp_path: Path, kernel: str) -> None:
    plan = plan_from(kernel)
    point = plan.verify[0]
    text = (GENERATED / f"{kernel}.py").read_text()
    diagnosis = finished(tmp_path, text, ranks=2, cores=max(point.cores, 2), shape=dict(point.shape), launches=2)
    assert_at_rest(diagnosis, plan)
    document = json.loads(json.dumps(diagnosis.to_json()))
    assert (document["at_rest"], document["causes"], document["missing_ranks"]) == (True, [], [])


MANY_ROUNDS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("allgather_gemm", {"pvalue": 2}, (75, 33, 17)),
    ("gemm_reduce_scatter", {"pvalue": 2}, (240, 33, 17)),
    ("gemm_allreduce", {"buffer_num": 1}, (51, 33, 17)),
    ("allgather", {"buffer_num": 2}, (75, 33)),
    ("all2all", {"transport": "udma"}, (75, 2, 33)),
]


@pytest.mark.parametrize("launches", [1, 4, 5])
@pytest.mark.parametrize(("pattern", "changes", "shape"), MANY_ROUNDS, ids=[each[0] for each in MANY_ROUNDS])
def test_rings_that_come_round(
    tmp_path: Path, pattern: str, changes: dict[str, Any], shape: tuple[int, ...], launches: int
) -> None:
    condition = Condition(3, 4, shape)
    text = rendered(pattern, (condition,), **small(pattern, **changes))
    diagnosis = finished(
        tmp_path, text, ranks=3, cores=4, shape=condition.named(pattern), launches=launches, schedule="random"
    )
    assert_at_rest(diagnosis, plan_for(pattern, **small(pattern, **changes)))
    dump = diagnosis.dumps[0]
    assert dump.rounds > dump.buffer_num
    counted = [slot for slot in diagnosis.slots if slot.group == "ready"]
    assert all(slot.reading.launch == launches for slot in counted if not slot.position["ring"])


def test_a_slot_that_a_finished_launch_leaves_otherwise(tmp_path: Path) -> None:
    """Small shapes pass without credit return, and the dump tells that the next launch will not."""
    text = edited(
        (GENERATED / "reverse_all2all_mte_signal.py").read_text(),
        ("dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)", "pass"),
    )
    diagnosis = finished(tmp_path, text, ranks=2, cores=4, shape={"S": 100, "H": 1, "D": 72})
    assert [cause.name for cause in diagnosis.causes] == ["credit return missing", "slot address drift"]
    assert diagnosis.causes[0].evidence[0] == "the next launch uses the ring again"
