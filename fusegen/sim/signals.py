"""Signal slots and device barriers: waiting is event driven, a write wakes those whose value it brings.

A slot is one word at the start of a 64-byte line. dl.wait spins until each of its slots equals a value; an actor that
is woken looks again when its turn comes, since the value may have changed in between, as it may between two polls of
a core.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from struct import Struct
from types import CodeType
from typing import Final

from fusegen.sim.actors import Actor, BarrierWait, SlotWait
from fusegen.sim.events import BarrierPassed, CodeLine, Notified, Waited
from fusegen.sim.findings import CoreKind, Found, MisalignedSlot, Slot
from fusegen.sim.machine import Machine
from fusegen.sim.memory import SLOT_BYTES, AccessPort, Memory, Pointer, out_of_bounds

WORDS: Final = {4: Struct("<i"), 8: Struct("<q")}
"""Slot words by their size in bytes."""


@dataclass(slots=True)
class SlotRecord:
    """The last notify of a slot that no program has overwritten, and the actors whose waits have seen it.

    `first_line` is where the slot was written for the first time: a slot starts free, so that line announces data,
    and other lines return credits. `seen_at` is the last wait that has seen it. `erased` is the notify that this one
    overwrote before any wait had seen it.
    """

    writer: Actor
    value: int
    word_bytes: int
    code: CodeType
    line: int
    first_line: int
    erased: SlotRecord | None = None
    seen_by: list[Actor] = field(default_factory=list)
    seen_at: CodeLine | None = None

    @property
    def announces(self) -> bool:
        """The write announced data, rather than returned a credit."""
        return self.line == self.first_line

    def is_in_memory(self, memory: Memory, address: int) -> bool:
        """The slot still holds what was written: no host has changed it since."""
        return value_at(memory, address, self.word_bytes) == self.value


class Signals:
    """Waits and notifies of all actors.

    `data_lines` and `credit_lines` are lines whose waits were ended by an announcement, and by a credit or a slot's
    first zero: they tell consumers from producers. `notified` are the memories with signals, and their bytes;
    `notifiers` the kinds of cores that have executed a notify, by its file and line.
    """

    def __init__(self, machine: Machine, port: AccessPort) -> None:
        self._machine = machine
        self._port = port
        self._events = machine.events
        self._observers = machine.events.observers
        self.data_lines: set[int] = set()
        self.credit_lines: set[int] = set()
        self.notified: dict[Memory, int] = {}
        self.notifiers: dict[tuple[str, int], tuple[CodeType, set[CoreKind]]] = {}
        machine.before_idle.append(self.wake_satisfied)

    def wait(self, pointer: Pointer, count: int, value: int, *, has_token: bool = True) -> SlotWait:
        """Park the current actor until `count` slots from `pointer` on equal `value`; returns what it waited for."""
        memory, address = pointer.memory, pointer.address()
        self._check(pointer, address, count)
        actor = self._machine.current
        actor.meetings += 1
        wait = SlotWait(memory, address, count, value, pointer.element.itemsize)
        while not is_satisfied(wait):
            for slot in wait.addresses():
                memory.waiters.setdefault(slot, []).append(actor)
            if actor.kernel is not None:
                actor.kernel.has_waited = True
            self._machine.park(wait)
            for slot in wait.addresses():
                memory.waiters[slot].remove(actor)
        frame = sys._getframe(2)
        line = frame.f_lineno
        here = CodeLine(frame.f_code, line)
        for slot in wait.addresses():
            record = memory.records.get(slot)
            if record is not None:
                record.seen_by.append(actor)
                record.seen_at = here
                (self.data_lines if record.announces else self.credit_lines).add(line)
            elif value and not memory.has_plain_stores:
                memory.taken.setdefault(slot, value)
            else:
                self.credit_lines.add(line)
        if self._observers:
            self._events.tell(Waited(*self._events.here(), wait, has_token))
        return wait

    def notify(self, pointer: Pointer, value: int) -> None:
        """Write a slot and wake the actors that wait for this value. The caller of the builtin is two frames up."""
        memory, address = pointer.memory, pointer.address()
        self._check(pointer, address, 1)
        before = value_at(memory, address, pointer.element.itemsize)
        WORDS[pointer.element.itemsize].pack_into(memory.buffer, address, value)
        frame = sys._getframe(2)
        line = frame.f_lineno
        _, kinds = self.notifiers.setdefault((frame.f_code.co_filename, line), (frame.f_code, set()))
        kinds.add(self._machine.current.name.kind)
        previous = memory.records.get(address)
        first_line = line if previous is None else previous.first_line
        if previous is None:
            self.notified[memory] = memory.bytes.size
        self._machine.current.meetings += 1
        is_lost = previous is not None and not previous.seen_by and previous.value != value
        if previous is not None:
            previous.erased = None  # one step back is all that a report needs
        memory.records[address] = SlotRecord(
            self._machine.current,
            value,
            pointer.element.itemsize,
            frame.f_code,
            line,
            first_line,
            erased=previous if is_lost else None,
        )
        if self._observers:
            self._events.tell(Notified(*self._events.here(), pointer, value, before))
        if address in memory.waiters:
            self._wake(memory.waiters[address])

    def stored(self, memory: Memory) -> None:
        """After a plain store of a program: forget the notifies it has overwritten, and wake whom it satisfies."""
        memory.has_plain_stores = True
        for address, record in list(memory.records.items()):
            if not record.is_in_memory(memory, address):
                del memory.records[address]
        self._wake_waiters(memory)

    def host_wrote(self, memory: Memory) -> None:
        """After a host has written a memory: wake whom it satisfies; a scheduling point."""
        self._wake_waiters(memory)
        self._machine.give_way()

    def wake_satisfied(self) -> None:
        """Wake every actor whose wait holds now, whoever has changed the slots: collectives do it without telling."""
        self._wake(list(self._machine.actors))

    def _wake_waiters(self, memory: Memory) -> None:
        for actors in memory.waiters.values():
            self._wake(actors)

    def _wake(self, actors: list[Actor]) -> None:
        for actor in actors:
            wait = actor.waiting
            if isinstance(wait, SlotWait) and is_satisfied(wait):
                self._machine.wake(actor)

    def _check(self, pointer: Pointer, address: int, count: int) -> None:
        name = pointer.name
        size = pointer.element.itemsize
        first, last = address // size, (address + (count - 1) * SLOT_BYTES) // size
        if address < 0 or (last + 1) * size > pointer.memory.bytes.size:
            raise out_of_bounds(pointer, first, last, slot=Slot(address // SLOT_BYTES))
        if address % SLOT_BYTES:
            raise Found(
                MisalignedSlot(
                    f"{name}: word {first} does not start a 64-byte slot: "
                    f"it is word {first % (SLOT_BYTES // size)} of {Slot(address // SLOT_BYTES)}",
                    tensor=name,
                    word=first,
                    slot=Slot(address // SLOT_BYTES),
                )
            )
        self._port.check_slots(pointer, first, last)


def value_at(memory: Memory, address: int, element_bytes: int) -> int:
    """The integer at a byte address."""
    return int(WORDS[element_bytes].unpack_from(memory.buffer, address)[0])


def is_satisfied(wait: SlotWait) -> bool:
    """Every slot of the wait has its value."""
    unpack = WORDS[wait.element_bytes].unpack_from
    return all([unpack(wait.memory.buffer, address)[0] == wait.value for address in wait.addresses()])


class DeviceBarrier:
    """barrier_all_vec: every vector core of every program of one launch, on every rank, whether it has started or not.

    barrier_all is one that the cube cores meet in, too. `arrived` has the actors that wait at each open barrier, by
    what they wait for and by rank.
    """

    def __init__(self, machine: Machine, *, ranks: int) -> None:
        self._machine = machine
        self._ranks = ranks
        self.arrived: dict[BarrierWait, dict[int, list[Actor]]] = {}

    def wait(self, *, cubes: bool = False) -> None:
        """Park the current actor until the barrier opens; the last one to arrive opens it."""
        actor = self._machine.current
        kernel = actor.kernel
        if kernel is None:
            raise TypeError("barrier_all_vec: expected a call inside a kernel")
        self._machine.completing("barrier")
        kernel.has_waited = True
        actor.meetings += 1
        wait = BarrierWait(kernel.key, cubes)
        groups = self.arrived.setdefault(wait, {})
        groups.setdefault(actor.name.rank, []).append(actor)
        if len(groups) < self._ranks or not all(_is_complete(group, cubes) for group in groups.values()):
            self._machine.park(wait)
            return
        del self.arrived[wait]
        actors = tuple(other for group in groups.values() for other in group)
        events = self._machine.events
        if events.observers:
            events.tell(BarrierPassed(*events.here(), actors))
        for other in actors:
            if other is not actor:
                self._machine.wake(other)


def _is_complete(arrived: list[Actor], cubes: bool) -> bool:
    kernel = arrived[0].kernel
    return kernel is not None and len(arrived) == (kernel.actors if cubes else kernel.vector_actors)
