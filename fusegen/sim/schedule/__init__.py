"""Schedules: who goes next. A strategy sees how many actors can run and picks one by its place in the queue.

The queue holds the runnable actors in the order in which they became runnable; an actor that has just made a step is
last. A strategy is deterministic: the same picks on the same module and inputs give the same run.
"""

from __future__ import annotations

from typing import Protocol

from fusegen.sim.errors import SimulationError
from fusegen.sim.schedule.random import Random
from fusegen.sim.schedule.round_robin import RoundRobin


class Schedule(Protocol):
    """A strategy."""

    def pick(self, runnable: int) -> int:
        """The place, 0 to runnable - 1, of the actor that goes next."""
        ...


def schedule_named(name: str, *, seed: int) -> Schedule:
    """The strategy called `name`; raises SimulationError for an unknown one."""
    match name:
        case "round-robin":
            return RoundRobin()
        case "random":
            return Random(seed=seed)
        case _:
            raise SimulationError(f"schedule: expected round-robin or random, got {name!r}")
