"""What a verification says: of a condition, of a module."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fusegen.verify.trials import Condition, Subject, Trial

if TYPE_CHECKING:
    from fusegen.sim.findings import Finding
    from fusegen.sim.order.proof import Proof
    from fusegen.sim.schedule import ScheduleName


@dataclass(frozen=True, slots=True)
class Failure:
    """A run with findings and what repeats it: `picks` are those of the schedule that ran.

    `late_stores` tells that stores were published as late as they may be.
    """

    subject: Subject
    condition: Condition
    schedule: ScheduleName | Literal["explored"]
    seed: int
    races: bool
    findings: tuple[Finding, ...]
    picks: tuple[int, ...]
    late_stores: bool = False

    def to_json(self, replay: Path | None) -> list[dict[str, Any]]:
        """Each finding with the schedule under which it came, and the file that reproduces it."""
        shown = {"schedule": self.schedule, "seed": self.seed, "replay": None if replay is None else str(replay)}
        return [finding.to_json() | shown for finding in self.findings]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The outcome of a trial, as a process of the pool returns it.

    The error is the largest over ranks, None where a rank did not finish. `seconds` are those of the run.
    """

    trial: Trial
    failure: Failure | None
    proof: Proof | None
    max_abs_err: float | None
    seconds: float


@dataclass(slots=True)
class Explored:
    """All interleavings of a condition at small bounds: how many runs that took, and whether it came to an end.

    `orders` is the number of different orders of writes and waits of slots that were seen. `failed` is the first run
    with findings, with which exploring ends; `replay` is the file that reproduces it.
    """

    condition: Condition
    runs: int
    complete: bool
    orders: int
    failed: Failure | None
    replay: Path | None = None

    def __str__(self) -> str:
        extent = "all orders" if self.complete else "some orders, not all"
        return f"explored {extent} of its signals in {self.runs:,} runs, {self.orders:,} of them different"

    def to_json(self) -> dict[str, Any]:
        """The exploration as plain data."""
        return {
            **_condition_json(self.condition),
            "runs": self.runs,
            "complete": self.complete,
            "orders": self.orders,
            "findings": [] if self.failed is None else self.failed.to_json(self.replay),
        }


@dataclass(slots=True)
class ConditionVerdict:
    """Everything that was tried under one condition.

    `proof` is that of the first run. Trying stops with the first run that has findings, `failed`; `replay` is the file
    that reproduces it.
    """

    condition: Condition
    proof: Proof | None = None
    schedules: Counter[str] = field(default_factory=Counter)
    failed: Failure | None = None
    replay: Path | None = None
    max_abs_err: float = 0.0
    seconds: float = 0.0

    def add(self, result: TrialResult) -> None:
        """Take the outcome of one more trial; it counts until one has failed."""
        if self.failed is not None:
            return
        self.schedules[result.trial.schedule] += 1
        self.seconds += result.seconds
        self.proof = self.proof or result.proof
        if result.max_abs_err is not None:
            self.max_abs_err = max(self.max_abs_err, result.max_abs_err)
        self.failed = result.failure

    @property
    def ok(self) -> bool:
        """No schedule found anything."""
        return self.failed is None

    @property
    def proved(self) -> bool:
        """One run settled all schedules, and none of the others contradicts it."""
        return self.ok and self.proof is not None and self.proof.proved

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            **_condition_json(self.condition),
            "ok": self.ok,
            "proved": self.proved,
            "proof": None if self.proof is None else str(self.proof),
            "schedules": dict(self.schedules),
            "max_abs_err": self.max_abs_err if math.isfinite(self.max_abs_err) else None,
            "findings": [] if self.failed is None else self.failed.to_json(self.replay),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class SubjectVerdict:
    """A module under all its conditions; `explored` has its interleavings at small bounds, where a proof is missing."""

    subject: Subject
    conditions: tuple[ConditionVerdict, ...]
    explored: tuple[Explored, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.failures

    @property
    def failures(self) -> list[Failure]:
        """The runs with findings, the first of each condition."""
        judged: tuple[ConditionVerdict | Explored, ...] = (*self.conditions, *self.explored)
        return [each.failed for each in judged if each.failed is not None]

    @property
    def proved(self) -> bool:
        """Every condition is settled for all schedules."""
        return all(verdict.proved for verdict in self.conditions)

    @property
    def schedules(self) -> int:
        """Runs in all."""
        return sum(verdict.schedules.total() for verdict in self.conditions)

    @property
    def seconds(self) -> float:
        """Run time, added over the processes of the pool."""
        return sum(verdict.seconds for verdict in self.conditions)

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "spec": self.subject.name,
            "ok": self.ok,
            "proved": self.proved,
            "schedules": self.schedules,
            "seconds": round(self.seconds, 3),
            "conditions": [verdict.to_json() for verdict in self.conditions],
            "explored": [each.to_json() for each in self.explored],
        }


def _condition_json(condition: Condition) -> dict[str, Any]:
    return {
        "ranks": condition.ranks,
        "cores": condition.cores,
        "shape": condition.shape,
        "launches": condition.launches,
    }
