"""Strategies pick a valid place, reproducibly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.sim.errors import SimulationError
from fusegen.sim.schedule import schedule_named


@given(st.integers(0, 1000), st.lists(st.integers(1, 50), max_size=30))
def test_random_is_reproducible_and_in_range(seed: int, queues: list[int]) -> None:
    first, second = (schedule_named("random", seed=seed) for _ in range(2))
    picks = [first.pick(runnable) for runnable in queues]
    assert picks == [second.pick(runnable) for runnable in queues]
    assert all(0 <= pick < runnable for pick, runnable in zip(picks, queues, strict=True))


def test_random_reaches_everybody() -> None:
    schedule = schedule_named("random", seed=1)
    assert {schedule.pick(4) for _ in range(100)} == {0, 1, 2, 3}


def test_round_robin_takes_the_first() -> None:
    assert [schedule_named("round-robin", seed=9).pick(runnable) for runnable in (1, 5, 9)] == [0, 0, 0]


def test_unknown_schedule() -> None:
    with pytest.raises(SimulationError, match="schedule: expected round-robin or random, got 'pct'"):
        schedule_named("pct", seed=0)
