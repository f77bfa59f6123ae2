"""Signal slots: every write and wait of each, and whether another schedule could match them otherwise.

The rules are those of docs/proof.md: on every slot any two writes are ordered, and every wait has one possible partner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal
from weakref import WeakKeyDictionary

import numpy as np

from fusegen.sim.actors import Actor, SlotWait
from fusegen.sim.events import CodeLine, HostTouched, Notified, Waited
from fusegen.sim.memory import Memory
from fusegen.sim.order.clocks import RETURNED, Clock, Mark, Seen, Signal, Thread, join
from fusegen.sim.order.shadow import Made, Shadow
from fusegen.sim.signals import value_at

POISON_BYTE: Final = b"\x5a"
"""What fresh symmetric memory is filled with."""


KEPT_CLOCKS: Final = 3
"""Writes of a slot whose clocks are kept: the last one, and the last one before it of the same value, most often."""


@dataclass(slots=True, eq=False)
class SlotWrite:
    """A slot became `value`. The first one of a slot stands for what was there before, and may have no actor.

    `resets` is where its actor has waited for the value before, when the write returns the credit.
    """

    mark: Mark | None
    value: int
    line: CodeLine | None = None
    actor: Actor | None = None
    is_known: bool = True
    clock: Clock | None = None
    resets: CodeLine | None = None

    def is_before(self, thread: Thread, clock: Clock) -> bool:
        """It is ordered before what `thread` does knowing `clock`."""
        return self.mark is None or self.mark.is_before(thread, clock)


@dataclass(slots=True, eq=False)
class SlotWaited:
    """A wait that has seen the last write of a slot."""

    mark: Mark
    value: int
    line: CodeLine | None
    actor: Actor


@dataclass(slots=True, eq=False)
class SlotState:
    """The writes of a slot in the order of the run, and the waits since the last one."""

    writes: list[SlotWrite]
    word_bytes: int
    waits: list[SlotWaited] = field(default_factory=list)
    first_line: CodeLine | None = None

    def is_credit(self, write: SlotWrite) -> bool:
        """The write returns a credit. A slot is announced first, so that another line resets it."""
        if write.line != self.first_line:
            return True
        return write.mark is not None and not write.mark.thread.writes_symmetric


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why another schedule may differ, on the slot at byte `address`.

    writes   two writes without order
    wakeup   a write that is not ordered after a wait for another value
    match    a wait that could have seen either of two writes
    zeroing  a wait that may see what fresh memory holds
    """

    reason: Literal["writes", "wakeup", "match", "zeroing"]
    memory: Memory
    address: int
    before: SlotWrite | SlotWaited
    now: SlotWrite | SlotWaited
    are_credits: bool = False


class Slots:
    """All slots that were written or waited for; doubts go to `doubted`. `waits` and `writes` count."""

    def __init__(self, doubted: Callable[[Doubt], None]) -> None:
        self._doubted = doubted
        self._states: WeakKeyDictionary[Memory, dict[int, SlotState]] = WeakKeyDictionary()
        self._touched: WeakKeyDictionary[Memory, list[tuple[range, SlotWrite]]] = WeakKeyDictionary()
        self.count = 0
        self.waits = 0
        self.writes = 0

    def has(self, memory: Memory) -> bool:
        """The memory has slots."""
        return memory in self._states

    def show(self, memory: Memory, shadow: Shadow) -> None:
        """Put the last notify of every slot into the shadow of a memory, where loads and stores meet it."""
        for address, state in self._states.get(memory, {}).items():
            last = state.writes[-1]
            if last.mark is not None:
                shadow.put(memory, address, Made(last.mark, "notify", last.line, memory.name, ()))

    def notified(self, thread: Thread, event: Notified) -> None:
        """A program has written a slot. Ends the epoch."""
        memory, address = event.pointer.memory, event.pointer.address()
        state = self._state(memory, address, event.before, event.pointer.element.itemsize)
        state.first_line = state.first_line or event.line
        write = SlotWrite(thread.mark(RETURNED), event.value, event.line, event.actor)
        self._write(memory, address, state, write, thread)
        self.writes += 1
        write.clock = thread.published()

    def touched(self, thread: Thread, event: HostTouched) -> None:
        """A host has written memory, slots that are there or will be."""
        write = SlotWrite(thread.mark(RETURNED), 0, event.line, event.actor, clock=thread.known)
        span = event.span
        self._touched.setdefault(event.memory, []).append((span, write))
        for address, state in self._states.get(event.memory, {}).items():
            if address in span:
                value = value_at(event.memory, address, state.word_bytes)
                again = SlotWrite(write.mark, value, event.line, event.actor, clock=write.clock)
                self._write(event.memory, address, state, again, thread)

    def waited(self, thread: Thread, event: Waited) -> Seen:
        """A wait is over: what it has learned. Does not end the epoch."""
        wait = event.wait
        clock = full = thread.known
        partners: list[Signal] = []
        rival: Signal | None = None
        mark = thread.mark(RETURNED)
        for address in wait.addresses():
            state = self._state(wait.memory, address, wait.value, wait.element_bytes)
            done = SlotWaited(mark, wait.value, event.line, event.actor)
            self.waits += 1
            rivals = self._rivals(wait.memory, address, state, done, thread)
            state.waits.append(done)
            last = state.writes[-1]
            if last.clock is not None:
                full = join(full, last.clock)
                clock = join(clock, _common([last.clock, *(each.clock for each in rivals if each.clock is not None)]))
            if last.actor is not None:
                partners.append(Signal(last.actor, last.line, wait.memory, address))
            if rivals and rivals[0].clock is not None and rivals[0].actor is not None:
                rival = Signal(rivals[0].actor, rivals[0].line, wait.memory, address)
        return Seen(wait, event.line, clock, full, tuple(partners), rival)

    def missed(self, thread: Thread, wait: SlotWait, line: CodeLine | None) -> None:
        """A wait never ended: the writes that it could have seen, but for those that overwrote them."""
        for address in wait.addresses():
            state = self._states.get(wait.memory, {}).get(address)
            if state is None:
                continue
            done = SlotWaited(thread.mark(RETURNED), wait.value, line, thread.actor)
            for write, after in reversed(list(zip(state.writes, state.writes[1:], strict=False))):
                if after.is_before(thread, thread.known):
                    break
                if write.value == wait.value and after.value != wait.value:
                    self._overtaken(wait.memory, address, done, after)
                    break

    def _write(self, memory: Memory, address: int, state: SlotState, write: SlotWrite, thread: Thread) -> None:
        last = state.writes[-1]
        if not last.is_before(thread, thread.known):
            are_credits = state.is_credit(last) and state.is_credit(write)
            self._doubted(Doubt("writes", memory, address, last, write, are_credits))
        if state.is_credit(write):
            write.resets = next((done.line for done in state.waits if done.actor is write.actor), None)
        for done in state.waits:
            if not done.mark.is_before(thread, thread.known):
                self._overtaken(memory, address, done, write)
        state.waits.clear()
        state.writes.append(write)
        if len(state.writes) > KEPT_CLOCKS:
            state.writes[-1 - KEPT_CLOCKS].clock = None

    def _overtaken(self, memory: Memory, address: int, done: SlotWaited, write: SlotWrite) -> None:
        """A write is not ordered after a wait, which may miss the value that it waits for."""
        reason: Literal["match", "wakeup"] = "match" if done.value == write.value else "wakeup"
        is_double = write.resets is not None and write.resets == done.line
        self._doubted(Doubt(reason, memory, address, done, write, are_credits=is_double))

    def _rivals(
        self, memory: Memory, address: int, state: SlotState, done: SlotWaited, thread: Thread
    ) -> list[SlotWrite]:
        """Overwritten writes of the value that the wait would have seen had it started earlier, as it may."""
        rivals = []
        for index in range(len(state.writes) - 1, -1, -1):
            write = state.writes[index]
            if not write.is_known:
                self._doubted(Doubt("zeroing", memory, address, write, done))
                break
            if index < len(state.writes) - 1 and write.value == done.value:
                self._doubted(Doubt("match", memory, address, write, done))
                rivals.append(write)
            if write.is_before(thread, thread.known):
                break
        return rivals

    def _state(self, memory: Memory, address: int, value: int, size: int) -> SlotState:
        states = self._states.setdefault(memory, {})
        state = states.get(address)
        if state is None:
            state = states[address] = SlotState(self._initial(memory, address, value, size), size)
            self.count += 1
        return state

    def _initial(self, memory: Memory, address: int, value: int, size: int) -> list[SlotWrite]:
        """What stands for the value of a slot before any program has written it."""
        fresh = SlotWrite(None, value, is_known=memory.peers is None)
        by_host = [write for span, write in self._touched.get(memory, ()) if address in span]
        if by_host:
            last = by_host[-1]
            return [fresh, SlotWrite(last.mark, value, last.line, last.actor, clock=last.clock)]
        fresh.is_known = fresh.is_known or value != int.from_bytes(POISON_BYTE * size, "little")
        return [fresh]


def _common(clocks: list[Clock]) -> Clock:
    """What is known whichever of the clocks it comes from."""
    size = max(clock.size for clock in clocks)
    common, *others = [np.pad(clock, (0, size - clock.size)) if clock.size < size else clock for clock in clocks]
    for clock in others:
        common = np.minimum(common, clock)
    return common
