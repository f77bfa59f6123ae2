"""A schedule that random ones hardly ever come near: some actors fall far behind all others."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fusegen.sim.actors import Actor
from fusegen.sim.schedule import Schedule, ScheduleName, schedule_named


class Starving:
    """Random, except that a seeded share of all actors goes on only when nobody else can.

    A slow rank, or a core whose program starts late: whoever waits for a value that others may write over in the
    meantime never sees it.
    """

    def __init__(self, *, seed: int, share: float = 0.3) -> None:
        self._random = random.Random(seed)
        self._share = share
        self._starved: dict[int, bool] = {}

    def pick(self, runnable: Sequence[Actor]) -> int:
        fed = [place for place, actor in enumerate(runnable) if not self._is_starved(actor)]
        return self._random.choice(fed or range(len(runnable)))

    def _is_starved(self, actor: Actor) -> bool:
        if actor.number not in self._starved:
            self._starved[actor.number] = self._random.random() < self._share
        return self._starved[actor.number]


def schedule(name: str, *, seed: int) -> Schedule:
    """The strategy called `name`: one of the simulator's, or starving."""
    if name == "starving":
        return Starving(seed=seed)
    names: dict[str, ScheduleName] = {"round-robin": "round-robin", "random": "random"}
    return schedule_named(names[name], seed=seed)
