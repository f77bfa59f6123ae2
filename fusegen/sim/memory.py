"""Memory of the machine and the one place that every access passes.

`Memory` is the storage of one torch tensor on one rank; a `Pointer` is a place in it, or a tile of places. `AccessPort`
turns a pointer and a mask into the lanes that are touched, checks them, and tells the observers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from fusegen.sim.affine import Affine, BoxMask
from fusegen.sim.dtypes import DType, PointerType, uint8
from fusegen.sim.events import AccessKind, Atomic, Completion, EventPort, Lanes, Read, Write
from fusegen.sim.findings import Found, OutOfBounds, Slot, UseAfterFree
from fusegen.sim.integers import INT32_MAX, INT32_MIN, overflow
from fusegen.sim.lanes import clip, converted, filled, uniform
from fusegen.sim.shapes import Shape, broadcast_shapes
from fusegen.sim.tiles import Tile, dense, wrap

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor, Token
    from fusegen.sim.signals import SlotRecord

SLOT_BYTES: Final = 64
Update = Callable[..., Any]
"""New elements from those before and the operands of an atomic operation."""


class Memory:
    """The bytes of one tensor storage on one rank.

    `itemsize` are the bytes of an element of the tensor, `name` is that of the kernel parameter it was last passed as.
    `peers` are the memories of the same symmetric allocation by rank, None for plain memory, empty when all ranks have
    freed it; `allocation` counts the symmetric ones from 1, and is 0 for plain memory. `waiters` are the actors that
    wait for a word, `records` the last notify of it, and `taken` a value that a wait took though no program had written
    it, all by byte address.
    """

    __slots__ = (
        "__weakref__",
        "allocation",
        "buffer",
        "bytes",
        "freed",
        "has_plain_stores",
        "itemsize",
        "name",
        "owner",
        "peers",
        "rank",
        "records",
        "taken",
        "waiters",
    )

    def __init__(self, tensor: torch.Tensor, *, rank: int) -> None:
        storage = tensor.untyped_storage()
        with torch._C.DisableTorchFunction():
            self.bytes: np.ndarray = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        self.buffer = self.bytes.data
        self.owner = storage
        self.rank = rank
        self.itemsize = tensor.dtype.itemsize
        self.name = ""
        self.peers: tuple[Memory, ...] | None = None
        self.allocation = 0
        self.freed = False
        self.waiters: dict[int, list[Actor]] = {}
        self.records: dict[int, SlotRecord] = {}
        self.taken: dict[int, int] = {}
        self.has_plain_stores = False

    def elements(self, dtype: DType) -> int:
        """Whole elements of a type that fit."""
        return self.bytes.size // dtype.itemsize


class Pointer:
    """`offset` elements into a memory: an int for a scalar pointer, an Affine or an int64 array for a tile of pointers.

    `narrow` is the last 32-bit index added to it of which some lane wraps: harmless only where the mask excludes the
    lane. `tokens` are those it got from dl.consume_token; what is computed from it carries them too.
    """

    __slots__ = ("element", "memory", "name", "narrow", "offset", "tokens")

    def __init__(
        self,
        memory: Memory,
        element: DType,
        offset: int | Affine | np.ndarray,
        name: str,
        narrow: Affine | None = None,
        tokens: tuple[Token, ...] = (),
    ) -> None:
        self.memory = memory
        self.element = element
        self.offset = offset
        self.name = name
        self.narrow = narrow
        self.tokens = tokens

    @property
    def dtype(self) -> PointerType:
        return PointerType(self.element)

    @property
    def shape(self) -> Shape:
        return () if isinstance(self.offset, int) else self.offset.shape

    def __add__(self, index: Any) -> Pointer:
        offset = self.offset
        if type(index) is Affine:
            narrow = self.narrow if index.fits() else index
            total: int | Affine | np.ndarray
            if isinstance(offset, int):
                total = Affine(index.base + offset, index.coefs, index.shape, True)
            elif isinstance(offset, Affine):
                total = offset + index
            else:
                total = offset + index.to_tile().data
            return Pointer(self.memory, self.element, total, self.name, narrow, self.tokens)
        if isinstance(index, int):
            return self._moved(offset + int(index))
        if isinstance(index, Tile) and index.dtype.is_int():
            if not index.shape:
                return self._moved(offset + int(index))
            start = offset.to_tile().data if isinstance(offset, Affine) else offset
            return self._moved(start + index.data.astype(np.int64))
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, index: Any) -> Pointer:
        return self.__add__(-index)

    def __getitem__(self, key: Any) -> Pointer:
        if isinstance(self.offset, int):
            raise TypeError("a scalar pointer cannot be indexed: use tl.load(pointer + index)")
        return self._moved(self.offset[key])

    def to(self, dtype: PointerType, bitcast: bool = False) -> Pointer:
        """Cast to a pointer to another element type; the offset must be a whole number of those."""
        if not isinstance(dtype, PointerType):
            raise TypeError("a pointer can be cast to another pointer type only")
        if not isinstance(self.offset, int):
            raise TypeError("only a scalar pointer can be cast")
        offset, rest = divmod(self.offset * self.element.itemsize, dtype.element_ty.itemsize)
        if rest:
            raise ValueError(f"{self.name}: address is not a multiple of {dtype.element_ty.itemsize} bytes")
        return Pointer(self.memory, dtype.element_ty, offset, self.name, None, self.tokens)

    def address(self) -> int:
        """Byte address of a scalar pointer inside its memory."""
        if not isinstance(self.offset, int):
            raise TypeError(f"{self.name}: expected a scalar pointer, got a tile of pointers")
        return self.offset * self.element.itemsize

    def at(self, memory: Memory) -> Pointer:
        """The same offset in another memory."""
        return Pointer(memory, self.element, self.offset, self.name, self.narrow, self.tokens)

    def after(self, token: Token) -> Pointer:
        """The same places, ordered after the wait of a token."""
        tokens = (*self.tokens, token)
        return Pointer(self.memory, self.element, self.offset, self.name, self.narrow, tokens)

    def _moved(self, offset: int | Affine | np.ndarray) -> Pointer:
        return Pointer(self.memory, self.element, offset, self.name, self.narrow, self.tokens)


class AccessPort:
    """Loads and stores of all actors: the one place that checks them and tells observers of them."""

    def __init__(self, events: EventPort) -> None:
        self._events = events
        self._observers = events.observers

    def access(
        self, pointer: Pointer, lanes: Lanes, low: int, high: int, kind: AccessKind, completion: Completion = "fence"
    ) -> None:
        """Check that elements low to high, the extremes of `lanes`, exist; then tell the observers."""
        self.check(pointer, low, high)
        if self._observers:
            self._events.tell(kind(*self._events.here(), pointer, lanes, completion))

    def check(self, pointer: Pointer, low: int, high: int) -> None:
        """Raise the finding for elements low to high that do not exist, or do not any more."""
        memory = pointer.memory
        if low < 0 or (high + 1) * pointer.element.itemsize > memory.bytes.size:
            raise out_of_bounds(pointer, low, high)
        if memory.freed:
            raise use_after_free(pointer)

    def check_slots(self, pointer: Pointer, low: int, high: int) -> None:
        """Check words that a wait or a notify of the running actor is about to use."""
        self.check(pointer, low, high)

    def load(self, pointer: Pointer, mask: Any, other: Any) -> Any:
        """Values at the pointer. Lanes that the mask excludes are `other`, or unspecified: NaN, or a huge integer."""
        element = pointer.element
        offset = pointer.offset
        if isinstance(offset, int):
            if mask is not None and not mask:
                return wrap(filled((), element, other)[()], element)
            self.access(pointer, offset, offset, offset, Read)
            return wrap(_view(pointer, offset, (), ())[()], element)
        if type(offset) is Affine:
            if mask is None:
                return Tile(self._box_view(pointer, offset, Read).copy(), element)
            if isinstance(mask, bool):
                mask = uniform(mask, offset.shape)
            if type(mask) is BoxMask:
                shape = broadcast_shapes(offset.shape, mask.shape)
                offset = offset.broadcast_to(shape)
                if mask.upper == shape and mask.is_full:
                    return Tile(self._box_view(pointer, offset, Read).copy(), element)
                data = filled(shape, element, other)
                mask = mask.broadcast_to(shape)
                if not mask.is_empty:
                    data[mask.slices()] = self._box_view(pointer, clip(offset, mask), Read)
                return Tile(data, element)
        offsets, lanes = _dense_lanes(pointer, mask)
        data = filled(offsets.shape, element, other)
        chosen = offsets[lanes]
        if chosen.size:
            self._check_dense(pointer, chosen, Read)
            data[lanes] = _flat(pointer)[chosen]
        return Tile(data, element)

    def store(self, pointer: Pointer, value: Any, mask: Any) -> None:
        """Write the lanes that the mask includes."""
        offset = pointer.offset
        if isinstance(offset, int):
            if mask is None or mask:
                self.access(pointer, offset, offset, offset, Write)
                self.put(pointer, _view(pointer, offset, (), ()), ..., converted(value, pointer.element))
            return
        data = converted(value, pointer.element)
        if type(offset) is Affine:
            if mask is None:
                self.put(pointer, self._box_view(pointer, offset, Write), ..., data)
                return
            if isinstance(mask, bool):
                mask = uniform(mask, offset.shape)
            if type(mask) is BoxMask:
                shape = offset.shape
                if mask.upper == shape and mask.is_full:
                    self.put(pointer, self._box_view(pointer, offset, Write), ..., data)
                    return
                mask = mask.broadcast_to(shape)
                if not mask.is_empty:
                    if data.shape != shape:
                        data = np.broadcast_to(data, shape)
                    self.put(pointer, self._box_view(pointer, clip(offset, mask), Write), ..., data[mask.slices()])
                return
        offsets, lanes = _dense_lanes(pointer, mask)
        chosen = offsets[lanes]
        if chosen.size:
            self._check_dense(pointer, chosen, Write)
            self.put(pointer, _flat(pointer), chosen, np.broadcast_to(data, offsets.shape)[lanes])

    def put(self, pointer: Pointer, elements: np.ndarray, places: Any, data: np.ndarray) -> None:
        """Write `data` to `elements[places]` of the pointer's memory."""
        elements[places] = data

    def atomic(self, pointer: Pointer, update: Update, values: tuple[Any, ...], mask: Any) -> Any:
        """Update every included lane; returns the values before. Lanes that meet at one address all count."""
        element = pointer.element
        offset = pointer.offset
        if type(offset) is Affine and (mask is None or type(mask) is BoxMask) and offset.is_injective:
            box = mask.broadcast_to(offset.shape) if mask is not None else uniform(True, offset.shape)
            return self._update_box(pointer, offset, box, update, values)
        offsets, lanes = _dense_lanes(pointer, mask)
        before = filled(offsets.shape, element, 0)
        chosen = offsets[lanes]
        if chosen.size:
            self._check_dense(pointer, chosen, Atomic)
            elements = _flat(pointer)
            operands = [np.broadcast_to(converted(value, element), offsets.shape)[lanes].ravel() for value in values]
            found = []
            for place, *lane in zip(chosen.ravel(), *operands, strict=True):  # one by one: lanes may meet
                found.append(elements[place])
                elements[place] = update(elements[place], *lane)
            before[lanes] = found
        return wrap(before if before.ndim else before[()], element)

    def _update_box(
        self, pointer: Pointer, offset: Affine, box: BoxMask, update: Update, values: tuple[Any, ...]
    ) -> Any:
        """Update a box of elements, no two of which are the same."""
        before = filled(offset.shape, pointer.element, 0)
        if not box.is_empty:
            view = self._box_view(pointer, clip(offset, box), Atomic)
            before[box.slices()] = view
            operands = [
                np.broadcast_to(converted(value, pointer.element), offset.shape)[box.slices()] for value in values
            ]
            view[...] = update(view, *operands)
        return Tile(before, pointer.element)

    def copy(self, destination: Pointer, source: Pointer, size: int, *, completion: Completion) -> None:
        """Copy `size` bytes between two scalar pointers. The call waits for the tokens of both."""
        to, origin = self.copy_ends(destination, source, size, completion)
        to[...] = origin

    def copy_ends(
        self, destination: Pointer, source: Pointer, size: int, completion: Completion
    ) -> tuple[np.ndarray, np.ndarray]:
        """The bytes that a copy writes and those that it reads, checked."""
        if size <= 0:
            raise ValueError(f"expected a positive number of bytes, got {size}")
        views = []
        tokens = (*destination.tokens, *source.tokens)
        accesses: tuple[tuple[Pointer, AccessKind], ...] = ((source, Read), (destination, Write))
        for pointer, kind in accesses:
            first = pointer.address()
            as_bytes = Pointer(pointer.memory, uint8, first, pointer.name, None, tokens)
            self.access(as_bytes, Affine(first, (1,), (size,), True), first, first + size - 1, kind, completion)
            views.append(pointer.memory.bytes[first : first + size])
        return views[1], views[0]

    def _box_view(self, pointer: Pointer, index: Affine, kind: AccessKind) -> np.ndarray:
        """The touched elements as a strided view, checked."""
        low, high = index.bounds()
        if pointer.narrow is not None and (low < INT32_MIN or high > INT32_MAX):
            raise overflow(f"index into {pointer.name}", high if high > INT32_MAX else low)
        self.access(pointer, index, low, high, kind)
        return _view(pointer, index.base, index.coefs, index.shape)

    def _check_dense(self, pointer: Pointer, offsets: np.ndarray, kind: AccessKind) -> None:
        self.access(pointer, offsets, int(offsets.min()), int(offsets.max()), kind)


def use_after_free(pointer: Pointer) -> Found:
    """The finding for symmetric memory that its rank has freed."""
    message = f"{pointer.name}: the symmetric memory is freed on rank {pointer.memory.rank}"
    return Found(UseAfterFree(message, tensor=pointer.name))


def out_of_bounds(pointer: Pointer, low: int, high: int, *, slot: Slot | None = None) -> Found:
    """The finding for elements low to high of a memory that has fewer."""
    elements = pointer.memory.elements(pointer.element)
    span = f"element {low}" if low == high else f"elements {low} to {high}"
    where = f" ({slot})" if slot else ""
    return Found(
        OutOfBounds(
            f"{pointer.name}: {span}{where} on rank {pointer.memory.rank}, expected 0 to {elements - 1}",
            tensor=pointer.name,
            first=low,
            last=high,
            elements=elements,
            slot=slot,
        )
    )


def _view(pointer: Pointer, offset: int, coefs: Shape, extents: Shape) -> np.ndarray:
    dtype = pointer.element.numpy
    size = dtype.itemsize
    return np.ndarray(extents, dtype, pointer.memory.bytes, offset * size, tuple([coef * size for coef in coefs]))


def _flat(pointer: Pointer) -> np.ndarray:
    return _view(pointer, 0, (1,), (pointer.memory.elements(pointer.element),))


def _dense_lanes(pointer: Pointer, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """Element offsets and included lanes of a tile of pointers, as arrays of one shape."""
    offset = pointer.offset
    offsets = offset.to_tile().data if isinstance(offset, Affine) else np.asarray(offset)
    lanes = np.True_ if mask is None else dense(mask).data.astype(np.bool_)
    shape = np.broadcast_shapes(offsets.shape, lanes.shape)
    return np.broadcast_to(offsets, shape), np.broadcast_to(lanes, shape)
