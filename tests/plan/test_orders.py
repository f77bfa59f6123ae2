"""Orders in which a stage visits ranks: each of them is proved in bounds with every choice of every pattern."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.plans import BASES, every_choice, is_legal, plan_for


@pytest.mark.parametrize("order", [{"order": "sequential"}, {"npu_split": 2}], ids=["sequential", "split"])
@pytest.mark.parametrize("pattern", BASES)
def test_every_order_of_ranks_is_proved_with_every_choice(pattern: str, order: dict[str, Any]) -> None:
    (point,) = BASES[pattern]["verify"]
    fields = {"swizzle": {"comm": order}, "verify": [{**point, "ranks": [2, 4, 8]}]}
    plans = [
        plan_for(pattern, **choice, **fields)
        for choice in every_choice(pattern)
        if is_legal(pattern, {**choice, **fields})
    ]
    assert len(plans) >= 8
