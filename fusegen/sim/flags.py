"""What the AIC and the AIVs of one AI core tell each other: counting flags, and tiles that the compiler hands over.

Both are queues from one actor to another. A program has its own, since an AI core runs one mix program at a time.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any, Final, NamedTuple

from fusegen.sim.actors import Actor, CoreType, FlagWait, TileWait
from fusegen.sim.device import Kernel, LaunchKey
from fusegen.sim.elsewhere import ELSEWHERE
from fusegen.sim.events import FlagSet, FlagWaited, TileReceived, TileSent
from fusegen.sim.findings import ActorName, LeftoverFlag
from fusegen.sim.machine import Machine

EVENTS: Final = 16
"""Flag events of an AI core are numbered from 0 to 15."""


class FlagKey(NamedTuple):
    """A flag of a program: event, and the core types that set it and wait for it."""

    event: int
    sender: CoreType
    receiver: CoreType


@dataclass(slots=True)
class Raised:
    """One set of a flag that the receiver has not taken: who set it and where."""

    setter: Actor
    code: CodeType
    line: int
    event: FlagSet | None


@dataclass(slots=True, eq=False)
class Exchange:
    """The queues of one program. `raised` is by flag, sending actor and receiving actor; an AIC is None, an AIV 0 or 1.

    `tiles` is by the place of the hand-over and the receiving actor.
    """

    raised: dict[tuple[FlagKey, int | None, int | None], deque[Raised]] = field(default_factory=dict)
    tiles: dict[tuple[int, int | None], deque[tuple[Any, TileSent | None]]] = field(default_factory=dict)
    waiting: list[Actor] = field(default_factory=list)


class BlockExchange:
    """The flags and hand-overs of all programs that run. A flag that is left when its program ends is noted, once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._events = machine.events
        self._programs: dict[tuple[Kernel, int], Exchange] = {}
        self._noted: set[tuple[LaunchKey, FlagKey]] = set()

    def set_flag(self, key: FlagKey) -> None:
        """Raise a flag for every actor of the receiving core type. The caller of the builtin is two frames up."""
        actor = self._machine.current
        self._machine.completing("fence")
        actor.meetings += 1
        exchange = self._of(actor)
        event = None
        if self._events.observers:
            event = FlagSet(*self._events.here(), key.event, key.sender, key.receiver)
            self._events.tell(event)
        frame = sys._getframe(2)
        raised = Raised(actor, frame.f_code, frame.f_lineno, event)
        for receiver in _actors(key.receiver):
            queue = exchange.raised.setdefault((key, actor.name.sub_vec_id, receiver), deque())
            queue.append(raised)
        self._wake(exchange)

    def wait_flag(self, key: FlagKey) -> None:
        """Park the current actor until every actor of the sending core type has raised a flag for it; take those."""
        actor = self._machine.current
        actor.meetings += 1
        exchange = self._of(actor)
        receiver = actor.name.sub_vec_id
        queues = [exchange.raised.setdefault((key, sender, receiver), deque()) for sender in _actors(key.sender)]
        while not all(queues):
            self._park(exchange, FlagWait(key.event, key.sender, key.receiver))
        taken = [queue.popleft() for queue in queues]
        if self._events.observers:
            sets = tuple(each.event for each in taken if each.event is not None)
            self._events.tell(FlagWaited(*self._events.here(), key.event, key.sender, key.receiver, sets))

    def hand_over(self, place: int, receiver: CoreType, value: Any) -> Any:
        """A tile at a use on the core type `receiver`: whoever has it sends it, whoever has not and needs it takes it.

        `place` numbers the uses of a kernel. AIV 0 sends for both vector cores, which have the same value.
        """
        actor = self._machine.current
        is_receiver = (actor.name.kind == "AIC") == (receiver == "cube")
        if is_receiver:
            return self._received(actor, place, receiver) if value is ELSEWHERE else value
        if value is not ELSEWHERE and actor.name.sub_vec_id in (None, 0):
            self._send(actor, place, receiver, value)
        return ELSEWHERE

    def _send(self, actor: Actor, place: int, receiver: CoreType, value: Any) -> None:
        self._machine.step()
        self._machine.completing("fence")
        exchange = self._of(actor)
        event = None
        if self._events.observers:
            event = TileSent(*self._events.here(), place, receiver)
            self._events.tell(event)
        for each in _actors(receiver):
            exchange.tiles.setdefault((place, each), deque()).append((value, event))
        self._wake(exchange)

    def _received(self, actor: Actor, place: int, receiver: CoreType) -> Any:
        self._machine.step()
        exchange = self._of(actor)
        queue = exchange.tiles.setdefault((place, actor.name.sub_vec_id), deque())
        while not queue:
            self._park(exchange, TileWait("vector" if receiver == "cube" else "cube"))
        value, sent = queue.popleft()
        if sent is not None:
            self._events.tell(TileReceived(*self._events.here(), place, sent))
        return value

    def _of(self, actor: Actor) -> Exchange:
        kernel, program = actor.kernel, actor.name.program
        if kernel is None or program is None:
            raise TypeError("expected a call inside a kernel")
        if (kernel, program) not in self._programs:
            self._programs[kernel, program] = Exchange()
            kernel.at_end[program] = partial(self._end, kernel, program, actor.name)
        return self._programs[kernel, program]

    def _park(self, exchange: Exchange, wait: FlagWait | TileWait) -> None:
        exchange.waiting.append(self._machine.current)
        self._machine.park(wait)

    def _wake(self, exchange: Exchange) -> None:
        waiting, exchange.waiting = exchange.waiting, []
        for actor in waiting:
            self._machine.wake(actor)

    def _end(self, kernel: Kernel, program: int, name: ActorName) -> None:
        """A program has ended: note its flags that nobody has waited for."""
        exchange = self._programs.pop((kernel, program))
        counts: dict[FlagKey, tuple[int, Raised, int | None]] = {}
        for (key, _, receiver), queue in exchange.raised.items():
            if queue and key not in counts:
                counts[key] = len(queue), queue[0], receiver
        for key, (count, raised, receiver) in counts.items():
            waiter = "its AIC" if receiver is None else f"its AIV {receiver}"
            place = self._machine.location(raised.code, raised.line)
            message = (
                f"{kernel.name}: event {key.event} ({key.sender} to {key.receiver}) is still set when the launch ends: "
                f"{waiter} has not waited for {'a set' if count == 1 else f'{count} sets'}; "
                "the next launch on this AI core may take it for its own"
            )
            finding = LeftoverFlag(message, event=key.event, sender=key.sender, receiver=key.receiver, count=count)
            if (kernel.key, key) not in self._noted:
                self._noted.add((kernel.key, key))
                self._machine.note(finding.at(raised.setter.name, place))


def _actors(core: CoreType) -> tuple[int | None, ...]:
    """The actors of a core type in an AI core, by sub_vec_id."""
    return (None,) if core == "cube" else (0, 1)
