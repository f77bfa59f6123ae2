"""Virtual time of a run: when each core would do what, if every operation took what the costs say.

An observer. Every actor has a clock of its own: operations advance it, and whoever waits for another goes on no earlier
than the other has done its part. The AIC and the AIVs of an AI core therefore overlap exactly as far as the kernel's
synchronisation lets them. The clocks follow from who waits for whom, not from the order in which the simulator runs
the actors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fusegen.sim.actors import Actor
from fusegen.sim.device import Kernel, Stream
from fusegen.sim.events import (
    Access,
    Atomic,
    BarrierPassed,
    Drained,
    Event,
    Fenced,
    FlagSet,
    FlagWaited,
    HostCollective,
    Launched,
    Multiplied,
    Notified,
    ProgramEnded,
    ProgramStarted,
    Read,
    TileReceived,
    TileSent,
    TokenConsumed,
    Waited,
    Write,
)
from fusegen.sim.memory import Memory, Pointer


@dataclass(frozen=True, slots=True)
class Costs:
    """How long operations take, in units of the caller's choice: only sums and maxima are taken.

    `access` is for one load or store, `per_byte` for each byte that it moves, `per_product` for each multiplication of
    a dot, `signal` for a notify, a flag or a fence, and `barrier` from the last arrival at a barrier.
    """

    access: float = 100.0
    per_byte: float = 1.0
    per_product: float = 0.05
    signal: float = 100.0
    barrier: float = 500.0


class Clocks:
    """The clocks of all actors; attach `observe` to a run. `makespan` is the latest end of a program so far."""

    def __init__(self, costs: Costs = Costs()) -> None:
        self._costs = costs
        self._now: dict[Actor, float] = {}
        self._set: dict[FlagSet | TileSent, float] = {}
        self._notified: dict[tuple[Memory, int], float] = {}
        self._launched: dict[Kernel, float] = {}
        self._ended: dict[Stream, float] = {}
        self._busy: dict[tuple[int, int | None], tuple[tuple[Kernel, int | None] | None, float]] = {}
        self.makespan = 0.0

    def of(self, actor: Actor) -> float:
        """The clock of an actor."""
        return self._now.get(actor, 0.0)

    def observe(self, event: Event) -> None:
        """Advance the clock of the event's actor."""
        actor, costs = event.actor, self._costs
        match event:
            case Read() | Write() | Atomic():
                self._pass(actor, costs.access + costs.per_byte * _bytes(event))
            case Multiplied(rows=rows, columns=columns, depth=depth):
                self._pass(actor, costs.per_product * rows * columns * depth)
            case FlagSet() | TileSent():
                self._pass(actor, costs.signal)
                self._set[event] = self.of(actor)
            case FlagWaited(sets=sets):
                self._meet([actor], [self._set[each] for each in sets])
            case TileReceived(sent=sent):
                self._meet([actor], [self._set[sent]])
            case Notified(pointer=pointer):
                self._pass(actor, costs.signal)
                self._notified[_slot(pointer)] = self.of(actor)
            case Waited(wait=wait):
                self._meet([actor], [self._notified.get((wait.memory, slot), 0.0) for slot in wait.addresses()])
            case Fenced():
                self._pass(actor, costs.signal)
            case BarrierPassed(actors=actors) | HostCollective(actors=actors):
                self._meet(actors, [], costs.barrier)
            case Launched(kernel=kernel):
                self._launched[kernel] = max(self.of(actor), self._ended.get(kernel.stream, 0.0))
            case ProgramStarted():
                self._start(actor)
            case ProgramEnded():
                self._end(actor)
            case Drained(stream=stream):
                self._meet([actor], [self._ended.get(stream, 0.0)])
            case TokenConsumed():
                pass

    def _start(self, actor: Actor) -> None:
        """A program starts when its kernel is launched and the core is free."""
        kernel, core = actor.kernel, (actor.name.rank, actor.name.core)
        assert kernel is not None
        last, until = self._busy.get(core, (None, 0.0))
        is_free = last is None or last == (kernel, actor.name.program)
        self._meet([actor], [self._launched.get(kernel, 0.0), 0.0 if is_free else until])

    def _end(self, actor: Actor) -> None:
        kernel, core = actor.kernel, (actor.name.rank, actor.name.core)
        assert kernel is not None
        now, program = self.of(actor), (kernel, actor.name.program)
        last, until = self._busy.get(core, (None, 0.0))
        self._busy[core] = program, max(now, until) if last == program else now
        self._ended[kernel.stream] = max(now, self._ended.get(kernel.stream, 0.0))
        self.makespan = max(self.makespan, now)

    def _pass(self, actor: Actor, duration: float) -> None:
        self._now[actor] = self.of(actor) + duration

    def _meet(self, actors: list[Actor] | tuple[Actor, ...], times: list[float], duration: float = 0.0) -> None:
        """All actors go on together, when each of them is there and all times have come."""
        latest = max([*times, *map(self.of, actors)]) + duration
        for actor in actors:
            self._now[actor] = latest


def _slot(pointer: Pointer) -> tuple[Memory, int]:
    return pointer.memory, pointer.address()


def _bytes(access: Access) -> int:
    """Bytes that an access moves."""
    lanes = access.lanes
    count: Final = 1 if isinstance(lanes, int) else int(np.prod(lanes.shape))
    return count * access.pointer.element.itemsize
