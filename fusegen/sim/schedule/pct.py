"""Probabilistic concurrency testing: random priorities, and a few places where they change.

A bug that shows when `depth` things happen in one order among `picks` picks of `actors` actors is found by a run with
probability 1 / (actors * picks ** (depth - 1)) or more, whatever else the run does. (Burckhardt, Kothari, Musuvathi,
Nagarakatte: A randomized scheduler with probabilistic guarantees of finding bugs. ASPLOS 2010.)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fusegen.sim.errors import SimulationError
from fusegen.sim.schedule.patience import PATIENCE

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor

DEPTH: Final = 3
LENGTH: Final = 1000


class Pct:
    """Picks the runnable actor of highest priority, reproducibly for a seed.

    An actor has a random priority from when it is first seen. At `depth` - 1 of every `length` picks, at random
    places, the one that would go falls behind all others. The guarantee holds for runs of at most `length` picks; in
    longer ones each stretch of that length has places of its own. An actor that polls falls behind as well.

    Raises SimulationError for a depth below 1, or a length that has no room for the changes.
    """

    late_stores = False

    def __init__(self, *, seed: int, depth: int = DEPTH, length: int = LENGTH) -> None:
        if depth < 1:
            raise SimulationError(f"depth: expected at least 1, got {depth}")
        if length < max(depth - 1, 1):
            raise SimulationError(f"length: expected at least {max(depth - 1, 1)} picks, got {length}")
        self._random = random.Random(seed)
        self._changes = depth - 1
        self._length = length
        self._picks = 0
        self._lowest = 0
        self._change_at: dict[int, int] = {}
        self._priorities: dict[int, float] = {}
        self._last: int | None = None
        self._in_a_row = 0

    def pick(self, runnable: Sequence[Actor]) -> int:
        if self._picks % self._length == 0:
            self._draw_changes()
        place = self._first(runnable)
        priority = self._change_at.pop(self._picks, None)
        self._picks += 1
        if priority is None and self._polls(runnable, place):
            priority = self._lower()
        if priority is not None:
            self._priorities[runnable[place].number] = priority
            place = self._first(runnable)
        return place

    def _first(self, runnable: Sequence[Actor]) -> int:
        """The place of the actor of highest priority."""
        priorities = [self._priority(actor.number) for actor in runnable]
        return priorities.index(max(priorities))

    def _priority(self, number: int) -> float:
        if number not in self._priorities:
            self._priorities[number] = self._random.random()
        return self._priorities[number]

    def _draw_changes(self) -> None:
        """The picks of the next stretch at which priorities change, and to what: in no order, and below all others."""
        places = self._random.sample(range(self._picks, self._picks + self._length), self._changes)
        self._change_at = {place: self._lower() for place in places}

    def _lower(self) -> int:
        """A priority below all so far."""
        self._lowest -= 1
        return self._lowest

    def _polls(self, runnable: Sequence[Actor], place: int) -> bool:
        """The actor has gone on for so long, while others could, that it must be waiting for them."""
        number = runnable[place].number
        self._in_a_row = self._in_a_row + 1 if number == self._last and len(runnable) > 1 else 0
        self._last = number
        return self._in_a_row == PATIENCE
