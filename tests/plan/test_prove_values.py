"""Proofs about slot values and about positions: each seeded defect is refused, its untouched twin is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fusegen.plan import KernelPlan
from fusegen.plan.expr import Const, Expr, Sym, substitute
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.passes.prove import prove
from fusegen.plan.stages import Definition
from tests.plan.defects import refused, slots_with, stages_with
from tests.plan.plans import MIX, plan_for

TURN, USE, USES, LAUNCH = Sym("turn"), Sym("use"), Sym("uses"), Sym("launch")


def protocol(plan: KernelPlan, **values: Any) -> dict[str, Any]:
    """The plan with other slot values, which stages wait for and write as well."""
    old = plan.slots[0].protocol

    def followed(signals: tuple[Any, ...], *names: str) -> tuple[Any, ...]:
        renamed = {getattr(old, name): values[name] for name in names if name in values}
        return tuple(replace(each, value=renamed.get(each.value, each.value)) for each in signals)

    slots = tuple(replace(group, protocol=replace(group.protocol, **values)) for group in plan.slots)
    stages = tuple(
        replace(s, waits=followed(s.waits, "free", "ready"), announces=followed(s.announces, "ready", "credit"))
        for s in plan.stages
    )
    return {"slots": slots, "stages": stages}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"free": Const(1)}, "a launch must start and end at 0, not at 1 and 0"),
        ({"credit": Const(2)}, "a launch must start and end at 0, not at 0 and 2"),
        ({"free": Const(3)}, "a launch must start and end at 0, not at 3 and 0"),
    ],
)
def test_free_and_ready(values: dict[str, Expr], message: str) -> None:
    for pattern in ("reverse_all2all", "allreduce"):
        plan = plan_for(pattern, flatten="none")
        refused(plan, f"slots signal: {message}", **protocol(plan, **values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"free": Const(0), "ready": Const(1), "credit": Const(0)},
            r"different cores wait for the same value of one slot: \[0, 0, 1, 1\]",
        ),
        ({"ready": 2 * USE}, "a value is free in one use and ready in another"),
        ({"ready": 2 * USE + 2}, "a value is free in one use and ready in another"),
        ({"ready": Const(1)}, "different cores wait for the same value of one slot"),
        ({"credit": (USE + 1) * 2}, "a launch must start and end at 0, not at 0 and 2"),
        ({"credit": Const(0)}, r"credits \[0\] are not what the next uses wait for, \[2\]"),
        ({"credit": (USE + 2) % USES * 2}, "a launch must start and end at 0"),
        ({"free": 2 * USE + 4, "ready": 2 * USE + 5}, "a launch must start and end at 0, not at 4 and 0"),
    ],
)
def test_use_numbers(values: dict[str, Expr], message: str) -> None:
    for pattern in ("all2all", "reduce_scatter"):
        plan = plan_for(pattern, flatten="auto")
        refused(plan, f"slots signal: {message}", **protocol(plan, **values))


def test_plain_values_are_proved_where_rounds_are_not_merged() -> None:
    """And numbers are proved there as well: they are only needless."""
    plain, numbered = plan_for("allgather", flatten="none"), plan_for("allgather", flatten="m")
    assert prove(replace(plain, **protocol(plain, free=Const(0), ready=Const(1), credit=Const(0)))) == plain
    group = replace(numbered.slots[0], layout=plain.slots[0].layout)
    values = protocol(plain, **{name: getattr(group.protocol, name) for name in ("free", "ready", "credit")})
    definitions = {
        name: getattr(group.protocol, name) for name in ("producer_definitions", "consumer_definitions", "reason")
    }
    slots = tuple(replace(each, protocol=replace(each.protocol, **definitions)) for each in values["slots"])
    changed = replace(plain, slots=slots, stages=values["stages"])
    assert prove(changed) == changed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"free": TURN + 1}, "credits are not what the next uses wait for"),
        ({"ready": Const(1)}, "a use is ready with the value of the use before"),
        ({"ready": TURN}, r"a use is ready with the value of the use before: \[0, 1"),
        ({"credit": TURN + 1}, "credits are not what the next uses wait for"),
        ({"credit": (TURN + 1) % USES}, "credits are not what the next uses wait for"),
        ({"credit": (TURN + 1) % (2 * USES + 1)}, "credits are not what the next uses wait for"),
    ],
)
@pytest.mark.parametrize("pattern", MIX)
def test_counted_uses(pattern: str, values: dict[str, Expr], message: str) -> None:
    plan = plan_for(pattern)
    refused(plan, f"slots (ready|credit): {message}", **protocol(plan, **values))


@pytest.mark.parametrize("dropped", ["launches", "rounds"])
@pytest.mark.parametrize("pattern", MIX)
def test_counted_uses_without_launches_or_rounds(pattern: str, dropped: str) -> None:
    """turn = launch * uses + panel // BUFFER_NUM, without one of its terms."""
    plan = plan_for(pattern)
    part = {"launches": {"launch": Const(0)}, "rounds": {"panel": Const(0)}}[dropped]

    def shorter(definitions: tuple[Definition, ...]) -> tuple[Definition, ...]:
        return tuple(replace(each, value=substitute(each.value, part)) for each in definitions)

    slots = tuple(
        replace(
            group,
            protocol=replace(
                group.protocol,
                producer_definitions=shorter(group.protocol.producer_definitions),
                consumer_definitions=shorter(group.protocol.consumer_definitions),
            ),
        )
        for group in plan.slots
    )
    refused(plan, "slots (ready|credit): ", slots=slots)


@pytest.mark.parametrize(
    ("ready", "values"),
    [
        (Const(1), r"\[1, 1, 1, 1"),
        (LAUNCH, r"\[0, 1, 2, 3"),
    ],
)
def test_arrivals(ready: Expr, values: str) -> None:
    plan = plan_for("allgather_gemm", transport="udma", buffer_num=1)
    message = f"slots arrived: a launch cannot tell its signals from those of the launch before: {values}"
    refused(plan, message, **protocol(plan, ready=ready))


# positions


def moved(plan: KernelPlan, stage: str, which: str, index: int, by: int = 1) -> dict[str, Any]:
    """One coordinate of the stage's first read or write, further along its axis."""
    first, *others = getattr(plan.stage(stage), which)
    coordinates = [*first.coordinates]
    coordinates[index] = coordinates[index] + by
    return stages_with(plan, stage, **{which: (replace(first, coordinates=tuple(coordinates)), *others)})


@pytest.mark.parametrize(
    ("pattern", "stage", "which", "index", "axis"),
    [
        ("reverse_all2all", "push", "reads", 0, "a.s"),
        ("reverse_all2all", "push", "reads", 1, "a.h"),
        ("reverse_all2all", "push", "reads", 2, "a.d"),
        ("reverse_all2all", "push", "writes", 0, "peer.ring"),
        ("reverse_all2all", "push", "writes", 1, "peer.source_rank"),
        ("reverse_all2all", "push", "writes", 2, "peer.row"),
        ("reverse_all2all", "push", "writes", 3, "peer.head"),
        ("reverse_all2all", "push", "writes", 4, "peer.d"),
        ("reverse_all2all", "copy", "writes", 1, "c.h"),
        ("all2all", "push", "reads", 1, "a.h"),
        ("all2all", "copy", "writes", 0, "c.s"),
        ("allreduce", "reduce", "reads", 1, "peer.source_rank"),
        ("allreduce", "reduce", "writes", 0, "c.m"),
        ("reduce_scatter", "push", "reads", 0, "a.m"),
        ("reduce_scatter", "reduce", "writes", 0, "c.m"),
        ("allgather_gemm", "push", "writes", 2, "gathered.row"),
        ("allgather_gemm", "push", "writes", 3, "gathered.k"),
        ("allgather_gemm", "gemm", "reads", 1, "gathered.source_rank"),
        ("allgather_gemm", "gemm", "writes", 0, "c.m"),
        ("allgather_gemm", "gemm", "writes", 1, "c.n"),
        ("gemm_allreduce", "gemm", "reads", 0, "a.m"),
        ("gemm_allreduce", "gemm", "reads", 1, "a.k"),
        ("gemm_allreduce", "gemm", "writes", 1, "partial.row"),
        ("gemm_reduce_scatter", "gemm", "writes", 1, "partial.owner_rank"),
        ("gemm_reduce_scatter", "reduce", "reads", 2, "partial.row"),
    ],
)
def test_a_coordinate_that_leaves_its_axis(pattern: str, stage: str, which: str, index: int, axis: str) -> None:
    plan = plan_for(pattern)
    refused(plan, rf"{stage}: {axis} may leave its axis", **moved(plan, stage, which, index))


@pytest.mark.parametrize(
    ("stage", "which", "index", "axis"),
    [
        ("put", "writes", 0, "landing.source_rank"),
        ("put", "writes", 1, "landing.row"),
        ("put", "reads", 0, "a.s"),
        ("keep", "writes", 0, "own.ring"),
        ("copy", "reads", 0, "landing.source_rank"),
        ("copy_own", "writes", 0, "c.s"),
    ],
)
def test_a_coordinate_of_a_transfer_that_leaves_its_axis(stage: str, which: str, index: int, axis: str) -> None:
    plan = plan_for("reverse_all2all", transport="udma")
    refused(plan, rf"{stage}: {axis} may leave its axis", **moved(plan, stage, which, index))


@pytest.mark.parametrize("order", [{"order": "sequential"}, {"order": "nz"}], ids=["sequential", "nz"])
def test_a_slot_that_leaves_its_axis(order: dict[str, str]) -> None:
    plan = plan_for("all2all", flatten="none", swizzle={"comm": order})
    ring, source, tile = plan.slots[0].layout.axes
    short = Layout((ring, source, Axis(tile.name, Sym("H"))), plan.slots[0].layout.stride_names)
    refused(plan, r"push: signal\.tile may leave its axis", **slots_with(plan, "signal", layout=short))
    few = Layout((ring, Axis(source.name, Sym("ranks") - 1), tile), plan.slots[0].layout.stride_names)
    refused(plan, r"push: signal\.source_rank may leave its axis", **slots_with(plan, "signal", layout=few))


def test_neighbouring_slots_of_one_wait_stay_in_their_group() -> None:
    plan = plan_for("allgather_gemm")
    gemm = plan.stage("gemm")
    wait, begun = gemm.waits
    more = replace(wait, count=wait.count * 2)
    refused(plan, "gemm: slots of ready beyond the last one", **stages_with(plan, "gemm", waits=(more, begun)))


def test_a_bound_that_does_not_hold() -> None:
    plan = plan_for("gemm_allreduce", sync="barrier")
    definitions = tuple(
        replace(each, at_most=Sym("blocks_n")) if each.name == "comm_blocks_n" else each for each in plan.definitions
    )
    refused(plan, "comm_blocks_n is more than its bound on 1 ranks", definitions=definitions)


@pytest.mark.parametrize(("pattern", "changes"), [("allgather", {}), ("allreduce", {"reduce": "atomic"})])
def test_a_partner_that_may_be_negative(pattern: str, changes: dict[str, Any]) -> None:
    plan = plan_for(pattern, flatten="none", **changes)
    reader = plan.stages[1]
    assert reader.partner is not None
    backwards = replace(reader.partner, value=(Sym("rank") - Sym("shift")) % Sym("ranks"))
    message = rf"{reader.name}: rank - .* may be -1 on 2 ranks"
    refused(plan, message, **stages_with(plan, reader.name, partner=backwards))
