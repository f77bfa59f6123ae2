"""What a plan amounts to under given ranks, cores and shape, as plain values: `fusegen explain` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from fusegen.errors import Fault, PlanError
from fusegen.plan.advice import advise
from fusegen.plan.evaluate import (
    Conditions,
    Region,
    given_values,
    occupancy,
    regions,
    rounds_of,
    stage_work,
)
from fusegen.plan.expr import HOST, KERNEL, evaluate, text
from fusegen.plan.ir import SLOT_BYTES, BarrierCover, Buffer, Edge, KernelPlan, Purpose, SignalCover, SlotGroup, Tensor
from fusegen.plan.layout import Axis
from fusegen.plan.outline import outline, workers_text
from fusegen.plan.passes.budget import offset_fault, transfer_fault
from fusegen.plan.passes.counted import MAX_EVENTS
from fusegen.plan.program import Barrier, Node, Rounds
from fusegen.plan.stages import Access, Announce, Stage, Wait
from fusegen.plan.swizzle import split_fault
from fusegen.plan.visiting import order_name, tile_order

PURPOSES = {
    Purpose.TILE: "a tile is there, or its place is free",
    Purpose.READY: "a tile is there",
    Purpose.CREDIT: "a reader core has read its share of a round",
    Purpose.ARRIVED: "a part has arrived, once in a launch",
}
"""What a slot of each purpose says."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sections of `fusegen explain`; `as_json` is its document. Counts and bytes are those of one rank.

    decisions    rule, choice, reason, guide section
    tensors      name, role, dtype, axes with extents, bytes
    buffers      name, dtype, axes, elements, bytes, formula, ring axis, stages that write and that read
    slots        count and bytes of all slots; with one group, its axes and resetters too
    slot_groups  name, buffer, purpose, axes, count, bytes, values, resetters
    stages       name, kind, core type, workers, work items, tile, what it reads, writes, waits for and announces
    occupancy    how the work index of the main stage fills its cores (guide 1.2); every stage's under `stages`
    launch       kind, grid, rounds, barriers in one launch, events
    edges        who must wait for whom, and what orders them
    program      the program as indented lines
    advice       the synchronisation that the guide's criterion recommends (guide 1.3)
    """

    spec: str
    pattern: str
    ranks: int
    cores: int
    shape: dict[str, int]
    decisions: list[dict[str, Any]]
    tensors: list[dict[str, Any]]
    buffers: list[dict[str, Any]]
    slots: dict[str, Any]
    slot_groups: list[dict[str, Any]]
    stages: list[dict[str, Any]]
    occupancy: dict[str, Any]
    launch: dict[str, Any]
    edges: list[dict[str, Any]]
    program: list[dict[str, Any]]
    advice: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def explain(plan: KernelPlan, conditions: Conditions) -> Explanation:
    """Evaluate the plan. Raises PlanError when the launcher would refuse these conditions."""
    faults = condition_faults(plan, conditions)
    if faults:
        raise PlanError(faults)
    values = given_values(plan, conditions)
    sizes = regions(plan, conditions)
    groups = [_slot_group(group, values) for group in plan.slots]
    return Explanation(
        spec=plan.name,
        pattern=plan.pattern,
        ranks=conditions.ranks,
        cores=conditions.cores,
        shape=dict(conditions.shape),
        decisions=[asdict(decision) for decision in plan.decisions],
        tensors=[_tensor(tensor, values, sizes[tensor.name]) for tensor in plan.tensors],
        buffers=[_buffer(plan, buffer, values, sizes[buffer.name]) for buffer in plan.buffers],
        slots=_slots(groups),
        slot_groups=groups,
        stages=[_stage(plan, conditions, stage, values) for stage in plan.stages],
        occupancy=_occupancy(plan, conditions),
        launch=_launch(plan, conditions),
        edges=[_edge(edge) for edge in plan.edges],
        program=[asdict(line) for line in outline(plan, rounds=rounds_of(plan, conditions))],
        advice=advise(plan, conditions).as_json(),
    )


def condition_faults(plan: KernelPlan, conditions: Conditions) -> list[Fault]:
    """Why the launcher would refuse to launch; empty when it would not."""
    sizes = regions(plan, conditions)
    faults = [offset_fault(region, "shape") for region in sizes.values() if not region.fits]
    transfer = transfer_fault(plan, conditions, "shape")
    faults += [transfer] if transfer else []
    if conditions.cores < plan.launch.minimum_cores:
        roles = ", ".join(stage.name for stage in plan.stages)
        expected = f"at least {plan.launch.minimum_cores}"
        advice = f"each role needs a core of its own: {roles}"
        faults.append(Fault("cores", expected, str(conditions.cores), advice))
    split = split_fault(ranks=conditions.ranks, split=plan.host.npu_split, field="swizzle.comm.npu_split")
    if split is not None:
        faults.append(split)
    return faults


def _tensor(tensor: Tensor, values: dict[str, int], size: Region) -> dict[str, Any]:
    axes = _extents(tensor.axes, values)
    return {
        "name": tensor.name,
        "role": tensor.role.value,
        "dtype": tensor.dtype,
        "axes": axes,
        "shape": list(axes.values()),
        "bytes": size.bytes,
    }


def _buffer(plan: KernelPlan, buffer: Buffer, values: dict[str, int], size: Region) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "dtype": buffer.dtype,
        "axes": _extents(buffer.layout.axes, values),
        "elements": size.elements,
        "bytes": size.bytes,
        "formula": text(buffer.layout.size(), HOST),
        "ring": buffer.ring,
        "written_by": [stage.name for stage in plan.stages if buffer.name in _regions(stage.writes)],
        "read_by": [stage.name for stage in plan.stages if buffer.name in _regions(stage.reads)],
    }


def _slot_group(group: SlotGroup, values: dict[str, int]) -> dict[str, Any]:
    count = evaluate(group.layout.size(), values)
    return {
        "name": group.name,
        "buffer": group.buffer,
        "purpose": group.purpose.value,
        "meaning": PURPOSES[group.purpose],
        "axes": _extents(group.layout.axes, values),
        "count": count,
        "bytes": count * SLOT_BYTES,
        "values": _values(group),
        "values_in_words": " ".join(group.protocol.reason.split()),
        "resetters": list(group.resetters),
    }


def _values(group: SlotGroup) -> dict[str, str]:
    """What a slot is waited for or set to, in the kernel's names; ready and credit slots share their protocol."""
    protocol = group.protocol
    named = {"free": protocol.free, "ready": protocol.ready, "credit": protocol.credit}
    left_out = {Purpose.READY: ("free", "credit"), Purpose.CREDIT: ("ready",)}.get(group.purpose, ())
    return {name: text(value, KERNEL) for name, value in named.items() if value is not None and name not in left_out}


def _slots(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """All slots; a kernel without signals has none."""
    totals = {key: sum(group[key] for group in groups) for key in ("count", "bytes")}
    if not groups:
        return {**totals, "axes": {}, "resetters": []}
    only = {key: groups[0][key] for key in ("axes", "resetters")} if len(groups) == 1 else {}
    return {**totals, **only}


def _stage(plan: KernelPlan, conditions: Conditions, stage: Stage, values: dict[str, int]) -> dict[str, Any]:
    tasks, work = stage.tasks, stage_work(plan, conditions, stage)
    order = tile_order(tasks)
    return {
        "name": stage.name,
        "kind": stage.kind.value,
        "engine": stage.workers.engine.value,
        "workers": {"which": workers_text(plan, stage), "count": work.cores},
        "tasks": {
            "round": _extents((tasks.round,), values) if tasks.round else {},
            "axes": dict(work.axes),
            "carried": dict(work.carried),
            "per_round": work.round,
            "total": work.total,
            "merged_rounds": tasks.merged_rounds,
            "order": None if order is None else order_name(order),
        },
        "inner": _extents(stage.inner, values),
        "tile": {axis.index: values[axis.tile] for axis in stage.tile},
        "tiles": work.tiles,
        "reads": [access.region for access in stage.reads],
        "writes": [access.region for access in stage.writes],
        "waits": _slot_names(stage.waits),
        "announces": _slot_names(stage.announces),
    }


def _launch(plan: KernelPlan, conditions: Conditions) -> dict[str, Any]:
    rounds = rounds_of(plan, conditions)
    return {
        "kind": plan.launch.kind.value,
        "grid": conditions.cores if rounds else 0,
        "minimum_cores": plan.launch.minimum_cores,
        "roles": {stage.name: stage_work(plan, conditions, stage).cores for stage in plan.stages},
        "rounds": rounds,
        "barriers": _barriers(plan.program, rounds) if rounds else 0,
        "events": {"used": [asdict(each) for each in plan.hand_overs], "available": MAX_EVENTS},
    }


def _occupancy(plan: KernelPlan, conditions: Conditions) -> dict[str, Any]:
    found = occupancy(plan, conditions)
    return {
        "stage": found.stage,
        "total_tasks": found.total_tasks,
        "role_cores": found.role_cores,
        "active_cores": found.active_cores,
        "idle_cores": found.idle_cores,
        "utilization": found.utilization,
        "full": found.full,
        "merged": list(found.merged),
        "carried": dict(found.carried),
        "tiles": found.tiles,
        "tiles_in_flight": found.tiles_in_flight,
        "stages": [_stage_occupancy(plan, conditions, stage) for stage in plan.stages],
    }


def _stage_occupancy(plan: KernelPlan, conditions: Conditions, stage: Stage) -> dict[str, Any]:
    work = stage_work(plan, conditions, stage)
    return {
        "stage": stage.name,
        "total_tasks": work.dealt,
        "cores": work.cores,
        "active_cores": work.active_cores,
        "idle_cores": work.cores - work.active_cores,
        "utilization": work.utilization,
        "full": work.active_cores == work.cores,
    }


def _barriers(nodes: tuple[Node, ...], rounds: int) -> int:
    """Barriers that each core passes in one launch."""
    total = 0
    for node in nodes:
        match node:
            case Barrier():
                total += 1
            case Rounds(_, extra, body):
                total += (rounds + extra) * _barriers(body, rounds)
            case _:  # no barrier stands in a condition: the prover refuses it
                pass
    return total


def _edge(edge: Edge) -> dict[str, Any]:
    signal = edge.cover if isinstance(edge.cover, SignalCover) else None
    return {
        "kind": edge.kind.value,
        "source": edge.source,
        "target": edge.target,
        "buffer": edge.buffer,
        "distance": edge.distance,
        "across_launches": edge.across_launches,
        "cover": cover_text(edge.cover),
        "slots": signal.slots if signal else None,
        "through": signal.through if signal else None,
    }


def cover_text(cover: BarrierCover | SignalCover | None) -> str:
    """What orders an edge."""
    match cover:
        case SignalCover(slots, None):
            return f"slots {slots}"
        case SignalCover(slots, str(through)):
            return f"slots {slots} through {through}"
        case BarrierCover():
            return "barrier"
        case _:
            return "nothing"


def _extents(axes: Iterable[Axis], values: dict[str, int]) -> dict[str, int]:
    return {axis.name: evaluate(axis.extent, values) for axis in axes}


def _regions(accesses: Iterable[Access]) -> set[str]:
    return {access.region for access in accesses}


def _slot_names(signals: Iterable[Wait | Announce]) -> list[str]:
    """Every slot group once, in the stage's order."""
    return list(dict.fromkeys(each.slots for each in signals))
