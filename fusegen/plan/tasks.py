"""From a work index back to a tile: the loop of a stage, the names it defines, and the slot of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.plan.expr import Const, Expr, Sym, cdiv, minimum, product, substitute
from fusegen.plan.ir import Access, Definition, Granularity, KernelPlan, SlotGroup, Stage
from fusegen.plan.layout import Axis

WORK, ITEM = Sym("work"), Sym("item")
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

    core: Sym
    total: Sym
    cores: Sym
    definitions: tuple[Definition, ...]
    items: tuple[ItemLoop, ...]


def carried(axis: Axis) -> str:
    """Name of the number of positions of `axis` that one work item carries."""
    return f"item_{axis.name}"


def item_extent(axis: Axis, granularity: Granularity) -> Expr:
    """Number of work items along `axis`."""
    return axis.extent if granularity is Granularity.TILE else Sym(f"items_{axis.name}")


def work_loop(plan: KernelPlan, stage: Stage) -> WorkLoop:
    """The loop of `stage` over its work items, inside a loop over rounds where rounds are not merged."""
    tasks, workers = stage.tasks, stage.workers
    inside = WORK % Sym("block_work") if tasks.merged_rounds else WORK
    definitions: list[Definition] = []
    if tasks.merged_rounds:
        definitions.append(Definition(tasks.round.name, WORK // Sym("block_work")))
        definitions += round_definitions(plan, stage)
    definitions.append(Definition(ITEM.name, inside // tasks.rank.extent))
    shift: Mapping[str, Expr] = {tasks.rank.name: WORK % tasks.rank.extent}
    partner = stage.partner
    definitions.append(Definition(partner.name, substitute(partner.value, shift), partner.comment))

    loops: list[ItemLoop] = []
    for position, axis in enumerate(tasks.items):
        faster = product(item_extent(other, tasks.granularity) for other in tasks.items[position + 1 :])
        index = ITEM // faster
        if position:
            index = index % item_extent(axis, tasks.granularity)
        if tasks.granularity is Granularity.TILE:
            definitions.append(Definition(axis.name, index))
        else:
            first = Sym(f"first_{axis.name}")
            definitions.append(Definition(first.name, index * Sym(carried(axis))))
            loops.append(ItemLoop(axis.name, first, minimum(first + Sym(carried(axis)), axis.extent)))
    total = Sym("total_work" if tasks.merged_rounds else "block_work")
    return WorkLoop(workers.core(), total, workers.cores(), tuple(definitions), tuple(loops))


def round_definitions(plan: KernelPlan, stage: Stage) -> tuple[Definition, ...]:
    """Names that depend on the round only: the ring position, and what the slot values need."""
    ring = Definition("ring", Sym(stage.tasks.round.name) % Sym("BUFFER_NUM"))
    extra = (
        protocol
        for group in plan.slots
        for protocol in (
            group.protocol.producer_definitions if plan.is_source(stage) else group.protocol.consumer_definitions
        )
    )
    return (ring, *extra)


def slot_coordinates(plan: KernelPlan, stage: Stage, slots: SlotGroup) -> dict[str, Expr]:
    """Coordinates of the slot that belongs to the current tile of `stage`."""
    tile: Expr = Const(0)
    for axis in stage.tasks.items:
        tile = tile * axis.extent + Sym(axis.name)
    source = Sym("rank") if plan.is_source(stage) else Sym(stage.partner.name)
    ring, source_rank, tile_axis = slots.layout.axes
    return {ring.name: Sym("ring"), source_rank.name: source, tile_axis.name: tile}


def buffer_coordinates(plan: KernelPlan, access: Access) -> dict[str, Expr]:
    """Coordinates of an access to a buffer, by axis."""
    axes = plan.buffer(access.region).layout.axes
    return {axis.name: coordinate for axis, coordinate in zip(axes, access.coordinates, strict=True)}


def prologue(plan: KernelPlan) -> tuple[Definition, ...]:
    """Names that the kernel defines once, from the shape: block counts, work counts, strides of its regions."""
    stage = plan.stages[0]
    tasks = stage.tasks
    result = [Definition(f"blocks_{axis.index}", cdiv(axis.extent, Sym(axis.tile))) for axis in stage.tile]
    if tasks.granularity is Granularity.FILL:
        result += [Definition(f"items_{axis.name}", cdiv(axis.extent, Sym(carried(axis)))) for axis in tasks.items]
    items = product(item_extent(axis, tasks.granularity) for axis in tasks.items)
    result.append(Definition("block_work", items * tasks.rank.extent))
    if tasks.merged_rounds:
        result.append(Definition("total_work", tasks.round.extent * Sym("block_work")))
    layouts = [buffer.layout for buffer in plan.buffers] + [slots.layout for slots in plan.slots]
    for layout in layouts:
        result += [Definition(name, stride) for name, stride in layout.stride_definitions()]
    return tuple(result)
