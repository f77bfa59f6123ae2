"""Dense tiles: a numpy array and its element type, with Triton's promotion and integer division.

Floating-point scalars are tiles of shape (); integer and boolean scalars are Python numbers (see `integers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fusegen.sim import casts, dtypes
from fusegen.sim.affine import Affine, BoxMask, Shape, expand_axes
from fusegen.sim.dtypes import DType
from fusegen.sim.elsewhere import ELSEWHERE
from fusegen.sim.errors import Misplaced
from fusegen.sim.findings import DivisionByZero, Found
from fusegen.sim.integers import INT32_MAX, INT32_MIN, Int64, negative_division, overflow


class Tile:
    """A tile of values. `is_index` marks integers computed from tl.arange, whose overflow is a finding.

    Arithmetic on loaded integers wraps silently, as it may on the device.
    """

    __slots__ = ("data", "dtype", "is_index")

    def __init__(self, data: np.ndarray, dtype: DType, is_index: bool = False) -> None:
        self.data = data
        self.dtype = dtype
        self.is_index = is_index

    @property
    def shape(self) -> Shape:
        return self.data.shape

    @property
    def numel(self) -> int:
        return self.data.size

    @property
    def T(self) -> Tile:
        return Tile(self.data.T, self.dtype, self.is_index)

    def to(self, dtype: DType, bitcast: bool = False) -> Any:
        """Cast to another element type, or reinterpret the bits."""
        if dtype is self.dtype:
            return self
        if bitcast:
            return wrap(self.data.view(dtype.numpy), dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            return wrap(casts.cast(self.data, dtype.numpy), dtype, self.is_index and dtype.is_int())

    def to_tile(self) -> Tile:
        return self

    def broadcast_to(self, shape: Shape) -> Tile:
        return Tile(np.broadcast_to(self.data, shape), self.dtype, self.is_index)

    def reshape(self, *shape: Any) -> Tile:
        return Tile(self.data.reshape(*shape), self.dtype, self.is_index)

    def trans(self, *axes: int) -> Tile:
        return Tile(self.data.transpose(*axes), self.dtype, self.is_index)

    def __getitem__(self, key: Any) -> Tile:
        axes = expand_axes(self.shape, key)
        return self.reshape(tuple(1 if axis is None else self.shape[axis] for axis in axes))

    def __bool__(self) -> bool:
        if self.data.ndim:
            raise TypeError("a tile has no truth value: use tl.where, or a scalar condition")
        return bool(self.data)

    def __float__(self) -> float:
        if self.data.ndim:
            raise TypeError("a tile is not a number")
        return float(self.data)

    def __neg__(self) -> Any:
        return wrap(-self.data, self.dtype, self.is_index)

    def __invert__(self) -> Any:
        return wrap(~self.data, self.dtype)

    __hash__ = None  # type: ignore[assignment]

    # The operators are set below, from one table; these declarations are for type checkers.
    __add__: Callable[[Tile, Any], Any]
    __mul__: Callable[[Tile, Any], Any]


def wrap(data: Any, dtype: DType, is_index: bool = False) -> Any:
    """A result as a kernel sees it: 0-d integers and booleans become Python numbers, everything else a Tile."""
    if np.ndim(data) == 0:
        if dtype.kind == "bool":
            return bool(data)
        if dtype.is_int():
            return Int64(data) if dtype.bits == 64 else int(data)
    return Tile(np.asarray(data, dtype.numpy), dtype, is_index)


def scalar_dtype(value: bool | int | float) -> DType:
    """The type of a Python number that stands alone."""
    if isinstance(value, bool):
        return dtypes.int1
    if isinstance(value, int):
        return dtypes.int64 if isinstance(value, Int64) else dtypes.int32
    return dtypes.float32


def dense(value: Any) -> Tile:
    """Any kernel value as a Tile."""
    if isinstance(value, Tile):
        return value
    if isinstance(value, Affine | BoxMask):
        return value.to_tile()
    if isinstance(value, bool | int | float):
        dtype = scalar_dtype(value)
        return Tile(np.asarray(value, dtype.numpy), dtype, dtype.is_int())
    if value is ELSEWHERE:
        raise Misplaced("an operation on tiles")
    raise TypeError(f"expected a number or a tile, got {type(value).__name__}")


def matched(left: Any, right: Any, *, division: bool = False) -> tuple[np.ndarray, np.ndarray, DType, bool]:
    """Both operands as arrays of the type Triton computes in, that type, and whether the result is an index."""
    if _is_number(left) and not _is_number(right):
        right = dense(right)
        dtype = _beside(left, right.dtype)
        left = Tile(np.asarray(left, dtype.numpy), dtype, right.is_index)
    elif _is_number(right) and not _is_number(left):
        left = dense(left)
        dtype = _beside(right, left.dtype)
        right = Tile(np.asarray(right, dtype.numpy), dtype, left.is_index)
    else:
        left, right = dense(left), dense(right)
    dtype = dtypes.promote(left.dtype, right.dtype, division=division)
    is_index = left.is_index and right.is_index
    return left.data.astype(dtype.numpy, copy=False), right.data.astype(dtype.numpy, copy=False), dtype, is_index


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _beside(number: bool | int | float, partner: DType) -> DType:
    """The type of a scalar beside a tile; a 64-bit scalar widens an integer tile."""
    if isinstance(number, Int64) and partner.kind != "float":
        return dtypes.int64
    dtype = dtypes.of_number(number, partner)
    if not dtype.is_int() or np.iinfo(dtype.numpy).min <= number <= np.iinfo(dtype.numpy).max:
        return dtype
    return dtypes.int32 if INT32_MIN <= number <= INT32_MAX else dtypes.int64


def _arithmetic(function: np.ufunc, symbol: str) -> Callable[[Any, Any], Any]:
    """+ - * <<: index tiles are computed in 64 bits first, so that a 32-bit result that wraps is noticed."""

    def operation(left: Any, right: Any) -> Any:
        a, b, dtype, is_index = matched(left, right)
        if is_index and dtype is dtypes.int32:
            exact = function(a.astype(np.int64), b.astype(np.int64))
            if exact.size:
                low, high = int(exact.min()), int(exact.max())
                if low < INT32_MIN or high > INT32_MAX:
                    raise overflow(f"tile index {symbol}", high if high > INT32_MAX else low)
            return wrap(exact.astype(np.int32), dtype, True)
        if dtype.kind == "bool":
            a, b, dtype = a.astype(np.int32), b.astype(np.int32), dtypes.int32
        with np.errstate(all="ignore"):
            return wrap(function(a, b), dtype, is_index)

    return operation


def _true_divide(left: Any, right: Any) -> Any:
    a, b, dtype, _ = matched(left, right, division=True)
    if dtype.kind != "float":
        a, b, dtype = a.astype(np.float32), b.astype(np.float32), dtypes.float32
    with np.errstate(all="ignore"):
        return wrap(np.divide(a, b), dtype)


def _integer_division(symbol: str) -> Callable[[Any, Any], Any]:
    """// and % of tiles: rounding to zero; a negative index is a finding, as for scalars."""

    def operation(left: Any, right: Any) -> Any:
        a, b, dtype, is_index = matched(left, right, division=True)
        if dtype.kind == "float":
            if symbol == "//":
                raise TypeError("Triton has no // on floating-point tiles")
            with np.errstate(all="ignore"):
                return wrap(np.fmod(a, b), dtype)
        if not b.all():
            raise Found(DivisionByZero(f"tile {symbol} divides by zero"))
        if is_index and a.size and (a.min() < 0 or b.min() < 0):
            raise negative_division(f"tile {symbol}", int(min(a.min(), b.min())))
        remainder = np.fmod(a, b)
        result = remainder if symbol == "%" else np.floor_divide(a - remainder, b)
        return wrap(result, dtype, is_index)

    return operation


def _bitwise(function: np.ufunc) -> Callable[[Any, Any], Any]:
    def operation(left: Any, right: Any) -> Any:
        a, b, dtype, is_index = matched(left, right)
        return wrap(function(a, b), dtype, is_index)

    return operation


def _comparison(function: np.ufunc) -> Callable[[Any, Any], Any]:
    def operation(left: Any, right: Any) -> Any:
        a, b, _, _ = matched(left, right)
        return wrap(function(a, b), dtypes.int1)

    return operation


BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": _arithmetic(np.add, "+"),
    "sub": _arithmetic(np.subtract, "-"),
    "mul": _arithmetic(np.multiply, "*"),
    "lshift": _arithmetic(np.left_shift, "<<"),
    "truediv": _true_divide,
    "floordiv": _integer_division("//"),
    "mod": _integer_division("%"),
    "rshift": _bitwise(np.right_shift),
    "and": _bitwise(np.bitwise_and),
    "or": _bitwise(np.bitwise_or),
    "xor": _bitwise(np.bitwise_xor),
}
COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "gt": _comparison(np.greater),
    "ge": _comparison(np.greater_equal),
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
}


def _define_operators() -> None:
    def forward(function: Callable[[Any, Any], Any]) -> Callable[[Tile, Any], Any]:
        return lambda self, other: function(self, other) if _is_operand(other) else NotImplemented

    def reflected(function: Callable[[Any, Any], Any]) -> Callable[[Tile, Any], Any]:
        return lambda self, other: function(other, self) if _is_operand(other) else NotImplemented

    for name, function in BINARY.items():
        setattr(Tile, f"__{name}__", forward(function))
        setattr(Tile, f"__r{name}__", reflected(function))
    for name, function in COMPARISONS.items():
        setattr(Tile, f"__{name}__", forward(function))


def _is_operand(value: Any) -> bool:
    return isinstance(value, Tile | Affine | BoxMask | bool | int | float)


_define_operators()


def true_divide(left: Any, right: Any) -> Any:
    """left / right in kernel source; two integers give a float32."""
    if _is_number(left) and _is_number(right):
        return _true_divide(dense(left), dense(right))
    return left / right


def cast(value: Any, dtype: Any, *arguments: Any, **options: Any) -> Any:
    """value.to(dtype) in kernel source, also for Python numbers."""
    if not _is_number(value):
        return value.to(dtype, *arguments, **options)
    if dtype.is_int() and dtype.bits >= 32 and isinstance(value, int):
        return Int64(value) if dtype.bits == 64 else wrap(np.asarray(int(value), np.int64).astype(dtype.numpy), dtype)
    return dense(value).to(dtype, *arguments, **options)
