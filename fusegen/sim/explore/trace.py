"""What one run did that others can see, and its happens-before order.

A run is a sequence of steps. A step has operations on shared words, or none where its actor only met others. Two
operations are dependent when they touch a common byte and one of them writes; dependent steps are ordered as they
happened, and so are the steps of one actor and those that a barrier, a flag, a launch or a collective orders.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

ActorKey = tuple[str | int | None, ...]
"""Names an actor in every run, whatever the order in which actors are created."""

MemoryKey = tuple[str | int, ...]
"""Names a memory in every run."""

Clock = Mapping[ActorKey, int]
"""How many steps of each actor come before."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A visible operation on bytes `first` to `last` of a memory.

    `data` are the bytes from `first` on: what a write left, and what a wait needs; empty where unknown. `before` is
    what a write found, empty where unknown.
    """

    kind: Literal["read", "wait", "write"]
    memory: MemoryKey
    first: int
    last: int
    data: bytes = b""
    before: bytes = b""

    def touches(self, other: Operation) -> bool:
        """They have a byte in common."""
        return self.memory == other.memory and self.first <= other.last and other.first <= self.last


Operations = tuple[Operation, ...]


def dependent(ours: Operations, theirs: Operations) -> bool:
    """The order of the two matters: an operation of one writes what an operation of the other touches."""
    return bool(ours and theirs) and any(  # most steps have none
        (one.kind == "write" or other.kind == "write") and one.touches(other) for one in ours for other in theirs
    )


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Step `number`, from 1, of an actor, made after decision `decision` of the run.

    `before` is what its actor knew without its operations; `after` adds them and the steps that they depend on.
    """

    actor: ActorKey
    number: int
    operations: Operations
    decision: int
    before: Clock
    after: Clock

    def is_in(self, clock: Clock) -> bool:
        """The step is among those that a clock counts."""
        return clock.get(self.actor, 0) >= self.number

    @property
    def is_wait(self) -> bool:
        return bool(self.operations) and self.operations[0].kind == "wait"

    def writes(self, word: Operation) -> bool:
        """It writes bytes of a word."""
        return any(each.kind == "write" and each.touches(word) for each in self.operations)


class Trace:
    """The steps of a run so far, and what every actor knows."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._clocks: defaultdict[ActorKey, dict[ActorKey, int]] = defaultdict(dict)
        self._visible: defaultdict[MemoryKey, list[Step]] = defaultdict(list)

    def add(self, actor: ActorKey, operations: Operations, *, decision: int) -> Clock:
        """The next step of an actor; returns what it knows now."""
        before = dict(self._clocks[actor])
        for memory in {each.memory for each in operations}:
            for earlier in self._visible[memory]:
                if dependent(operations, earlier.operations):
                    self.learn(actor, earlier.after)
        clock = self._clocks[actor]
        clock[actor] = clock.get(actor, 0) + 1
        after = dict(clock)
        step = Step(actor, clock[actor], operations, decision, before, after)
        self.steps.append(step)
        for memory in {each.memory for each in operations}:
            self._visible[memory].append(step)
        return after

    def learn(self, actor: ActorKey, clock: Clock) -> None:
        """Whatever the actor does from now on comes after all that the clock counts."""
        known = self._clocks[actor]
        for other, number in clock.items():
            if known.get(other, 0) < number:
                known[other] = number

    def known(self, actor: ActorKey) -> Clock:
        """What an actor knows now."""
        return dict(self._clocks[actor])

    def order(self) -> frozenset[object]:
        """The order of all dependent steps: equal for two runs that differ only in what nobody can see."""
        names: dict[Step, tuple[ActorKey, int]] = {}
        counts: Counter[ActorKey] = Counter()
        for step in self.steps:
            if step.operations:  # the others vary with the schedule
                counts[step.actor] += 1
                names[step] = step.actor, counts[step.actor]
        return frozenset(
            (names[earlier], names[later])
            for steps in self._visible.values()
            for earlier, later in combinations(steps, 2)
            if earlier.actor != later.actor and dependent(earlier.operations, later.operations)
        )
