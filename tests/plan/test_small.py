"""Conditions small enough to explore: few rounds, and no smaller shape that has as many."""

from __future__ import annotations

import pytest

from fusegen.plan.evaluate import Conditions, rounds_of
from fusegen.plan.small import small_conditions
from tests.plan.plans import BASES, plan_for


@pytest.mark.parametrize("buffer_num", [1, 2, 3])
@pytest.mark.parametrize("pattern", BASES)
def test_small_conditions_have_two_to_four_rounds(pattern: str, buffer_num: int) -> None:
    plan = plan_for(pattern, buffer_num=buffer_num)
    found = list(small_conditions(plan))
    rounds = [(conditions.ranks, rounds_of(plan, conditions)) for conditions in found]
    assert rounds == [(ranks, rounds) for ranks in (2, 3) for rounds in (2, 3, 4)]
    for conditions, (_, count) in zip(found, rounds, strict=True):
        (axis,) = [axis for axis, extent in conditions.shape.items() if extent > 1]
        smaller = {**conditions.shape, axis: conditions.shape[axis] - 1}
        assert rounds_of(plan, Conditions(conditions.ranks, conditions.cores, smaller)) < count
        assert conditions.cores == plan.launch.minimum_cores


def test_a_kernel_without_rounds_has_one_tile() -> None:
    plan = plan_for("allgather_gemm", transport="udma", sync="barrier")
    assert [(each.ranks, set(each.shape.values())) for each in small_conditions(plan)] == [(2, {1}), (3, {1})]
