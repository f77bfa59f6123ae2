"""What the value of a slot says, by the protocol that its dump names (guide 1.3).

    plain      0 free, 1 ready: one use follows the other on the same cores
    numbered   2 * use free, 2 * use + 1 ready, 0 again after the last use of a launch
    counted    turns = uses over four launches: ready is turn + 1; a credit is turn + 1, or 0 after the last turn
    launch     ready is launch % 4 + 1; nothing is reset

`uses` of a ring position are those of one launch. Launches count from 1, uses and rounds from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from fusegen.dumps.model import Dump, SlotGroup

LAUNCHES_IN_TURN: Final = 4
"""Launches after which counted values and numbers of launches repeat."""


class State(Enum):
    """What a slot stands at."""

    FREE = "free"
    READY = "ready"
    CREDITED = "credited"
    FOREIGN = "foreign"
    """No use of the protocol writes the value."""
    UNUSED = "unused"
    """No task of the launch has the slot."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value in words.

    `progress` grows with every write that the protocol makes to the slot: launches in use follow each other. It is -1
    where nothing was written yet; a plain or numbered slot that is 0 may also have been through all its uses.
    """

    state: State
    meaning: str
    progress: int = -1
    use: int | None = None
    round: int | None = None
    launch: int | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a rank, decoded. `at_rest` says that a finished launch leaves this value."""

    rank: int
    group: str
    index: int
    position: dict[str, int]
    value: int
    reading: Reading
    at_rest: bool

    def __str__(self) -> str:
        coordinates = ", ".join(f"{axis} {coordinate}" for axis, coordinate in self.position.items())
        return f"{self.group} slot {self.index} ({coordinates}) on rank {self.rank}"


def decoded(dump: Dump, name: str) -> Iterator[Slot]:
    """Every slot of a group, those that are zero included."""
    group = dump.slots[name]
    values = {entry.slot: entry.value for entry in group.nonzero}
    for index in range(group.count):
        position, value = group.position(index), values.get(index, 0)
        is_at_rest = value in _rest_values(dump, group, position)
        yield Slot(dump.rank, name, index, position, value, _read(dump, group, position, value), is_at_rest)


def uses_of(dump: Dump, position: dict[str, int]) -> int:
    """Uses of a slot's ring position in one launch."""
    return max(-(-(dump.rounds - position.get("ring", 0)) // dump.buffer_num), 0)


def _read(dump: Dump, group: SlotGroup, position: dict[str, int], value: int) -> Reading:
    uses = uses_of(dump, position)
    if not uses:
        return Reading(State.UNUSED, f"no task has this slot: a launch has {dump.rounds} rounds")
    match group.values:
        case "plain":
            reading = _plain(value)
        case "numbered":
            reading = _numbered(dump, position, value, uses)
        case "counted":
            reading = _counted(dump, group, position, value, uses)
        case "launch":
            reading = _launch(dump, value)
        case _:
            assert_never(group.values)
    return reading or Reading(State.FOREIGN, f"no use of this slot writes {value:#x}")


def _plain(value: int) -> Reading | None:
    if value not in (0, 1):
        return None
    if value:
        return Reading(State.READY, "the tile is there, its credit is not back", progress=1)
    return Reading(State.FREE, "free", progress=0)


def _numbered(dump: Dump, position: dict[str, int], value: int, uses: int) -> Reading | None:
    if not 0 <= value < 2 * uses:
        return None
    use, is_ready = divmod(value, 2)
    turn = use * dump.buffer_num + position["ring"]
    if is_ready:
        return Reading(State.READY, f"tile of use {use} is there, its credit is not back", value, use, turn)
    if not value:
        return Reading(State.FREE, "free", 0, 0, turn)
    meaning = f"free for use {use}: the credit of use {use - 1} is back, the next tile is not there"
    return Reading(State.FREE, meaning, value, use, turn)


def _counted(dump: Dump, group: SlotGroup, position: dict[str, int], value: int, uses: int) -> Reading | None:
    """Turns are told apart by the launches that are known to have ended."""
    turns, is_credit = LAUNCHES_IN_TURN * uses, group.purpose == "credit"
    if not 0 <= value < turns + (not is_credit):
        return None
    if is_credit and value and (value - 1) % 2 != position["parity"]:
        return None
    wrapped = value == 0 and is_credit and position["parity"] == 1 and dump.ended >= LAUNCHES_IN_TURN
    if not value and not wrapped:
        return Reading(State.FREE, "no use has written it")
    base = max(dump.ended - 1, 0) * uses
    turn = base + (value - 1 - base) % turns
    launch, use = divmod(turn, uses)
    what = "this core has read its share" if is_credit else "the tile is there"
    state = State.CREDITED if is_credit else State.READY
    ring_round = use * dump.buffer_num + position["ring"]
    return Reading(state, f"{what}, use {use} of launch {launch + 1}", turn, use, ring_round, launch + 1)


def _launch(dump: Dump, value: int) -> Reading | None:
    if not 0 <= value <= LAUNCHES_IN_TURN:
        return None
    if not value:
        return Reading(State.FREE, "no launch has written it")
    base = max(dump.ended - 1, 0)
    launch = base + (value - 1 - base) % LAUNCHES_IN_TURN
    return Reading(State.READY, f"the block of launch {launch + 1} is there", launch, launch=launch + 1)


def _rest_values(dump: Dump, group: SlotGroup, position: dict[str, int]) -> frozenset[int]:
    """What `ended` launches leave in a slot, where no other is under way."""
    uses = uses_of(dump, position)
    if not dump.ended or not uses or group.purpose == "tile":
        return frozenset([0])
    launch = (dump.ended - 1) % LAUNCHES_IN_TURN
    if group.values == "launch":
        # What a rank keeps for itself needs no signal.
        return frozenset([launch + 1] + [0] * is_own(dump.rank, position))
    last = launch * uses + uses - 1
    if group.purpose == "credit":
        newest = last + (position["parity"] == last % 2)
        return frozenset([newest % (LAUNCHES_IN_TURN * uses)])
    before = [last if uses > 1 else 0] if is_in_tail(dump, position) else []
    return frozenset([last + 1, *before])


def is_own(rank: int, position: dict[str, int]) -> bool:
    """The slot is about what a rank sends to itself."""
    return rank in (position.get("source_rank"), position.get("target_rank"))


def is_in_tail(dump: Dump, position: dict[str, int]) -> bool:
    """The last round of a launch has this ring position and may leave out the slot: it may have fewer rows."""
    is_first_row = not next((at for axis, at in position.items() if axis not in ("ring", "source_rank")), 0)
    return position.get("ring") == (dump.rounds - 1) % dump.buffer_num and not is_first_row
