"""Schedules that random ones hardly ever come near: some actors fall far behind all others.

Whoever waits for a value that others may write over in the meantime never sees it when it is slow enough.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusegen.sim.schedule.patience import PATIENCE

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor


class Skewed(ABC):
    """Random, reproducibly for a seed, except that slow actors go on only when nobody else can."""

    late_stores = False

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._passed_over = 0

    def pick(self, runnable: Sequence[Actor]) -> int:
        slow = self._slow(runnable)
        fast = [place for place in range(len(runnable)) if place not in slow]
        self._passed_over = self._passed_over + 1 if slow and fast else 0
        if self._passed_over == PATIENCE:
            self._passed_over = 0
            return self._random.choice(sorted(slow))
        return self._random.choice(fast or range(len(runnable)))

    @abstractmethod
    def _slow(self, runnable: Sequence[Actor]) -> set[int]:
        """The places of the slow actors."""


class SlowRank(Skewed):
    """The host and all programs of one rank are slow."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self._rank: int | None = None

    def _slow(self, runnable: Sequence[Actor]) -> set[int]:
        if self._rank is None:  # at the start of a run the hosts of all ranks can go
            self._rank = self._random.choice(sorted({actor.name.rank for actor in runnable}))
        return {place for place, actor in enumerate(runnable) if actor.name.rank == self._rank}


class SlowCore(Skewed):
    """All that runs on one core is slow: on every rank, or, by the seed, on one of them."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self._rank: int | None = None
        self._ranks: list[int] = []
        self._core: int | None = None

    def _slow(self, runnable: Sequence[Actor]) -> set[int]:
        if not self._ranks:
            self._ranks = sorted({actor.name.rank for actor in runnable})
            is_everywhere = self._random.random() < 0.5
            self._ranks = self._ranks if is_everywhere else [self._random.choice(self._ranks)]
        if self._core is None:  # a launch starts all cores of its rank that it needs at once
            cores = sorted({actor.name.core for actor in runnable if actor.name.core is not None})
            self._core = self._random.choice(cores) if cores else None
        if self._core is None:
            return set()
        return {
            place
            for place, actor in enumerate(runnable)
            if actor.name.core == self._core and actor.name.rank in self._ranks
        }


class Starving(Skewed):
    """A random share of all actors is slow; `share` is the probability for each of them."""

    def __init__(self, *, seed: int, share: float = 0.3) -> None:
        super().__init__(seed=seed)
        self._share = share
        self._starved: dict[int, bool] = {}

    def _slow(self, runnable: Sequence[Actor]) -> set[int]:
        return {place for place, actor in enumerate(runnable) if self._is_starved(actor)}

    def _is_starved(self, actor: Actor) -> bool:
        if actor.number not in self._starved:
            self._starved[actor.number] = self._random.random() < self._share
        return self._starved[actor.number]
