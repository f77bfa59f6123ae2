"""Schedules: who goes next. A strategy sees the actors that can run and picks one by its place in the queue.

The queue holds them in the order in which they became runnable; an actor that has just made a step is last. A
strategy is deterministic: the same picks on the same module and inputs give the same run. Imports nothing heavy, so
that the command line can name the strategies.

round-robin   everybody in turn
random        anybody
pct           the one of highest priority, few of which ever change: finds bugs of a small depth with known probability
slow-rank     random, but all of one rank goes on only when nobody else can
slow-core     the same for one core, of one rank or of all
starving      the same for a share of all actors
late-stores   random, and stores show as late as the memory model allows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, assert_never, get_args

from fusegen.sim.errors import SimulationError
from fusegen.sim.schedule.late_stores import LateStores
from fusegen.sim.schedule.pct import Pct
from fusegen.sim.schedule.random import Random
from fusegen.sim.schedule.round_robin import RoundRobin
from fusegen.sim.schedule.skewed import SlowCore, SlowRank, Starving

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor

ScheduleName = Literal["round-robin", "random", "pct", "slow-rank", "slow-core", "starving", "late-stores"]
SCHEDULE_NAMES: tuple[ScheduleName, ...] = get_args(ScheduleName)


class Schedule(Protocol):
    """A strategy."""

    @property
    def late_stores(self) -> bool:
        """Stores are visible to others only when they must be; otherwise at once."""
        ...

    def pick(self, runnable: Sequence[Actor]) -> int:
        """The place in `runnable` of the actor that goes next."""
        ...


def schedule_named(name: ScheduleName, *, seed: int) -> Schedule:
    """The strategy called `name`; raises SimulationError for an unknown one."""
    if name not in SCHEDULE_NAMES:
        raise SimulationError(f"schedule: expected one of {', '.join(SCHEDULE_NAMES)}, got {name!r}")
    match name:
        case "round-robin":
            return RoundRobin()
        case "random":
            return Random(seed=seed)
        case "pct":
            return Pct(seed=seed)
        case "slow-rank":
            return SlowRank(seed=seed)
        case "slow-core":
            return SlowCore(seed=seed)
        case "starving":
            return Starving(seed=seed)
        case "late-stores":
            return LateStores(seed=seed)
        case _:
            assert_never(name)
