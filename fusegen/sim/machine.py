"""The scheduler of the emulated machine: actors, virtual time, and the end of a run.

Every actor is a greenlet. An actor gives up control in two ways: `step` at a scheduling point, after which it is last
in the queue of runnable actors, and `park` until somebody calls `wake`. Control goes from one actor to the next
directly; the hub, which runs `Machine.run`, gets it back when nobody can run or an actor ends.

Virtual time is seconds, starts at 0, and advances only when every actor waits and some of them sleep.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import decode_source
from itertools import count
from pathlib import Path
from threading import get_ident
from traceback import TracebackException
from types import CodeType, FrameType, TracebackType
from typing import Final, Literal

from greenlet import GreenletExit, getcurrent, greenlet

from fusegen.errors import FusegenError
from fusegen.sim.actors import Actor, LaunchLimitReached, Sleep, Wait
from fusegen.sim.errors import Unsplittable, Unsupported
from fusegen.sim.events import CodeLine, EventPort
from fusegen.sim.findings import Finding, Found, KernelError, Location, StepLimit
from fusegen.sim.schedule import Schedule

STALL_SECONDS: Final = 600.0
"""Virtual time without a device step after which sleeping hosts are not waited for any more."""

MAX_EXITS: Final = 100
"""How often an actor may catch its own end, in `finally` blocks that wait for others, before it is given up."""

OPERATION_SECONDS: Final = 1e-6
"""Virtual time of a kernel or a collective: none is free, so that scripts can divide by what they measured."""

Completing = Literal["fence", "quiet", "barrier", "end"]
"""Where a program completes its stores, and but for "fence" its non-blocking copies, for others to see.

A flag and a tile for the other cores of an AI core count as "fence".
"""

_UNENDING: Final[list[greenlet]] = []
"""Actors that were given up. Python would try to end them again when it frees them, and never come back."""


@dataclass(frozen=True, slots=True)
class HostFailure:
    """Host code raised `error`, `stalled` virtual seconds after the last step of any program.

    The error is a SystemExit where the process ended itself with a status that is not 0.
    """

    actor: Actor
    error: BaseException
    stalled: float


class Machine:
    """Runs actors until all have ended, nobody can go on, or a finding ends the run.

    `is_source` tells whether a file is simulated source; locations are lines of such files. `resumed` is called with
    a host actor whenever it gets control, and `completing` whenever the running program completes earlier stores.
    `before_idle` are called when nobody can run, before time passes or the run ends, to wake whoever can go on after
    all. Observers attach to `events`.
    """

    def __init__(self, schedule: Schedule, *, step_limit: int, is_source: Callable[[str], bool]) -> None:
        self.runnable: list[Actor] = []
        self.actors: dict[Actor, None] = {}
        self.steps = 0
        self.now = 0.0
        self.finding: Finding | None = None
        self.notes: list[Finding] = []
        self.failures: list[HostFailure] = []
        self.current: Actor
        self.resumed: Callable[[Actor], None] = lambda actor: None
        self.completing: Callable[[Completing], None] = lambda what: None
        self.before_idle: list[Callable[[], None]] = []
        self.events = EventPort(running=lambda: self.current, is_source=is_source)
        self._budget = step_limit
        self._step_limit = step_limit
        self._pick = schedule.pick
        self._is_source = is_source
        self._hub = getcurrent()
        self._thread = get_ident()
        self._sleeping: list[tuple[float, int, Actor]] = []
        self._sleeps = count()
        self._numbers = count()
        self._starting: Actor | None = None
        self._progress_steps = 0
        self._progress_at = 0.0
        self._closing = False
        self._exits: Counter[Actor] = Counter()
        self._error: FusegenError | None = None
        self._lines: dict[str, list[str]] = {}

    def spawn(self, actor: Actor, body: Callable[[], None]) -> None:
        """Add an actor that runs `body`. What it raises is a finding; a FusegenError leaves `run`."""
        actor.greenlet = greenlet(lambda: self._run_actor(actor, body), parent=self._hub)
        actor.number = next(self._numbers)
        self.actors[actor] = None
        self.runnable.append(actor)

    def step(self) -> None:
        """A scheduling point: the schedule decides who goes on."""
        self.steps += 1
        self._budget -= 1
        if self._budget < 0:
            self._out_of_budget()
        runnable = self.runnable
        if not runnable:
            return
        actor = self.current
        runnable.append(actor)
        chosen = runnable.pop(self._pick(runnable))
        if chosen is not actor:
            self._switch_to(chosen)

    def tick(self) -> None:
        """A loop iteration: counts towards the step limit, without a switch."""
        self._budget -= 1
        if self._budget < 0:
            self._out_of_budget()

    def park(self, wait: Wait) -> None:
        """Stop the current actor until `wake`."""
        if self._closing:
            self._leave()
        self._check_thread()
        actor = self.current
        actor.waiting = wait
        runnable = self.runnable
        if runnable:
            self._switch_to(runnable.pop(self._pick(runnable)))
        else:
            self._hub.switch()
        if actor.kernel is None:
            self.resumed(actor)

    def give_way(self) -> None:
        """A scheduling point of a host, after it has done what others may have waited for."""
        if self._closing or not self.runnable:
            return
        self._check_thread()
        actor = self.current
        self.runnable.append(actor)
        chosen = self.runnable.pop(self._pick(self.runnable))
        if chosen is not actor:
            self._switch_to(chosen)
            self.resumed(actor)

    def _check_thread(self) -> None:
        if get_ident() != self._thread:
            self._error = Unsupported(
                "threading.Thread", "a thread of host code sleeps or waits for the device or ranks"
            )
            raise self._error

    def _leave(self) -> None:
        """End the current actor while the machine closes; one that catches all it is thrown is left where it is."""
        self._exits[self.current] += 1
        if self._exits[self.current] < MAX_EXITS:
            raise GreenletExit
        _UNENDING.append(self.current.greenlet)
        self._hub.switch()

    def wake(self, actor: Actor) -> None:
        """Make a parked actor runnable again."""
        actor.waiting = None
        self.runnable.append(actor)

    def sleep(self, seconds: float) -> None:
        """Park the current actor for a stretch of virtual time."""
        until = self.now + max(seconds, 0.0)
        heapq.heappush(self._sleeping, (until, next(self._sleeps), self.current))
        self.park(Sleep(until))

    def complete_operation(self) -> None:
        """A kernel or a collective is done, which takes a little virtual time."""
        self.now += OPERATION_SECONDS
        self._progress_steps, self._progress_at = self.steps, self.now

    @property
    def stalled(self) -> float:
        """Virtual seconds since the last step of a program or end of an operation."""
        return self.now - self._progress_at if self.steps == self._progress_steps else 0.0

    def run(self) -> None:
        """Run until nothing more can happen; `finding`, `failures` and the actors that still wait tell the outcome.

        Raises the FusegenError that an actor raised, such as Unsupported.
        """
        while self.finding is None and self._error is None:
            if self._starting is not None:
                actor, self._starting = self._starting, None
                actor.greenlet.switch()
            elif self.runnable:
                self.current = actor = self.runnable.pop(self._pick(self.runnable))
                actor.greenlet.switch()
            else:
                for wake in self.before_idle:
                    wake()
                if self.runnable:
                    continue
                if not self._sleeping or self.stalled >= STALL_SECONDS:
                    break
                self._advance_clock()
        if self._error is not None:
            raise self._error

    def _switch_to(self, actor: Actor) -> None:
        """Give control to another actor. The hub starts new ones: a greenlet inherits its starter's stack depth."""
        self.current = actor
        if actor.greenlet:
            actor.greenlet.switch()
        else:
            self._starting = actor
            self._hub.switch()

    def _advance_clock(self) -> None:
        if self.steps != self._progress_steps:
            self._progress_steps, self._progress_at = self.steps, self.now
        self.now = max(self.now, self._sleeping[0][0])
        while self._sleeping and self._sleeping[0][0] <= self.now:
            self.wake(heapq.heappop(self._sleeping)[2])

    def close(self) -> None:
        """End every actor that has not ended."""
        self._closing = True
        self.runnable.clear()
        for actor in list(self.actors):
            if not actor.greenlet.dead:
                self.current = actor
                if actor.is_host:
                    self.resumed(actor)
                actor.greenlet.throw(GreenletExit)

    def blocked(self) -> list[Actor]:
        """Actors that wait for something that can happen, other than time, in the order in which they were created."""
        others = (Sleep, LaunchLimitReached)
        return [actor for actor in self.actors if actor.waiting is not None and not isinstance(actor.waiting, others)]

    def report(self, finding: Finding, *, trace: TracebackType | None = None) -> None:
        """Keep the first finding; the run ends when the current actor does."""
        if self.finding is None:
            self.finding = finding.at(self.current.name, self.location_of_trace(trace))

    def note(self, finding: Finding) -> None:
        """Keep a finding that does not end the run, once."""
        if finding not in self.notes:
            self.notes.append(finding)

    def location_of(self, actor: Actor) -> Location | None:
        """The line of simulated source at which a suspended actor stands, with its text."""
        line = self.line_of(actor)
        return None if line is None else self.location(*line)

    def line_of(self, actor: Actor) -> CodeLine | None:
        """The line of simulated source at which a suspended actor stands."""
        frame: FrameType | None = actor.greenlet.gr_frame
        while frame is not None:
            if self._is_source(frame.f_code.co_filename):
                return CodeLine(frame.f_code, frame.f_lineno)
            frame = frame.f_back
        return None

    def location_of_trace(self, trace: TracebackType | None) -> Location | None:
        """The innermost line of simulated source in a traceback."""
        location = None
        while trace is not None:
            code = trace.tb_frame.f_code
            if self._is_source(code.co_filename):
                location = self.location(code, trace.tb_lineno)
            trace = trace.tb_next
        return location

    def location(self, code: CodeType, line: int) -> Location:
        """A line of a simulated file with its text."""
        name = code.co_filename
        if name not in self._lines:
            self._lines[name] = decode_source(Path(name).read_bytes()).splitlines()
        lines = self._lines[name]
        return Location(Path(name).name, line, lines[line - 1].strip() if line <= len(lines) else "")

    def _run_actor(self, actor: Actor, body: Callable[[], None]) -> None:
        if actor.is_host:
            self.resumed(actor)
        match run_user_code(body):
            case None:
                pass
            case Found() as found:
                self.report(found.finding, trace=found.__traceback__)
            case FusegenError() as error:
                place = self.location_of_trace(error.__traceback__)
                if place and not isinstance(error, Unsplittable):  # which names a place itself
                    error.args = (f"{place.file}:{place.line}: {error}",)
                self._error = error
            case SystemExit(code=None | 0) if actor.is_host:
                pass
            case error if actor.is_host:
                self.failures.append(HostFailure(actor, error, self.stalled))
            case error:
                name = type(error).__name__
                self.report(KernelError(f"{name}: {text_of(error)}", exception=name), trace=error.__traceback__)
        del self.actors[actor]

    def _out_of_budget(self) -> None:
        limit = self._step_limit
        message = f"the run did not end within {limit} steps and loop iterations: an endless loop, or too much work"
        raise Found(StepLimit(message, limit=limit))


def run_user_code(body: Callable[[], None]) -> BaseException | None:
    """Run code under test and return what it raised.

    User code may raise anything, and none of it may end the simulator: this is the only place that catches without
    knowing what. SystemExit is included, because it ends one process of the simulated machine. KeyboardInterrupt and
    GreenletExit, which come from outside, go through.
    """
    try:
        body()
    except (Exception, SystemExit, Found) as raised:
        return raised
    return None


def text_of(error: BaseException) -> str:
    """str(error), also of an exception that cannot be printed."""
    return str(TracebackException.from_exception(error, limit=0))
