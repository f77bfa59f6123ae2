"""Skewed schedules: who is slow goes on only when nobody else can, and the others are picked at random."""

from __future__ import annotations

from collections import Counter

import pytest

from fusegen.sim.actors import Actor
from fusegen.sim.findings import ActorName
from fusegen.sim.schedule import Schedule
from fusegen.sim.schedule.skewed import PATIENCE, SlowCore, SlowRank, Starving


def machine(*, ranks: int = 3, cores: int = 4) -> list[Actor]:
    """The hosts of all ranks, then AIC and AIVs of all cores."""
    names = [ActorName(rank=rank, kind="host") for rank in range(ranks)]
    names += [
        ActorName(rank=rank, kind=kind, core=core, program=core, sub_vec_id=part)
        for rank in range(ranks)
        for core in range(cores)
        for kind, part in (("AIC", None), ("AIV", 0), ("AIV", 1))
    ]
    actors = [Actor(name) for name in names]
    for number, actor in enumerate(actors):
        actor.number = number
    return actors


def slow_ones(schedule: Schedule, actors: list[Actor]) -> set[Actor]:
    """Actors that are never picked while the others can go."""
    picked = Counter(actors[schedule.pick(actors)] for _ in range(2000))
    return set(actors) - set(picked)


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_rank_is_slow_as_a_whole(seed: int) -> None:
    actors = machine()
    slow = slow_ones(SlowRank(seed=seed), actors)
    (rank,) = {actor.name.rank for actor in slow}
    assert slow == {actor for actor in actors if actor.name.rank == rank}


def test_every_rank_may_be_the_slow_one() -> None:
    ranks = {min(actor.name.rank for actor in slow_ones(SlowRank(seed=seed), machine())) for seed in range(12)}
    assert ranks == {0, 1, 2}


def test_a_slow_core_is_one_of_one_rank_or_of_all() -> None:
    kinds = Counter[tuple[int, ...]]()
    cores = set()
    for seed in range(20):
        actors = machine()
        slow = slow_ones(SlowCore(seed=seed), actors)
        (core,) = {actor.name.core for actor in slow}
        ranks = {actor.name.rank for actor in slow}
        assert slow == {actor for actor in actors if actor.name.core == core and actor.name.rank in ranks}
        kinds[tuple(sorted(ranks))] += 1
        cores.add(core)
    assert set(kinds) == {(0,), (1,), (2,), (0, 1, 2)}
    assert cores == {0, 1, 2, 3}


def test_before_the_first_launch_no_core_is_slow() -> None:
    hosts = machine(cores=0)
    schedule = SlowCore(seed=0)
    assert slow_ones(schedule, hosts) == set()
    assert len({actor.name.core for actor in slow_ones(schedule, machine())}) == 1


def test_a_share_of_all_actors_starves() -> None:
    actors = machine(cores=20)
    share = len(slow_ones(Starving(seed=0, share=0.3), actors)) / len(actors)
    assert share == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("strategy", [SlowRank, SlowCore, Starving])
def test_slow_actors_go_when_nobody_else_can(strategy: type[SlowRank | SlowCore | Starving]) -> None:
    actors = machine()
    schedule = strategy(seed=1)
    slow = sorted(slow_ones(schedule, actors), key=lambda actor: actor.number)
    assert {schedule.pick(slow) for _ in range(500)} == set(range(len(slow)))


def test_a_slow_actor_goes_once_others_have_gone_on_for_long() -> None:
    actors = machine()
    schedule = SlowRank(seed=2)
    slow = slow_ones(SlowRank(seed=2), actors)
    picked = [actors[schedule.pick(actors)] in slow for _ in range(2 * PATIENCE)]
    assert [place for place, is_slow in enumerate(picked) if is_slow] == [PATIENCE - 1, 2 * PATIENCE - 1]
