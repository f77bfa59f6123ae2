"""Actors: the threads of control of the machine, and what each may wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from greenlet import greenlet

from fusegen.sim.findings import ActorName

if TYPE_CHECKING:
    from fusegen.sim.device import Kernel, LaunchKey, Stream
    from fusegen.sim.memory import Memory

CoreType = Literal["cube", "vector"]
"""The two kinds of core in an AI core, as the device language names them: the AIC, and both AIVs."""


@dataclass(slots=True)  # not frozen, which would make every wait slower
class SlotWait:
    """dl.wait: `count` slots from byte `address` on, 64 bytes apart, must equal `value`."""

    memory: Memory
    address: int
    count: int
    value: int
    element_bytes: int

    def addresses(self) -> range:
        """Byte address of each slot."""
        return range(self.address, self.address + self.count * 64, 64)


class Token:
    """What dl.wait returns: `actor` has waited for the slots of `wait`.

    dl.consume_token hands it to a pointer; only accesses through that pointer are ordered after the wait.
    """

    __slots__ = ("actor", "wait")

    def __init__(self, actor: Actor, wait: SlotWait) -> None:
        self.actor = actor
        self.wait = wait


@dataclass(frozen=True, slots=True)
class BarrierWait:
    """A device barrier of one launch, until every program of it on every rank has arrived.

    `cubes` tells that it is barrier_all, which the AICs meet in, too.
    """

    launch: LaunchKey
    cubes: bool = False


@dataclass(frozen=True, slots=True)
class FlagWait:
    """al.sync_block_wait: a flag between the core types of one AI core."""

    event: int
    sender: CoreType
    receiver: CoreType

    def __str__(self) -> str:
        return f"event {self.event} ({self.sender} to {self.receiver})"


@dataclass(frozen=True, slots=True)
class TileWait:
    """A tile that the core type `sender` of the same AI core computes and hands over."""

    sender: CoreType


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A host waits until a stream has finished `target` operations."""

    stream: Stream
    target: int


@dataclass(frozen=True, slots=True)
class CollectiveWait:
    """A host waits for the other ranks in a collective."""

    name: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """A host sleeps until virtual time `until`, in seconds."""

    until: float


@dataclass(frozen=True, slots=True)
class LaunchLimitReached:
    """A host that has launched as many kernels as the run may have: it never goes on."""


Wait = SlotWait | BarrierWait | FlagWait | TileWait | StreamWait | CollectiveWait | Sleep | LaunchLimitReached


class Actor:
    """One greenlet with its name.

    `number` counts the actors of a machine in the order of their creation. `waiting` is None while it can run.
    `meetings` counts what it has done to be in step with others: notifies, waits, flags, barriers.
    Programs have a kernel and a position in its grid.
    """

    __slots__ = ("greenlet", "kernel", "meetings", "name", "number", "position", "waiting")

    def __init__(self, name: ActorName, *, kernel: Kernel | None = None, position: tuple[int, ...] = ()) -> None:
        self.name = name
        self.kernel = kernel
        self.position = position
        self.waiting: Wait | None = None
        self.meetings = 0
        self.number: int
        self.greenlet: greenlet

    @property
    def is_host(self) -> bool:
        return self.kernel is None
