"""Which steps of a run could have come in another order, and where another run must turn off to show it.

A write or read could have come before an earlier step that it depends on if nothing else orders the two. A wait cannot
come before the write that ends it; but it could have ended with an older write of its value, or, where it never ended,
with any write of its value: after those steps only that its actor knew and that this write comes after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from fusegen.sim.explore.trace import ActorKey, Clock, Operation, Operations, Step, Trace, dependent


@dataclass(frozen=True, slots=True)
class Reversal:
    """A run that goes on after `decision` decisions with one of `first` does something else."""

    decision: int
    first: tuple[ActorKey, ...]


def reversals(trace: Trace, waiting: Mapping[ActorKey, Operations], *, start: int) -> Iterator[Reversal]:
    """The reversals of the steps from number `start` on, and of the waits that have not ended, by their actors."""
    steps = trace.steps
    for place in range(start, len(steps)):
        step = steps[place]
        if step.is_wait:
            yield from _other_partners(steps[:place], step.actor, step.operations, step.before)
        elif step.operations:
            yield from _races(steps, place)
    for actor, operations in waiting.items():
        yield from _other_partners(steps, actor, operations, trace.known(actor))


def _races(steps: Sequence[Step], place: int) -> Iterator[Reversal]:
    """Earlier steps that only come first because they happened to."""
    step = steps[place]
    for index, other in enumerate(steps[:place]):
        if not dependent(other.operations, step.operations) or other.is_in(step.before):
            continue
        between = [each for each in steps[index + 1 : place] if not other.is_in(each.after)]
        yield Reversal(other.decision, _first_actors([*between, step]))


def _other_partners(steps: Sequence[Step], actor: ActorKey, words: Operations, known: Clock) -> Iterator[Reversal]:
    """Writes that could have ended a wait other than the last ones."""
    writes = [[step for step in steps if step.writes(word)] for word in words]
    choices = [list(_matching(word, of_word, known)) for word, of_word in zip(words, writes, strict=True)]
    for versions in product(*choices):
        cut = dict(known)
        for version, of_word in zip(versions, writes, strict=True):
            for name, number in (of_word[version].after if version >= 0 else {}).items():
                cut[name] = max(cut.get(name, 0), number)
        later = [
            of_word[version + 1] for version, of_word in zip(versions, writes, strict=True) if of_word[version + 1 :]
        ]
        if not later or any(step.is_in(cut) for step in later):
            continue
        turn = min(later, key=steps.index)
        needed = [step for step in steps[steps.index(turn) + 1 :] if step.is_in(cut)]
        yield Reversal(turn.decision, _first_actors(needed) if needed else (actor,))


def _matching(word: Operation, writes: Sequence[Step], known: Clock) -> Iterator[int]:
    """Places in `writes` of those after which a word may be as a wait needs it; -1 stands for before all of them."""
    for version in range(len(writes) - 1, -2, -1):
        if _left(word, writes, version) in (b"", word.data):
            yield version
        if version >= 0 and writes[version].is_in(known):
            return


def _left(word: Operation, writes: Sequence[Step], version: int) -> bytes:
    """What a word holds after a version; empty where unknown."""
    if version < 0:
        return _part(word, writes[0].operations, of_before=True) if writes else b""
    return _part(word, writes[version].operations, of_before=False)


def _part(word: Operation, operations: Operations, *, of_before: bool) -> bytes:
    """The bytes of a word in what operations found or left; empty unless the one that says it has all of them."""
    for each in operations if of_before else reversed(operations):
        if each.kind == "write" and each.touches(word):
            data = each.before if of_before else each.data
            start = word.first - each.first
            part = data[start : start + len(word.data)] if start >= 0 else b""
            return part if len(part) == len(word.data) else b""
    return b""


def _first_actors(steps: Iterable[Step]) -> tuple[ActorKey, ...]:
    """Actors whose first step comes after none of the others, the actor of the last step before the others."""
    first: dict[ActorKey, Step] = {}
    for step in steps:
        first.setdefault(step.actor, step)
    free = [
        step
        for step in first.values()
        if not any(other.is_in(step.after) for other in first.values() if other is not step)
    ]
    return tuple(step.actor for step in reversed(free))
