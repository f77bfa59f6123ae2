"""tl.make_block_ptr: a block of a strided tensor, which is moved as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fusegen.sim.affine import Affine, BoxMask
from fusegen.sim.memory import Pointer
from fusegen.sim.shapes import Shape

if TYPE_CHECKING:
    from fusegen.sim.actors import Token


@dataclass(frozen=True, slots=True)
class BlockPointer:
    """The block of `block_shape` elements at `offsets` in a tensor of `shape` with `strides`, both in elements."""

    base: Pointer
    shape: Shape
    strides: Shape
    offsets: Shape
    block_shape: Shape

    def after(self, token: Token) -> BlockPointer:
        """The same block, ordered after the wait of a token."""
        return replace(self, base=self.base.after(token))

    def advance(self, offsets: Sequence[int]) -> BlockPointer:
        """The block moved by so many elements."""
        return advance(self, offsets)

    def elements(self, boundary_check: Any) -> tuple[Pointer, BoxMask]:
        """Its elements, and those of them that are inside the tensor on each axis in `boundary_check`.

        A bare 0 checks nothing, as in Triton.
        """
        checked = _integers(boundary_check or ())
        if not all(0 <= axis < len(self.shape) for axis in checked) or len(set(checked)) < len(checked):
            raise ValueError(f"boundary_check: expected axes of {list(self.block_shape)}, got {list(checked)}")
        first = self.base.offset
        lower, upper, coefs = [], [], []
        for axis, extent in enumerate(self.block_shape):
            offset, stride, end = self.offsets[axis], self.strides[axis], self.shape[axis]
            first += offset * stride
            coefs.append(stride if extent > 1 else 0)
            inside = axis in checked
            lower.append(min(extent, max(0, -offset)) if inside else 0)
            upper.append(min(extent, max(0, end - offset)) if inside else extent)
        places = Affine(int(first), tuple(coefs), self.block_shape, True)
        base = self.base
        pointer = Pointer(base.memory, base.element, places, base.name, None, base.tokens)
        return pointer, BoxMask(tuple(lower), tuple(upper), self.block_shape)


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> BlockPointer:
    """A block of a tensor; `order` names the axes from the one with the smallest stride and changes no result.

    TypeError unless `base` is a scalar pointer, ValueError for lists of different lengths.
    """
    if not isinstance(base, Pointer) or not isinstance(base.offset, int):
        raise TypeError("tl.make_block_ptr: expected a scalar pointer as base")
    lists = [_integers(values) for values in (shape, strides, offsets, block_shape, order)]
    if len({len(values) for values in lists}) > 1 or sorted(lists[4]) != list(range(len(lists[0]))):
        raise ValueError(
            "tl.make_block_ptr: expected shape, strides, offsets and block_shape of one length and an order of its "
            f"axes, got {', '.join(str(list(values)) for values in lists)}"
        )
    return BlockPointer(base, lists[0], lists[1], lists[2], lists[3])


def advance(base: BlockPointer, offsets: Any) -> BlockPointer:
    """The block moved by so many elements on each axis; ValueError for another number of axes."""
    steps = _integers(offsets)
    if len(steps) != len(base.offsets):
        raise ValueError(f"tl.advance: expected {len(base.offsets)} offsets, got {len(steps)}")
    return replace(base, offsets=tuple(a + b for a, b in zip(base.offsets, steps, strict=True)))


def padding(option: str, pointer: Pointer) -> Any:
    """What elements outside the tensor are loaded as: None for unspecified."""
    if option == "nan" and not pointer.element.is_floating():
        raise ValueError(f"padding_option: expected 'zero' for {pointer.element}, got 'nan'")
    if option not in ("", "nan", "zero"):
        raise ValueError(f"padding_option: expected 'zero' or 'nan', got {option!r}")
    return {"": None, "nan": float("nan"), "zero": 0}[option]


def _integers(values: Any) -> Shape:
    return tuple(int(value) for value in (values if isinstance(values, list | tuple) else (values,)))
