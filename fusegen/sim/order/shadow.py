"""Shadow memory: for every element the last write, and who has read it since.

    writes[element]   number of the last Write, 0 for none
    others[element]   number of a set: reads and atomics since that write that no later one of them makes redundant

Elements are granules of a memory, as large as all accesses so far allow: each has touched whole granules. Boxes of an
access stay strided views, and the usual box carries one number throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from fusegen.sim.affine import Affine
from fusegen.sim.events import CodeLine, Lanes
from fusegen.sim.memory import Memory
from fusegen.sim.order.clocks import Clock, Mark, Seen
from fusegen.sim.shapes import Shape

AccessKind = Literal["read", "write", "atomic", "notify"]

GRANULES: Final = (256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Bytes that rows of neighbours may be counted in: those of tiles that are not at an edge are whole granules."""
SLOT_GRANULE: Final = 8
"""Bytes of the largest word that a notify writes."""


@dataclass(slots=True, eq=False)
class Made:
    """Accesses that an actor made at one line in one epoch; `waits` are those whose tokens its pointer carried."""

    mark: Mark
    kind: AccessKind
    line: CodeLine | None
    tensor: str
    waits: tuple[Seen, ...]


class Overlap(NamedTuple):
    """Elements of `size` bytes of a memory: the first one, the last one, and how many of those between belong to it."""

    memory: Memory
    size: int
    first: int
    last: int
    number: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses that nothing orders; `before` came first in this run, `is_fresh` where nobody had written before."""

    before: Made
    now: Made
    overlap: Callable[[], Overlap]
    is_fresh: bool


@dataclass(slots=True, eq=False)
class _Elements:
    """The shadow of one memory, in granules of `size` bytes."""

    size: int
    writes: np.ndarray
    others: np.ndarray

    @classmethod
    def of(cls, memory: Memory, size: int) -> _Elements:
        """Untouched elements."""
        count = -(-memory.bytes.size // size)
        return cls(size, np.zeros(count, np.int32), np.zeros(count, np.int32))

    def refine(self, size: int) -> None:
        """Count in smaller granules."""
        ratio = self.size // size
        self.size = size
        self.writes, self.others = np.repeat(self.writes, ratio), np.repeat(self.others, ratio)


@dataclass(slots=True, eq=False)
class _Box:
    """Touched granules: `base` and strides with a shape, or, where `shape` is None, any that `base` lists."""

    memory: Memory
    elements: _Elements
    base: int | np.ndarray
    coefs: Shape = ()
    shape: Shape | None = None

    def view(self, numbers: np.ndarray) -> np.ndarray:
        """These granules of an array of the memory."""
        if self.shape is None:
            chosen: np.ndarray = numbers[self.base]
            return chosen
        assert isinstance(self.base, int)
        return np.ndarray(self.shape, np.int32, numbers.data, 4 * self.base, tuple([4 * coef for coef in self.coefs]))

    def put(self, numbers: np.ndarray, view: np.ndarray, values: int | np.ndarray) -> None:
        """Set these granules of an array of the memory, of which `view` is the view."""
        if self.shape is None:
            numbers[self.base] = values
        else:
            view[...] = values

    def overlap(self, where: np.ndarray) -> Overlap:
        """The part of the box that `where` tells, in elements of the memory's tensor."""
        if isinstance(self.base, np.ndarray):
            granules = self.base[where]
        else:
            granules = self.base + np.argwhere(where) @ np.array(self.coefs, np.int64)
        size = self.memory.itemsize
        first, last = granules * self.elements.size // size, ((granules + 1) * self.elements.size - 1) // size
        touched = np.unique(np.concatenate([np.unique(first), np.unique(last)]))
        number = touched.size if self.elements.size <= size else granules.size * self.elements.size // size
        return Overlap(self.memory, size, int(first.min()), int(last.max()), number)


class Shadow:
    """The shadows of all memories. Conflicts go to `found`, loads of elements that nobody wrote to `unwritten`."""

    def __init__(self, found: Callable[[Conflict], None], unwritten: Callable[[Made, Overlap], None]) -> None:
        self._found = found
        self._unwritten = unwritten
        self._elements: WeakKeyDictionary[Memory, _Elements] = WeakKeyDictionary()
        self._reads: WeakKeyDictionary[Memory, list[tuple[int, Lanes, int]]] = WeakKeyDictionary()
        self._made: list[Made] = []
        self._sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._added: dict[tuple[int, int], int] = {}

    def number(self, made: Made) -> int:
        """The number of an access, which stands for all alike in its epoch."""
        self._made.append(made)
        return len(self._made)

    def access(self, memory: Memory, element_size: int, lanes: Lanes, number: int, clocks: tuple[Clock, ...]) -> None:
        """Check an access made with the knowledge of `clocks` against those before it, and remember it."""
        made = self._made[number - 1]
        if memory not in self._elements:
            if made.kind == "read" and memory.peers is None:  # most tensors are never written by a program
                self._reads.setdefault(memory, []).append((element_size, lanes, number))
                return
            for read in self._reads.pop(memory, ()):
                self._meet(memory, *read, ())
        self._meet(memory, element_size, lanes, number, clocks)

    def _meet(self, memory: Memory, element_size: int, lanes: Lanes, number: int, clocks: tuple[Clock, ...]) -> None:
        made = self._made[number - 1]
        box = self._box(memory, element_size, lanes)
        writes, others = box.view(box.elements.writes), box.view(box.elements.others)
        for last in _distinct(writes):
            if last:
                before = self._made[last - 1]
                if not before.mark.is_before(made.mark.thread, *clocks) and not made.kind == before.kind == "notify":
                    self._found(Conflict(before, made, partial(box.overlap, writes == last), False))
            elif made.kind == "read" and memory.peers is not None:
                self._unwritten(made, box.overlap(writes == 0))
        sets = _distinct(others)
        for each in sets:
            for member in self._sets[each]:
                before = self._made[member - 1]
                if made.kind in _CLASHES[before.kind] and not before.mark.is_before(made.mark.thread, *clocks):
                    where = others == each
                    self._found(Conflict(before, made, partial(box.overlap, where), not writes[where].any()))
        if made.kind not in ("read", "atomic"):
            box.put(box.elements.writes, writes, number)
            if sets != [0]:
                box.put(box.elements.others, others, 0)
            return
        added = [self._with(each, number, clocks) for each in sets]
        if added != sets:
            values = added[0] if len(sets) == 1 else np.array(added, np.int32)[np.searchsorted(sets, others)]
            box.put(box.elements.others, others, values)

    def put(self, memory: Memory, address: int, made: Made) -> None:
        """Remember a write of the element at a byte address, without a check."""
        elements = self._elements.get(memory)
        if elements is None:
            elements = self._elements[memory] = _Elements.of(memory, SLOT_GRANULE)
        elif elements.size > SLOT_GRANULE:
            elements.refine(SLOT_GRANULE)
        elements.writes[address // elements.size] = self.number(made)

    def _with(self, old: int, number: int, clocks: tuple[Clock, ...]) -> int:
        """The set with one more member, without those that it makes redundant."""
        result = self._added.get((old, number))
        if result is None:
            made = self._made[number - 1]
            kept = [each for each in self._sets[old] if not _is_covered(self._made[each - 1], made, clocks)]
            members = (*kept, number)
            result = self._numbers.setdefault(members, len(self._sets))
            if result == len(self._sets):
                self._sets.append(members)
            self._added[old, number] = result
        return result

    def _box(self, memory: Memory, element_size: int, lanes: Lanes) -> _Box:
        """The touched granules of a memory."""
        elements = self._elements.get(memory)
        if isinstance(lanes, Affine) and lanes.coefs and lanes.coefs[-1] == 1:
            return self._rows(memory, elements, element_size, lanes)
        if elements is None:
            elements = self._elements[memory] = _Elements.of(memory, element_size)
        elif elements.size > element_size:
            elements.refine(element_size)
        ratio = element_size // elements.size
        if isinstance(lanes, int):
            return _Box(memory, elements, lanes * ratio, (1,), (ratio,))
        if isinstance(lanes, Affine):
            axes = [(coef, extent) for coef, extent in zip(lanes.coefs, lanes.shape, strict=True) if coef]
            coefs = [coef * ratio for coef, _ in axes]
            extents = [extent for _, extent in axes]
            if ratio > 1 or not axes:
                coefs.append(1)
                extents.append(ratio)
            return _Box(memory, elements, lanes.base * ratio, tuple(coefs), tuple(extents))
        index = np.unique(lanes)
        return _Box(memory, elements, (index[:, None] * ratio + np.arange(ratio)).ravel())

    def _rows(self, memory: Memory, elements: _Elements | None, element_size: int, lanes: Affine) -> _Box:
        """Rows of neighbours, or a copy of bytes: granules as large as they fit every row so far."""
        *coefs, _ = lanes.coefs
        *extents, length = lanes.shape
        first, row = lanes.base * element_size, length * element_size
        strides = [coef * element_size for coef in coefs]
        common = gcd(first, row, *strides)
        if elements is None:
            size = next((size for size in GRANULES if not common % size), element_size)
            elements = self._elements[memory] = _Elements.of(memory, size)
        while common % elements.size:
            elements.refine(elements.size // 2)
        axes = [(stride // elements.size, extent) for stride, extent in zip(strides, extents, strict=True) if stride]
        axes.append((1, row // elements.size))
        return _Box(memory, elements, first // elements.size, tuple(c for c, _ in axes), tuple(e for _, e in axes))


_CLASHES: Final[dict[AccessKind, tuple[AccessKind, ...]]] = {
    "read": ("write", "notify", "atomic"),
    "atomic": ("write", "notify", "read", "atomic"),
}
"""For the kinds that sets have: which later ones are told where nothing orders them."""


def _is_covered(old: Made, new: Made, clocks: tuple[Clock, ...]) -> bool:
    """Whatever comes after the new access comes after the old one, too."""
    if old is new:
        return True
    alike = old.kind == new.kind and old.mark.lane == new.mark.lane
    return alike and old.mark.is_before(new.mark.thread, *clocks)


def _distinct(numbers: np.ndarray) -> list[int]:
    """The different numbers of a box, in order."""
    first: int = numbers.item(0)
    if numbers.size == 1 or (numbers == first).all():
        return [first]
    flat = numbers.ravel()
    changes = flat[1:][flat[1:] != flat[:-1]]  # few: tiles leave rows that are alike
    return sorted({first, *changes.tolist()})
