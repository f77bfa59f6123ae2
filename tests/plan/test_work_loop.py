"""Work loops, walked number by number: every tile once, every element of C once, every read behind the right signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fusegen.plan.stages import Kind, Stage
from tests.plan.orders import EVEN, RANKS, SPLIT, cases, plan_with, walks
from tests.plan.walking import Values, Walk, box

MOST = {"S": 400, "H": 4, "D": 400, "M": 100, "N": 100, "K": 60}


@pytest.mark.parametrize(("pattern", "choice", "swizzle"), cases())
def test_a_stage_visits_every_round_item_and_rank_once(
    pattern: str, choice: dict[str, Any], swizzle: dict[str, Any]
) -> None:
    ranks = EVEN if swizzle is SPLIT else RANKS
    plan = plan_with(pattern, choice, swizzle, ranks)

    @settings(max_examples=8, deadline=None, database=None, derandomize=True)
    @given(walks(plan, ranks, MOST))
    def visits(walk: Walk) -> None:
        for stage in plan.stages:
            axes = [*([stage.tasks.round] if stage.tasks.round else []), *stage.tasks.items, *stage.inner]
            expected = [(*place, rank) for place in walk.places(stage) for rank in partners(walk, stage)]
            names = [axis.name for axis in axes]
            visited = [(*(tile[name] for name in names), partner(stage, tile)) for tile in walk.visits(stage)]
            assert sorted(visited) == sorted(expected), stage.name

    visits()


def partners(walk: Walk, stage: Stage) -> list[int]:
    """Ranks that a tile of the stage must meet one after the other; one number where it meets none, or all at once."""
    ranks = range(walk.conditions.ranks)
    if stage.tasks.rank is None or stage.partner is None:
        return [-1]
    others_only = walk.extent(stage.tasks.rank.extent) == len(ranks) - 1
    return [rank for rank in ranks if not (others_only and rank == walk.rank)]


def partner(stage: Stage, tile: Values) -> int:
    """The partner rank of a visited tile."""
    return tile[stage.partner.name] if stage.tasks.rank and stage.partner else -1


@pytest.mark.parametrize(("pattern", "choice", "swizzle"), cases())
def test_every_element_of_the_output_is_written_once(
    pattern: str, choice: dict[str, Any], swizzle: dict[str, Any]
) -> None:
    """Or once by each rank's term, where terms are added as they arrive."""
    ranks = EVEN if swizzle is SPLIT else RANKS
    plan = plan_with(pattern, choice, swizzle, ranks)

    @settings(max_examples=4, deadline=None, database=None, derandomize=True)
    @given(walks(plan, ranks, MOST))
    def writes(walk: Walk) -> None:
        written = np.zeros([walk.extent(axis.extent) for axis in plan.tensor("c").axes], np.int64)
        for stage in plan.stages:
            for access in stage.writes:
                if access.region == "c":
                    for tile in walk.visits(stage):
                        written[np.ix_(*box(stage, access, tile))] += 1
        terms = walk.conditions.ranks if any(stage.kind is Kind.ACCUMULATE for stage in plan.stages) else 1
        assert (written == terms).all()

    writes()
