"""Row-major regions with named axes: the one place where coordinates become an offset.

A `Layout` gives the size of a region, its strides, and the offset of a coordinate, all as symbolic expressions. The
kernel indexes with them, the launcher allocates with them, `explain` prints them; none of the three has a formula of
its own that could drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.plan.expr import Const, Expr, Sym, polynomial, product, substitute


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis. `extent` is the number of positions on it; a coordinate c has 0 <= c < extent.

    `label` is what messages call the positions, in the plural.
    """

    name: str
    extent: Expr
    label: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Axes of a dense region, slowest first. Units are elements for a buffer, slots for a slot group.

    `stride_names` names the strides that the kernel's text defines before it uses them; other strides are spelt out.
    """

    axes: tuple[Axis, ...]
    stride_names: tuple[tuple[str, str], ...] = ()

    def size(self) -> Expr:
        """Number of elements (or slots) of the whole region."""
        return product(axis.extent for axis in self.axes)

    def stride(self, name: str) -> Expr:
        """Distance between neighbours on axis `name`: the product of all faster extents."""
        position = [axis.name for axis in self.axes].index(name)
        return product(axis.extent for axis in self.axes[position + 1 :])

    def stride_definitions(self) -> tuple[tuple[str, Expr], ...]:
        """Names of strides with their values, faster axes first; a slower stride is spelt with a faster one's name."""
        named = dict(self.stride_names)
        definitions: list[tuple[str, Expr]] = []
        stride: Expr = Const(1)
        for axis in reversed(self.axes):
            if axis.name in named:
                definitions.append((named[axis.name], stride))
                stride = Sym(named[axis.name])
            stride = axis.extent * stride
        return tuple(definitions)

    def offset(self, coordinates: Mapping[str, Expr]) -> tuple[tuple[Expr, Expr], ...]:
        """Terms (coordinate, stride) whose products add up to the offset. Every axis needs a coordinate."""
        named = dict(self.stride_names)
        missing = {axis.name for axis in self.axes} ^ set(coordinates)
        if missing:
            raise ValueError(f"expected one coordinate for each axis, got a mismatch on {sorted(missing)}")
        return tuple(
            (coordinates[axis.name], Sym(named[axis.name]) if axis.name in named else self.stride(axis.name))
            for axis in self.axes
        )

    def is_dense(self) -> bool:
        """True when the last coordinate has offset size - 1 for every shape, so that no coordinate in range leaves it.

        All strides are products of extents, hence not negative: the last coordinate has the largest offset. What is
        proved, on polynomials, is the offset as the kernel computes it: with named strides, and the definitions of
        those names put in.
        """
        definitions = dict(self.stride_definitions())
        last: Expr = Const(0)
        for coordinate, stride in self.offset({axis.name: axis.extent - 1 for axis in self.axes}):
            last = last + coordinate * substitute(stride, definitions)
        return polynomial(last) == polynomial(self.size() - 1)
