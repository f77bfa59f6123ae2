"""Slots with many waiters: ready and credit apart, and blocks that arrive once in a launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fusegen.dumps.evidence import Cause, credit_missing, listed_slots, reuse, silent
from fusegen.dumps.model import Dump
from fusegen.dumps.values import Slot, is_in_tail, is_own


def counted_causes(dump: Dump, ready: Sequence[Slot], credits: Sequence[Slot]) -> list[Cause]:
    """Tiles that do not come, else credits that do not come back, of one ring on all ranks whose dumps are there."""
    newest: dict[int, int] = defaultdict(lambda: -1)
    for slot in ready:
        newest[slot.position["ring"]] = max(newest[slot.position["ring"]], slot.reading.progress)
    if max(newest.values(), default=-1) < 0:
        return [silent(f"no slot of {ready[0].group} has been written")] if ready else []
    late = [
        slot
        for slot in ready
        if slot.reading.progress < newest[slot.position["ring"]] and not is_in_tail(dump, slot.position)
    ]
    if late:
        return [silent(listed_slots(late, "without the tile that others of the ring position have"))]
    returned: dict[tuple[int, int, int, int], list[Slot]] = defaultdict(list)
    for slot in credits:
        at = slot.position
        returned[slot.rank, at["ring"], at["reader_rank"], at["reader_core"]].append(slot)
    owed = [
        max(slots, key=lambda slot: slot.reading.progress)
        for (_, ring, *_), slots in returned.items()
        if all(slot.reading.progress < newest[ring] for slot in slots)
    ]
    if owed:
        again = reuse(dump) or "the next launch uses the ring again"
        return [credit_missing(again, listed_slots(owed, "credits that have not come back"))]
    return [silent(f"all tiles of {ready[0].group} are read and their credits back, and the next ones do not come")]


def arrival_causes(dump: Dump, slots: Sequence[Slot]) -> list[Cause]:
    """Blocks of the launch that have not come."""
    newest = max((slot.reading.progress for slot in slots), default=-1)
    if newest < 0:
        return []
    keeps_own = all(slot.reading.progress < 0 for slot in slots if is_own(slot.rank, slot.position))
    late = [
        slot
        for slot in slots
        if slot.reading.progress < newest and not (keeps_own and is_own(slot.rank, slot.position))
    ]
    return [silent(listed_slots(late, f"without the block of launch {newest + 1}, which others have"))] if late else []
