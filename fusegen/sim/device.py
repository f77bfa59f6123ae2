"""The device side of a rank: its cores, streams, and kernels whose grid runs on the cores in batches.

A kernel's programs start in order as cores become free. A program takes one core, which has an actor for each of the
kernel's `actors_per_program`. Operations of one stream run one after another; different streams share the cores.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from fusegen.sim.actors import Actor, StreamWait
from fusegen.sim.events import Drained, Launched, ProgramEnded, ProgramStarted, StreamJoined
from fusegen.sim.findings import ActorName, Cause, CoreKind, Deadlock
from fusegen.sim.machine import Machine

MAX_PROGRAMS = 65535


class LaunchKey(NamedTuple):
    """The launch of kernel `name` with this number, from 1, on its rank: one launch has the same key on every rank."""

    name: str
    number: int


@dataclass(slots=True, eq=False)
class Kernel:
    """One launch: every actor of a program runs `body`; `grid` has three axes, axis 0 changes fastest.

    `actors_per_program` are the cores that a program runs on: one AIV in a vector kernel. `unfinished` counts the
    actors of each running program that have not ended. `has_waited` tells that one of the programs had to wait for
    another program, of this rank or another. `at_end` is called when all actors of a program have ended.
    """

    key: LaunchKey
    grid: tuple[int, int, int]
    body: Callable[[], None]
    stream: Stream
    actors_per_program: tuple[CoreKind, ...] = ("AIV",)
    started: int = 0
    finished: int = 0
    unfinished: dict[int, int] = field(default_factory=dict)
    has_waited: bool = False
    ended: list[Actor] = field(default_factory=list)
    at_end: dict[int, Callable[[], None]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def programs(self) -> int:
        return prod(self.grid)

    @property
    def is_mix(self) -> bool:
        """A program takes a whole AI core."""
        return len(self.actors_per_program) > 1

    @property
    def vector_actors(self) -> int:
        """AIVs of all programs: those who meet in barrier_all_vec."""
        return self.programs * self.actors_per_program.count("AIV")

    @property
    def actors(self) -> int:
        """Actors of all programs: those who meet in barrier_all."""
        return self.programs * len(self.actors_per_program)

    def position(self, program: int) -> tuple[int, int, int]:
        """Coordinates of a program in the grid."""
        width, height, _ = self.grid
        return program % width, program // width % height, program // (width * height)


@dataclass(slots=True, eq=False)
class StreamEvent:
    """A stream operation that is done when another stream has finished `target` operations."""

    stream: Stream
    target: int


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of operations; `submitted` and `finished` count them."""

    submitted: int = 0
    finished: int = 0
    queue: deque[Kernel | StreamEvent] = field(default_factory=deque)
    waiters: list[tuple[int, Actor]] = field(default_factory=list)
    followers: list[Stream] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        return self.finished == self.submitted


class Device:
    """The cores and the streams of one rank.

    `cores` are vector cores, or AI cores with `vectors_per_core` = 2 vector cores each: a program of a vector kernel
    takes one vector core, a program of a mix kernel all of an AI core.
    """

    def __init__(self, machine: Machine, *, rank: int, cores: int, vectors_per_core: int = 1) -> None:
        self._machine = machine
        self._events = machine.events
        self.rank = rank
        self.cores = cores
        self.default_stream = Stream()
        self.running: list[Kernel] = []
        self.launches: Counter[str] = Counter()
        self._used: dict[Stream, None] = {}
        self._vectors_per_core = vectors_per_core
        self._free = list(range(cores * vectors_per_core))

    @property
    def launched(self) -> int:
        """Kernels launched so far."""
        return self.launches.total()

    def launch(
        self,
        name: str,
        grid: tuple[int, ...],
        body: Callable[[], None],
        stream: Stream,
        *,
        actors_per_program: tuple[CoreKind, ...] = ("AIV",),
    ) -> None:
        """Enqueue a kernel; raises TypeError or RuntimeError for a grid that the runtime rejects."""
        if not all(isinstance(extent, int | np.integer) for extent in grid):
            raise TypeError(f"{name}: expected integers as the grid, got {tuple(grid)}")
        width, height, depth = axes = (*grid, 1, 1)[:3] if 1 <= len(grid) <= 3 else (0, 0, 0)
        if min(axes) < 1 or prod(axes) > MAX_PROGRAMS:
            raise RuntimeError(f"{name}: expected a grid of 1 to {MAX_PROGRAMS} programs, got {tuple(grid)}")
        self.launches[name] += 1
        key = LaunchKey(name, self.launches[name])
        kernel = Kernel(key, (width, height, depth), body, stream, actors_per_program)
        if self._events.observers:
            self._events.tell(Launched(*self._events.here(), kernel))
        self._submit(stream, kernel)

    def cores_for(self, kernel: Kernel) -> int:
        """How many programs of a kernel run at a time."""
        return self.cores if kernel.is_mix else self.cores * self._vectors_per_core

    def streams(self) -> list[Stream]:
        """Streams that have had operations."""
        return list(self._used)

    def wait_for(self, stream: Stream, other: Stream, target: int) -> None:
        """Enqueue on `stream` a wait until `other` has finished `target` operations."""
        self._submit(stream, StreamEvent(other, target))

    def drain(self, stream: Stream, target: int | None = None) -> None:
        """Park the current host until a stream has finished `target` operations, by default all of them."""
        target = stream.submitted if target is None else target
        if stream.finished < target:
            stream.waiters.append((target, self._machine.current))
            self._machine.park(StreamWait(stream, target))
        if self._events.observers:
            self._events.tell(Drained(*self._events.here(), stream, target))

    def _submit(self, stream: Stream, operation: Kernel | StreamEvent) -> None:
        stream.submitted += 1
        self._used[stream] = None
        stream.queue.append(operation)
        if len(stream.queue) == 1:
            self._start(stream)

    def _start(self, stream: Stream) -> None:
        """Start the operation at the head of a stream."""
        while stream.queue:
            head = stream.queue[0]
            if isinstance(head, Kernel):
                self.running.append(head)
                self._fill_cores()
                return
            if head.stream.finished < head.target:
                head.stream.followers.append(stream)
                return
            if self._events.observers:
                self._events.tell(StreamJoined(self._machine.current, None, stream, head.stream, head.target))
            self._finish_head(stream)

    def _finish_head(self, stream: Stream) -> None:
        if isinstance(stream.queue.popleft(), Kernel):
            self._machine.complete_operation()
        stream.finished += 1
        for target, actor in stream.waiters:
            if target == stream.finished:
                self._machine.wake(actor)
        stream.waiters = [waiter for waiter in stream.waiters if waiter[0] > stream.finished]
        followers, stream.followers = stream.followers, []
        for follower in followers:
            self._start(follower)

    def _fill_cores(self) -> None:
        for kernel in self.running:
            while kernel.started < kernel.programs and (core := self._taken(kernel)) is not None:
                self._start_program(kernel, core)

    def _taken(self, kernel: Kernel) -> int | None:
        """Take the first free core of the kind that a program of the kernel needs; None when all are busy."""
        if not kernel.is_mix or self._vectors_per_core == 1:
            return heapq.heappop(self._free) if self._free else None
        for core in range(self.cores):
            units = self._units(kernel, core)
            if all(unit in self._free for unit in units):
                self._free = [unit for unit in self._free if unit not in units]
                heapq.heapify(self._free)
                return core
        return None

    def _units(self, kernel: Kernel, core: int) -> range:
        """The vector cores that a program takes: one, or those of an AI core."""
        width = self._vectors_per_core if kernel.is_mix else 1
        return range(core * width, (core + 1) * width)

    def _start_program(self, kernel: Kernel, core: int) -> None:
        program = kernel.started
        kernel.started += 1
        kinds = kernel.actors_per_program
        kernel.unfinished[program] = len(kinds)
        vector_ids = iter(range(len(kinds)))
        for kind in kinds:
            sub_vec_id = next(vector_ids) if kind == "AIV" and len(kinds) > 1 else None
            name = ActorName(rank=self.rank, kind=kind, core=core, program=program, sub_vec_id=sub_vec_id)
            actor = Actor(name, kernel=kernel, position=kernel.position(program))
            self._machine.spawn(actor, partial(self._run_actor, kernel, actor, core, program))

    def _run_actor(self, kernel: Kernel, actor: Actor, core: int, program: int) -> None:
        if self._events.observers:
            self._events.tell(ProgramStarted(actor, None))
        kernel.body()
        self._machine.completing("end")
        if self._events.observers:
            self._events.tell(ProgramEnded(actor, None))
        kernel.ended.append(actor)
        kernel.unfinished[program] -= 1
        if not kernel.unfinished[program]:
            del kernel.unfinished[program]
            kernel.at_end.pop(program, lambda: None)()
            self._end_program(kernel, core)

    def _end_program(self, kernel: Kernel, core: int) -> None:
        kernel.finished += 1
        for unit in self._units(kernel, core):
            heapq.heappush(self._free, unit)
        if kernel.finished == kernel.programs:
            if kernel.has_waited and kernel.programs > self.cores_for(kernel):
                self._machine.note(_not_resident(kernel, cores=self.cores_for(kernel)))
            self.running.remove(kernel)
            self._finish_head(kernel.stream)
            self._start(kernel.stream)
        self._fill_cores()


def _not_resident(kernel: Kernel, *, cores: int) -> Deadlock:
    """The finding for a kernel that got through although it is not resident: other timings of it hang."""
    cause = Cause(
        "residency",
        f"{kernel.programs} programs of {kernel.name} were launched on {cores} cores, and they wait for each other: "
        f"programs {cores} to {kernel.programs - 1} start only when others end",
        "2.1",
    )
    message = f"a launch of {kernel.name} that only its timing let through\nlikely cause: {cause}"
    return Deadlock(message, causes=(cause,))
