"""Credits of mix kernels: many cores wait for one slot, so no later value may ever replace the one they wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusegen.plan import KernelPlan
from fusegen.plan.expr import Const, Expr, Sym
from fusegen.plan.ir import BarrierCover, PlanDefect
from fusegen.plan.passes.prove import prove
from fusegen.plan.passes.values import value_defects
from fusegen.plan.program import Barrier
from tests.plan.plans import MIX, plan_for

PANEL, RING, LAUNCH = Sym("panel"), Sym("panel") % Sym("BUFFER_NUM"), Sym("launch")


def with_credits(
    plan: KernelPlan, *, waited: Expr | None = None, value: Expr | None = None, written: Expr | None = None
):
    """The plan with another slot or value to wait for, or another slot to write."""
    stages = []
    for stage in plan.stages:
        waits = tuple(
            replace(w, first=(waited or w.first[0], *w.first[1:]), value=value or w.value) if w.slots == "credit" else w
            for w in stage.waits
        )
        announces = tuple(
            replace(a, first=(written or a.first[0], *a.first[1:])) if a.slots == "credit" else a
            for a in stage.announces
        )
        stages.append(replace(stage, waits=waits, announces=announces))
    return replace(plan, stages=tuple(stages))


@pytest.mark.parametrize("buffer_num", [1, 2, 3, 4])
@pytest.mark.parametrize("pattern", MIX)
def test_a_launch_closes_with_a_barrier(pattern: str, buffer_num: int) -> None:
    plan = plan_for(pattern, buffer_num=buffer_num)
    assert isinstance(plan.program[-1], Barrier)
    assert all(isinstance(edge.cover, BarrierCover) == edge.across_launches for edge in plan.edges)


@pytest.mark.parametrize("pattern", MIX)
def test_one_slot_for_each_buffer_is_a_defect(pattern: str) -> None:
    defects = list(value_defects(with_credits(plan_for(pattern), waited=RING, written=RING)))
    assert "slots credit: a slot is written twice in a launch of 3 rounds: [(0, 1), (1, 1), (0, 1)]" in defects


@pytest.mark.parametrize(
    ("waited", "message"),
    [
        (PANEL, "slots credit: nothing but its credit must release round 0"),
        (Const(0), "slots credit: nothing but its credit must release round 0"),
    ],
)
def test_a_wait_for_another_round_is_a_defect(waited: Expr, message: str) -> None:
    with pytest.raises(PlanDefect, match=message):
        prove(with_credits(plan_for(MIX[0]), waited=waited))


def test_a_value_that_the_launch_before_wrote_as_well_is_a_defect() -> None:
    with pytest.raises(PlanDefect, match="does not wait for credit"):
        prove(with_credits(plan_for(MIX[0]), value=LAUNCH * 0 + 1))
