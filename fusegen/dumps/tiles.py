"""Slots that carry ready and credit of a tile: what their pattern says.

A producer waits for free and writes ready, the consumer waits for ready and writes free. Who stopped first is behind
the others, and what all others wait for:

    all slots ready                         nobody gives a credit back
    the ones behind are ready               these give none back, or have no waiter
    the ones behind are free for a later    a credit came twice and erased the tile's announcement, or the producer
    use                                     was silent in this use; the latter holds for the same tiles everywhere
    some still 0, the ring has moved on     their producer has gone on without a notify
    some still 0, the ring has stopped      their producer waits, too: a slot is full that it found free nowhere else,
                                            so another tile's announcement went there
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.dumps.evidence import Cause, credit_missing, drift, erased, listed_slots, reuse, silent
from fusegen.dumps.model import Dump
from fusegen.dumps.values import Slot, State


def tile_causes(dump: Dump, slots: Sequence[Slot]) -> list[Cause]:
    """Causes of a hang by the slots of one group, on all ranks whose dumps are there; likelier ones first."""
    ready = [slot for slot in slots if slot.reading.state is State.READY]
    reused = [slot for slot in slots if slot.reading.state is State.FREE and slot.value]
    zeros = [slot for slot in slots if slot.reading.state is State.FREE and not slot.value]
    if not ready and not reused:
        return []
    behind = _least(ready + reused)
    if not zeros:
        return _all_in_use(dump, ready, reused, behind)
    mixed = _mixed(zeros, ready + reused)
    if _has_stopped(dump, ready, reused) and mixed:
        text = listed_slots(ready, "announced, and nobody has read it")
        stopped = "no later round has begun, so the producers wait for slots that they never filled"
        return [
            drift(text, listed_slots(mixed, "waited for in the same round"), stopped),
            silent(listed_slots(mixed, "still 0")),
        ]
    if reused:
        return [
            erased(listed_slots(_least(reused), "given back, and without its next tile")),
            silent(listed_slots(behind, "behind the others")),
        ]
    if mixed:
        return [
            silent(listed_slots(mixed, "still 0 while others of the ring position are in use")),
            drift(listed_slots(ready, "announced, and not given back")),
        ]
    return [credit_missing(listed_slots(ready, "read or not, not given back, while other ring positions are free"))]


def _all_in_use(dump: Dump, ready: list[Slot], reused: list[Slot], behind: list[Slot]) -> list[Cause]:
    """No slot is 0: each has been announced in this launch and not been through its last use."""
    if behind[0].reading.state is State.READY:
        again = reuse(dump) or "the next launch uses the ring again"
        what = "behind the others" if reused else "every one"
        causes = [
            credit_missing(again, listed_slots(behind, f"{what} ready, and no credit is back")),
            drift(listed_slots(behind, "ready, perhaps without a waiter")),
        ]
        # Where nothing is used again, producers need no credit: it is a consumer that hangs.
        return causes[::-1] if dump.hangs and not reuse(dump) else causes
    causes = [
        erased(listed_slots(behind, "given back, and without its next tile")),
        silent(listed_slots(behind, "free for a later use, and no tile comes")),
    ]
    return causes[::-1] if _is_systematic(behind, ready + reused) else causes


def _least(slots: list[Slot]) -> list[Slot]:
    """Those that have got least far."""
    least = min(slot.reading.progress for slot in slots)
    return [slot for slot in slots if slot.reading.progress == least]


def _mixed(zeros: list[Slot], others: list[Slot]) -> list[Slot]:
    """Slots that are 0 at a ring position of a rank of which others are in use."""
    in_use = {(slot.rank, slot.position.get("ring")) for slot in others}
    return [slot for slot in zeros if (slot.rank, slot.position.get("ring")) in in_use]


def _has_stopped(dump: Dump, ready: list[Slot], reused: list[Slot]) -> bool:
    """Producers have announced tiles of a first use, and none of the next, though there is room for it.

    Room is another ring position, or slots that the consumers have freed.
    """
    if not ready or any(slot.reading.progress > 1 for slot in ready):
        return False
    has_next = min(dump.rounds, dump.buffer_num) > 1 and all(slot.position.get("ring") == 0 for slot in ready + reused)
    return has_next or (bool(reused) and _is_systematic(reused, ready + reused))


def _is_systematic(behind: list[Slot], slots: list[Slot]) -> bool:
    """The same tiles are behind on every rank, from every source, at every ring position."""

    def row(slot: Slot) -> tuple[int, int, int]:
        return slot.rank, slot.position.get("ring", 0), slot.position.get("source_rank", 0)

    def tile(slot: Slot) -> tuple[int, ...]:
        return tuple(at for axis, at in slot.position.items() if axis not in ("ring", "source_rank"))

    stuck = {row(slot) for slot in behind}
    return stuck == {row(slot) for slot in slots} and len({(tile(slot)) for slot in behind}) * len(stuck) == len(behind)
