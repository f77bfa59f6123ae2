"""What another run did: a schedule as plain data, recorded and followed again.

A recorded schedule is the `number` of the actor of every pick. Actors are numbered in the order of their creation,
which the picks before determine, so that the same picks lead to the same numbers. Whether stores showed late belongs to
the schedule as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusegen.sim.errors import SimulationError

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor
    from fusegen.sim.schedule import Schedule


class ReplayMismatch(SimulationError):
    """A recorded schedule does not fit the run: module, inputs or machine differ. The caller records a new one."""


class Recorded:
    """Another strategy, and what it picked."""

    def __init__(self, schedule: Schedule) -> None:
        self.picks: list[int] = []
        self.late_stores = schedule.late_stores
        self._pick = schedule.pick

    def pick(self, runnable: Sequence[Actor]) -> int:
        place = self._pick(runnable)
        self.picks.append(runnable[place].number)
        return place


class Replay:
    """Picks exactly the recorded actors; raises ReplayMismatch where that is not possible.

    `late_stores` is that of the recorded run.
    """

    def __init__(self, picks: Sequence[int], *, late_stores: bool = False) -> None:
        self.late_stores = late_stores
        self._picks = picks
        self._done = 0

    def pick(self, runnable: Sequence[Actor]) -> int:
        if self._done == len(self._picks):
            raise ReplayMismatch(f"schedule: expected the run to end after {self._done} picks, got {_named(runnable)}")
        wanted = self._picks[self._done]
        for place, actor in enumerate(runnable):
            if actor.number == wanted:
                self._done += 1
                return place
        raise ReplayMismatch(f"schedule: expected actor {wanted} at pick {self._done}, got {_named(runnable)}")

    def check_complete(self) -> None:
        """Raise ReplayMismatch when the run has ended before the schedule."""
        if self._done < len(self._picks):
            message = f"expected actor {self._picks[self._done]} at pick {self._done}, got the end of the run"
            raise ReplayMismatch(f"schedule: {message}")


def _named(runnable: Sequence[Actor]) -> str:
    return " or ".join(f"actor {actor.number} ({actor.name})" for actor in runnable)
