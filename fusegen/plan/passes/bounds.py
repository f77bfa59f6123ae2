"""Proofs about positions: every coordinate stays on its axis for every shape, and no difference is negative."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusegen.plan.bounds import is_at_most, upper
from fusegen.plan.evaluate import all_values
from fusegen.plan.expr import (
    Binary,
    Expr,
    NegativeValueError,
    Op,
    Ranges,
    Sym,
    evaluate,
    interval,
    polynomial,
    substitute,
    symbols,
)
from fusegen.plan.ir import KernelPlan
from fusegen.plan.passes.budget import point_conditions
from fusegen.plan.passes.counted import LAUNCHES
from fusegen.plan.stages import Binding, Call, Definition, Stage
from fusegen.plan.tasks import (
    buffer_coordinates,
    reads_sources,
    round_definitions,
    slot_coordinates,
    work_count,
    work_loop,
)


def bound_defects(plan: KernelPlan) -> Iterator[str]:
    """For every shape, every coordinate is at most the last position of its axis; layouts are dense, so offsets fit."""
    fixed = {name: value for name, value in plan.names.items() if not _is_opaque(value)}
    exact = _exact_quotients(plan)
    positive = _positive(plan)
    for stage in plan.stages:
        limits = {d.name: substitute(d.at_most, fixed) for d in _bounded(plan, stage) if d.at_most is not None}
        # A bound put in early helps where a name is divided, and hinders where it cancels: either proof will do.
        kept: dict[str, Expr] = {name: Sym(name) for name in limits}
        early, late = (_uppers(plan, stage, fixed, known) for known in (limits, kept))
        for what, coordinate, extent in _coordinates(plan, stage):
            limit = substitute(substitute(extent, fixed) - 1, exact)
            raw = substitute(coordinate, fixed)
            bounds = [upper(raw, early), upper(raw, late)]
            if _grows_with(bounds[1], limits):
                bounds.append(substitute(bounds[1], limits))
            if not any(is_at_most(substitute(bound, exact), limit, positive) for bound in bounds):
                yield f"{stage.name}: {what} may leave its axis"


def _bounded(plan: KernelPlan, stage: Stage) -> tuple[Definition, ...]:
    """Definitions that may have a bound of their own."""
    return (*plan.definitions, *stage.tasks.sizes)


def _grows_with(bound: Expr, names: Iterable[str]) -> bool:
    """True when a larger value of any of the names makes no term smaller."""
    known = set(names)
    return all(value >= 0 for term, value in polynomial(bound).items() if known & set(term))


def _is_opaque(value: Expr) -> bool:
    """Quotients and minima stay names in proofs: they are no polynomials."""
    return isinstance(value, Binary) and value.op in (Op.CDIV, Op.MIN, Op.FLOORDIV)


def _exact_quotients(plan: KernelPlan) -> dict[str, Expr]:
    """Constants that are products: where `q = a // b` leaves no rest, a is q * b."""
    constants = dict(plan.constants)
    found: dict[str, Expr] = {}
    for definition in plan.definitions:
        match definition.value:
            case Binary(Op.FLOORDIV, Sym(whole), Sym(part)) if whole in constants and part in constants:
                if constants[whole] % constants[part] == 0:
                    found[whole] = Sym(definition.name) * Sym(part)
            case _:
                pass
    return found


def _positive(plan: KernelPlan) -> frozenset[str]:
    """Names that are at least 1 in every launch: constants, sizes (zero is a no-op), and their quotients rounded up."""
    counts = {
        definition.name
        for definition in plan.definitions
        if isinstance(definition.value, Binary) and definition.value.op is Op.CDIV
    }
    constants = {name for name, value in plan.constants if value > 0}
    counts |= {name for whole in _exact_quotients(plan).values() for name in symbols(whole)}
    return frozenset({"ranks", "cores", "vector_cores", *counts, *constants, *(d.name for d in plan.dimensions)})


def _uppers(plan: KernelPlan, stage: Stage, fixed: dict[str, Expr], known: dict[str, Expr]) -> dict[str, Expr]:
    """The largest value of every name inside the stage's loop, in terms of the shape; masks bound tile positions."""
    loop = work_loop(plan, stage)
    tasks = stage.tasks
    uppers: dict[str, Expr] = {
        **known,
        "rank": Sym("ranks") - 1,
        "step": Sym("ranks") - 1,
        "launch": Sym("launches_counted"),
        **{core: substitute(Sym(cores), fixed) - 1 for core, cores in CORES.items()},
    }
    total = substitute(work_count(tasks).value if tasks.sizes else loop.total, fixed)
    uppers["work"] = upper(total, uppers) - 1
    if tasks.round is not None:
        uppers[tasks.round.name] = tasks.round.extent - 1
    sources = (stage.partner,) if stage.partner and reads_sources(stage) else ()
    for announce in stage.announces:
        if announce.each:
            uppers[announce.each.name] = upper(substitute(announce.each.stop, fixed), uppers) - 1
    for binding in (*round_definitions(plan, stage), *loop.bindings, *sources):
        uppers |= {name: value for name, value in _upper_of(binding, fixed, uppers).items() if name not in known}
    for item in loop.items:
        uppers[item.name] = upper(item.stop, uppers) - 1
    for axis in stage.tile:
        uppers[axis.index] = upper(substitute(axis.stop, fixed), uppers) - 1
        if axis.local:
            uppers[axis.local] = upper(substitute(axis.offset, fixed), uppers) + Sym(axis.tile) - 1
    return uppers


CORES = {"core": "cores", "role_core": "role_cores", "vector_core": "vector_cores"}
"""The number of a core is less than the number of cores of its kind."""


def _upper_of(binding: Binding, fixed: dict[str, Expr], uppers: dict[str, Expr]) -> dict[str, Expr]:
    match binding:
        case Definition(name, value):
            return {name: upper(substitute(value, fixed), uppers)}
        case Call(names, _, _, extents):
            return {name: substitute(extent, fixed) - 1 for name, extent in zip(names, extents, strict=True)}


def _coordinates(plan: KernelPlan, stage: Stage) -> Iterator[tuple[str, Expr, Expr]]:
    """Every coordinate of the stage, with the extent of its axis."""
    for access in (*stage.reads, *stage.writes):
        if plan.is_buffer(access.region):
            coordinates = buffer_coordinates(plan, access)
            axes = plan.buffer(access.region).layout.axes
            yield from ((f"{access.region}.{axis.name}", coordinates[axis.name], axis.extent) for axis in axes)
        else:
            tensor_axes = plan.tensor(access.region).axes
            for axis, coordinate in zip(tensor_axes, access.coordinates, strict=True):
                yield f"{access.region}.{axis.name}", coordinate, axis.extent
    for each in stage.signals():
        group = plan.slot_group(each.slots)
        first = slot_coordinates(plan, each)
        for axis in group.layout.axes:
            yield f"{group.name}.{axis.name}", first[axis.name], axis.extent


def sign_defects(plan: KernelPlan) -> Iterator[str]:
    """At the spec's verification points no difference is negative: // and % of it would differ from Python's.

    The same points show that neighbouring slots which one wait covers stay within their group.
    """
    for _, conditions in point_conditions(plan):
        if conditions.empty():
            continue
        values = all_values(plan, conditions)
        for definition in {d.name: d for stage in plan.stages for d in _bounded(plan, stage)}.values():
            if definition.at_most is not None and values[definition.name] > evaluate(definition.at_most, values):
                yield f"{definition.name} is more than its bound on {conditions.ranks} ranks"
        for stage in plan.stages:
            if values[stage.tasks.index_total] == 0:  # nothing to do: with one rank there are no others
                continue
            try:
                ranges = _intervals(plan, stage, values)
                yield from _count_defects(plan, stage, ranges)
            except NegativeValueError as error:
                yield f"{stage.name}: {error} on {conditions.ranks} ranks"


def _count_defects(plan: KernelPlan, stage: Stage, ranges: Ranges) -> Iterator[str]:
    """First slot and count together stay within the group."""
    for each in stage.waits:
        layout = plan.slot_group(each.slots).layout
        last = each.count - 1
        for axis in layout.axes:
            last = last + slot_coordinates(plan, each)[axis.name] * layout.stride(axis.name)
        if interval(last, ranges)[1] >= interval(layout.size(), ranges)[1]:
            yield f"{stage.name}: slots of {each.slots} beyond the last one"


def _intervals(plan: KernelPlan, stage: Stage, values: dict[str, int]) -> Ranges:
    """Smallest and largest value of every name inside the stage's loop. An empty loop has none."""
    loop = work_loop(plan, stage)
    ranks = values["ranks"]
    ranges = {name: (value, value) for name, value in values.items()}
    ranges |= {"rank": (0, ranks - 1), "step": (0, ranks - 1), "launch": (0, LAUNCHES - 1)}
    ranges |= {core: (0, max(values.get(cores, 1) - 1, 0)) for core, cores in CORES.items()}
    ranges["work"] = (0, max(values[loop.total.name] - 1, 0))
    if stage.tasks.round is not None:
        ranges[stage.tasks.round.name] = (0, evaluate(stage.tasks.round.extent, values) - 1)
    sources = (stage.partner,) if stage.partner and reads_sources(stage) else ()
    for binding in (*round_definitions(plan, stage), *loop.bindings, *sources):
        match binding:
            case Definition(name, value):
                ranges[name] = interval(value, ranges)
            case Call(names, _, _, extents):
                for name, extent in zip(names, extents, strict=True):
                    ranges[name] = (0, max(interval(extent, ranges)[1] - 1, 0))
    for item in loop.items:
        ranges[item.name] = (0, max(interval(item.stop, ranges)[1] - 1, 0))
    for announce in stage.announces:
        if announce.each:
            ranges[announce.each.name] = (0, max(interval(announce.each.stop, ranges)[1] - 1, 0))
    return ranges
