"""Schedules: who goes next. A strategy sees the actors that can run and picks one by its place in the queue.

The queue holds them in the order in which they became runnable; an actor that has just made a step is last. A
strategy is deterministic: the same picks on the same module and inputs give the same run. Imports nothing heavy, so
that the command line can name the strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, assert_never, get_args

from fusegen.sim.errors import SimulationError
from fusegen.sim.schedule.random import Random
from fusegen.sim.schedule.round_robin import RoundRobin

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor

ScheduleName = Literal["round-robin", "random"]
SCHEDULE_NAMES: tuple[ScheduleName, ...] = get_args(ScheduleName)


class Schedule(Protocol):
    """A strategy."""

    def pick(self, runnable: Sequence[Actor]) -> int:
        """The place in `runnable` of the actor that goes next."""
        ...


def schedule_named(name: ScheduleName, *, seed: int) -> Schedule:
    """The strategy called `name`; raises SimulationError for an unknown one."""
    if name not in SCHEDULE_NAMES:
        raise SimulationError(f"schedule: expected {' or '.join(SCHEDULE_NAMES)}, got {name!r}")
    match name:
        case "round-robin":
            return RoundRobin()
        case "random":
            return Random(seed=seed)
        case _:
            assert_never(name)
