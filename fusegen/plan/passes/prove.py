"""The last pass: prove that the plan is complete and in bounds, or say which field of the spec to change.

Faults that a spec can cause come out as one `PlanError` with all of them. A plan that breaks a rule which no spec
should be able to break raises `PlanDefect`; each rule is a function that yields the ways in which it is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fusegen.errors import Fault, PlanError
from fusegen.plan.bounds import is_at_most, upper
from fusegen.plan.evaluate import Conditions, Region, all_values, regions
from fusegen.plan.expr import Binary, Expr, NegativeValueError, Op, Ranges, Sym, evaluate, interval, substitute
from fusegen.plan.ir import (
    DTYPE_BYTES,
    Access,
    BarrierCover,
    EdgeKind,
    KernelPlan,
    PlanDefect,
    SignalCover,
    SlotGroup,
    Stage,
)
from fusegen.plan.passes.edges import buffer_edges
from fusegen.plan.program import Barrier, Run, When, walk
from fusegen.plan.tasks import buffer_coordinates, round_definitions, slot_coordinates, work_loop
from fusegen.plan.timeline import relative_rounds, unordered


def prove(plan: KernelPlan) -> KernelPlan:
    """Check every rule; return the plan unchanged. Raises PlanError for what the spec can mend, else PlanDefect."""
    faults = [*_memory_faults(plan), *_offset_faults(plan)]
    if faults:
        raise PlanError(faults)
    for rule in (_program_defects, _edge_defects, _buffer_defects, _slot_defects, _bound_defects, _sign_defects):
        for defect in rule(plan):
            raise PlanDefect(f"{plan.name}: {defect}")
    return plan


def offset_fault(region: Region, field: str) -> Fault:
    """Why a region is too large for 32-bit offsets."""
    expected = f"fewer than 2**31 elements in {region.name}, for 32-bit offsets"
    return Fault(field, expected, str(region.elements), "lower a dimension or split the call")


def _memory_faults(plan: KernelPlan) -> Iterator[Fault]:
    """A core holds a tile twice: the load of the next one overlaps the store of this one (double buffering)."""
    constants = dict(plan.constants)
    rows, columns = max(
        ((constants[rows.tile], constants[columns.tile]) for rows, columns in (stage.tile for stage in plan.stages)),
        key=prod,
    )
    row_bytes = 2 * columns * DTYPE_BYTES[plan.dtype]
    if rows * row_bytes > plan.target.ub_bytes:
        most = plan.target.ub_bytes // row_bytes
        fit = 1 << (most.bit_length() - 1) if most else 0
        yield Fault(
            "tile.s",
            f"two {plan.dtype} tiles in the {plan.target.ub_bytes // 1024} KiB unified buffer of {plan.target.name}",
            f"{rows} x {columns} twice: {rows * row_bytes // 1024} KiB",
            f"with tile.d {columns}, tile.s can be at most {fit}" if fit >= 16 else "lower tile.d",
        )


def _offset_faults(plan: KernelPlan) -> Iterator[Fault]:
    """Every region must have fewer than 2**31 elements at the spec's own verification points."""
    for index, point in enumerate(plan.verify):
        for ranks in point.ranks:
            for region in regions(plan, ranks, dict(point.shape)).values():
                if not region.fits:
                    yield offset_fault(region, f"verify[{index}].shape, {ranks} ranks")


def _program_defects(plan: KernelPlan) -> Iterator[str]:
    """Every stage runs once, and every core reaches every barrier."""
    runs = [node.stage for node in walk(plan.program) if isinstance(node, Run)]
    if sorted(runs) != sorted(stage.name for stage in plan.stages):
        yield f"the program runs {runs}, expected every stage once"
    for node in walk(plan.program):
        if isinstance(node, When) and any(isinstance(inner, Barrier) for inner in walk(node.body)):
            yield "a barrier that only some cores reach"


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
                for rounds in relative_rounds(plan.buffer_num):
                    for pair in unordered(edge, plan.program, ring=plan.buffer_num, rounds=rounds):
                        yield f"{what}: no barrier between rounds {pair}"
            case SignalCover(slots):
                groups = [group for group in plan.slots if (group.name, group.buffer) == (slots, edge.buffer)]
                consumer = edge.target if edge.kind is EdgeKind.FORWARD else edge.source
                if len(groups) != 1 or groups[0].resetters != (consumer,):
                    yield f"{what}: expected slots {slots} of {edge.buffer} with {consumer} as their only resetter"


def _buffer_defects(plan: KernelPlan) -> Iterator[str]:
    """What is read from a buffer was written there: same coordinates, with the writer's rank as the source."""
    for buffer in plan.buffers:
        if not buffer.layout.is_dense():
            yield f"buffer {buffer.name}: the last element is not the last of the allocation"
    for edge in plan.edges:
        if edge.kind is EdgeKind.FORWARD:
            source, target = plan.stage(edge.source), plan.stage(edge.target)
            (written,) = (access for access in source.writes if access.region == edge.buffer)
            (read,) = (access for access in target.reads if access.region == edge.buffer)
            if _seen_from(target, written) != read.coordinates:
                yield f"buffer {edge.buffer}: {target.name} does not read where {source.name} writes"
            ring = buffer_coordinates(plan, read)[plan.buffer(edge.buffer).ring]
            if ring != Sym("ring"):
                yield f"buffer {edge.buffer}: expected the round's ring position, got another"


def _seen_from(consumer: Stage, written: Access) -> tuple[Expr, ...]:
    """Coordinates that a producer of another rank used, in the names of the consumer."""
    return tuple(substitute(coordinate, {"rank": Sym(consumer.partner.name)}) for coordinate in written.coordinates)


def _slot_defects(plan: KernelPlan) -> Iterator[str]:
    """Slots are as many as allocated, and their values tell every use of a slot from the others."""
    for group in plan.slots:
        if not group.layout.is_dense():
            yield f"slots {group.name}: the last slot is not the last of the allocation"
        merged = any(stage.tasks.merged_rounds for stage in plan.stages)
        for blocks in relative_rounds(plan.buffer_num):
            yield from _value_defects(group, blocks, plan.buffer_num, merged=merged)


def _value_defects(group: SlotGroup, blocks: int, ring: int, *, merged: bool) -> Iterator[str]:
    """Free, ready and credit of every use of the first slot, in a launch of `blocks` rounds."""
    values = []
    for use in range(-(-blocks // ring)):
        names = {"BUFFER_NUM": ring, "block_s": use * ring, "blocks_s": blocks, "ring": 0}
        for definition in group.protocol.consumer_definitions:
            names[definition.name] = evaluate(definition.value, names)
        values.append([evaluate(e, names) for e in (group.protocol.free, group.protocol.ready, group.protocol.credit)])
    frees, readies, credits = zip(*values, strict=True)
    waited = [*frees, *readies]
    if frees[0] != 0 or credits[-1] != 0:
        yield f"slots {group.name}: a launch must start and end at 0, not at {frees[0]} and {credits[-1]}"
    if credits[:-1] != frees[1:]:
        yield f"slots {group.name}: credits {credits[:-1]} are not what the next uses wait for, {frees[1:]}"
    if any(free == ready for free in frees for ready in readies):
        yield f"slots {group.name}: a value is free in one use and ready in another: {frees}, {readies}"
    if merged and len(set(waited)) != len(waited):
        yield f"slots {group.name}: different cores wait for the same value of one slot: {waited}"


def _bound_defects(plan: KernelPlan) -> Iterator[str]:
    """For every shape, every coordinate is at most the last position of its axis; layouts are dense, so offsets fit."""
    fixed = {name: value for name, value in plan.names.items() if not _is_cdiv(value)}
    for stage in plan.stages:
        uppers = _uppers(plan, stage, fixed)
        for what, coordinate, extent in _coordinates(plan, stage):
            bound = upper(substitute(coordinate, fixed), uppers)
            if not is_at_most(bound, substitute(extent, fixed) - 1):
                yield f"{stage.name}: {what} may leave its axis"


def _is_cdiv(value: Expr) -> bool:
    """Block and item counts stay names in proofs: they are no polynomials."""
    return isinstance(value, Binary) and value.op is Op.CDIV


def _uppers(plan: KernelPlan, stage: Stage, fixed: dict[str, Expr]) -> dict[str, Expr]:
    """The largest value of every name inside the stage's loop, in terms of the shape; masks bound tile positions."""
    loop = work_loop(plan, stage)
    tasks = stage.tasks
    uppers: dict[str, Expr] = {
        "rank": tasks.rank.extent - 1,
        tasks.round.name: tasks.round.extent - 1,
        "work": substitute(loop.total, fixed) - 1,
    }
    for definition in (*round_definitions(plan, stage), *loop.definitions):
        uppers[definition.name] = upper(substitute(definition.value, fixed), uppers)
    for item in loop.items:
        uppers[item.name] = upper(item.stop, uppers) - 1
    for axis in stage.tile:
        uppers[axis.index] = axis.extent - 1
        if axis.local:
            uppers[axis.local] = Sym(axis.tile) - 1
    return uppers


def _coordinates(plan: KernelPlan, stage: Stage) -> Iterator[tuple[str, Expr, Expr]]:
    """Every coordinate of the stage, with the extent of its axis."""
    buffers = {buffer.name for buffer in plan.buffers}
    for access in (*stage.reads, *stage.writes):
        in_buffer = access.region in buffers
        axes = plan.buffer(access.region).layout.axes if in_buffer else plan.tensor(access.region).axes
        for axis, coordinate in zip(axes, access.coordinates, strict=True):
            yield f"{access.region}.{axis.name}", coordinate, axis.extent
    for group in plan.slots:
        coordinates = slot_coordinates(plan, stage, group)
        for axis in group.layout.axes:
            yield f"{group.name}.{axis.name}", coordinates[axis.name], axis.extent


def _sign_defects(plan: KernelPlan) -> Iterator[str]:
    """At the spec's verification points no difference is negative: // and % of it would differ from Python's."""
    for point in plan.verify:
        for ranks in point.ranks:
            conditions = Conditions(ranks, max(point.cores, plan.launch.minimum_cores), dict(point.shape))
            for stage in () if conditions.empty() else plan.stages:
                try:
                    _intervals(plan, stage, conditions)
                except NegativeValueError as error:
                    yield f"{stage.name}: {error} on {ranks} ranks"


def _intervals(plan: KernelPlan, stage: Stage, conditions: Conditions) -> Ranges:
    """Smallest and largest value of every name inside the stage's loop."""
    values = all_values(plan, conditions)
    loop = work_loop(plan, stage)
    ranges = {name: (value, value) for name, value in values.items()}
    ranges["rank"] = (0, conditions.ranks - 1)
    ranges["work"] = (0, values[loop.total.name] - 1)
    ranges[stage.tasks.round.name] = (0, evaluate(stage.tasks.round.extent, values) - 1)
    for definition in (*round_definitions(plan, stage), *loop.definitions):
        ranges[definition.name] = interval(definition.value, ranges)
    return ranges
