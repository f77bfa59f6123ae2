"""Names of signal slots: addresses decoded into the coordinates that the module declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from fusegen.sim.findings import Finding, MisalignedSlot, OutOfBounds, Slot
from fusegen.sim.memory import SLOT_BYTES, Memory


class SlotNames:
    """Decodes slots by their axes, slowest first, where the memory that they are in has declared axes.

    `axes` are by the name under which kernels know the memory, that of their pointer parameter.
    """

    def __init__(self, axes: Mapping[str, Mapping[str, int]]) -> None:
        self._axes = axes

    def at(self, memory: Memory, address: int) -> Slot:
        """The slot at a byte address of a memory."""
        return self._decoded(memory.name, address // SLOT_BYTES)

    def decoded(self, finding: Finding) -> Finding:
        """The finding with its slot decoded, also in the message."""
        if not isinstance(finding, OutOfBounds | MisalignedSlot) or finding.slot is None:
            return finding
        axes = self._axes.get(finding.tensor)
        slot = self._decoded(finding.tensor, finding.slot.index)
        if axes and not slot.position:
            message = f"{finding.message} (the module declares {prod(axes.values())} slots)"
        else:
            message = finding.message.replace(f"slot {slot.index}", str(slot))
        return replace(finding, slot=slot, message=message)

    def _decoded(self, name: str, index: int) -> Slot:
        """The slot with its coordinates, if it is one of the declared slots."""
        axes = self._axes.get(name)
        if not axes or not 0 <= index < prod(axes.values()):
            return Slot(index)
        position = []
        rest = index
        for axis, extent in reversed(list(axes.items())):
            rest, coordinate = divmod(rest, extent)
            position.append((axis, coordinate))
        return Slot(index, tuple(reversed(position)))
