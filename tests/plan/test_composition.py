"""Which specs have a composition, and how the others are refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fusegen.errors import PlanError
from fusegen.plan import make_plan
from fusegen.spec.model import PATTERNS
from fusegen.spec.starter import starter
from tests.plan.plans import plan_of

COMPOSED = {"reverse_all2all"}


@pytest.mark.parametrize("pattern", sorted(PATTERNS.keys() - COMPOSED))
def test_a_pattern_without_a_composition(pattern: str) -> None:
    spec = PATTERNS[pattern].model_validate(yaml.safe_load(starter(pattern)))
    with pytest.raises(PlanError) as caught:
        make_plan("kernel", spec)
    assert str(caught.value) == f"pattern: expected a pattern that can be planned: reverse_all2all, got {pattern}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"transport": "udma", "target": "Ascend950PR_9589"},
            "transport: expected mte, which can be planned, got udma",
        ),
        ({"announce": "batched"}, "announce: expected per_tile, which can be planned, got batched"),
        (
            {"swizzle": {"comm": {"order": "sequential"}}},
            "swizzle.comm.order: expected nz, which can be planned, got sequential",
        ),
        ({"swizzle": {"comm": {"npu_split": 2}}}, "swizzle.comm.npu_split: expected 1, which can be planned, got 2"),
    ],
)
def test_a_choice_that_no_composition_heeds(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(**changes)
    assert str(caught.value) == message
