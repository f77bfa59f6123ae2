"""What actors do to memory and to each other, as observers are told: immutable events, in the order of happening.

    Event = Read | Write | Atomic                                                   told just before they happen
          | Waited | TokenConsumed | Notified | Fenced | BarrierPassed              of programs
          | Multiplied | FlagSet | FlagWaited | TileSent | TileReceived            of the cores of one AI core
          | Launched | ProgramStarted | ProgramEnded | StreamJoined               of kernels
          | HostTouched | Drained | HostCollective                                of hosts

A run without observers builds no events: whoever tells one looks first whether anybody listens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fusegen.sim.affine import Affine

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor, CoreType, SlotWait, Token
    from fusegen.sim.device import Kernel, Stream
    from fusegen.sim.memory import Memory, Pointer

Completion = Literal["fence", "return", "quiet"]
"""What completes an access: the next fence or barrier, the return of its builtin, or quiet."""

Lanes = int | Affine | np.ndarray
"""Touched elements of a memory: one, a strided box, or any."""


class CodeLine(NamedTuple):
    """A line of simulated source. `Machine.location` gives its text."""

    code: CodeType
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Happening:
    """Base of all events: who, and at which line of simulated source; None where the machine itself acts.

    Without equality, which FlagSet and TileSent must not inherit: two sets at one line are two sets.
    """

    actor: Actor
    line: CodeLine | None


@dataclass(frozen=True, slots=True)
class Access(Happening):
    """The elements `lanes` of `pointer.memory`, counted from its start in units of `pointer.element`.

    putmem and getmem complete with their return, their non-blocking forms with quiet, all others with a fence.
    """

    pointer: Pointer
    lanes: Lanes
    completion: Completion = "fence"

    @property
    def tensor(self) -> str:
        """Name of the kernel parameter that the pointer comes from."""
        return self.pointer.name


@dataclass(frozen=True, slots=True)
class Read(Access):
    """tl.load, or the source of putmem and getmem."""


@dataclass(frozen=True, slots=True)
class Write(Access):
    """tl.store, or the destination of putmem and getmem."""


@dataclass(frozen=True, slots=True)
class Atomic(Access):
    """An atomic read and write."""


@dataclass(frozen=True, slots=True)
class Waited(Happening):
    """A wait on slots that is satisfied now. Only dl.wait has a token; whatever follows another wait is after it."""

    wait: SlotWait
    has_token: bool


@dataclass(frozen=True, slots=True)
class TokenConsumed(Happening):
    """dl.consume_token; `value` is the pointer that carries the token from now on."""

    token: Token
    value: object


@dataclass(frozen=True, slots=True)
class Notified(Happening):
    """A slot was set to `value` from `before`; `pointer` is into the memory of the rank that owns the slot."""

    pointer: Pointer
    value: int
    before: int


@dataclass(frozen=True, slots=True)
class Fenced(Happening):
    """The actor's earlier accesses are complete; after `quiet` also its non-blocking putmem and getmem."""

    builtin: Literal["fence", "quiet"]


@dataclass(frozen=True, slots=True)
class BarrierPassed(Happening):
    """A device barrier opened for all of `actors`; `actor` came last."""

    actors: tuple[Actor, ...]


@dataclass(frozen=True, slots=True)
class Multiplied(Happening):
    """tl.dot of a tile [rows, depth] by one [depth, columns], whose elements are of `operand_bytes` bytes."""

    rows: int
    columns: int
    depth: int
    operand_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class FlagSet(Happening):
    """al.sync_block_set. The actor's earlier stores have left its pipe."""

    event: int
    sender: CoreType
    receiver: CoreType


@dataclass(frozen=True, slots=True)
class FlagWaited(Happening):
    """al.sync_block_wait, satisfied now by `sets`: one of the AIC, or one of each AIV."""

    event: int
    sender: CoreType
    receiver: CoreType
    sets: tuple[FlagSet, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TileSent(Happening):
    """The compiler hands a tile over to the core type `receiver`; `place` numbers such uses in a kernel."""

    place: int
    receiver: CoreType


@dataclass(frozen=True, slots=True)
class TileReceived(Happening):
    """The actor has got the tile of `sent`."""

    place: int
    sent: TileSent


@dataclass(frozen=True, slots=True)
class Launched(Happening):
    """A host enqueued a kernel on `kernel.stream`."""

    kernel: Kernel


@dataclass(frozen=True, slots=True)
class ProgramStarted(Happening):
    """The first step of an actor of `actor.kernel`."""


@dataclass(frozen=True, slots=True)
class ProgramEnded(Happening):
    """The last step of an actor of `actor.kernel`."""


@dataclass(frozen=True, slots=True)
class StreamJoined(Happening):
    """What follows on `stream` comes after the first `target` operations of `other`, which are finished."""

    stream: Stream
    other: Stream
    target: int


@dataclass(frozen=True, slots=True)
class HostTouched(Happening):
    """An operation of a host reads or writes the elements `lanes`, of `element_bytes` bytes, of memory of its rank.

    It comes after all that `stream` had to do.
    """

    memory: Memory
    lanes: Affine
    element_bytes: int
    is_write: bool
    stream: Stream

    @property
    def span(self) -> range:
        """The bytes from the first to the last that it touches."""
        first, last = self.lanes.bounds()
        return range(first * self.element_bytes, (last + 1) * self.element_bytes)


@dataclass(frozen=True, slots=True)
class Drained(Happening):
    """A host has waited until `stream` had finished `target` operations."""

    stream: Stream
    target: int


@dataclass(frozen=True, slots=True)
class HostCollective(Happening):
    """The hosts `actors` have met in a collective; `actor` came last."""

    name: str
    actors: tuple[Actor, ...]


Event = (
    Read
    | Write
    | Atomic
    | Waited
    | TokenConsumed
    | Notified
    | Fenced
    | BarrierPassed
    | Multiplied
    | FlagSet
    | FlagWaited
    | TileSent
    | TileReceived
    | Launched
    | ProgramStarted
    | ProgramEnded
    | StreamJoined
    | HostTouched
    | Drained
    | HostCollective
)
AccessKind = type[Read] | type[Write] | type[Atomic]
Observer = Callable[[Event], None]


class EventPort:
    """Where observers attach, and where every event passes. Observers cannot change what happens or hide it.

    `shared` are file and line of the stores that AIV 0 makes for both vector cores of its AI core, each of which does a
    part on the device.
    """

    def __init__(self, *, running: Callable[[], Actor], is_source: Callable[[str], bool]) -> None:
        self.observers: list[Observer] = []
        self.shared: set[tuple[str, int]] = set()
        self._running = running
        self._is_source = cache(is_source)

    def tell(self, event: Event) -> None:
        """Pass an event to every observer."""
        for observe in self.observers:
            observe(event)

    def here(self) -> tuple[Actor, CodeLine | None]:
        """The running actor and the line of simulated source at which it is: how every event starts."""
        return self._running(), self._line()

    def _line(self) -> CodeLine | None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if self._is_source(frame.f_code.co_filename):
                return CodeLine(frame.f_code, frame.f_lineno)
            frame = frame.f_back
        return None
