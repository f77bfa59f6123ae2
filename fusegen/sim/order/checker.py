"""The observer: turns events into clocks, shadow accesses and slots, and keeps what they find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from fusegen.sim.actors import Actor, SlotWait
from fusegen.sim.device import Kernel, Stream
from fusegen.sim.events import (
    Access,
    Atomic,
    BarrierPassed,
    CodeLine,
    Drained,
    Event,
    Fenced,
    FlagSet,
    FlagWaited,
    HostCollective,
    HostTouched,
    Launched,
    Multiplied,
    Notified,
    ProgramEnded,
    ProgramStarted,
    Read,
    StreamJoined,
    TileReceived,
    TileSent,
    TokenConsumed,
    Waited,
    Write,
)
from fusegen.sim.findings import Finding, Location
from fusegen.sim.memory import SLOT_BYTES, Memory, Pointer
from fusegen.sim.order.clocks import FENCED, QUIET, RETURNED, Clock, Signal, Thread, Threads, join
from fusegen.sim.order.proof import Proof
from fusegen.sim.order.races import Judge, are_mates
from fusegen.sim.order.shadow import AccessKind, Conflict, Made, Overlap, Shadow
from fusegen.sim.order.slots import POISON_BYTE, Doubt, Slots
from fusegen.sim.order.tokens import is_consumed_in_text, reaches
from fusegen.sim.slots import SlotNames

MAX_FINDINGS: Final = 20
MAX_DOUBTS: Final = 3

LANE_OF: Final = {"fence": FENCED, "return": RETURNED, "quiet": QUIET}
KIND_OF: Final[dict[type[Access], AccessKind]] = {Read: "read", Write: "write", Atomic: "atomic"}


class OrderChecker:
    """Observes one run. `findings` and `proof` tell what it saw; `finish` comes before them, when the run has ended."""

    def __init__(
        self,
        location: Callable[[CodeLine], Location],
        names: Callable[[], SlotNames],
        shared: Set[tuple[str, int]],
    ) -> None:
        self._location = location
        self._shared = shared
        self._judge = Judge(location, names)
        self._threads = Threads()
        self._shadow = Shadow(self._conflict, self._unwritten)
        self._slots = Slots(self._doubt)
        self._now: tuple[Clock, ...] = ()
        self._handed: dict[FlagSet | TileSent, tuple[Clock, Clock]] = {}
        self._taken: set[FlagSet | TileSent] = set()
        self._launched: dict[Kernel, Clock] = {}
        self._streams: defaultdict[Stream, list[tuple[int, Clock]]] = defaultdict(list)
        self._ends: defaultdict[Stream, dict[Kernel, Clock]] = defaultdict(dict)
        self._places: dict[Kernel, int] = {}
        self._numbers: dict[Thread, tuple[int, dict[object, int]]] = {}
        self._lines: WeakKeyDictionary[Memory, dict[int, dict[int, Made]]] = WeakKeyDictionary()
        self._found: dict[object, Finding] = {}
        self._doubts: dict[object, str] = {}
        self._accessed: WeakSet[Memory] = WeakSet()
        self._stored: WeakKeyDictionary[Memory, tuple[Actor, CodeLine | None]] = WeakKeyDictionary()
        self._handlers: dict[type, Callable[..., None]] = {
            Read: self._access,
            Write: self._access,
            Atomic: self._access,
            Waited: self._waited,
            TokenConsumed: self._consumed,
            Notified: self._notified,
            Fenced: self._fenced,
            BarrierPassed: self._met,
            Multiplied: lambda event: None,
            FlagSet: self._hand_over,
            TileSent: self._hand_over,
            FlagWaited: lambda event: self._receive(event.actor, event.sets),
            TileReceived: lambda event: self._receive(event.actor, (event.sent,)),
            Launched: self._launch,
            ProgramStarted: self._start,
            ProgramEnded: self._end,
            StreamJoined: self._join_stream,
            HostTouched: self._touched,
            Drained: self._drained,
            HostCollective: self._met,
        }

    def observe(self, event: Event) -> None:
        """Take an event."""
        self._handlers[type(event)](event)

    def finish(self, blocked: Iterable[Actor], line_of: Callable[[Actor], CodeLine | None]) -> None:
        """The run has ended with `blocked` actors waiting: see what they have missed."""
        for actor in blocked:
            if isinstance(actor.waiting, SlotWait):
                self._slots.missed(self._threads.of(actor), actor.waiting, line_of(actor))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, in the order of the run."""
        return tuple(self._found.values())

    def proof(self, *, is_clean: bool) -> Proof:
        """Whether the run proves every schedule; `is_clean` tells that nothing at all was found."""
        doubts = list(self._doubts.values())[:MAX_DOUBTS]
        if not is_clean and not doubts:
            doubts.append("the run has findings")
        counts = self._slots
        return Proof(not doubts, tuple(doubts), counts.count, counts.writes, counts.waits)

    def _access(self, event: Read | Write | Atomic) -> None:
        thread = self._threads.of(event.actor)
        pointer = event.pointer
        if pointer.memory not in self._accessed:
            self._accessed.add(pointer.memory)
            self._slots.show(pointer.memory, self._shadow)
        waits = tuple([thread.seen[id(token.wait)] for token in pointer.tokens if id(token.wait) in thread.seen])
        clocks = self._now = (thread.plain, *[seen.clock for seen in waits]) if waits else (thread.plain,)
        kind = KIND_OF[type(event)]
        epoch, numbers = self._numbers.get(thread, (0, {}))
        if epoch != thread.epoch:
            numbers = {}
            self._numbers[thread] = thread.epoch, numbers
        line = event.line
        key = (kind, pointer.name, event.completion, line and (id(line.code), line.line), tuple(map(id, waits)))
        number = numbers.get(key)
        if number is None:
            made = Made(thread.mark(LANE_OF[event.completion]), kind, line, pointer.name, waits)
            number = numbers[key] = self._shadow.number(made)
        self._shadow.access(pointer.memory, pointer.element.itemsize, event.lanes, number, clocks)
        if kind != "read":
            if pointer.memory.peers is not None:
                thread.writes_symmetric = True
            if isinstance(event.lanes, int):
                self._write_word(pointer, Made(thread.mark(LANE_OF[event.completion]), kind, line, pointer.name, waits))
            if pointer.memory not in self._stored:
                self._stored[pointer.memory] = event.actor, line
                self._check_stored(pointer.memory)

    def _check_stored(self, memory: Memory) -> None:
        """Slots are written by notify: what a store does to them is not followed."""
        if memory in self._stored and self._slots.has(memory):
            actor, line = self._stored[memory]
            where = "" if line is None else f" at {self._location(line)}"
            self._doubts["stored", memory.name] = (
                f"{actor.name} writes {memory.name}, which has slots, by a store{where}"
            )

    def _write_word(self, pointer: Pointer, made: Made) -> None:
        """A scalar store or a notify goes through a line of the data cache."""
        memory, address = pointer.memory, pointer.address()
        words = self._lines.setdefault(memory, {}).setdefault(address // SLOT_BYTES, {})
        for word, before in words.items():
            if word != address and not before.mark.is_before(made.mark.thread, *self._now):
                key = ("line", before.line, made.line)
                if self._is_new(key):
                    self._found[key] = self._judge.line_conflict(before, made, memory, address)
        words[address] = made

    def _waited(self, event: Waited) -> None:
        thread = self._threads.of(event.actor)
        seen = self._slots.waited(thread, event)
        self._check_stored(event.wait.memory)
        if event.has_token:
            thread.saw(seen)
        else:
            thread.learn(seen.clock)

    def _consumed(self, event: TokenConsumed) -> None:
        self._threads.of(event.actor).consume(event.token.wait)

    def _notified(self, event: Notified) -> None:
        thread = self._threads.of(event.actor)
        pointer = event.pointer
        self._now = (thread.known,)
        signal = Signal(event.actor, event.line, pointer.memory, pointer.address(), thread.epoch)
        thread.notified.append(signal)
        made = Made(thread.mark(RETURNED), "notify", event.line, pointer.name, ())
        if pointer.memory in self._accessed:
            size = pointer.element.itemsize
            lanes = pointer.address() // size
            self._shadow.access(pointer.memory, size, lanes, self._shadow.number(made), self._now)
        self._write_word(pointer, made)
        self._slots.notified(thread, event)
        self._check_stored(pointer.memory)

    def _fenced(self, event: Fenced) -> None:
        self._threads.of(event.actor).fence(quiet=event.builtin == "quiet")

    def _met(self, event: BarrierPassed | HostCollective) -> None:
        """All of them go on after all that any of them has done."""
        threads = [self._threads.of(actor) for actor in event.actors]
        together = self._threads.nothing()
        for thread in threads:
            together = join(together, thread.completed())
        for thread in threads:
            thread.learn(together)

    def _hand_over(self, event: FlagSet | TileSent) -> None:
        self._handed[event] = self._threads.of(event.actor).handed_over()

    def _receive(self, actor: Actor, sets: tuple[FlagSet | TileSent, ...]) -> None:
        thread = self._threads.of(actor)
        for each in sets:
            clocks = self._handed.pop(each)
            thread.learn(*clocks)
            if each.receiver == "vector" and each not in self._taken:  # the other AIV takes it, too
                self._handed[each] = clocks
                self._taken.add(each)
            else:
                self._taken.discard(each)

    def _launch(self, event: Launched) -> None:
        kernel = event.kernel
        self._launched[kernel] = self._threads.of(event.actor).completed()
        self._places[kernel] = kernel.stream.submitted + 1

    def _start(self, event: ProgramStarted) -> None:
        kernel = event.actor.kernel
        assert kernel is not None
        self._threads.start(event.actor, join(self._launched[kernel], self._finished(kernel.stream)))

    def _end(self, event: ProgramEnded) -> None:
        actor = event.actor
        kernel, thread = actor.kernel, self._threads.of(actor)
        assert kernel is not None
        for seen in thread.seen.values():
            key = ("dropped", seen.line)
            if not seen.consumed and self._is_new(key) and not (seen.line and is_consumed_in_text(seen.line)):
                self._found[key] = self._judge.dropped(seen, actor)
        self._numbers.pop(thread, None)
        ends, end = self._ends[kernel.stream], self._threads.end(actor)
        ends[kernel] = join(ends[kernel], end) if kernel in ends else end

    def _finished(self, stream: Stream, target: int | None = None) -> Clock:
        """What whoever comes after the first `target` operations of a stream, or all it has finished, may rely on."""
        ends = self._ends[stream]
        for kernel in [each for each in ends if each.finished == each.programs]:
            self._add_to_stream(stream, self._places.pop(kernel), ends.pop(kernel))
            del self._launched[kernel]
        past = reversed(self._streams[stream])
        clocks = (clock for place, clock in past if target is None or place <= target)
        return next(clocks, self._threads.nothing())

    def _add_to_stream(self, stream: Stream, place: int, clock: Clock) -> None:
        """What comes after the operation at this place of a stream comes after the clock."""
        past = self._streams[stream]
        past.append((place, join(past[-1][1], clock) if past else clock))

    def _join_stream(self, event: StreamJoined) -> None:
        self._finished(event.stream)
        place = event.stream.finished + 1
        self._add_to_stream(event.stream, place, self._finished(event.other, event.target))

    def _drained(self, event: Drained) -> None:
        self._threads.of(event.actor).learn(self._finished(event.stream, event.target))

    def _touched(self, event: HostTouched) -> None:
        thread, memory = self._threads.of(event.actor), event.memory
        thread.learn(self._finished(event.stream))
        self._now = (thread.known,)
        kind: AccessKind = "write" if event.is_write else "read"
        number = self._shadow.number(Made(thread.mark(RETURNED), kind, event.line, memory.name, ()))
        self._shadow.access(memory, event.element_bytes, event.lanes, number, self._now)
        if event.is_write:
            self._slots.touched(thread, event)

    def _conflict(self, conflict: Conflict) -> None:
        before, now = conflict.before, conflict.now
        key = (before.kind, before.line, now.kind, now.line)
        if before.kind == now.kind == "atomic":
            if key not in self._doubts and not (self._is_statement(before.line) and self._is_statement(now.line)):
                self._doubts[key] = f"{now.tensor}: what tl.atomic_add returns depends on the schedule"
        elif self._is_new(key) and not self._is_shared(before, now) and not self._is_computed_from_token(before, now):
            self._found[key] = self._judge.conflict(conflict, self._now)

    def _is_computed_from_token(self, before: Made, now: Made) -> bool:
        """A wait for the first access orders the second one, which has its token in an index or in what it stores."""
        thread = now.mark.thread
        return any(
            seen.consumed
            and before.mark.is_before(thread, seen.clock)
            and seen.line
            and now.line
            and reaches(seen.line, now.line, is_read=now.kind == "read")
            for seen in thread.seen.values()
        )

    def _is_shared(self, before: Made, now: Made) -> bool:
        """The AIVs of one program do what the device divides between them: each stores its part after its loads."""
        kinds = {made.mark.thread.actor.name.kind for made in (before, now)}
        lines = {made.line for made in (before, now) if made.kind != "read" and made.line is not None}
        is_one_program = are_mates(before.mark.thread.actor, now.mark.thread.actor)
        return (
            is_one_program
            and kinds == {"AIV"}
            and any((line.code.co_filename, line.line) in self._shared for line in lines)
        )

    def _is_statement(self, line: CodeLine | None) -> bool:
        """The atomic at this line is a statement, whose value nobody uses."""
        return line is not None and self._location(line).source.startswith("tl.atomic")

    def _unwritten(self, made: Made, overlap: Overlap) -> None:
        first = overlap.first * overlap.size
        key = ("unwritten", made.line)
        if self._is_new(key) and _is_poison(overlap.memory.bytes[first : first + overlap.size].tobytes()):
            self._found[key] = self._judge.unwritten(made, overlap)

    def _doubt(self, doubt: Doubt) -> None:
        key = (doubt.reason, doubt.before.line, doubt.now.line)
        if key not in self._doubts:
            self._doubts[key] = self._judge.doubt_text(doubt)
        if self._is_new(key):
            finding = self._judge.doubt(doubt)
            if finding is not None:
                self._found[key] = finding

    def _is_new(self, key: object) -> bool:
        """Nothing alike is found yet, and there are not too many findings."""
        return key not in self._found and len(self._found) < MAX_FINDINGS


_NANS: Final = frozenset(bytes.fromhex(nan) for nan in ("c07f", "007e", "0000c07f", "000000000000f87f"))


def _is_poison(data: bytes) -> bool:
    """Bytes as fresh memory has them."""
    return len(data) == 1 or data in _NANS or data == POISON_BYTE * len(data)
