"""Names of signal slots: addresses decoded into the coordinates that the module declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod

from numpy import ravel_multi_index

from fusegen.sim.findings import Finding, MisalignedSlot, OutOfBounds, Slot, SlotLayout
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

    def layout_fault(self, memory: Memory, size: int) -> SlotLayout | None:
        """Why the slots in use are not those declared; `size` is that of the memory in bytes.

        Used slots must be declared ones, and fill a box that starts at the first position of every axis: a shifted
        address leaves a gap there. An axis of ranks may leave out the own rank, which needs no signal to itself.
        """
        axes = self._axes.get(memory.name)
        if not axes or memory.has_plain_stores:
            return None
        declared = prod(axes.values())
        used = sorted(address // SLOT_BYTES for address in memory.records)
        where = f"{memory.name} on rank {memory.rank}"
        if size != declared * SLOT_BYTES:
            message = f"{where}: {size} bytes are allocated, the module declares {declared} slots of {SLOT_BYTES} bytes"
            return SlotLayout(message, tensor=memory.name, rank=memory.rank)
        positions = [tuple(coordinate for _, coordinate in self._decoded(memory.name, slot).position) for slot in used]
        columns = zip(axes, zip(*positions, strict=True), strict=True)
        box = product(*(self._expected(axis, set(column), memory.rank) for axis, column in columns))
        expected = [ravel_multi_index(position, tuple(axes.values())) for position in box]
        missing = [slot for slot in expected if slot not in set(used)]
        if not missing:
            return None
        never = self._decoded(memory.name, int(missing[0]))
        stray = next((self._decoded(memory.name, slot) for slot in used if slot not in set(expected)), None)
        shifted = f"; {stray} is: the slot address is shifted against the declared axes" if stray else ""
        message = f"{where}: {never} is never used, {len(used)} of {declared} declared slots are{shifted}"
        return SlotLayout(message, tensor=memory.name, rank=memory.rank, slot=stray or never)

    @staticmethod
    def _expected(axis: str, used: set[int], rank: int) -> list[int]:
        """Positions that should be in use on an axis, from how many are."""
        if axis.endswith("_rank") and rank not in used:
            return [position for position in range(len(used) + 1) if position != rank]
        return list(range(len(used)))

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
