"""From a work index back to a tile: the loop of a stage and the names that it defines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.plan.expr import Const, Expr, Sym, cdiv, minimum, product, substitute
from fusegen.plan.ir import KernelPlan, PlanDefect, SlotGroup
from fusegen.plan.layout import Axis
from fusegen.plan.stages import (
    Access,
    Announce,
    Binding,
    Call,
    Definition,
    Granularity,
    Grid,
    Kind,
    Stage,
    Tasks,
    VectorCores,
    Wait,
)
from fusegen.plan.swizzle import Interleaved, Sequential, Zigzag

WORK, ITEM, SHIFT = Sym("work"), Sym("item"), "shift"
LAST_WAVE = 8
"""Cores count as filled when the idle places of the last wave are at most one in LAST_WAVE of the work items."""


@dataclass(frozen=True, slots=True)
class ItemLoop:
    """The positions of one axis that a work item carries: `for name in range(first, stop)`."""

    name: str
    first: Expr
    stop: Expr


@dataclass(frozen=True, slots=True)
class WorkLoop:
    """`for work in range(core, total, cores)`, the names defined from `work`, and loops over what an item carries."""

    core: Expr
    total: Sym
    cores: Expr
    bindings: tuple[Binding, ...]
    items: tuple[ItemLoop, ...]


def carried(axis: Axis) -> str:
    """Name of the number of positions of `axis` that one work item carries."""
    return f"item_{axis.name}"


def item_extent(axis: Axis, granularity: Granularity) -> Expr:
    """Number of work items along `axis`."""
    return axis.extent if granularity is Granularity.TILE else Sym(f"items_{axis.name}")


def work_loop(plan: KernelPlan, stage: Stage) -> WorkLoop:
    """The loop of `stage` over its work items, inside a loop over rounds where rounds are not merged."""
    tasks = stage.tasks
    inside = WORK % Sym(tasks.work) if tasks.merged_rounds else WORK
    bindings: list[Binding] = []
    if tasks.round is not None and tasks.merged_rounds:
        bindings.append(Definition(tasks.round.name, WORK // Sym(tasks.work)))
        bindings += round_definitions(plan, stage)
    if isinstance(tasks.order, Grid):
        bindings += _grid_bindings(stage, tasks.order, inside)
        loops: list[ItemLoop] = []
    else:
        bindings += _rank_bindings(stage, inside)
        unpacked, loops = _unpacked(tasks)
        bindings += unpacked
    bindings += stage.definitions
    loops += [ItemLoop(axis.name, Const(0), axis.extent) for axis in stage.inner]
    return WorkLoop(stage.workers.core(), Sym(tasks.index_total), stage.workers.cores(), tuple(bindings), tuple(loops))


def _item(tasks: Tasks) -> Sym:
    """Name of the item of a work index: the axis itself where there is only one, the index where that is all."""
    if len(tasks.items) == 1 and tasks.granularity is Granularity.TILE:
        return Sym(tasks.items[0].name)
    return WORK if tasks.rank is None and not tasks.merged_rounds else ITEM


def _rank_bindings(stage: Stage, inside: Expr) -> list[Binding]:
    """The item, and the partner of the work index (guide 1.4)."""
    tasks = stage.tasks
    item = _item(tasks)
    if tasks.rank is None:
        return [] if item == WORK else [Definition(item.name, inside)]
    ranks = tasks.rank.extent
    match tasks.order:
        case Interleaved() if not tasks.items:
            return _partner(stage, inside)
        case Interleaved(split=1):
            return [Definition(item.name, inside // ranks), *_partner(stage, (WORK + item) % ranks)]
        case Interleaved():
            arguments = (WORK % ranks, item, ranks, Sym("NPU_SPLIT"))
            shift = Call((SHIFT,), "comm_swizzle", arguments, (ranks,))
            return [Definition(item.name, inside // ranks), shift, *_partner(stage, Sym(SHIFT))]
        case Sequential():
            of_one_rank = Sym(tasks.work) // ranks
            return [Definition(item.name, inside % of_one_rank), *_partner(stage, inside // of_one_rank)]
        case Grid():
            raise PlanDefect(f"{stage.name}: a grid has no single partner axis")


def _partner(stage: Stage, shift: Expr) -> list[Binding]:
    """The definition of the partner rank with `shift` put in."""
    if stage.partner is None:
        return []
    value = stage.partner.value if shift == Sym(SHIFT) else substitute(stage.partner.value, {SHIFT: shift})
    return [Definition(stage.partner.name, value, stage.partner.comment)]


def _grid_bindings(stage: Stage, order: Grid, inside: Expr) -> list[Binding]:
    """Rows and columns of GEMM tiles: a row is a tile of one rank where there is a rank axis."""
    tasks = stage.tasks
    tile_row, column = tasks.items
    rows = tile_row.extent if tasks.rank is None else tasks.rank.extent * tile_row.extent
    row = tile_row.name if tasks.rank is None else "row"
    bindings: list[Binding]
    if isinstance(order.tiles, Zigzag):
        arguments = (inside, rows, column.extent, Sym("SWIZZLE_OFFSET"))
        bindings = [Call((row, column.name), "gemm_swizzle", arguments, (rows, column.extent))]
    else:
        bindings = [Definition(row, inside // column.extent), Definition(column.name, inside % column.extent)]
    if tasks.rank is not None:
        bindings += _partner(stage, Sym(row) // tile_row.extent)
        bindings.append(Definition(tile_row.name, Sym(row) % tile_row.extent))
    return bindings


def _unpacked(tasks: Tasks) -> tuple[list[Binding], list[ItemLoop]]:
    """Positions on the item axes, or loops over them where an item carries several."""
    item = _item(tasks)
    if item not in (ITEM, WORK):
        return [], []
    bindings: list[Binding] = []
    loops: list[ItemLoop] = []
    for position, axis in enumerate(tasks.items):
        faster = product(item_extent(other, tasks.granularity) for other in tasks.items[position + 1 :])
        index = item // faster
        if position:
            index = index % item_extent(axis, tasks.granularity)
        if tasks.granularity is Granularity.TILE:
            bindings.append(Definition(axis.name, index))
        else:
            first = Sym(f"first_{axis.name}")
            bindings.append(Definition(first.name, index * Sym(carried(axis))))
            loops.append(ItemLoop(axis.name, first, minimum(first + Sym(carried(axis)), axis.extent)))
    return bindings, loops


def round_definitions(plan: KernelPlan, stage: Stage) -> tuple[Definition, ...]:
    """Names that depend on the round only: the ring position, and what the slot values need."""
    if stage.tasks.round is None:
        return ()
    found: dict[str, Definition] = {}
    rings = [plan.buffer(region).ring for region in stage.regions() if plan.is_buffer(region)]
    rings += [plan.buffer(plan.slot_group(each.slots).buffer).ring for each in stage.announces]
    if any(rings):
        found["ring"] = Definition("ring", Sym(stage.tasks.round.name) % Sym("BUFFER_NUM"))
    for group in plan.slots:
        for definition in _protocol_definitions(stage, group):
            found[definition.name] = definition
    if stage.tasks.sizes:
        found |= {definition.name: definition for definition in (*stage.tasks.sizes, work_count(stage.tasks))}
    return tuple(found.values())


def work_count(tasks: Tasks) -> Definition:
    """Number of work items of one round."""
    items = product(item_extent(axis, tasks.granularity) for axis in tasks.items)
    return Definition(tasks.work, items if tasks.rank is None else items * tasks.rank.extent)


def _protocol_definitions(stage: Stage, group: SlotGroup) -> tuple[Definition, ...]:
    """What a stage must know for the values that it waits for or writes."""
    values = [each.value for each in stage.signals() if each.slots == group.name]
    if not values:
        return ()
    protocol = group.protocol
    return protocol.consumer_definitions if protocol.credit in values else protocol.producer_definitions


def slot_coordinates(plan: KernelPlan, access: Wait | Announce) -> dict[str, Expr]:
    """Coordinates of the first slot of a wait or an announcement, by axis."""
    axes = plan.slot_group(access.slots).layout.axes
    return {axis.name: coordinate for axis, coordinate in zip(axes, access.first, strict=True)}


def buffer_coordinates(plan: KernelPlan, access: Access) -> dict[str, Expr]:
    """Coordinates of an access to a buffer, by axis."""
    axes = plan.buffer(access.region).layout.axes
    return {axis.name: coordinate for axis, coordinate in zip(axes, access.coordinates, strict=True)}


def works(stages: Iterable[Stage]) -> tuple[Tasks, ...]:
    """The tasks of the stages, each name of a work count once."""
    found: dict[str, Tasks] = {}
    for stage in stages:
        found.setdefault(stage.tasks.work, stage.tasks)
    return tuple(found.values())


def prologue(plan: KernelPlan) -> tuple[Definition, ...]:
    """Names that the kernel defines once, from the shape: block counts, work counts, strides of its regions."""
    result: list[Definition] = []
    if any(isinstance(stage.workers.selection, VectorCores) for stage in plan.stages):
        result.append(Definition("vector_cores", 2 * Sym("cores")))
    result += plan.sizes
    tasks = plan.stages[0].tasks
    if tasks.granularity is Granularity.FILL:
        result += [Definition(f"items_{axis.name}", cdiv(axis.extent, Sym(carried(axis)))) for axis in tasks.items]
    for tasks in works(plan.stages):
        if tasks.sizes:  # the work count is defined in each round
            continue
        result.append(work_count(tasks))
        if tasks.round is not None and tasks.merged_rounds:
            result.append(Definition(tasks.total, tasks.round.extent * Sym(tasks.work)))
    layouts = [buffer.layout for buffer in plan.buffers] + [slots.layout for slots in plan.slots]
    for layout in layouts:
        result += [Definition(name, stride) for name, stride in layout.stride_definitions()]
    return tuple(result)


def block_elements(plan: KernelPlan, stage: Stage) -> Expr:
    """Elements of the block that a stage of kind PUT sends: its rows, each as long as the distance between rows.

    Without loops over blocks the one block has all rows.
    """
    (axis,) = stage.tile
    (write,) = stage.writes
    layout = plan.buffer(write.region).layout
    (row_axis,) = (each for each in layout.axes if each.name == "row")
    _, row_stride = layout.offset(buffer_coordinates(plan, write))[layout.axes.index(row_axis)]
    return (minimum(Sym(axis.tile), axis.stop - Sym(axis.index)) if stage.inner else axis.stop) * row_stride


def reads_sources(stage: Stage) -> bool:
    """True when the stage visits every rank inside of each tile."""
    return stage.kind is Kind.REDUCE
