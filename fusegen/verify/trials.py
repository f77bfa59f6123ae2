"""What a verification runs: the conditions of a module, and the schedules that each of them gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fusegen.sim.schedule import SCHEDULE_NAMES, ScheduleName

if TYPE_CHECKING:
    from fusegen.sim import RunResult

PROVING: Final[ScheduleName] = "round-robin"
"""The schedule of the first run of a condition, whose order is checked: it may settle all others."""

TRYING: Final[tuple[ScheduleName, ...]] = tuple(name for name in SCHEDULE_NAMES if name != PROVING)
"""The schedules that the further runs take turns with."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Ranks, cores of each rank, tensor sizes by axis, and launches on one workspace."""

    ranks: int
    cores: int
    sizes: tuple[tuple[str, int], ...]
    launches: int

    @property
    def shape(self) -> dict[str, int]:
        """The tensor sizes by axis."""
        return dict(self.sizes)

    def __str__(self) -> str:
        sizes = ", ".join(f"{axis}={extent}" for axis, extent in self.sizes)
        return f"ranks {self.ranks}, cores {self.cores}, {sizes}, launches {self.launches}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A module to verify: its name, its file, the device it is planned for, and its conditions.

    `tiny` are conditions at small bounds, for which all interleavings can be explored where a run does not settle them.
    """

    name: str
    module: Path
    target: str | None
    conditions: tuple[Condition, ...]
    tiny: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: a schedule, the seed of both schedule and inputs, and whether the order is checked.

    `place` is that of the condition in those of the subject.
    """

    subject: Subject
    place: int
    schedule: ScheduleName
    seed: int
    races: bool

    @property
    def condition(self) -> Condition:
        """What it runs under."""
        return self.subject.conditions[self.place]

    def run(self) -> RunResult:
        """Run it. Raises what `run_module` raises."""
        from fusegen.sim import run_module

        return run_module(
            self.subject.module,
            ranks=self.condition.ranks,
            cores=self.condition.cores,
            shape=self.condition.shape,
            launches=self.condition.launches,
            seed=self.seed,
            schedule=self.schedule,
            target=self.subject.target,
            record=True,
            races=self.races,
        )


def proving_trials(subject: Subject) -> list[Trial]:
    """The first run of every condition."""
    return [Trial(subject, place, PROVING, 0, races=True) for place in range(len(subject.conditions))]


def further_trials(subject: Subject, schedules: int, *, settled: Sequence[bool]) -> Iterator[Trial]:
    """The runs after the first ones, so that there are `schedules` in all, dealt to the conditions in turn.

    Every condition meets one strategy after the other. `settled` tells for each whether its first run was a proof;
    where it was not, the order is checked again, since another schedule may bring another one.
    """
    count = len(subject.conditions)
    for number in range(schedules - count):
        turn, place = divmod(number, count)
        strategy = TRYING[(turn + place) % len(TRYING)]
        yield Trial(subject, place, strategy, 1 + turn, races=not settled[place])
