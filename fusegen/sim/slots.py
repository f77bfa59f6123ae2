"""Names of signal slots: addresses decoded into the coordinates that the module declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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

        Used slots must be declared ones, and with a slot those before it on every axis are used: a shifted address
        leaves a gap there. An axis of ranks may leave out the own rank, which needs no signal to itself.
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
        taken = set(positions)
        for slot, position in zip(used, positions, strict=True):
            for lower in _below(position, tuple(axes), memory.rank):
                if lower not in taken:
                    never = self._decoded(memory.name, int(ravel_multi_index(lower, tuple(axes.values()))))
                    stray = self._decoded(memory.name, slot)
                    message = (
                        f"{where}: {never} is never used, {len(used)} of {declared} declared slots are; {stray} is: "
                        "the slot address is shifted against the declared axes"
                    )
                    return SlotLayout(message, tensor=memory.name, rank=memory.rank, slot=stray)
        return None

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


def _below(position: tuple[int, ...], axes: tuple[str, ...], rank: int) -> Iterator[tuple[int, ...]]:
    """The neighbours of a position towards the first one, one for each axis."""
    for index, (axis, coordinate) in enumerate(zip(axes, position, strict=True)):
        before = coordinate - 1
        if axis.endswith("_rank") and before == rank:
            before -= 1
        if before >= 0:
            yield (*position[:index], before, *position[index + 1 :])
