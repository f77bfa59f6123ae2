"""Tile indices and masks kept symbolic: what tl.arange, arithmetic and comparisons of real kernels build.

    Affine  = base + sum(coefs[axis] * i[axis]),  0 <= i[axis] < shape[axis]
    BoxMask = lower[axis] <= i[axis] < upper[axis] on every axis

A load through an Affine and a BoxMask is one strided copy, whatever the tile size. Where an expression leaves this form
(`%`, `//`, where, loaded indices, disjunctions), `to_tile` gives the same values as a dense Tile, which takes over.
A coefficient of an axis of extent 1 is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.dtypes import DType
from fusegen.sim.integers import INT32_MAX, INT32_MIN, Int64, overflow
from fusegen.sim.shapes import AS_COLUMN, AS_ROW, Shape, broadcast_shapes, expand_axes

if TYPE_CHECKING:
    from fusegen.sim.tiles import Tile

_WHOLE: Final = ((0,), (1,), (1,))
"""Bounds and extent of an axis with a single lane, which a mask includes."""


class Affine:
    """An integer tile `base + sum(coefs * i)`; `wide` means int64, otherwise Triton computes it in int32."""

    __slots__ = ("base", "coefs", "shape", "wide")

    def __init__(self, base: int, coefs: Shape, shape: Shape, wide: bool = False) -> None:
        self.base = base
        self.coefs = coefs
        self.shape = shape
        self.wide = wide

    @property
    def dtype(self) -> DType:
        return dtypes.int64 if self.wide else dtypes.int32

    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value, as if integers had no end."""
        low = high = self.base
        shape = self.shape
        for axis, coef in enumerate(self.coefs):  # much of the time goes here, and a strict zip doubles it
            if coef > 0:
                high += coef * (shape[axis] - 1)
            elif coef:
                low += coef * (shape[axis] - 1)
        return low, high

    @property
    def is_injective(self) -> bool:
        """No two lanes have the same index: each stride is larger than all that smaller strides reach."""
        reach = 0
        for coef, extent in sorted(zip(map(abs, self.coefs), self.shape, strict=True)):
            if extent > 1:
                if coef <= reach:
                    return False
                reach += coef * (extent - 1)
        return True

    def fits(self) -> bool:
        """No lane wraps on the device."""
        if self.wide:
            return True
        low, high = self.bounds()
        return low >= INT32_MIN and high <= INT32_MAX

    def check(self) -> None:
        """Raise the finding for a lane that wraps on the device."""
        if not self.fits():
            low, high = self.bounds()
            raise overflow("tile index", high if high > INT32_MAX else low)

    def to_tile(self) -> Tile:
        """The same values, dense."""
        from fusegen.sim.tiles import Tile

        self.check()
        values = np.full(self.shape, self.base, np.int64)
        for axis, (coef, extent) in enumerate(zip(self.coefs, self.shape, strict=True)):
            if coef:
                values += (coef * np.arange(extent)).reshape([-1 if i == axis else 1 for i in range(len(self.shape))])
        return Tile(values.astype(self.dtype.numpy), self.dtype, is_index=True)

    def to(self, dtype: DType, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> Affine | Tile:
        """Cast: int32 to int64 stays affine."""
        if dtype is self.dtype:
            return self
        if dtype is dtypes.int64 and not bitcast:
            self.check()
            return Affine(self.base, self.coefs, self.shape, True)
        tile: Tile = self.to_tile().to(dtype, fp_downcast_rounding, bitcast)
        return tile

    def broadcast_to(self, shape: Shape) -> Affine:
        """The same index on a larger shape."""
        if self.shape == shape:
            return self
        if broadcast_shapes(self.shape, shape) != shape:
            raise ValueError(f"a tile of shape {list(self.shape)} cannot be broadcast to {list(shape)}")
        return Affine(self.base, (0,) * (len(shape) - len(self.shape)) + self.coefs, shape, self.wide)

    def __getitem__(self, key: Any) -> Affine:
        axes = expand_axes(self.shape, key)
        if axes is AS_ROW:
            return Affine(self.base, (0, self.coefs[0]), (1, self.shape[0]), self.wide)
        if axes is AS_COLUMN:
            return Affine(self.base, (self.coefs[0], 0), (self.shape[0], 1), self.wide)
        coefs = tuple([0 if axis is None else self.coefs[axis] for axis in axes])
        shape = tuple([1 if axis is None else self.shape[axis] for axis in axes])
        return Affine(self.base, coefs, shape, self.wide)

    def _combine(self, other: Any, sign: int) -> Any:
        """self + sign * other."""
        kind = type(other)
        if kind is int:
            wide = self.wide or not INT32_MIN <= other <= INT32_MAX  # Triton types a constant by its value
            return Affine(self.base + sign * other, self.coefs, self.shape, wide)
        if kind is Affine:
            wide = self.wide or other.wide
            if len(self.shape) == len(other.shape):
                coefs: Shape
                if len(self.shape) == 2:  # the usual one, for speed
                    (a, b), (c, d) = self.coefs, other.coefs
                    coefs = (a + sign * c, b + sign * d)
                else:
                    coefs = tuple([a + sign * b for a, b in zip(self.coefs, other.coefs, strict=True)])
                shape = self.shape if self.shape == other.shape else broadcast_shapes(self.shape, other.shape)
                return Affine(self.base + sign * other.base, coefs, shape, wide)
            shape = broadcast_shapes(self.shape, other.shape)
            return self.broadcast_to(shape)._combine(other.broadcast_to(shape), sign)
        if kind is Int64:
            return Affine(self.base + sign * int(other), self.coefs, self.shape, True)
        return None

    def __add__(self, other: Any) -> Any:
        result = self._combine(other, 1)
        return _dense(self, other, "__add__") if result is None else result

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        result = self._combine(other, -1)
        return _dense(self, other, "__sub__") if result is None else result

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __neg__(self) -> Affine:
        return Affine(-self.base, tuple([-coef for coef in self.coefs]), self.shape, self.wide)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            wide = self.wide or type(other) is Int64 or not INT32_MIN <= other <= INT32_MAX
            factor = int(other)
            return Affine(self.base * factor, tuple([coef * factor for coef in self.coefs]), self.shape, wide)
        return _dense(self, other, "__mul__")

    __rmul__ = __mul__

    def __lshift__(self, other: Any) -> Any:
        if isinstance(other, int):
            return self * (1 << other)
        return _dense(self, other, "__lshift__")

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int):
            low, high = self.bounds()
            if low >= 0 and high < other:
                return self
        return _dense(self, other, "__mod__")

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, "__eq__")

    __hash__ = None  # type: ignore[assignment]

    def _compare(self, other: Any, operator: str) -> Any:
        if isinstance(other, Affine):
            self.check()
            other.check()
            difference, limit = self - other, 0
        elif isinstance(other, int):
            self.check()
            if len(self.coefs) == 1 and self.coefs[0]:  # the usual one, for speed
                low, high = _solve(self.coefs[0], int(other) - self.base, operator, self.shape[0])
                return BoxMask((low,), (high,), self.shape)
            difference, limit = self, int(other)
        else:
            return _dense(self, other, operator)
        axes = [axis for axis, coef in enumerate(difference.coefs) if coef]
        if len(axes) > 1:
            return _dense(self, other, operator)
        shape = difference.shape
        rest = limit - difference.base  # the condition is: coef * i <operator> rest
        if not axes:
            holds = getattr(0, operator)(rest)
            return BoxMask((0,) * len(shape), shape if holds else (0,) * len(shape), shape)
        axis = axes[0]
        low, high = _solve(difference.coefs[axis], rest, operator, shape[axis])
        lower = tuple([low if i == axis else 0 for i in range(len(shape))])
        upper = tuple([high if i == axis else extent for i, extent in enumerate(shape)])
        return BoxMask(lower, upper, shape)

    def __bool__(self) -> bool:
        raise TypeError("a tile has no truth value: use tl.where, or a scalar condition")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.to_tile(), name)


def _solve(coef: int, rest: int, operator: str, extent: int) -> tuple[int, int]:
    """The half-open range of i in 0 .. extent - 1 for which `coef * i <operator> rest`."""
    if operator == "__eq__":
        index, remainder = divmod(rest, coef)
        return (index, index + 1) if remainder == 0 and 0 <= index < extent else (0, 0)
    if operator in ("__gt__", "__ge__"):  # negate both sides
        coef, rest = -coef, -rest
    strict = operator in ("__lt__", "__gt__")
    if coef > 0:
        stop = -(-rest // coef) if strict else rest // coef + 1
        return 0, max(0, min(extent, stop))
    start = rest // coef + 1 if strict else -(-rest // coef)
    return max(0, min(extent, start)), extent


class BoxMask:
    """A mask that is a box: a conjunction of bounds on single axes."""

    __slots__ = ("lower", "shape", "upper")

    dtype = dtypes.int1

    def __init__(self, lower: Shape, upper: Shape, shape: Shape) -> None:
        self.lower = lower
        self.upper = upper
        self.shape = shape

    @property
    def is_full(self) -> bool:
        return self.upper == self.shape and not any(self.lower)

    @property
    def is_empty(self) -> bool:
        return any([low >= high for low, high in zip(self.lower, self.upper, strict=True)])

    def to_tile(self) -> Tile:
        """The same lanes, dense."""
        from fusegen.sim.tiles import Tile

        lanes = np.zeros(self.shape, np.bool_)
        lanes[self.slices()] = True
        return Tile(lanes, dtypes.int1)

    def slices(self) -> tuple[slice, ...]:
        """Index of the box in an array of the mask's shape."""
        return tuple([slice(low, high) for low, high in zip(self.lower, self.upper, strict=True)])

    def broadcast_to(self, shape: Shape) -> BoxMask:
        """The same mask on a larger shape."""
        if self.shape == shape:
            return self
        if broadcast_shapes(self.shape, shape) != shape:
            raise ValueError(f"a mask of shape {list(self.shape)} cannot be broadcast to {list(shape)}")
        return self._stretched(shape)

    def _stretched(self, shape: Shape) -> BoxMask:
        """The same mask on a larger shape that it fits."""
        if self.shape == shape:
            return self
        if len(shape) == len(self.shape) == 2 and self.lower == (0, 0):  # the usual ones, for speed
            (rows, columns), (last_row, last_column) = self.shape, self.upper
            if rows != shape[0]:
                last_row *= shape[0]
            if columns != shape[1]:
                last_column *= shape[1]
            return BoxMask(self.lower, (last_row, last_column), shape)
        missing = len(shape) - len(self.shape)
        lower, upper = [0] * missing, list(shape[:missing])
        for low, high, extent, target in zip(self.lower, self.upper, self.shape, shape[missing:], strict=True):
            stretched = extent != target
            lower.append(0 if stretched else low)
            upper.append((target if high > low else 0) if stretched else high)
        return BoxMask(tuple(lower), tuple(upper), shape)

    def __getitem__(self, key: Any) -> BoxMask:
        axes = expand_axes(self.shape, key)
        if axes is AS_ROW:
            return BoxMask((0, self.lower[0]), (1, self.upper[0]), (1, self.shape[0]))
        if axes is AS_COLUMN:
            return BoxMask((self.lower[0], 0), (self.upper[0], 1), (self.shape[0], 1))
        lower = tuple([0 if axis is None else self.lower[axis] for axis in axes])
        upper = tuple([1 if axis is None else self.upper[axis] for axis in axes])
        return BoxMask(lower, upper, tuple([1 if axis is None else self.shape[axis] for axis in axes]))

    def __and__(self, other: Any) -> Any:
        if isinstance(other, BoxMask):
            if (
                (self.lower[1:], self.upper[1:], self.shape[1:])
                == _WHOLE
                == (
                    other.lower[:-1],
                    other.upper[:-1],
                    other.shape[:-1],
                )
            ):  # a column and a row, for speed
                return BoxMask(
                    self.lower[:1] + other.lower[1:], self.upper[:1] + other.upper[1:], self.shape[:1] + other.shape[1:]
                )
            shape = broadcast_shapes(self.shape, other.shape)
            left, right = self._stretched(shape), other._stretched(shape)
            lower = tuple(map(max, left.lower, right.lower))
            return BoxMask(lower, tuple(map(min, left.upper, right.upper)), shape)
        if isinstance(other, bool):
            return self if other else BoxMask(self.lower, (0,) * len(self.shape), self.shape)
        return _dense(self, other, "__and__")

    __rand__ = __and__

    def __bool__(self) -> bool:
        raise TypeError("a tile has no truth value: use tl.where, or a scalar condition")

    def __eq__(self, other: Any) -> Any:
        return _dense(self, other, "__eq__")

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.to_tile(), name)


def _dense(value: Affine | BoxMask, other: Any, operator: str) -> Any:
    """The operation on the dense twin; NotImplemented when that says so, and a pointer on the other side takes over."""
    return getattr(value.to_tile(), operator)(other)


def _define_dense_operators() -> None:
    """Give both classes every other operator, by way of their dense twins."""

    def dense(name: str) -> Any:
        return lambda self, *others: getattr(self.to_tile(), name)(*others)

    arithmetic = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
    names = [f"__{reflected}{name}__" for name in arithmetic for reflected in ("", "r")]
    names += [f"__{name}__" for name in ("lt", "le", "gt", "ge", "ne", "invert", "neg")]
    for owner in (Affine, BoxMask):
        for name in names:
            if name not in vars(owner):
                setattr(owner, name, dense(name))


_define_dense_operators()
