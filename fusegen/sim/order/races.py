"""What accesses without order are called: the kind of finding, and what would have ordered them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from fusegen.sim.actors import Actor
from fusegen.sim.events import CodeLine
from fusegen.sim.findings import Location
from fusegen.sim.memory import SLOT_BYTES, Memory
from fusegen.sim.order.clocks import QUIET, RETURNED, Clock, Seen, Signal
from fusegen.sim.order.kinds import (
    DataRace,
    DoubleReset,
    LostWakeup,
    MissingFence,
    SlotConflict,
    StaleRead,
    UnconsumedToken,
    UninitialisedRead,
    WrongCore,
)
from fusegen.sim.order.shadow import Conflict, Made, Overlap
from fusegen.sim.order.slots import Doubt, SlotWaited, SlotWrite
from fusegen.sim.slots import SlotNames

VERBS: Final = {"read": "reads", "write": "writes", "atomic": "adds to", "notify": "notifies"}


@dataclass(frozen=True, slots=True)
class Place:
    """Somebody at a line of simulated source, None where the machine itself acts."""

    actor: Actor
    line: CodeLine | None


class Spot(NamedTuple):
    """The slot at byte `address` of a memory."""

    memory: Memory
    address: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why two accesses are not ordered, and what would have ordered them; `slot` is the one that is relied on."""

    kind: type[DataRace]
    why: str
    expected: str
    guide: str
    slot: Spot | None = None


class Judge:
    """Makes findings. `location` gives the text of a line, `names` the names of slots, asked when they are needed."""

    def __init__(self, location: Callable[[CodeLine], Location], names: Callable[[], SlotNames]) -> None:
        self._location = location
        self._names = names

    def conflict(self, conflict: Conflict, clocks: tuple[Clock, ...]) -> DataRace:
        """The finding for two accesses; `clocks` is what the later one relies on."""
        reason = self._reason(conflict, clocks)
        before, now, overlap = conflict.before, conflict.now, conflict.overlap()
        tensor = now.tensor or before.tensor
        message = (
            f"{_range(overlap)} of {tensor} on rank {overlap.memory.rank}: {self._who(before)} "
            f"{VERBS[before.kind]}, {self._who(now)} {VERBS[now.kind]}, and {reason.why}"
        )
        return self._finding(
            reason.kind,
            Place(now.mark.thread.actor, now.line),
            Place(before.mark.thread.actor, before.line),
            message,
            overlap=overlap,
            tensor=tensor,
            expected=reason.expected,
            guide=reason.guide,
            slot=reason.slot,
        )

    def _reason(self, conflict: Conflict, clocks: tuple[Clock, ...]) -> Reason:
        """Why nothing orders two accesses, the most specific reason first."""
        before, now = conflict.before, conflict.now
        thread = now.mark.thread
        if before.mark.thread is thread:
            why = "both are of one core, but the first goes on until quiet"
            return Reason(MissingFence, why, "libshmem_device.quiet() between the two", "1.5")
        unused = [seen for seen in thread.seen.values() if seen not in now.waits]
        for seen in unused:
            if before.mark.is_before(thread, seen.clock):
                why = "was never consumed" if not seen.consumed else "is not carried by the pointer"
                return Reason(
                    UnconsumedToken,
                    f"the token of the wait on {self._slots(seen)} at {self._at(seen.line)} {why}",
                    f"dl.consume_token of that token, and access to {now.tensor} through what it returns",
                    "2.1",
                    Spot(seen.wait.memory, seen.wait.address),
                )
        known = (*clocks, *(seen.clock for seen in unused))
        if before.mark.is_issued_before(*known):
            return self._unfenced(before, now, known)
        for told, other in ((now, before), (before, now)):
            for signal in _signals(told):
                if _are_siblings(signal.actor, other):
                    return self._sent_by_sibling(signal, other)
        for seen in now.waits:
            if seen.rival is not None and before.mark.is_before(thread, seen.full):
                return self._rivalled(seen, seen.rival)
        return self._unannounced(conflict)

    def _unfenced(self, before: Made, now: Made, known: tuple[Clock, ...]) -> Reason:
        """The first access was announced before it was complete."""
        fence = "quiet" if before.mark.lane == QUIET else "fence"
        signal = _announcement(before, now, known)
        where = "what announces it" if signal is None else f"the notify at {self._sent(signal)}"
        return Reason(
            MissingFence,
            f"no {fence} has completed the first before it was announced",
            f"libshmem_device.{fence}() between the two, before {where}",
            "1.3",
            None if signal is None else Spot(signal.memory, signal.address),
        )

    def _sent_by_sibling(self, signal: Signal, other: Made) -> Reason:
        """The signal comes from another core of the AI core whose work it should announce."""
        worker = other.mark.thread.actor.name
        return Reason(
            WrongCore,
            f"{signal.actor.name} sent the signal at {self._sent(signal)}, and not the core that did the work",
            f"the signal from {worker}, or sync_block_set by it and sync_block_wait before",
            "2.1",
            Spot(signal.memory, signal.address),
        )

    def _rivalled(self, seen: Seen, rival: Signal) -> Reason:
        """An older write of the same value could have ended the wait."""
        return Reason(
            DataRace,
            f"the wait at {self._at(seen.line)} can be ended by what {rival.actor.name} wrote at "
            f"{self._sent(rival)}, too",
            "values that tell the uses of the slot apart",
            "2.1",
            Spot(rival.memory, rival.address),
        )

    def _unannounced(self, conflict: Conflict) -> Reason:
        """No signal tells of the first access; the one that an access relies on tells of others."""
        before, now = conflict.before, conflict.now
        writer, reader = (now, before) if before.kind == "read" else (before, now)
        own = next((each for each in _signals(reader) if each.actor is writer.mark.thread.actor), None)
        if reader.kind == "read" and own is not None and (reader is now or conflict.is_fresh):
            return Reason(
                StaleRead,
                f"the reader relies on the notify at {self._sent(own)}, which does not come after this store",
                f"the store and a fence before the notify at {self._at(own.line)}",
                "1.3",
                Spot(own.memory, own.address),
            )
        told, role = (now, "second") if now.waits else (before, "first")
        signal = next(_signals(told), None)
        expected = _missing_edge(before, now)
        if signal is None:
            return Reason(DataRace, "nothing orders the two", expected, "1.3")
        why = f"nothing orders the two: the {role} relies on what {signal.actor.name} wrote at {self._sent(signal)}"
        return Reason(DataRace, why, expected, "1.3", Spot(signal.memory, signal.address))

    def unwritten(self, made: Made, overlap: Overlap) -> DataRace:
        """The finding for a load of symmetric memory that nobody has written."""
        memory = overlap.memory
        where = f"{_range(overlap)} of {made.tensor} on rank {memory.rank}"
        message = f"{self._who(made)} reads {where}, which nobody has written"
        return self._finding(
            UninitialisedRead,
            Place(made.mark.thread.actor, made.line),
            None,
            message,
            overlap=overlap,
            tensor=made.tensor,
            expected=f"a store to {made.tensor} and a wait for it, or a mask that leaves these elements out",
            guide="1.3",
        )

    def line_conflict(self, before: Made, now: Made, memory: Memory, address: int) -> DataRace:
        """The finding for two actors that write different words of one line of 64 bytes."""
        index = address // SLOT_BYTES
        message = (
            f"{self._who(before)} and {self._who(now)} write different words of the 64-byte line {index} of "
            f"{memory.name} on rank {memory.rank}, and nothing orders the two"
        )
        return self._finding(
            SlotConflict,
            Place(now.mark.thread.actor, now.line),
            Place(before.mark.thread.actor, before.line),
            message,
            overlap=Overlap(memory, SLOT_BYTES, index, index, 1),
            expected="a line of its own for each of them: 8 int64 words for a slot",
            guide="1.3",
        )

    def doubt(self, doubt: Doubt) -> DataRace | None:
        """The finding for a slot on which another schedule goes wrong; None where it may only go differently."""
        where = self._slot(doubt.memory, doubt.address)
        before, now = doubt.before, doubt.now
        texts = self._does(before), self._does(now)
        kind: type[DataRace]
        match doubt.reason:
            case "match":
                return None
            case "zeroing":
                kind = UninitialisedRead
                message = f"{where}: {texts[1]}, and nothing orders it after the zeroing of the slot"
                expected = "fill_(0) by the host of that rank, and a rank barrier before the launch"
                guide = "2.1"
            case "wakeup":
                kind = LostWakeup
                message = f"{where}: {texts[1]}, and {texts[0]} may not have seen its value yet"
                expected = "a wait for something that the waiting core does after its own wait"
                guide = "2.1"
                if doubt.are_credits:
                    kind, expected, guide = self._double_reset(before, now)
            case "writes":
                assert before.actor is not None
                assert now.actor is not None
                hosts = before.actor.is_host or now.actor.is_host
                if _are_siblings(before.actor, now.actor) or (doubt.are_credits and not hosts):
                    kind, expected, _ = self._double_reset(before, now)
                else:
                    kind, expected = LostWakeup, "a rank barrier between" if hosts else "a wait for the other's value"
                message = f"{where}: {texts[0]}, {texts[1]}, and nothing orders the two: one may erase the other"
                guide = "2.1" if hosts else "1.3"
        assert now.actor is not None
        other = None if before.actor is None else Place(before.actor, before.line)
        place = Place(now.actor, now.line)
        index = doubt.address // SLOT_BYTES
        return self._finding(
            kind,
            place,
            other,
            message,
            overlap=Overlap(doubt.memory, SLOT_BYTES, index, index, 1),
            expected=expected,
            guide=guide,
            slot=Spot(doubt.memory, doubt.address),
        )

    def _double_reset(
        self, before: SlotWrite | SlotWaited, now: SlotWrite | SlotWaited
    ) -> tuple[type[DataRace], str, str]:
        """Kind, expectation and guide section where two cores do what one of them should."""
        assert before.actor is not None
        assert now.actor is not None
        if _are_siblings(before.actor, now.actor):
            return WrongCore, "al.scope(core_mode=...) around it, for the core that does the work", "1.3"
        return DoubleReset, "exactly one core that waits for the slot and resets it", "1.3"

    def dropped(self, seen: Seen, actor: Actor) -> DataRace:
        """The finding for a wait whose token nobody has consumed."""
        wait = seen.wait
        first = wait.address // SLOT_BYTES
        message = (
            f"{actor.name} waits at {self._at(seen.line)} for {self._slots(seen)}, and the token is never consumed: "
            "the compiler deletes such a wait"
        )
        return self._finding(
            UnconsumedToken,
            Place(actor, seen.line),
            None,
            message,
            overlap=Overlap(wait.memory, SLOT_BYTES, first, first + wait.count - 1, wait.count),
            expected="dl.consume_token for the pointer of what the wait protects",
            guide="2.1",
            slot=Spot(wait.memory, wait.address),
        )

    def doubt_text(self, doubt: Doubt) -> str:
        """Why a slot keeps a run from being proved."""
        where = self._slot(doubt.memory, doubt.address)
        both = f"{self._does(doubt.before)}, {self._does(doubt.now)}"
        match doubt.reason:
            case "match":
                return f"{where}: a wait could be ended by another write than here: {both}"
            case "writes":
                return f"{where}: nothing orders two writes: {both}"
            case "wakeup":
                return f"{where}: a write is not ordered after a wait: {both}"
            case "zeroing":
                return f"{where}: {self._does(doubt.now)}, not ordered after the zeroing of the slot"

    def _finding(
        self,
        kind: type[DataRace],
        place: Place,
        other: Place | None,
        message: str,
        *,
        overlap: Overlap,
        tensor: str = "",
        expected: str,
        guide: str,
        slot: Spot | None = None,
    ) -> DataRace:
        memory = overlap.memory
        return kind(
            f"{message}; expected {expected} (guide {guide})",
            place.actor.name,
            None if place.line is None else self._location(place.line),
            None if other is None else other.actor.name,
            None if other is None or other.line is None else self._location(other.line),
            tensor=tensor or memory.name,
            rank=memory.rank,
            first=overlap.first,
            last=overlap.last,
            count=overlap.number,
            element_bytes=overlap.size,
            slot=slot and self._names().at(slot.memory, slot.address),
            slot_tensor=slot.memory.name if slot else "",
            slot_rank=slot.memory.rank if slot else None,
            expected=expected,
            guide=guide,
        )

    def _sent(self, signal: Signal) -> str:
        return f"{self._at(signal.line)} on {self._slot(signal.memory, signal.address)}"

    def _slot(self, memory: Memory, address: int) -> str:
        return f"{memory.name} {self._names().at(memory, address)} on rank {memory.rank}"

    def _slots(self, seen: Seen) -> str:
        first = self._slot(seen.wait.memory, seen.wait.address)
        return first if seen.wait.count == 1 else f"{seen.wait.count} slots from {first} on"

    def _who(self, made: Made) -> str:
        return f"{made.mark.thread.actor.name} at {self._at(made.line)}"

    def _does(self, doing: SlotWrite | SlotWaited) -> str:
        if doing.actor is None:
            return f"fresh memory holds {doing.value}"
        verb = "waits for" if isinstance(doing, SlotWaited) else "writes"
        return f"{doing.actor.name} {verb} {doing.value} at {self._at(doing.line)}"

    def _at(self, line: CodeLine | None) -> str:
        return "an unknown line" if line is None else str(self._location(line))


def are_mates(first: Actor, second: Actor) -> bool:
    """Different cores of one AI core, in one program."""
    same = first.kernel is not None and first.kernel is second.kernel
    return same and first is not second and first.name.program == second.name.program


def _are_siblings(actor: Actor, other: Actor | Made) -> bool:
    """The same for an actor and whoever made an access."""
    return are_mates(actor, other if isinstance(other, Actor) else other.mark.thread.actor)


def _signals(made: Made) -> Iterator[Signal]:
    """The signals that an access relies on."""
    for seen in made.waits:
        yield from seen.partners


def _announcement(before: Made, now: Made, clocks: tuple[Clock, ...]) -> Signal | None:
    """The notify that announced an access: the first one after it that the other has learned of."""
    thread = before.mark.thread
    known = max(int(clock[thread.index + RETURNED]) for clock in clocks if thread.index < clock.size)
    own = (signal for signal in thread.notified if before.mark.epoch <= signal.epoch <= known)
    return next(own, None) or next(_signals(now), None)


def _missing_edge(before: Made, now: Made) -> str:
    first, second = before.mark.thread.actor, now.mark.thread.actor
    if are_mates(first, second):
        return "al.sync_block_set by one and al.sync_block_wait by the other"
    if first.is_host or second.is_host:
        return "a host that has waited for the stream, and for the other ranks in a barrier"
    if before.kind == "read":
        return "a wait before the store until the reader has returned the credit, after it has read, or a barrier"
    return "a wait on a signal that the writer sends after a fence, or a barrier between"


def _range(overlap: Overlap) -> str:
    first, last = overlap.first, overlap.last
    if first == last:
        return f"element {first}"
    if last - first + 1 == overlap.number:
        return f"elements {first} to {last}"
    return f"{overlap.number} of elements {first} to {last}"
