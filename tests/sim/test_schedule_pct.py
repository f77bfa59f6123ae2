"""PCT finds bugs of its depth with the probability that it promises, and shallower settings do not find them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fusegen.sim.actors import Actor
from fusegen.sim.errors import SimulationError
from fusegen.sim.findings import ActorName
from fusegen.sim.schedule import Schedule, schedule_named
from fusegen.sim.schedule.pct import PATIENCE, Pct

WINDOW = """
@triton.jit
def kernel(open_ptr, seen_ptr):
    if tl.program_id(0) == 0:
        for _ in range(10):
            libshmem_device.fence()
        tl.store(open_ptr, 1)
        for _ in range(10):
            libshmem_device.fence()
        tl.store(open_ptr, 0)
    else:
        tl.store(seen_ptr, tl.load(open_ptr))


def check(rank, ranks):
    words = torch.zeros(16, dtype=torch.int64).npu()
    kernel[(2,)](words, words[8:])
    return float(words[8].item())
"""
"""Wrong when program 1 looks while program 0 is in the middle of its work: two orderings, hence depth 2."""


def programs(count: int) -> list[Actor]:
    """Programs, numbered from 0."""
    result = [Actor(ActorName(rank=0, kind="AIV", core=i, program=i)) for i in range(count)]
    for number, actor in enumerate(result):
        actor.number = number
    return result


def order(schedule: Schedule, *steps: int) -> list[int]:
    """Who goes at each pick, when program i has `steps[i]` of them."""

    def picks() -> Iterator[int]:
        left = dict(zip(programs(len(steps)), steps, strict=True))
        while runnable := [actor for actor, count in left.items() if count]:
            actor = runnable[schedule.pick(runnable)]
            left[actor] -= 1
            yield actor.number

    return list(picks())


def test_without_changes_programs_run_one_after_the_other() -> None:
    orders = {tuple(order(Pct(seed=seed, depth=1), 3, 3)) for seed in range(20)}
    assert orders == {(0, 0, 0, 1, 1, 1), (1, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_priorities_change_at_most_depth_less_one_times(depth: int) -> None:
    for seed in range(50):
        picks = order(Pct(seed=seed, depth=depth, length=30), 10, 10, 10)
        ends = {picks[::-1].index(number) for number in range(3)}
        switches = sum(1 for place in range(1, 30) if picks[place] != picks[place - 1] and 30 - place not in ends)
        assert switches <= depth - 1


def test_a_bug_of_depth_two_is_found_as_often_as_promised() -> None:
    """Program 1 starts between two given steps of program 0, whose bound is 1 / (2 programs * 40 picks)."""
    runs = 4000
    found = 0
    for seed in range(runs):
        picks = order(Pct(seed=seed, depth=2, length=40), 20, 20)
        found += picks.index(1) == 10
    assert found / runs == pytest.approx(1 / 80, rel=0.2)


def test_pct_finds_what_round_robin_misses(run_source) -> None:
    """30 runs find it with probability 1 - (1 - 11 / 50 / 2) ** 30 = 0.97; without a change none does."""
    assert run_source(WINDOW, schedule="round-robin").ok
    assert all(run_source(WINDOW, schedule=Pct(seed=seed, depth=1, length=50)).ok for seed in range(10))
    assert not all(run_source(WINDOW, schedule=Pct(seed=seed, depth=2, length=50)).ok for seed in range(30))


def test_longer_runs_have_changes_in_every_stretch() -> None:
    """Two programs of 500 picks each change places about once in every ten picks, to the end."""
    picks = order(Pct(seed=1, depth=2, length=10), 500, 500)
    switches = [place for place in range(1, 1000) if picks[place] != picks[place - 1]]
    assert all(any(first <= place < first + 100 for place in switches) for first in range(0, 900, 100))


def test_who_polls_falls_behind() -> None:
    starts = set()
    for seed in range(4):
        picks = order(Pct(seed=seed, depth=1, length=10 * PATIENCE), 2 * PATIENCE, 10)
        starts.add(start := picks.index(1))
        assert picks[start : start + 10] == [1] * 10
    assert starts == {0, PATIENCE}


def test_the_named_strategy_has_depth_three() -> None:
    assert order(schedule_named("pct", seed=7), 40, 40, 40) == order(Pct(seed=7, depth=3), 40, 40, 40)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth: expected at least 1, got 0"),
        ({"depth": 1, "length": 0}, "length: expected at least 1 picks, got 0"),
        ({"depth": 4, "length": 2}, "length: expected at least 3 picks, got 2"),
    ],
)
def test_impossible_parameters_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(SimulationError, match=f"^{message}$"):
        Pct(seed=0, **options)
