"""Proofs about programs, placement, edges and transfers: each seeded defect is refused, its untouched twin is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fusegen.plan import KernelPlan
from fusegen.plan.expr import Const
from fusegen.plan.ir import BarrierCover, HandOver, SignalCover
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When, walk
from fusegen.plan.stages import Engine, Kind
from tests.plan.defects import mapped, refused, run_times, slots_with, stages_with, without_scopes
from tests.plan.plans import MIX, plan_for

VECTOR = ("reverse_all2all", "all2all", "allgather", "reduce_scatter", "allreduce")


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize(("pattern", "stage"), [("allgather", "copy"), ("gemm_allreduce", "announce")])
def test_a_stage_runs_once(pattern: str, stage: str, times: int) -> None:
    plan = plan_for(pattern)
    refused(plan, "the program runs .*, expected every stage once", program=run_times(plan.program, stage, times))


def test_a_program_that_runs_a_stage_of_another_plan() -> None:
    plan = plan_for("allgather")
    refused(plan, "expected every stage once", program=(*plan.program, Run("gemm")))


@pytest.mark.parametrize(
    "node", [When(0, None, (Barrier(""),)), Scope(Engine.CUBE, (When(0, None, (Barrier(""),)),))], ids=["role", "scope"]
)
def test_every_core_reaches_every_barrier(node: Node) -> None:
    for plan in (plan_for("allgather"), plan_for("gemm_allreduce", sync="barrier")):
        refused(plan, "a barrier that only some cores reach", program=(*plan.program, node))


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", MIX)
def test_every_stage_of_a_mix_kernel_stands_in_its_scope(pattern: str, sync: str) -> None:
    plan = plan_for(pattern, sync=sync)
    for stage in plan.stages:
        name, engine = stage.name, stage.workers.engine.value
        outside = mapped(plan.program, lambda node, name=name: () if node == Run(name) else (node,))  # type: ignore[misc]
        bare = (*outside, Run(name))
        refused(plan, f"{name} must stand in a {engine} scope", program=bare)
        other = Engine.VECTOR if stage.workers.engine is Engine.CUBE else Engine.CUBE
        refused(plan, f"{name} must stand in a {engine} scope", program=(*outside, Scope(other, (Run(name),))))
    refused(plan, "must stand in a", program=without_scopes(plan.program))


@pytest.mark.parametrize("pattern", VECTOR)
def test_a_vector_kernel_has_no_scopes(pattern: str) -> None:
    plan = plan_for(pattern)
    name = plan.stages[0].name
    wrong = mapped(plan.program, lambda node: (Scope(Engine.VECTOR, (node,)),) if node == Run(name) else (node,))
    refused(plan, f"{name} stands in a scope, but only a mix kernel has two core types", program=wrong)


@pytest.mark.parametrize(
    ("events", "message"),
    [((8, 8), r"events \[8, 8\]: expected different ones from 0 to 15"), ((16,), r"events \[16\]"), ((-1,), r"\[-1\]")],
)
def test_hand_overs_have_events_of_their_own(events: tuple[int, ...], message: str) -> None:
    plan = plan_for("gemm_allreduce")
    refused(plan, message, hand_overs=tuple(HandOver("gemm", "announce", event) for event in events))


def test_a_hand_over_goes_from_cube_to_vector() -> None:
    plan = plan_for("gemm_allreduce")
    message = "announce does not hand over from the cube core to the vector cores"
    refused(plan, message, hand_overs=(*plan.hand_overs, HandOver("announce", "gemm", 9)))


@pytest.mark.parametrize("stage", ["gemm", "announce"])
def test_both_sides_of_a_hand_over_go_through_the_same_tiles(stage: str) -> None:
    plan = plan_for("gemm_allreduce")
    message = "announce does not wait for each tile of gemm"
    tasks = plan.stage(stage).tasks
    refused(plan, message, **stages_with(plan, stage, tasks=replace(tasks, items=tasks.items[::-1])))
    refused(plan, message, **stages_with(plan, stage, hand_over=None))
    refused(plan, message, **stages_with(plan, stage, hand_over=7))


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", ["allgather", "gemm_allreduce"])
def test_every_meeting_has_an_edge(pattern: str, sync: str) -> None:
    plan = plan_for(pattern, sync=sync)
    message = "expected 3 edges between the stages that meet in a buffer, got {} others"
    refused(plan, message.format(0), edges=())
    for index in range(3):
        refused(plan, message.format(2), edges=plan.edges[:index] + plan.edges[index + 1 :])
    refused(plan, message.format(4), edges=(*plan.edges, plan.edges[0]))
    nearer = replace(plan.edges[1], distance=1)
    refused(plan, message.format(3), edges=(plan.edges[0], nearer, plan.edges[2]))


@pytest.mark.parametrize(
    ("index", "what"),
    [(0, "forward edge push -> copy"), (1, "backward edge copy -> push"), (2, "backward edge copy -> push")],
)
def test_every_edge_has_a_cover(index: int, what: str) -> None:
    plan = plan_for("allgather")
    for cover, message in ((None, "has no cover"), (BarrierCover(), "no barrier between rounds")):
        edges = [*plan.edges]
        edges[index] = replace(edges[index], cover=cover)
        refused(plan, f"{what} on peer:? {message}", edges=tuple(edges))


def test_one_barrier_a_round_is_too_few_for_one_buffer() -> None:
    """The program of two buffers, with its ring one buffer deep."""
    two = plan_for("allgather", sync="barrier", roles="shared", buffer_num=2)
    one = plan_for("allgather", sync="barrier", roles="shared", buffer_num=1)
    refused(one, "backward edge copy -> push on peer: no barrier between rounds", program=two.program)


def test_a_closing_barrier_that_is_missing() -> None:
    plan = plan_for("allgather", transport="udma")
    without = tuple(node for node in plan.program if not isinstance(node, Barrier))
    refused(plan, r"backward edge copy -> put on landing: no barrier between rounds \(0, 0\)", program=without)


def test_stages_in_the_wrong_order() -> None:
    plan = plan_for("allgather_gemm", transport="udma", sync="barrier", buffer_num=1)
    refused(plan, "forward edge put -> gemm on gathered: no barrier", program=plan.program[::-1])


@pytest.mark.parametrize(
    ("pattern", "changes", "source", "target", "slots"),
    [
        ("allgather", {}, "push", "copy", "signal"),
        ("allreduce", {"flatten": "none"}, "push", "reduce", "signal"),
        ("allgather", {"transport": "udma"}, "put", "copy", "arrived"),
        ("allgather_gemm", {}, "push", "gemm", "ready"),
        ("gemm_allreduce", {}, "announce", "reduce", "ready"),
        ("gemm_reduce_scatter", {"reduce": "atomic"}, "announce", "reduce", "ready"),
    ],
)
def test_a_source_announces_and_a_target_waits(
    pattern: str, changes: dict[str, Any], source: str, target: str, slots: str
) -> None:
    plan = plan_for(pattern, **changes)
    silent = tuple(each for each in plan.stage(source).announces if each.slots != slots)
    refused(plan, f"{source} does not write {slots}", **stages_with(plan, source, announces=silent))
    hasty = tuple(each for each in plan.stage(target).waits if each.slots != slots)
    refused(plan, f"{target} does not wait for {slots}", **stages_with(plan, target, waits=hasty))
    other = tuple(replace(each, value=Const(77)) for each in plan.stage(source).announces)
    refused(plan, f"{source} does not write {slots}", **stages_with(plan, source, announces=other))
    deaf = tuple(replace(each, value=Const(77)) for each in plan.stage(target).waits)
    refused(plan, f"{target} does not wait for {slots}", **stages_with(plan, target, waits=deaf))


@pytest.mark.parametrize(
    ("pattern", "writer", "reader", "slots"),
    [("allgather", "push", "copy", "signal"), ("allgather_gemm", "push", "gemm", "credit")],
)
def test_a_writer_waits_for_the_readers_credit(pattern: str, writer: str, reader: str, slots: str) -> None:
    plan = plan_for(pattern)
    silent = tuple(each for each in plan.stage(reader).announces if each.slots != slots)
    message = rf"{reader} does not write {slots}|\('{reader}',\) as the only resetter of {slots}, got \[\]"
    refused(plan, message, **stages_with(plan, reader, announces=silent))
    hasty = tuple(each for each in plan.stage(writer).waits if each.slots != slots)
    refused(plan, f"{writer} does not wait for {slots}", **stages_with(plan, writer, waits=hasty))


def test_a_signal_that_goes_through_a_stage_without_hand_over() -> None:
    plan = plan_for("gemm_allreduce")
    refused(plan, "gemm does not hand over to announce", hand_overs=())
    direct = (replace(plan.edges[0], cover=SignalCover("ready")), *plan.edges[1:])
    refused(plan, "gemm does not write ready", edges=direct)


@pytest.mark.parametrize(
    ("pattern", "reader", "slots"), [("allgather", "copy", "signal"), ("gemm_allreduce", "reduce", "credit")]
)
def test_a_slot_has_one_resetter(pattern: str, reader: str, slots: str) -> None:
    plan = plan_for(pattern)
    writer = plan.stages[0].name
    for resetters in ((), (writer,), (reader, writer)):
        refused(plan, f"as the only resetter of {slots}", **slots_with(plan, slots, resetters=resetters))
    (credit,) = (each for each in plan.stage(reader).announces if each.slots == slots)
    both = (*plan.stage(writer).announces, credit)
    message = rf"expected \('{reader}',\) as the only resetter of {slots}, got \['{writer}', '{reader}'\]"
    refused(plan, message, **stages_with(plan, writer, announces=both))
    twice = (*plan.stage(reader).announces, credit)
    refused(plan, f"as the only resetter of {slots}", **stages_with(plan, reader, announces=twice))


def buffered(plan: KernelPlan, stage: str, extra: tuple[Const, ...]) -> dict[str, Any]:
    """The stage's write with coordinates behind those that it has; without the last one, if there are none."""
    (write,) = plan.stage(stage).writes
    coordinates = (*write.coordinates, *extra) if extra else write.coordinates[:-1]
    return stages_with(plan, stage, writes=(replace(write, coordinates=coordinates),))


@pytest.mark.parametrize("extra", [(), (Const(0),)], ids=["too few", "too many"])
def test_an_access_has_a_coordinate_for_each_axis(extra: tuple[Const, ...]) -> None:
    plan = plan_for("allgather")
    refused(plan, "push: expected 4 coordinates in peer", **buffered(plan, "push", extra))


@pytest.mark.parametrize("pattern", ["reverse_all2all", "all2all", "allgather", "allgather_gemm"])
def test_transfers(pattern: str) -> None:
    plan = plan_for(pattern, transport="udma", buffer_num=1)
    put = plan.stage("put")
    everybody = replace(put.workers, part=None)
    refused(plan, "put: expected one core for each target", **stages_with(plan, "put", workers=everybody))
    several = replace(put.tasks, items=(plan.stage("keep").tasks.items[0],))
    refused(plan, "put: expected one core for each target", **stages_with(plan, "put", tasks=several))


def test_a_transfer_into_a_ring() -> None:
    """A push that becomes a transfer: each one would wait for its place."""
    plan = plan_for("allgather")
    put = plan_for("allgather", transport="udma").stage("put")
    changed = stages_with(plan, "push", kind=Kind.PUT, workers=put.workers, tasks=put.tasks)
    refused(plan, "push: expected a region without a ring, so that no transfer waits", **changed)


def test_programs_are_walked_outer_before_inner() -> None:
    plan = plan_for("gemm_allreduce", sync="barrier")
    kinds = [type(node) for node in walk(plan.program)]
    assert kinds == [Rounds, Scope, Run, Barrier, Scope, Run, Barrier]
