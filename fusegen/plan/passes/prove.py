"""The last pass: prove that the plan is complete and in bounds, or say which field of the spec to change.

Faults that a spec can cause come out as one `PlanError` with all of them. A plan that breaks a rule which no spec
should be able to break raises `PlanDefect`; each rule is a function that yields the ways in which it is broken.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.errors import PlanError
from fusegen.plan.ir import BarrierCover, EdgeKind, KernelPlan, PlanDefect, Purpose, SignalCover
from fusegen.plan.passes.bounds import bound_defects, sign_defects
from fusegen.plan.passes.budget import memory_faults, spec_faults
from fusegen.plan.passes.counted import MAX_EVENTS
from fusegen.plan.passes.edges import buffer_edges
from fusegen.plan.passes.values import value_defects
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When, walk
from fusegen.plan.stages import Engine, First, Kind, Stage
from fusegen.plan.timeline import relative_rounds, unordered


def prove(plan: KernelPlan, *, memory_check: bool = True) -> KernelPlan:
    """Check every rule; return the plan unchanged. Raises PlanError for what the spec can mend, else PlanDefect."""
    faults = [*(memory_faults(plan) if memory_check else ()), *spec_faults(plan)]
    if faults:
        raise PlanError(faults)
    rules = (
        _program_defects,
        _placement_defects,
        _edge_defects,
        _buffer_defects,
        _transfer_defects,
        value_defects,
        bound_defects,
        sign_defects,
    )
    for rule in rules:
        for defect in rule(plan):
            raise PlanDefect(f"{plan.name}: {defect}")
    return plan


def _program_defects(plan: KernelPlan) -> Iterator[str]:
    """Every stage runs once, and every core reaches every barrier."""
    runs = [node.stage for node in walk(plan.program) if isinstance(node, Run)]
    if sorted(runs) != sorted(stage.name for stage in plan.stages):
        yield f"the program runs {runs}, expected every stage once"
    for node in walk(plan.program):
        if isinstance(node, (When, Scope)) and any(isinstance(inner, Barrier) for inner in walk(node.body)):
            yield "a barrier that only some cores reach"


def _placement_defects(plan: KernelPlan) -> Iterator[str]:
    """In a mix kernel, every stage stands in a scope of the core type that does the work."""
    placed = dict(_placements(plan.program, None))
    for stage in plan.stages:
        engine = placed.get(stage.name)
        if plan.is_mix and engine is not stage.workers.engine:
            yield f"{stage.name} must stand in a {stage.workers.engine.value} scope"
        if not plan.is_mix and engine is not None:
            yield f"{stage.name} stands in a scope, but only a mix kernel has two core types"
    events = [hand_over.event for hand_over in plan.hand_overs]
    if len(set(events)) != len(events) or not all(0 <= event < MAX_EVENTS for event in events):
        yield f"events {events}: expected different ones from 0 to {MAX_EVENTS - 1}"
    for hand_over in plan.hand_overs:
        sender, receiver = plan.stage(hand_over.sender), plan.stage(hand_over.receiver)
        if (sender.workers.engine, receiver.workers.engine) != (Engine.CUBE, Engine.VECTOR):
            yield f"{sender.name} does not hand over from the cube core to the vector cores"
        if sender.tasks != receiver.tasks or not sender.hand_over == receiver.hand_over == hand_over.event:
            yield f"{receiver.name} does not wait for each tile of {sender.name}"


def _placements(nodes: tuple[Node, ...], engine: Engine | None) -> Iterator[tuple[str, Engine | None]]:
    """The core type whose scope each stage stands in."""
    for node in nodes:
        match node:
            case Run(stage):
                yield stage, engine
            case Scope(inner, body):
                yield from _placements(body, inner)
            case When(_, _, body) | Rounds(_, _, body):
                yield from _placements(body, engine)
            case Barrier():
                pass


def _edge_defects(plan: KernelPlan) -> Iterator[str]:
    """The plan has the edges that its buffers make necessary, each with a cover that keeps its promise."""
    needed = {(e.kind, e.source, e.target, e.buffer, e.distance, e.across_launches) for e in buffer_edges(plan)}
    present = {(e.kind, e.source, e.target, e.buffer, e.distance, e.across_launches) for e in plan.edges}
    if needed != present or len(plan.edges) != len(present):
        yield f"expected {len(needed)} edges between the stages that meet in a buffer, got {len(plan.edges)} others"
    for edge in plan.edges:
        what = f"{edge.kind.value} edge {edge.source} -> {edge.target} on {edge.buffer}"
        match edge.cover:
            case None:
                yield f"{what} has no cover"
            case BarrierCover():
                ring = plan.buffer_num if plan.buffer(edge.buffer).ring else 1
                for rounds in relative_rounds(ring):
                    for pair in unordered(edge, plan.program, ring=ring, rounds=rounds):
                        yield f"{what}: no barrier between rounds {pair}"
            case SignalCover(slots, through):
                source, target = plan.stage(through or edge.source), plan.stage(edge.target)
                handed = {(each.sender, each.receiver) for each in plan.hand_overs}
                if through and (edge.source, through) not in handed:
                    yield f"{what}: {edge.source} does not hand over to {through}"
                yield from _signal_defects(plan, source, target, slots, edge.kind, what)


def _signal_defects(
    plan: KernelPlan, source: Stage, target: Stage, slots: str, kind: EdgeKind, what: str
) -> Iterator[str]:
    """The source writes the value that the target waits for, and only the readers return credits."""
    group = plan.slot_group(slots)
    forward = kind is EdgeKind.FORWARD
    written = group.protocol.ready if forward else group.protocol.credit
    awaited = group.protocol.ready if forward else group.protocol.free
    if not any(each.slots == slots and each.value == written for each in source.announces):
        yield f"{what}: {source.name} does not write {slots}"
    if not any(each.slots == slots and each.value == awaited for each in target.waits):
        yield f"{what}: {target.name} does not wait for {slots}"
    credit = group.protocol.credit
    resets = [s.name for s in plan.stages for each in s.announces if each.slots == slots and each.value == credit]
    if group.purpose in (Purpose.TILE, Purpose.CREDIT) and tuple(resets) != group.resetters:
        yield f"{what}: expected {group.resetters} as the only resetter of {slots}, got {resets}"


def _buffer_defects(plan: KernelPlan) -> Iterator[str]:
    """Regions and slots are dense, and every access has one coordinate for each axis."""
    for buffer in plan.buffers:
        if not buffer.layout.is_dense():
            yield f"buffer {buffer.name}: the last element is not the last of the allocation"
        for stage in plan.stages:
            for access in (*stage.reads, *stage.writes):
                if access.region == buffer.name and len(access.coordinates) != len(buffer.layout.axes):
                    yield f"{stage.name}: expected {len(buffer.layout.axes)} coordinates in {buffer.name}"
    for group in plan.slots:
        if not group.layout.is_dense():
            yield f"slots {group.name}: the last slot is not the last of the allocation"


def _transfer_defects(plan: KernelPlan) -> Iterator[str]:
    """Transfers (guide 1.5): to other ranks only, each rank from one core, in a region that does not rotate."""
    for stage in plan.stages:
        if stage.kind is not Kind.PUT:
            continue
        if not isinstance(stage.workers.part, First) or stage.tasks.items:
            yield f"{stage.name}: expected one core for each target"
        for access in stage.writes:
            if plan.buffer(access.region).ring is not None:
                yield f"{stage.name}: expected a region without a ring, so that no transfer waits"
