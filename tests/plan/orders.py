"""Every choice in every order of tiles, and conditions to walk it under."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from fusegen.plan import KernelPlan
from fusegen.plan.evaluate import Conditions
from tests.plan.plans import BASES, MIX, choice_id, every_choice, plan_for
from tests.plan.walking import Walk

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
