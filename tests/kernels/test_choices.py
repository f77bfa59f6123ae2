"""Every legal choice of every pattern, each under several conditions, and every condition with every pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kernels.cases import (
    AXES,
    SCATTERED,
    TILE,
    Condition,
    assert_clean,
    minimum_cores,
    moves_only,
    rendered,
    run,
    small,
)
from tests.plan.plans import BASES, choice_id, every_choice

HEADS = (
    Condition(1, 3, (1, 1, 1), "round-robin"),
    Condition(2, 4, (35, 3, 20)),
    Condition(3, 3, (17, 2, 16), "starving"),
    Condition(4, 7, (33, 1, 33), "round-robin"),
    Condition(5, 9, (16, 5, 7), "starving"),
    Condition(6, 4, (9, 2, 19)),
    Condition(7, 3, (1, 1, 15), "random", 1),
    Condition(8, 5, (33, 1, 17), "starving", 1),
    Condition(16, 4, (7, 2, 5), "round-robin", 1),
    Condition(2, 30, (50, 1, 8), "random", 2),
    Condition(1, 6, (49, 2, 33), "starving", 5),
)
ROWS = (
    Condition(1, 3, (1, 1), "round-robin"),
    Condition(2, 4, (35, 50)),
    Condition(3, 3, (17, 16), "starving"),
    Condition(4, 7, (33, 33), "round-robin"),
    Condition(5, 9, (3, 70), "starving"),
    Condition(6, 4, (9, 19)),
    Condition(7, 3, (5, 15), "random", 3),
    Condition(8, 5, (65, 17), "starving", 1),
    Condition(16, 4, (19, 7), "round-robin", 1),
    Condition(2, 30, (50, 8), "random", 2),
    Condition(1, 6, (49, 33), "starving", 5),
)
GEMMS = (
    Condition(1, 1, (1, 1, 1), "round-robin"),
    Condition(2, 3, (35, 33, 7)),
    Condition(3, 2, (17, 16, 16), "starving"),
    Condition(4, 5, (33, 15, 33), "round-robin", 1),
    Condition(5, 1, (3, 19, 9), "starving"),
    Condition(6, 2, (9, 17, 15), "random", 1),
    Condition(7, 1, (5, 7, 17), "random", 2),
    Condition(8, 2, (33, 9, 1), "starving", 1),
    Condition(16, 1, (19, 5, 3), "round-robin", 1),
    Condition(2, 12, (20, 8, 19), "starving", 2),
    Condition(1, 2, (49, 17, 16), "random", 5),
)
CONDITIONS = {("S", "H", "D"): HEADS, ("M", "N"): ROWS, ("M", "N", "K"): GEMMS}
"""World sizes 1 to 8 and 16; one element, tails, fewer rows than ranks; more cores than work, and fewer."""


def comes_round(pattern: str, choice: dict[str, Any]) -> Condition:
    """Two rounds more than buffers: every buffer is used again, and the first one a third time where there is one."""
    ranks = 2
    rows = (choice["buffer_num"] + 2) * TILE - 3
    rows *= ranks if pattern in SCATTERED else 1
    rest = {("S", "H", "D"): (1, 17), ("M", "N"): (17,), ("M", "N", "K"): (9, 9)}[AXES[pattern]]
    return Condition(ranks, 2 if len(rest) == 2 and "gemm" in pattern else 4, (rows, *rest))


def conditions_of(pattern: str, index: int, choice: dict[str, Any]) -> tuple[Condition, ...]:
    """The ring, and two conditions of the list in turn, with the cores that the roles need at least."""
    listed = CONDITIONS[AXES[pattern]]
    chosen = comes_round(pattern, choice), listed[2 * index % len(listed)], listed[(2 * index + 1) % len(listed)]
    return tuple(with_cores(each, choice) for each in chosen)


def with_cores(condition: Condition, choice: dict[str, Any]) -> Condition:
    cores = max(condition.cores, minimum_cores(choice))
    return Condition(condition.ranks, cores, condition.shape, condition.schedule, condition.launches)


CASES = [(pattern, index, choice) for pattern in BASES for index, choice in enumerate(every_choice(pattern))]


@pytest.mark.parametrize(("pattern", "index", "choice"), CASES, ids=[f"{p}-{choice_id(c)}" for p, _, c in CASES])
def test_every_choice(tmp_path: Path, pattern: str, index: int, choice: dict[str, Any]) -> None:
    conditions = conditions_of(pattern, index, choice)
    text = rendered(pattern, conditions, **small(pattern, **choice))
    puts_between_barriers = (choice["transport"], choice["sync"]) == ("udma", "barrier")
    for seed, condition in enumerate(conditions, start=index):
        result = run(tmp_path, text, pattern, condition, seed=seed)
        assert_clean(result, exact=moves_only(pattern), split_blocks=puts_between_barriers)


@pytest.mark.parametrize("pattern", BASES)
def test_every_condition_meets_every_pattern(pattern: str) -> None:
    met = {
        (condition.ranks, condition.shape)
        for index, choice in enumerate(every_choice(pattern))
        for condition in conditions_of(pattern, index, choice)[1:]
    }
    assert met == {(condition.ranks, condition.shape) for condition in CONDITIONS[AXES[pattern]]}
