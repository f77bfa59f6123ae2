"""The work loops of a plan, walked number by number: which names have which values at every tile that a rank visits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusegen.plan import KernelPlan
from fusegen.plan.evaluate import Conditions, all_values, of_round
from fusegen.plan.expr import Expr, evaluate, substitute
from fusegen.plan.stages import Access, Announce, Binding, Call, Definition, First, Rest, Stage, Wait
from fusegen.plan.swizzle import rank_order, zigzag
from fusegen.plan.tasks import round_definitions, slot_coordinates, work_loop

Values = dict[str, int]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Walk:
    """A plan on one rank, under conditions, in one launch of those that slot values tell apart."""

    plan: KernelPlan
    conditions: Conditions
    rank: int = 0
    launch: int = 0

    def values(self, stage: Stage | None = None) -> Values:
        """Names that the kernel knows before its loops, on cores of the stage's role (on any, without a stage)."""
        values = {**all_values(self.plan, self.conditions), "rank": self.rank, "launch": self.launch}
        if stage is not None:
            values["role_cores"] = stage.workers.count(self.conditions.cores)
        for definition in self.plan.definitions:
            values[definition.name] = evaluate(definition.value, values)
        return values

    def extent(self, extent: Expr) -> int:
        """The extent of an axis."""
        return evaluate(extent, self.values())

    def places(self, stage: Stage) -> Iterator[tuple[int, ...]]:
        """Every position on the round, item and inner axes; the last round may have fewer items."""
        tasks = stage.tasks
        values = self.values(stage)
        rounds = range(evaluate(tasks.round.extent, values)) if tasks.round else [None]
        for position in rounds:
            known = values if position is None else {**values, **of_round(tasks, values, position)}
            first = () if position is None else (position,)
            axes = (*tasks.items, *stage.inner)
            for place in itertools.product(*(range(evaluate(axis.extent, known)) for axis in axes)):
                yield (*first, *place)

    def turns(self, stage: Stage) -> Iterator[Values]:
        """Every round of every core that takes part in the stage; one for all rounds where these are merged."""
        tasks = stage.tasks
        values = self.values(stage)
        if tasks.round is None or tasks.merged_rounds:
            yield from self._cores(stage, values)
            return
        for position in range(evaluate(tasks.round.extent, values)):
            inside = {**values, tasks.round.name: position}
            _define(inside, round_definitions(self.plan, stage))
            yield from self._cores(stage, inside)

    def _cores(self, stage: Stage, values: Values) -> Iterator[Values]:
        name, count = stage.workers.base()
        selected = stage.workers.count(self.conditions.cores)
        for core in range(selected):
            own = {**values, name.name: core, count.name: selected}
            part = stage.workers.part
            if isinstance(part, First) and core >= evaluate(part.count, own):
                continue
            if isinstance(part, Rest) and core < evaluate(part.count, own):
                continue
            yield own

    def visits(self, stage: Stage) -> Iterator[Values]:
        """Every tile that the stage's cores visit, core by core, with the names that are in reach there."""
        loop = work_loop(self.plan, stage)
        for own in self.turns(stage):
            works = range(evaluate(loop.core, own), evaluate(loop.total, own), evaluate(loop.cores, own))
            for work in works:
                item = {**own, "work": work}
                _define(item, loop.bindings)
                yield from _item_loops(item, loop.items)


def _item_loops(values: Values, loops: tuple[Any, ...]) -> Iterator[Values]:
    if not loops:
        yield values
        return
    first, *others = loops
    for position in range(evaluate(first.first, values), evaluate(first.stop, values)):
        yield from _item_loops({**values, first.name: position}, tuple(others))


def _define(values: Values, bindings: tuple[Binding, ...]) -> None:
    for binding in bindings:
        match binding:
            case Definition(name, value):
                values[name] = evaluate(value, values)
            case Call(names, function, arguments):
                results = HELPERS[function](*(evaluate(argument, values) for argument in arguments))
                values.update(zip(names, results, strict=True))


def _comm_swizzle(position: int, tile: int, ranks: int, split: int) -> tuple[int]:
    return ((rank_order(position, ranks=ranks, split=split) + tile) % ranks,)


def _gemm_swizzle(index: int, rows: int, columns: int, offset: int) -> tuple[int, int]:
    return zigzag(index, rows=rows, columns=columns, offset=offset)


HELPERS: dict[str, Any] = {"comm_swizzle": _comm_swizzle, "gemm_swizzle": _gemm_swizzle}
"""Device functions of the rendered kernels. tests/sim/test_swizzle_functions.py shows that the text computes these."""


def positions(stage: Stage, values: Values) -> dict[str, Counts]:
    """Positions of the tile on its axes, without those that the mask leaves out; a multiplication takes all of K."""
    found: dict[str, Counts] = {axis.index: np.arange(evaluate(axis.stop, values)) for axis in stage.tile[2:]}
    for axis in stage.tile[:2]:
        offset = evaluate(axis.offset, values) + np.arange(values[axis.tile])
        index = evaluate(axis.origin, values) + offset
        inside = index < evaluate(axis.stop, values)
        found[axis.index] = index[inside]
        if axis.local:
            found[axis.local] = offset[inside]
    return found


def box(stage: Stage, access: Access, values: Values) -> tuple[Counts, ...]:
    """Coordinates of an access on each axis of its region."""
    known: dict[str, Any] = {**values, **positions(stage, values)}
    return tuple(np.atleast_1d(evaluate(coordinate, known)) for coordinate in access.coordinates)


def slot_number(plan: KernelPlan, signal: Wait | Announce, values: Values) -> int:
    """Number of the first slot of a wait or an announcement, in its group."""
    layout = plan.slot_group(signal.slots).layout
    names = plan.names
    return sum(
        evaluate(coordinate, values) * evaluate(substitute(layout.stride(axis), names), values)
        for axis, coordinate in slot_coordinates(plan, signal).items()
    )
