"""What accesses without order are called: the kind of finding, and what would have ordered them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fusegen.sim.actors import Actor
from fusegen.sim.events import CodeLine
from fusegen.sim.findings import Location
from fusegen.sim.memory import SLOT_BYTES, Memory
from fusegen.sim.order.clocks import QUIET, RETURNED, Clock, Seen
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


class Judge:
    """Makes findings. `location` gives the text of a line, `names` the names of slots, asked when they are needed."""

    def __init__(self, location: Callable[[CodeLine], Location], names: Callable[[], SlotNames]) -> None:
        self._location = location
        self._names = names

    def conflict(self, conflict: Conflict, clocks: tuple[Clock, ...]) -> DataRace:
        """The finding for two accesses; `clocks` is what the later one relies on."""
        before, now = conflict.before, conflict.now
        thread = now.mark.thread
        writer, reader = (now, before) if before.kind == "read" else (before, now)
        unused = [seen for seen in thread.seen.values() if seen not in now.waits]
        for seen in unused:
            if before.mark.is_before(thread, seen.clock):
                why = "was never consumed" if not seen.consumed else "is not carried by the pointer"
                return self._race(
                    UnconsumedToken,
                    conflict,
                    f"the token of the wait at {self._at(seen.line)} {why}",
                    f"dl.consume_token of that token, and access to {now.tensor} through what it returns",
                    "2.1",
                )
        known = (*clocks, *(seen.clock for seen in unused))
        if before.mark.is_issued_before(*known):
            where = self._notify_after(before, now, known)
            fence = "quiet" if before.mark.lane == QUIET else "fence"
            return self._race(
                MissingFence,
                conflict,
                f"no {fence} has completed the first before it was announced",
                f"libshmem_device.{fence}() between the two, before {where}",
                "1.3",
            )
        if self._is_from_a_sibling(before, now) or self._is_from_a_sibling(now, before):
            told, other = (now, before) if self._is_from_a_sibling(before, now) else (before, now)
            actor, line = next(each for seen in told.waits for each in seen.partners if _are_siblings(each[0], other))
            return self._race(
                WrongCore,
                conflict,
                f"{actor.name} sent the signal at {self._at(line)}, and not the core that did the work",
                f"the signal from {other.mark.thread.actor.name}, or sync_block_set by it and sync_block_wait before",
                "2.1",
            )
        for seen in now.waits:
            if seen.rival is not None and before.mark.is_before(thread, seen.full):
                rival, line = seen.rival
                wrote = f"what {rival.name} wrote at {self._at(line)}"
                return self._race(
                    DataRace,
                    conflict,
                    f"the wait at {self._at(seen.line)} can be ended by {wrote}, too",
                    "values that tell the uses of the slot apart",
                    "2.1",
                )
        relied = next(
            (line for seen in reader.waits for actor, line in seen.partners if actor is writer.mark.thread.actor), None
        )
        if reader.kind == "read" and relied is not None and (reader is now or conflict.is_fresh):
            return self._race(
                StaleRead,
                conflict,
                f"the reader relies on the notify at {self._at(relied)}, which does not come after this store",
                f"the store and a fence before the notify at {self._at(relied)}",
                "1.3",
            )
        return self._race(DataRace, conflict, "nothing orders the two", self._missing_edge(before, now), "1.3")

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
            memory=memory,
            overlap=overlap,
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
            memory=memory,
            overlap=Overlap(memory, SLOT_BYTES, index, 1),
            expected="a line of its own for each of them: 8 int64 words for a slot",
            guide="1.3",
        )

    def doubt(self, doubt: Doubt) -> DataRace | None:
        """The finding for a slot on which another schedule goes wrong; None where it may only go differently."""
        slot = self._names().at(doubt.memory, doubt.address)
        where = f"{doubt.memory.name} {slot} on rank {doubt.memory.rank}"
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
            case "writes":
                assert before.actor is not None
                assert now.actor is not None
                hosts = before.actor.is_host or now.actor.is_host
                if _are_siblings(before.actor, now.actor):
                    kind, expected = WrongCore, "al.scope(core_mode=...) around it, for the core that does the work"
                elif doubt.are_credits and not hosts:
                    kind, expected = DoubleReset, "exactly one core that resets the slot"
                else:
                    kind, expected = LostWakeup, "a rank barrier between" if hosts else "a wait for the other's value"
                message = f"{where}: {texts[0]}, {texts[1]}, and nothing orders the two: one may erase the other"
                guide = "2.1" if hosts else "1.3"
        assert now.actor is not None
        other = None if before.actor is None else Place(before.actor, before.line)
        place = Place(now.actor, now.line)
        overlap = Overlap(doubt.memory, SLOT_BYTES, doubt.address // SLOT_BYTES, 1)
        return self._finding(
            kind, place, other, message, memory=doubt.memory, overlap=overlap, expected=expected, guide=guide, slot=True
        )

    def dropped(self, seen: Seen, actor: Actor) -> DataRace:
        """The finding for a wait whose token nobody has consumed."""
        memory, address = seen.wait.memory, seen.wait.address
        where = f"{memory.name} {self._names().at(memory, address)} on rank {memory.rank}"
        message = (
            f"{actor.name} waits at {self._at(seen.line)} for {where}, and the token is never consumed: "
            "the compiler deletes such a wait"
        )
        return self._finding(
            UnconsumedToken,
            Place(actor, seen.line),
            None,
            message,
            memory=memory,
            overlap=Overlap(memory, SLOT_BYTES, address // SLOT_BYTES, seen.wait.count),
            expected="dl.consume_token for the pointer of what the wait protects",
            guide="2.1",
            slot=True,
        )

    def doubt_text(self, doubt: Doubt) -> str:
        """Why a slot keeps a run from being proved."""
        slot = self._names().at(doubt.memory, doubt.address)
        where = f"{doubt.memory.name} {slot} on rank {doubt.memory.rank}"
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

    def _race(self, kind: type[DataRace], conflict: Conflict, why: str, expected: str, guide: str) -> DataRace:
        before, now, overlap = conflict.before, conflict.now, conflict.overlap
        message = (
            f"{_range(overlap)} of {now.tensor} on rank {overlap.memory.rank}: {self._who(before)} "
            f"{VERBS[before.kind]}, {self._who(now)} {VERBS[now.kind]}, and {why}"
        )
        place, other = Place(now.mark.thread.actor, now.line), Place(before.mark.thread.actor, before.line)
        return self._finding(
            kind, place, other, message, memory=overlap.memory, overlap=overlap, expected=expected, guide=guide
        )

    def _finding(
        self,
        kind: type[DataRace],
        place: Place,
        other: Place | None,
        message: str,
        *,
        memory: Memory,
        overlap: Overlap,
        expected: str,
        guide: str,
        slot: bool = False,
    ) -> DataRace:
        return kind(
            f"{message}; expected {expected} (guide {guide})",
            place.actor.name,
            None if place.line is None else self._location(place.line),
            None if other is None else other.actor.name,
            None if other is None or other.line is None else self._location(other.line),
            tensor=memory.name,
            rank=memory.rank,
            first=overlap.first,
            count=overlap.number,
            element_bytes=overlap.size,
            slot=self._names().at(memory, overlap.first * SLOT_BYTES) if slot else None,
            expected=expected,
            guide=guide,
        )

    def _is_from_a_sibling(self, other: Made, told: Made) -> bool:
        """What `told` relies on was sent by another core of the AI core that made `other`."""
        return any(_are_siblings(actor, other) for seen in told.waits for actor, _ in seen.partners)

    def _notify_after(self, before: Made, now: Made, clocks: tuple[Clock, ...]) -> str:
        """The notify that announced an access: the first one after it that the other has learned of."""
        thread = before.mark.thread
        known = max(int(clock[thread.index + RETURNED]) for clock in clocks if thread.index < clock.size)
        for epoch, line in thread.notified:
            if before.mark.epoch <= epoch <= known:
                return f"the notify at {self._at(line)}"
        for seen in now.waits:
            for _, line in seen.partners:
                return f"the notify at {self._at(line)}"
        return "the notify that announces it"

    def _missing_edge(self, before: Made, now: Made) -> str:
        first, second = before.mark.thread.actor, now.mark.thread.actor
        if are_mates(first, second):
            return "al.sync_block_set by one and al.sync_block_wait by the other"
        if before.kind == "read":
            return "a wait before the store until the reader has returned the credit, after it has read, or a barrier"
        return "a wait on a signal that the writer sends after a fence, or a barrier between"

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


def _range(overlap: Overlap) -> str:
    if overlap.number == 1:
        return f"element {overlap.first}"
    return f"{overlap.number} elements from {overlap.first} on"
