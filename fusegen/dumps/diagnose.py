"""From the dumps of one launch to what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fusegen.dumps.causes import likely_causes
from fusegen.dumps.evidence import Cause
from fusegen.dumps.model import Dump
from fusegen.dumps.values import Slot, decoded


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the dumps of one launch say.

    `slots` are those that are not zero, stuck ones first and among them those that are behind; `causes` are likely
    ones, the likeliest first, and none where the dumps look finished.
    """

    dumps: tuple[Dump, ...]
    slots: tuple[Slot, ...]
    causes: tuple[Cause, ...]

    @property
    def missing_ranks(self) -> tuple[int, ...]:
        """Ranks without a dump."""
        return tuple(sorted(set(range(self.dumps[0].ranks)) - {dump.rank for dump in self.dumps}))

    @property
    def stuck(self) -> tuple[Slot, ...]:
        """Slots that a finished launch would leave otherwise."""
        return tuple(slot for slot in self.slots if not slot.at_rest)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars."""
        first = self.dumps[0]
        return {
            "kernel": first.kernel,
            "pattern": first.pattern,
            "sync": first.sync,
            "ranks": first.ranks,
            "missing_ranks": list(self.missing_ranks),
            "shape": dict(first.shape),
            "launches": {str(dump.rank): {"enqueued": dump.launches, "ended": dump.ended} for dump in self.dumps},
            "at_rest": not self.causes,
            "causes": [
                {
                    "name": cause.name,
                    "guide": cause.guide,
                    "evidence": list(cause.evidence),
                    "advice": cause.advice,
                }
                for cause in self.causes
            ],
            "slots": [_slot_json(slot) for slot in self.slots],
        }


def diagnose(dumps: Sequence[Dump]) -> Diagnosis:
    """Decode the slots of the dumps, which are of one launch, and name likely causes of a hang."""
    slots = [slot for dump in dumps for name in dump.slots for slot in decoded(dump, name)]
    shown = sorted((slot for slot in slots if slot.value), key=lambda slot: (slot.at_rest, slot.reading.progress))
    return Diagnosis(tuple(dumps), tuple(shown), likely_causes(dumps, slots))


def _slot_json(slot: Slot) -> dict[str, Any]:
    reading = slot.reading
    return {
        "rank": slot.rank,
        "group": slot.group,
        "slot": slot.index,
        "position": slot.position,
        "value": slot.value,
        "stuck": not slot.at_rest,
        "state": reading.state.value,
        "use": reading.use,
        "round": reading.round,
        "launch": reading.launch,
        "meaning": reading.meaning,
    }
