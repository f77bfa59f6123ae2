"""One run of the simulator as a path through the tree: the schedule that asks the search, and the trace of the run.

An actor goes on until it has done something visible, or lets another one go on, or waits. Visible is what touches words
that actors synchronise by: notifies, waits, host writes of symmetric memory, and every access to a memory with slots or
with atomics whose result is used. Everything else is data, whose order the check of races decides.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any, Final

from fusegen.sim.actors import Actor, SlotWait
from fusegen.sim.affine import Affine
from fusegen.sim.device import Kernel, Stream
from fusegen.sim.events import (
    Access,
    Atomic,
    BarrierPassed,
    CodeLine,
    Drained,
    Event,
    FlagSet,
    FlagWaited,
    HostCollective,
    HostTouched,
    Launched,
    Notified,
    ProgramEnded,
    ProgramStarted,
    Read,
    StreamJoined,
    TileReceived,
    TileSent,
    Waited,
    Write,
)
from fusegen.sim.explore.search import Search
from fusegen.sim.explore.trace import ActorKey, Clock, MemoryKey, Operation, Operations, Trace
from fusegen.sim.memory import Memory
from fusegen.sim.signals import WORDS, is_satisfied

WORD_BYTES: Final = 8
"""Bytes that are kept of what a notify left in its slot: the longest word."""


class Recorder:
    """The schedule of one run, and an observer of it.

    `shared` are the memories with words that actors synchronise by, as far as earlier runs have shown them; the run
    adds to it. `is_outdated` tells that it has added a memory after it had taken an access to it for data.
    """

    late_stores = False

    def __init__(self, search: Search, shared: set[MemoryKey]) -> None:
        self.trace = Trace()
        self.is_outdated = False
        self._search = search
        self._shared = shared
        self._running: Actor | None = None
        self._operations: Operations = ()
        self._runnable = 0
        self._is_open = False
        self._stored: Callable[[], Operation] | None = None
        self._waits: dict[Actor, SlotWait] = {}
        self._keys: dict[Actor, ActorKey] = {}
        self._accessed: set[MemoryKey] = set()
        self._handed: dict[FlagSet | TileSent, Clock] = {}
        self._launched: dict[Kernel, Clock] = {}
        self._ends: dict[Stream, dict[Kernel, list[Clock]]] = {}
        self._streams: dict[Stream, list[Clock]] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            Read: self._access,
            Write: self._access,
            Atomic: self._access,
            Waited: self._waited,
            Notified: self._notified,
            HostTouched: self._touched,
            BarrierPassed: self._met,
            HostCollective: self._met,
            FlagSet: self._hand_over,
            TileSent: self._hand_over,
            FlagWaited: lambda event: self._receive(event.actor, event.sets),
            TileReceived: lambda event: self._receive(event.actor, (event.sent,)),
            Launched: self._launch,
            ProgramStarted: self._start,
            ProgramEnded: self._end,
            StreamJoined: self._join_stream,
            Drained: lambda event: self._learn(event.actor, self._finished(event.stream)),
        }

    def observe(self, event: Event) -> None:
        """Take an event."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def pick(self, runnable: Sequence[Actor]) -> int:
        """The place in `runnable` of the actor that goes next; raises Redundant where the run is like another one."""
        if self._goes_on(runnable):
            return len(runnable) - 1
        self._close()
        enabled = {self._key(actor): place for place, actor in enumerate(runnable) if self._can_go(actor)}
        if not enabled:  # woken by a value that is gone again: they look, and wait on
            self._running = None
            return 0
        place = enabled[self._search.choose(list(enabled), self._operations)]
        self._running, self._operations, self._is_open, self._runnable = runnable[place], (), True, len(runnable)
        return place

    def _goes_on(self, runnable: Sequence[Actor]) -> bool:
        """The actor that runs has neither done anything visible, nor stopped, nor let another one go on."""
        is_same = runnable[-1] is self._running and len(runnable) == self._runnable
        return is_same and not self._operations and self._stored is None

    def end(self) -> bool:
        """The run has ended; whether there is another one to make."""
        self._close()
        waiting = {self._key(actor): _needs(wait) for actor, wait in self._waits.items()}
        return self._search.end(self._operations, self.trace, waiting)

    def _close(self) -> None:
        """The actor that was running stops."""
        running = self._running
        if running is None:
            return
        if self._stored is not None:
            self._did(running, self._stored())
        if isinstance(running.waiting, SlotWait):
            self._waits[running] = running.waiting
        if self._is_open:
            self._step(running, ())

    def _can_go(self, actor: Actor) -> bool:
        wait = self._waits.get(actor)
        return wait is None or is_satisfied(wait)

    def _key(self, actor: Actor) -> ActorKey:
        key = self._keys.get(actor)
        if key is None:
            name, kernel = actor.name, actor.kernel
            launch = () if kernel is None else (kernel.name, kernel.key.number, name.program, name.kind)
            key = self._keys[actor] = (name.rank, *launch, name.sub_vec_id)
        return key

    def _did(self, actor: Actor, *operations: Operation) -> None:
        """The actor has done something visible."""
        self._shared.update(each.memory for each in operations)
        self.is_outdated |= any(each.memory in self._accessed for each in operations)
        self._operations += operations
        self._stored = None
        self._step(actor, operations)

    def _step(self, actor: Actor, operations: Operations) -> Clock:
        """A step in the trace; returns what the actor knows after it."""
        self._is_open = False
        return self.trace.add(self._key(actor), operations, decision=self._search.decisions - 1)

    def _learn(self, actor: Actor, clocks: Sequence[Clock]) -> None:
        for clock in clocks:
            self.trace.learn(self._key(actor), clock)

    def _notified(self, event: Notified) -> None:
        memory, address = event.pointer.memory, event.pointer.address()
        word = WORDS[event.pointer.element.itemsize]
        before = word.pack(event.before)
        last = address + word.size - 1
        data = memory.bytes[address : address + WORD_BYTES].tobytes()
        self._did(event.actor, Operation("write", _memory_key(memory), address, last, data, before))

    def _waited(self, event: Waited) -> None:
        self._waits.pop(event.actor, None)
        self._did(event.actor, *_needs(event.wait))

    def _touched(self, event: HostTouched) -> None:
        self._learn(event.actor, self._finished(event.stream))
        key = _memory_key(event.memory)
        first, last = event.span[0], event.span[-1]
        if event.is_write:
            self._did(event.actor, Operation("write", key, first, last, event.memory.bytes[first : last + 1].tobytes()))
        elif key in self._shared:
            self._did(event.actor, Operation("read", key, first, last))
        else:
            self._accessed.add(key)

    def _access(self, event: Read | Write | Atomic) -> None:
        key = _memory_key(event.pointer.memory)
        if isinstance(event, Atomic) and not _is_statement(event.line):
            self._shared.add(key)
        if key not in self._shared:
            self._accessed.add(key)
            return
        first, last = _bytes(event)
        if isinstance(event, Read):
            self._did(event.actor, Operation("read", key, first, last))
            return
        memory = event.pointer.memory  # told before it is written

        def written() -> Operation:
            return Operation("write", key, first, last, memory.bytes[first : last + 1].tobytes())

        self._stored = written

    def _met(self, event: BarrierPassed | HostCollective) -> None:
        self._step(event.actor, ())
        clocks = [self.trace.known(self._key(actor)) for actor in event.actors]
        for actor in event.actors:
            self._learn(actor, clocks)

    def _hand_over(self, event: FlagSet | TileSent) -> None:
        self._handed[event] = self._step(event.actor, ())

    def _receive(self, actor: Actor, sets: Sequence[FlagSet | TileSent]) -> None:
        self._learn(actor, [self._handed[each] for each in sets])

    def _launch(self, event: Launched) -> None:
        self._launched[event.kernel] = self._step(event.actor, ())

    def _start(self, event: ProgramStarted) -> None:
        kernel = event.actor.kernel
        assert kernel is not None
        self._learn(event.actor, [self._launched[kernel], *self._finished(kernel.stream)])

    def _end(self, event: ProgramEnded) -> None:
        kernel = event.actor.kernel
        assert kernel is not None
        clock = self._step(event.actor, ())
        self._ends.setdefault(kernel.stream, {}).setdefault(kernel, []).append(clock)

    def _finished(self, stream: Stream) -> list[Clock]:
        """Ends of the programs of all kernels that a stream has finished."""
        ends = self._ends.get(stream, {})
        done = self._streams.setdefault(stream, [])
        for kernel in [each for each in ends if each.finished == each.programs]:
            done += ends.pop(kernel)
        return done

    def _join_stream(self, event: StreamJoined) -> None:
        self._streams[event.stream] = [*self._finished(event.stream), *self._finished(event.other)]


def _memory_key(memory: Memory) -> MemoryKey:
    return (memory.rank, memory.allocation) if memory.allocation else (memory.rank, 0, memory.name)


def _needs(wait: SlotWait) -> Operations:
    """The operations of a wait, one for each of its slots."""
    word = WORDS[wait.element_bytes]
    key, data = _memory_key(wait.memory), word.pack(wait.value)
    return tuple(Operation("wait", key, address, address + word.size - 1, data) for address in wait.addresses())


def _bytes(event: Access) -> tuple[int, int]:
    """The first and the last byte of an access."""
    size, lanes = event.pointer.element.itemsize, event.lanes
    if isinstance(lanes, int):
        low, high = lanes, lanes
    elif isinstance(lanes, Affine):
        low, high = lanes.bounds()
    else:
        low, high = int(lanes.min()), int(lanes.max())
    return low * size, (high + 1) * size - 1


def _is_statement(line: CodeLine | None) -> bool:
    """The atomic at this line is a statement, whose value nobody uses."""
    text = "" if line is None else linecache.getline(line.code.co_filename, line.line)
    return text.strip().startswith("tl.atomic")
