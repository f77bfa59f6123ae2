"""A likely cause, and how the slots that speak for it are listed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fusegen.dumps.model import Dump
from fusegen.dumps.values import Slot

SHOWN: Final = 3
"""Slots that one piece of evidence names."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a launch may hang: what speaks for it, the sections of the optimization guide, and what to do."""

    name: str
    evidence: tuple[str, ...]
    guide: str
    advice: str


def silent(*evidence: str) -> Cause:
    """Guide 2.1, stuck at 0: the announcement of a tile does not come."""
    advice = (
        "compare the loop of the notify with that of the store: same bounds, same slot; "
        "look whether the producer's core waits for something else"
    )
    return Cause("producer did not notify", evidence, "2.1", advice)


def credit_missing(*evidence: str) -> Cause:
    """Guide 2.1: hangs as soon as a slot is used again, since nobody resets it."""
    advice = "after reading a tile: fence, then notify the slot with its credit, once, on every path of the consumer"
    return Cause("credit return missing", evidence, "1.3, 2.1", advice)


def erased(*evidence: str) -> Cause:
    """Guide 2.1: hangs from the second use of a slot on, since a reset came after the next tile was announced."""
    advice = "exactly one resetter for each slot, and one reset for each use: look for a second notify with the credit"
    return Cause("signal erased", evidence, "1.3, 2.1", advice)


def drift(*evidence: str) -> Cause:
    """Guide 2.1, stuck at 1 and memory corruption: a slot's address is not the same everywhere."""
    advice = (
        "compare the slot formulas of wait and notify, term by term, with each other and with what the host allocates"
    )
    return Cause("slot address drift", evidence, "1.3, 2.1", advice)


def reuse(dump: Dump) -> str:
    """Why slots are used again; nothing where they are not."""
    if dump.rounds > dump.buffer_num:
        return f"{dump.rounds} rounds share {dump.buffer_num} ring position{'s' if dump.buffer_num > 1 else ''}"
    return f"{dump.launches} launches share the ring" if dump.launches > 1 else ""


def listed_slots(slots: Sequence[Slot], what: str) -> str:
    """`what`: the first few slots and the number of the others."""
    shown = [
        f"{slot} holds {slot.value:#x}" if abs(slot.value) > 999 else f"{slot} holds {slot.value}"
        for slot in slots[:SHOWN]
    ]
    more = f", and {len(slots) - SHOWN} more" if len(slots) > SHOWN else ""
    return f"{what}: {'; '.join(shown)}{more}"


def merged(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Each cause once, at its first place, with all that speaks for it."""
    found: dict[str, Cause] = {}
    for cause in causes:
        known = found.get(cause.name)
        evidence = cause.evidence if known is None else tuple(dict.fromkeys((*known.evidence, *cause.evidence)))
        found[cause.name] = replace(known or cause, evidence=evidence)
    return tuple(found.values())
