"""Work loops, walked number by number: every tile once, every element of C once, every read behind the right signal."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.plan import KernelPlan
from fusegen.plan.evaluate import Conditions
from fusegen.plan.stages import Kind, Stage
from tests.plan.plans import BASES, MIX, choice_id, every_choice, plan_for
from tests.plan.walking import Values, Walk, box

SEQUENTIAL, SPLIT, ROWS = (
    {"comm": {"order": "sequential"}},
    {"comm": {"npu_split": 2}},
    {"gemm": {"order": "row_major"}},
)
RANKS = (1, 2, 3, 5)
EVEN = (1, 2, 4, 8)
"""Rank counts for which a split of 2 is a bijection."""


def cases() -> list[Any]:
    """Each choice but for the ring's depth, which no work loop depends on, in each order of tiles."""
    found = []
    for pattern in BASES:
        for choice in every_choice(pattern):
            if choice["buffer_num"] != (1 if choice["transport"] == "udma" else 2):
                continue
            orders: dict[str, dict[str, Any]] = {"nz": {}}
            if pattern in MIX:
                orders["rows"] = ROWS
            if choice["transport"] == "mte" and not (pattern in MIX and choice.get("reduce") == "ordered"):
                orders |= {"sequential": SEQUENTIAL, "split": SPLIT}
            for name, swizzle in orders.items():
                found.append(pytest.param(pattern, choice, swizzle, id=f"{pattern}-{choice_id(choice)}-{name}"))
    return found


def plan_with(pattern: str, choice: dict[str, Any], swizzle: dict[str, Any], ranks: tuple[int, ...]) -> KernelPlan:
    """The plan of a choice in one order, verified with rank counts that the order allows."""
    return plan_for(pattern, **choice, swizzle=swizzle, verify=[{**BASES[pattern]["verify"][0], "ranks": ranks}])


@st.composite
def walks(draw: st.DrawFn, plan: KernelPlan, ranks: tuple[int, ...], most: dict[str, int]) -> Walk:
    """Ranks, cores, sizes and a rank to look at."""
    count = draw(st.sampled_from(ranks))
    shape = {each.name: draw(st.integers(1, most[each.name])) for each in plan.dimensions}
    cores = draw(st.integers(plan.launch.minimum_cores, 9))
    return Walk(plan, Conditions(count, cores, shape), draw(st.integers(0, count - 1)))


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
            product = itertools.product(*(range(walk.extent(axis.extent)) for axis in axes), partners(walk, stage))
            names = [axis.name for axis in axes]
            visited = [(*(tile[name] for name in names), partner(stage, tile)) for tile in walk.visits(stage)]
            assert sorted(visited) == sorted(product), stage.name

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
