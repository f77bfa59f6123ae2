"""Vector clocks: what each actor knows of the others, and what of its own doings is complete.

Time of an actor is counted in epochs, which end where it publishes something (a notify, a flag, its end), and where it
learns something. An access has the epoch in which it was made. Of every actor a clock has three numbers, epochs up to
which its doings come before:

    FENCED     complete by a fence, a barrier, or the end of the program; what loads and stores need
    RETURNED   made at all, which is enough for what is complete when it returns: putmem, getmem, notify, wait
    QUIET      complete by quiet; what putmem_nbi and getmem_nbi need

An access that is RETURNED but not FENCED is ordered in program text only: a fence is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from fusegen.sim.actors import Actor, SlotWait
from fusegen.sim.events import CodeLine
from fusegen.sim.memory import Memory

Clock = np.ndarray
"""int32, LANES numbers for each thread. Never changed once it is shared."""

LANES: Final = 3
FENCED, RETURNED, QUIET = range(LANES)

FIRST_THREADS: Final = 64


@dataclass(slots=True, eq=False)
class Mark:
    """A moment of a thread, in the lane that says when it counts as complete."""

    thread: Thread
    epoch: int
    lane: int

    def is_before(self, thread: Thread, *clocks: Clock) -> bool:
        """It happens before what `thread` does knowing `clocks`."""
        if self.thread is thread:
            return self.lane != QUIET or self.epoch <= thread.quiet
        return self._is_in(clocks, self.lane)

    def is_issued_before(self, *clocks: Clock) -> bool:
        """It was made before what is done with `clocks`, complete or not."""
        return self._is_in(clocks, RETURNED)

    def _is_in(self, clocks: tuple[Clock, ...], lane: int) -> bool:
        index, epoch = self.thread.number * LANES + lane, self.epoch
        for clock in clocks:  # noqa: SIM110  much of the time goes here, and any() doubles it
            if index < clock.size and clock[index] >= epoch:
                return True
        return False


class Signal(NamedTuple):
    """A notify of the slot at byte `address` of a memory: by whom, and at which line. `epoch` is that of the actor."""

    actor: Actor
    line: CodeLine | None
    memory: Memory
    address: int
    epoch: int = 0


@dataclass(slots=True, eq=False)
class Seen:
    """A wait that is over, and the signals of its partners.

    `full` is what it learned here; `clock` what it would have learned in every schedule, which is less where an older
    write of the same value, by `rival`, could have ended it.
    """

    wait: SlotWait
    line: CodeLine | None
    clock: Clock
    full: Clock
    partners: tuple[Signal, ...]
    rival: Signal | None = None
    consumed: bool = False


@dataclass(slots=True, eq=False)
class Thread:
    """An actor and what it knows.

    `plain` is what orders its loads and stores, `known` adds what came with consumed tokens, which only accesses
    through their pointers may rely on until the next fence. `public` is what a notify passes on: all of `known` that
    was complete at the last fence. `fenced` and `quiet` are the own epochs that a fence has completed. `notified` are
    its notifies. `writes_symmetric` tells that it has stored to symmetric memory.
    """

    actor: Actor
    number: int
    plain: Clock
    known: Clock
    public: Clock
    epoch: int = 1
    fenced: int = 0
    quiet: int = 0
    seen: dict[int, Seen] = field(default_factory=dict)
    notified: list[Signal] = field(default_factory=list)
    writes_symmetric: bool = False

    @property
    def index(self) -> int:
        """Where its numbers start in a clock."""
        return self.number * LANES

    def mark(self, lane: int) -> Mark:
        """Now."""
        return Mark(self, self.epoch, lane)

    def learn(self, clock: Clock, public: Clock | None = None) -> None:
        """Whatever it does from now on comes after the clock; `public` is the part that it may pass on unfenced."""
        self.plain = join(self.plain, clock)
        self.known = join(self.known, clock)
        self.public = join(self.public, clock if public is None else public)
        self.epoch += 1

    def published(self) -> Clock:
        """What a notify tells: what was complete at the last fence. Ends the epoch."""
        clock = self.public.copy()
        clock[self.index : self.index + LANES] = self.fenced, self.epoch, self.quiet
        self.epoch += 1
        return clock

    def handed_over(self) -> tuple[Clock, Clock]:
        """What a flag tells the other cores of the AI core, and what of it they may pass on unfenced. Ends the epoch.

        The sender's loads and stores have left its pipes; only a fence makes them complete for everybody.
        """
        clock = self.known.copy()
        clock[self.index : self.index + LANES] = self.epoch, self.epoch, self.quiet
        return clock, self.published()

    def completed(self) -> Clock:
        """What is known where all that it has done is complete: at a barrier, at its end. Ends the epoch."""
        self.fenced = self.quiet = self.epoch
        self.plain = self.public = self.known
        self.seen = {key: seen for key, seen in self.seen.items() if not seen.consumed}
        return self.published()

    def fence(self, *, quiet: bool = False) -> None:
        """Complete what it has done, and take over what tokens brought."""
        self.fenced = self.epoch
        if quiet:
            self.quiet = self.epoch
        self.epoch += 1
        self.plain = self.public = self.known
        self.seen = {key: seen for key, seen in self.seen.items() if not seen.consumed}

    def saw(self, seen: Seen) -> None:
        """A wait is over."""
        self.seen[id(seen.wait)] = seen
        self.epoch += 1

    def consume(self, wait: SlotWait) -> None:
        """A token of the wait was consumed: what comes later in program order comes after it."""
        seen = self.seen.get(id(wait))
        if seen is not None and not seen.consumed:
            seen.consumed = True
            self.known = join(self.known, seen.clock)
            self.public = join(self.public, seen.clock)


class Threads:
    """All threads. A program takes over the number of the program before it on its core that has ended before it."""

    def __init__(self) -> None:
        self._threads: dict[Actor, Thread] = {}
        self._ended: dict[object, Thread] = {}
        self._count = 0
        self._size = FIRST_THREADS * LANES

    def of(self, actor: Actor) -> Thread:
        """The thread of an actor that has started."""
        thread = self._threads.get(actor)
        return self.start(actor, self.nothing()) if thread is None else thread

    def start(self, actor: Actor, clock: Clock) -> Thread:
        """A thread for a new actor, which starts after `clock`."""
        key = _place(actor)
        before = self._ended.get(key)
        number, epoch = self._count, 1
        if before is not None and before.index < clock.size and clock[before.index + FENCED] >= before.fenced:
            number, epoch = before.number, before.epoch
            del self._ended[key]
        else:
            self._count += 1
            while self._count * LANES > self._size:
                self._size *= 2
        clock = join(clock, self.nothing())
        thread = Thread(actor, number, clock, clock, clock, epoch)
        self._threads[actor] = thread
        return thread

    def end(self, actor: Actor) -> Clock:
        """What whoever waits for the end of an actor may rely on; forgets the actor."""
        thread = self._ended[_place(actor)] = self._threads.pop(actor)
        return thread.completed()

    def nothing(self) -> Clock:
        """The clock of somebody who knows nothing."""
        return np.zeros(self._size, np.int32)


def _place(actor: Actor) -> tuple[object, ...]:
    """What one program after the other has in a place of its own."""
    return actor.name.rank, actor.name.kind, actor.name.program, actor.name.sub_vec_id


def join(left: Clock, right: Clock) -> Clock:
    """What is known to one or the other."""
    if left is right:
        return left
    if left.size != right.size:
        if left.size < right.size:
            left, right = right, left
        grown = left.copy()
        np.maximum(grown[: right.size], right, out=grown[: right.size])
        return grown
    joined: Clock = np.maximum(left, right)
    return joined
