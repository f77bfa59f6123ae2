"""Proof about slot values: no wait is released by the write of another use, and the next launch finds what it needs.

Every protocol is played through for launches of few and of many rounds: all relative positions in a ring show up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from fusegen.plan.expr import Expr, Sym, evaluate
from fusegen.plan.ir import KernelPlan, PlanDefect, Purpose, SlotGroup
from fusegen.plan.layout import Axis
from fusegen.plan.passes.counted import LAUNCHES
from fusegen.plan.stages import Stage
from fusegen.plan.timeline import relative_rounds

PLAYED = 2 * LAUNCHES
"""Launches that show every neighbouring pair of launch numbers."""


@dataclass(frozen=True, slots=True)
class Use:
    """Values of one use of a slot: waited for by the writer, written by it, and written by the reader."""

    free: int
    ready: int
    credit: int


def value_defects(plan: KernelPlan) -> Iterator[str]:
    """Faults of every protocol in the plan."""
    for group in plan.slots:
        match group.purpose:
            case Purpose.TILE:
                yield from _tile_defects(plan, group)
            case Purpose.READY | Purpose.CREDIT:
                yield from _counted_defects(plan, group)
            case Purpose.ARRIVED:
                yield from _arrival_defects(group)


def _uses(plan: KernelPlan, group: SlotGroup, blocks: int, launch: int) -> list[Use]:
    """Every use of a slot of ring position 0, in one launch of `blocks` rounds."""
    stage = next(s for s in plan.stages if group.name in s.slot_names())
    axis = _round_axis(stage)
    uses = []
    for use in range(-(-blocks // plan.buffer_num)):
        names = {"BUFFER_NUM": plan.buffer_num, axis.name: use * plan.buffer_num, "ring": 0}
        names["launch"] = launch % LAUNCHES
        names |= _extent(axis, blocks)
        protocol = group.protocol
        for definition in (*protocol.producer_definitions, *protocol.consumer_definitions):
            names[definition.name] = evaluate(definition.value, names)
        uses.append(Use(*(_value(expr, names) for expr in (protocol.free, protocol.ready, protocol.credit))))
    return uses


def _round_axis(stage: Stage) -> Axis:
    if stage.tasks.round is None:
        raise PlanDefect(f"{stage.name}: slots of a ring without rounds")
    return stage.tasks.round


def _extent(axis: Axis, blocks: int) -> dict[str, int]:
    """The name of the number of rounds: protocols count with it."""
    return {axis.extent.name: blocks} if isinstance(axis.extent, Sym) else {}


def _value(expr: Expr | None, names: Mapping[str, int]) -> int:
    return 0 if expr is None else evaluate(expr, names)


def _tile_defects(plan: KernelPlan, group: SlotGroup) -> Iterator[str]:
    """One slot for ready and credit: it starts and ends a launch at 0, and values of waiting cores differ."""
    merged = any(stage.tasks.merged_rounds for stage in plan.stages if group.name in stage.slot_names())
    for blocks in relative_rounds(plan.buffer_num):
        uses = _uses(plan, group, blocks, launch=0)
        frees, readies = [use.free for use in uses], [use.ready for use in uses]
        credits = [use.credit for use in uses]
        waited = [*frees, *readies]
        if frees[0] != 0 or credits[-1] != 0:
            yield f"slots {group.name}: a launch must start and end at 0, not at {frees[0]} and {credits[-1]}"
        if credits[:-1] != frees[1:]:
            yield f"slots {group.name}: credits {credits[:-1]} are not what the next uses wait for, {frees[1:]}"
        if any(free == ready for free in frees for ready in readies):
            yield f"slots {group.name}: a value is free in one use and ready in another: {frees}, {readies}"
        if merged and len(set(waited)) != len(waited):
            yield f"slots {group.name}: different cores wait for the same value of one slot: {waited}"


def _counted_defects(plan: KernelPlan, group: SlotGroup) -> Iterator[str]:
    """Slots that only writers or only readers write.

    Credits are what the next uses wait for; those of neighbouring uses go to different slots, in which the value before
    differs, and the same holds for ready. A reader that is one use ahead then hides nothing (passes.counted).
    """
    for blocks in relative_rounds(plan.buffer_num):
        uses = [use for launch in range(PLAYED) for use in _uses(plan, group, blocks, launch)]
        readies, frees = [use.ready for use in uses], [use.free for use in uses]
        credits = [0, *(use.credit for use in uses)][:-1]
        if credits != frees:
            yield f"slots {group.name}: credits are not what the next uses wait for, {frees}"
        if any(before % 2 == after % 2 for before, after in pairwise(frees)):
            yield f"slots {group.name}: credits of two uses in turn share a slot: {frees}"
        if any(first == third for first, third in zip(frees, frees[2:], strict=False)):
            yield f"slots {group.name}: two credits in turn of one slot have the same value: {frees}"
        if any(before == after for before, after in pairwise([0, *readies])):
            yield f"slots {group.name}: a use is ready with the value of the use before: {readies}"
        each = len(uses) // PLAYED
        for launch in range(PLAYED):
            if len(set(readies[launch * each : (launch + 1) * each])) != each:
                yield f"slots {group.name}: two uses of one launch are ready with the same value: {readies}"


def _arrival_defects(group: SlotGroup) -> Iterator[str]:
    """A value that differs from the one of the launch before, and from 0 in the first."""
    values = [evaluate(group.protocol.ready, {"launch": launch % LAUNCHES}) for launch in range(PLAYED)]
    if any(before == after for before, after in pairwise([0, *values])):
        yield f"slots {group.name}: a launch cannot tell its signals from those of the launch before: {values}"
