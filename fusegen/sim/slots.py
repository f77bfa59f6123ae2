"""Names of signal slots: indices decoded into the coordinates that the module declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from fusegen.sim.findings import Finding, MisalignedSlot, OutOfBounds, Slot
from fusegen.sim.memory import SLOT_BYTES


class SlotNames:
    """Decodes slot indices by axes, slowest first; without axes a slot has only its index."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        self._axes = axes

    def slot(self, index: int) -> Slot:
        """The slot with its coordinates, if it is one of the declared slots."""
        if not self._axes or not 0 <= index < prod(self._axes.values()):
            return Slot(index)
        position = []
        rest = index
        for axis, extent in reversed(list(self._axes.items())):
            rest, coordinate = divmod(rest, extent)
            position.append((axis, coordinate))
        return Slot(index, tuple(reversed(position)))

    def at(self, address: int) -> Slot:
        """The slot at a byte address of the signal memory."""
        return self.slot(address // SLOT_BYTES)

    def decoded(self, finding: Finding) -> Finding:
        """The finding with its slot decoded, also in the message."""
        if not isinstance(finding, OutOfBounds | MisalignedSlot) or finding.slot is None:
            return finding
        slot = self.slot(finding.slot.index)
        if not slot.position and self._axes:
            message = f"{finding.message} (the module declares {prod(self._axes.values())} slots)"
        else:
            message = finding.message.replace(f"slot {slot.index}", str(slot))
        return replace(finding, slot=slot, message=message)
