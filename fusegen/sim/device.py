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
from fusegen.sim.events import Drained, Launched, ProgramEnded, ProgramStarted
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
    another program, of this rank or another.
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

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def programs(self) -> int:
        return prod(self.grid)

    @property
    def vector_actors(self) -> int:
        """AIVs of all programs: those who meet in barrier_all_vec."""
        return self.programs * self.actors_per_program.count("AIV")

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
    """The cores and the streams of one rank."""

    def __init__(self, machine: Machine, *, rank: int, cores: int) -> None:
        self._machine = machine
        self._events = machine.events
        self.rank = rank
        self.cores = cores
        self.default_stream = Stream()
        self.running: list[Kernel] = []
        self.launches: Counter[str] = Counter()
        self._busy: dict[Stream, None] = {}
        self._free = list(range(cores))

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

    def streams(self) -> list[Stream]:
        """Streams with operations that have not finished."""
        return list(self._busy)

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
        self._busy[stream] = None
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
            self._finish_head(stream)

    def _finish_head(self, stream: Stream) -> None:
        if isinstance(stream.queue.popleft(), Kernel):
            self._machine.complete_operation()
        stream.finished += 1
        if stream.is_idle:
            del self._busy[stream]
        for target, actor in stream.waiters:
            if target == stream.finished:
                self._machine.wake(actor)
        stream.waiters = [waiter for waiter in stream.waiters if waiter[0] > stream.finished]
        followers, stream.followers = stream.followers, []
        for follower in followers:
            self._start(follower)

    def _fill_cores(self) -> None:
        for kernel in self.running:
            while self._free and kernel.started < kernel.programs:
                self._start_program(kernel, heapq.heappop(self._free))

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
        if self._events.observers:
            self._events.tell(ProgramEnded(actor, None))
        kernel.ended.append(actor)
        kernel.unfinished[program] -= 1
        if not kernel.unfinished[program]:
            del kernel.unfinished[program]
            self._end_program(kernel, core)

    def _end_program(self, kernel: Kernel, core: int) -> None:
        kernel.finished += 1
        heapq.heappush(self._free, core)
        if kernel.finished == kernel.programs:
            if kernel.has_waited and kernel.programs > self.cores:
                self._machine.note(_not_resident(kernel, cores=self.cores))
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
