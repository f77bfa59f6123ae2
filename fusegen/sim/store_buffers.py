"""Stores that show late: a buffer for each actor, in front of the memory that all actors see.

A store is visible to others at the actor's next fence or quiet, when the actor arrives at a device barrier, sets a flag
or hands a tile over to the other cores of its AI core, and at the end of its program; what putmem_nbi and getmem_nbi
copy is read and written at quiet, at a barrier and at the end. Until then only the actor itself sees what it has
stored. Atomics, notifies and the blocking copies take effect at once, after the actor's own earlier stores to the same
place. Nothing is kept for good, since a device empties its buffers in the end: all stores show when nobody can go on,
and now and then for whoever loads a word until it changes.

A device may show stores at any time in between, to some cores sooner than to others. This is the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fusegen.sim.actors import Actor
from fusegen.sim.affine import Affine
from fusegen.sim.events import Completion
from fusegen.sim.machine import Completing, Machine
from fusegen.sim.memory import AccessPort, Memory, Pointer, Update

MAX_STEPS: Final = 100_000
"""So many scheduling points after all buffers were last empty, a load or an atomic empties them."""


@dataclass(slots=True, eq=False)
class PendingStore:
    """`data` on its way to `elements[places]`, which lie within the bytes `first` to `last` of their memory."""

    elements: np.ndarray
    places: Any
    data: np.ndarray
    first: int
    last: int

    def overlaps(self, first: int, last: int) -> bool:
        """It may touch one of the bytes `first` to `last`."""
        return self.first <= last and first <= self.last

    def exchange(self) -> np.ndarray:
        """Carry it out; returns the values before."""
        before: np.ndarray = self.elements[self.places].copy()
        self.elements[self.places] = self.data
        return before


@dataclass(slots=True, eq=False)
class PendingCopy:
    """A non-blocking copy between two stretches of bytes; the destination is in `memory`."""

    memory: Memory
    destination: np.ndarray
    source: np.ndarray


class LateAccessPort(AccessPort):
    """Accesses of all actors, each through its own store buffer. `published` is told which memory has changed."""

    def __init__(self, machine: Machine, published: Callable[[Memory], None]) -> None:
        super().__init__(machine.events)
        self._machine = machine
        self._published = published
        self._stores: dict[Actor, dict[Memory, list[PendingStore]]] = {}
        self._copies: dict[Actor, list[PendingCopy]] = {}
        self._emptied_at = 0
        machine.completing = self.complete
        machine.before_idle.append(self.publish_all)

    def complete(self, what: Completing) -> None:
        """Make the current actor's stores visible, and from "quiet" on carry out its copies.

        The end of a program is a scheduling point where something is left: others may go on before it shows.
        """
        actor = self._machine.current
        if what == "end" and (actor in self._stores or actor in self._copies):
            self._machine.step()
        self._publish_stores(actor)
        if what != "fence":
            self._carry_out_copies(actor)

    def publish_all(self) -> None:
        """Empty every buffer."""
        self._emptied_at = self._machine.steps
        for actor in list(self._stores):
            self._publish_stores(actor)
        for actor in list(self._copies):
            self._carry_out_copies(actor)

    def check_slots(self, pointer: Pointer, low: int, high: int) -> None:
        size = pointer.element.itemsize
        self._publish_overlapping(pointer.memory, low * size, (high + 1) * size - 1)
        super().check_slots(pointer, low, high)

    def load(self, pointer: Pointer, mask: Any, other: Any) -> Any:
        self._bound_delay()
        with self._own_stores(pointer.memory, *_span(pointer)):
            return super().load(pointer, mask, other)

    def atomic(self, pointer: Pointer, update: Update, values: tuple[Any, ...], mask: Any) -> Any:
        self._bound_delay()
        self._publish_memory(self._machine.current, pointer.memory)
        return super().atomic(pointer, update, values, mask)

    def copy(self, destination: Pointer, source: Pointer, size: int, *, completion: Completion) -> None:
        if completion == "quiet":
            ends = self.copy_ends(destination, source, size, completion)
            copies = self._copies.setdefault(self._machine.current, [])
            copies.append(PendingCopy(destination.memory, *ends))
            return
        first, start = destination.address(), source.address()
        self._publish_overlapping(destination.memory, first, first + size - 1)
        with self._own_stores(source.memory, start, start + size - 1):
            super().copy(destination, source, size, completion=completion)

    def put(self, pointer: Pointer, elements: np.ndarray, places: Any, data: np.ndarray) -> None:
        stores = self._stores.setdefault(self._machine.current, {})
        store = PendingStore(elements, places, data, *_span(pointer))
        stores.setdefault(pointer.memory, []).append(store)

    def _bound_delay(self) -> None:
        """Empty every buffer for an actor that may be polling."""
        if self._machine.steps - self._emptied_at >= MAX_STEPS:
            self.publish_all()

    @contextmanager
    def _own_stores(self, memory: Memory, first: int, last: int) -> Iterator[None]:
        """The bytes `first` to `last` of a memory as the current actor sees them; nobody else runs meanwhile."""
        pending = self._stores.get(self._machine.current, {}).get(memory, [])
        stores = [store for store in pending if store.overlaps(first, last)]
        before = [store.exchange() for store in stores]
        try:
            yield
        finally:
            for store, data in zip(reversed(stores), reversed(before), strict=True):
                store.elements[store.places] = data

    def _publish_overlapping(self, memory: Memory, first: int, last: int) -> None:
        """Make the current actor's stores to a memory visible, if one of them may touch bytes `first` to `last`."""
        actor = self._machine.current
        pending = self._stores.get(actor, {}).get(memory, [])
        if any(store.overlaps(first, last) for store in pending):
            self._publish_memory(actor, memory)

    def _publish_stores(self, actor: Actor) -> None:
        for memory in list(self._stores.get(actor, {})):
            self._publish_memory(actor, memory)
        self._stores.pop(actor, None)

    def _publish_memory(self, actor: Actor, memory: Memory) -> None:
        """Make an actor's stores to one memory visible, in their order."""
        for store in self._stores.get(actor, {}).pop(memory, []):
            store.exchange()
        self._published(memory)

    def _carry_out_copies(self, actor: Actor) -> None:
        for copy in self._copies.pop(actor, []):
            copy.destination[...] = copy.source
            self._published(copy.memory)


def _span(pointer: Pointer) -> tuple[int, int]:
    """The first and the last byte that an access through a pointer may touch, whatever its mask."""
    offset = pointer.offset
    if isinstance(offset, int):
        low = high = offset
    elif isinstance(offset, Affine):
        low, high = offset.bounds()
    else:
        low, high = int(offset.min()), int(offset.max())
    size = pointer.element.itemsize
    return low * size, (high + 1) * size - 1
