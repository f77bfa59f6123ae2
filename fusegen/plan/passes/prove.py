"""The last pass: prove that the plan is complete and in bounds, or say which field of the spec to change.

Faults that a spec can cause come out as one `PlanError` with all of them. A plan that breaks a rule which no spec
should be able to break (an edge without cover, a coordinate that leaves its axis) raises `PlanDefect`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.errors import Fault, PlanError
from fusegen.plan.evaluate import Conditions, all_values
from fusegen.plan.expr import Expr, evaluate, interval
from fusegen.plan.ir import INT32_LIMIT, BarrierCover, EdgeKind, KernelPlan, SignalCover, Stage
from fusegen.plan.program import Barrier, When, walk
from fusegen.plan.tasks import buffer_coordinates, round_definitions, slot_coordinates, work_loop
from fusegen.plan.timeline import unordered
from fusegen.spec import KernelSpec

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "int64": 8}
SAMPLES = (
    Conditions(1, 2, {"S": 1, "H": 1, "D": 1}),
    Conditions(3, 7, {"S": 65, "H": 5, "D": 129}),
    Conditions(16, 40, {"S": 1000, "H": 7, "D": 300}),
)
"""Conditions that bounds are proved under besides the spec's own verification points."""


class PlanDefect(AssertionError):
    """The planner made a plan that breaks its own rules. Nobody recovers: it is a bug of fusegen, report it."""


def prove(plan: KernelPlan, spec: KernelSpec) -> KernelPlan:
    """Check every rule; return the plan unchanged. Raises PlanError for what the spec can mend, else PlanDefect."""
    faults = [*_memory_faults(plan), *_offset_faults(plan)]
    if faults:
        raise PlanError(faults)
    for defect in (*_uncovered_edges(plan), *_slot_defects(plan), *_bound_defects(plan)):
        raise PlanDefect(f"{plan.name}: {defect}")
    return plan


def _memory_faults(plan: KernelPlan) -> Iterator[Fault]:
    """A core holds a tile twice: the load of the next one overlaps the store of this one (double buffering)."""
    constants = dict(plan.constants)
    rows, columns = constants["TILE_S"], constants["TILE_D"]
    used = 2 * rows * columns * DTYPE_BYTES[plan.dtype]
    if used > plan.target.ub_bytes:
        most = plan.target.ub_bytes // (2 * columns * DTYPE_BYTES[plan.dtype])
        fit = 1 << (most.bit_length() - 1) if most else 0
        yield Fault(
            "tile.s",
            f"two {plan.dtype} tiles in the {plan.target.ub_bytes // 1024} KiB unified buffer of {plan.target.name}",
            f"{rows} x {columns} twice: {used // 1024} KiB",
            f"with tile.d {columns}, tile.s can be at most {fit}" if fit >= 16 else "lower tile.d",
        )


def _offset_faults(plan: KernelPlan) -> Iterator[Fault]:
    """Every region must have fewer than 2**31 elements at the spec's own verification points."""
    if plan.host is None:
        raise PlanDefect(f"{plan.name}: no host duties")
    regions = (*plan.host.limits, *((allocation.name, allocation.elements) for allocation in plan.host.allocations))
    for index, point in enumerate(plan.verify):
        for ranks in point.ranks:
            values = {**dict(plan.constants), **dict(point.shape), "ranks": ranks}
            for region, elements in regions:
                count = evaluate(elements, values)
                if count >= INT32_LIMIT:
                    yield Fault(
                        f"verify[{index}].shape",
                        f"fewer than 2**31 elements in {region} on {ranks} ranks, for 32-bit offsets",
                        str(count),
                        "lower a dimension or split the call",
                    )


def _uncovered_edges(plan: KernelPlan) -> Iterator[str]:
    """Every edge has one cover, and the program has what that cover promises."""
    for edge in plan.edges:
        what = f"{edge.kind.value} edge {edge.source} -> {edge.target} on {edge.buffer}"
        match edge.cover:
            case None:
                yield f"{what} has no cover"
            case BarrierCover():
                for rounds in range(1, 2 * plan.buffer_num + 3):
                    for pair in unordered(edge, plan.program, ring=plan.buffer_num, rounds=rounds):
                        yield f"{what}: no barrier between rounds {pair}"
            case SignalCover(slots):
                (group,) = (group for group in plan.slots if group.name == slots)
                waits_or_resets = edge.target if edge.kind is EdgeKind.FORWARD else edge.source
                if waits_or_resets not in group.resetters:
                    yield f"{what}: {waits_or_resets} does not return the slots of {slots}"
    for node in walk(plan.program):
        if isinstance(node, When) and any(isinstance(inner, Barrier) for inner in walk(node.body)):
            yield "a barrier that only some cores reach"


def _slot_defects(plan: KernelPlan) -> Iterator[str]:
    for group in plan.slots:
        if len(group.resetters) != 1:
            yield f"slots {group.name}: expected exactly one resetter, got {group.resetters}"
        if not group.layout.is_dense():
            yield f"slots {group.name}: the last slot is not the last of the allocation"


def _bound_defects(plan: KernelPlan) -> Iterator[str]:
    """Every coordinate stays on its axis and every layout is dense, so every offset stays in its region."""
    for buffer in plan.buffers:
        if not buffer.layout.is_dense():
            yield f"buffer {buffer.name}: the last element is not the last of the allocation"
    points = (Conditions(ranks, point.cores, dict(point.shape)) for point in plan.verify for ranks in point.ranks)
    for conditions in (*points, *SAMPLES):
        if conditions.empty():
            continue
        for stage in plan.stages:
            ranges = _ranges(plan, stage, conditions)
            for what, coordinate, extent in _coordinates(plan, stage):
                low, high = interval(coordinate, ranges)
                if low < 0 or high >= evaluate(extent, {name: top for name, (_, top) in ranges.items()}):
                    yield f"{stage.name}: {what} ranges over {low}..{high} under {conditions}"


def _coordinates(plan: KernelPlan, stage: Stage) -> Iterator[tuple[str, Expr, Expr]]:
    """Every coordinate of the stage, with the extent of its axis."""
    for access in (*stage.reads, *stage.writes):
        if any(buffer.name == access.region for buffer in plan.buffers):
            axes, coordinates = plan.buffer(access.region).layout.axes, buffer_coordinates(plan, access)
            pairs = [(axis, coordinates[axis.name]) for axis in axes]
        else:
            pairs = list(zip(plan.tensor(access.region).axes, access.coordinates, strict=True))
        for axis, coordinate in pairs:
            yield f"{access.region}.{axis.name}", coordinate, axis.extent
    for group in plan.slots:
        coordinates = slot_coordinates(stage, group)
        for axis in group.layout.axes:
            yield f"{group.name}.{axis.name}", coordinates[axis.name], axis.extent


def _ranges(plan: KernelPlan, stage: Stage, conditions: Conditions) -> dict[str, tuple[int, int]]:
    """Smallest and largest value of every name inside the stage's loop; masks bound the tile's positions."""
    values = all_values(plan, conditions)
    ranges = {name: (value, value) for name, value in values.items()}
    ranges["rank"] = (0, conditions.ranks - 1)
    loop = work_loop(plan, stage)
    ranges["work"] = (0, values[loop.total.name] - 1)
    round_name = stage.tasks.round.name
    definitions = loop.definitions
    if not stage.tasks.merged_rounds:
        ranges[round_name] = (0, values["blocks_s"] - 1)
        definitions = (*round_definitions(plan, stage), *definitions)
    for definition in definitions:
        ranges[definition.name] = interval(definition.value, ranges)
    for item in loop.items:
        ranges[item.name] = (interval(item.first, ranges)[0], interval(item.stop, ranges)[1] - 1)
    for axis in stage.tile:
        ranges[axis.index] = (0, evaluate(axis.extent, values) - 1)
        if axis.local:
            ranges[axis.local] = (0, values[axis.tile] - 1)
    return ranges
