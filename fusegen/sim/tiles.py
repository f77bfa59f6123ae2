"""Dense tiles: a numpy array and its element type, with Triton's promotion and integer division.

Scalars of type int1, int32 and int64 are Python numbers (see `integers`), all others tiles of shape ().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fusegen.sim import casts, dtypes
from fusegen.sim.affine import Affine, BoxMask
from fusegen.sim.dtypes import DType
from fusegen.sim.elsewhere import ELSEWHERE
from fusegen.sim.errors import Misplaced, Unsupported
from fusegen.sim.findings import DivisionByZero, Found
from fusegen.sim.integers import INT32_MAX, INT32_MIN, Int64, negative_division, overflow
from fusegen.sim.shapes import Shape, expand_axes


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

    def to(self, dtype: DType, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> Any:
        """Cast to another element type, rounding to the nearest, ties to even; or reinterpret the bits."""
        if fp_downcast_rounding not in (None, "rtne"):
            raise Unsupported(f"tl.cast with fp_downcast_rounding {fp_downcast_rounding!r}")
        if dtype is self.dtype:
            return self
        if bitcast:
            if dtype.bits != self.dtype.bits:
                raise ValueError(f"bitcast: expected a type of {self.dtype.bits} bits for {self.dtype}, got {dtype}")
            return wrap(self.data.view(dtype.numpy), dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            return wrap(casts.cast(self.data, dtype.numpy), dtype, self.is_index and dtype.is_int())

    def to_tile(self) -> Tile:
        return self

    def broadcast_to(self, *shape: Any) -> Tile:
        return Tile(np.broadcast_to(self.data, extents(shape)), self.dtype, self.is_index)

    def reshape(self, *shape: Any) -> Tile:
        return Tile(self.data.reshape(extents(shape)), self.dtype, self.is_index)

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

    def __index__(self) -> int:
        if self.data.ndim or not self.dtype.is_int():
            raise TypeError(f"a tile of {self.dtype} with shape {list(self.shape)} is not an integer")
        return int(self.data)

    def __neg__(self) -> Any:
        with np.errstate(all="ignore"):
            return wrap(np.negative(self.data) if self.dtype.kind != "bool" else self.data, self.dtype, self.is_index)

    def __invert__(self) -> Any:
        if self.dtype.is_floating():
            raise TypeError(f"~: expected integers or booleans, got a tile of {self.dtype}")
        return wrap(~self.data, self.dtype)

    __hash__ = None  # type: ignore[assignment]

    # The operators are set below, from one table; these declarations are for type checkers.
    __add__: Callable[[Tile, Any], Any]
    __mul__: Callable[[Tile, Any], Any]


def extents(shape: Any) -> Shape:
    """A shape from the arguments of a call: one sequence, or extents one by one."""
    single = shape[0] if len(shape) == 1 else shape
    return tuple(single) if isinstance(single, list | tuple) else (int(single),)


def wrap(data: Any, dtype: DType, is_index: bool = False) -> Any:
    """A result as a kernel sees it: an int1, int32 or int64 without axes is a Python number, all else a Tile."""
    if np.ndim(data) == 0:
        if dtype is dtypes.int32:
            return int(data)
        if dtype is dtypes.int64:
            return Int64(data)
        if dtype is dtypes.int1:
            return bool(data)
    return Tile(np.asarray(data, dtype.numpy), dtype, is_index)


def dense(value: Any) -> Tile:
    """Any kernel value as a Tile; a number has the type of a variable with that value."""
    if isinstance(value, Tile):
        return value
    if isinstance(value, Affine | BoxMask):
        return value.to_tile()
    if isinstance(value, bool | int | float):
        dtype = dtypes.int64 if isinstance(value, Int64) else dtypes.of_number(value)
        return Tile(np.asarray(value, dtype.numpy), dtype, dtype.is_int())
    if value is ELSEWHERE:
        raise Misplaced("an operation on tiles")
    raise TypeError(f"expected a number or a tile, got {type(value).__name__}")


def matched(
    left: Any, right: Any, *, division: bool = False, constants: bool = True
) -> tuple[np.ndarray, np.ndarray, DType, bool]:
    """Both operands as arrays of the type Triton computes in, that type, and whether the result is an index.

    A Python number beside a tile is a constant, which takes the tile's type; without `constants` it is a variable,
    which has its own. TypeError for a division of signed by unsigned integers.
    """
    if _is_number(left) and not _is_number(right):
        right = dense(right)
        left = _beside(left, right, constants)
    elif _is_number(right) and not _is_number(left):
        left = dense(left)
        right = _beside(right, left, constants)
    else:
        left, right = dense(left), dense(right)
    if division and left.dtype.kind != right.dtype.kind and left.dtype.is_int() and right.dtype.is_int():
        raise TypeError(f"/, // and %: expected operands of one signedness, got {left.dtype} and {right.dtype}")
    dtype = dtypes.promote(left.dtype, right.dtype, division=division)
    is_index = left.is_index and right.is_index
    return casts.cast_if_needed(left.data, dtype.numpy), casts.cast_if_needed(right.data, dtype.numpy), dtype, is_index


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _beside(number: bool | int | float, partner: Tile, is_constant: bool) -> Tile:
    """A number beside a tile."""
    if not is_constant or isinstance(number, Int64):
        tile = dense(number)
        return Tile(tile.data, tile.dtype, partner.is_index)
    dtype = dtypes.of_constant(number, partner.dtype)
    if dtype.is_int() and not np.iinfo(dtype.numpy).min <= number <= np.iinfo(dtype.numpy).max:
        if partner.is_index:
            return Tile(np.asarray(number, np.int64), dtypes.int64, True)
        return Tile(np.asarray(int(number) & (2**dtype.bits - 1), np.uint64).astype(dtype.numpy), dtype)
    with np.errstate(over="ignore"):
        return Tile(np.asarray(number, dtype.numpy), dtype, partner.is_index)


def _arithmetic(function: np.ufunc, symbol: str, *, constants: bool = True) -> Callable[[Any, Any], Any]:
    """+ - * <<: index tiles are computed in 64 bits first, so that a 32-bit result that wraps is noticed."""

    def operation(left: Any, right: Any) -> Any:
        a, b, dtype, is_index = matched(left, right, constants=constants)
        if is_index and dtype is dtypes.int32:
            exact = function(a.astype(np.int64), b.astype(np.int64))
            if exact.size:
                low, high = int(exact.min()), int(exact.max())
                if low < INT32_MIN or high > INT32_MAX:
                    raise overflow(f"tile index {symbol}", high if high > INT32_MAX else low)
            return wrap(exact.astype(np.int32), dtype, True)
        if dtype.kind == "bool":
            return wrap(_ONE_BIT[symbol](a, b), dtype)
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
                return wrap(a - np.floor(a / b) * b, dtype)
        if not b.all():
            raise Found(DivisionByZero(f"tile {symbol} divides by zero"))
        if is_index and a.size and (a.min() < 0 or b.min() < 0):
            raise negative_division(f"tile {symbol}", int(min(a.min(), b.min())))
        remainder = np.fmod(a, b)
        result = remainder if symbol == "%" else np.floor_divide(a - remainder, b)
        return wrap(result, dtype, is_index)

    return operation


def _bitwise(function: np.ufunc, *, constants: bool = True) -> Callable[[Any, Any], Any]:
    def operation(left: Any, right: Any) -> Any:
        a, b, dtype, is_index = matched(left, right, constants=constants)
        if dtype.is_floating():
            raise TypeError(f"&, |, ^ and >>: expected integers or booleans, got {dtype}")
        return wrap(function(a, b), dtype, is_index)

    return operation


def _comparison(function: np.ufunc) -> Callable[[Any, Any], Any]:
    def operation(left: Any, right: Any) -> Any:
        a, b, _, _ = matched(left, right, constants=False)
        return wrap(function(a, b), dtypes.int1)

    return operation


_ONE_BIT: Final[dict[str, np.ufunc]] = {"+": np.bitwise_xor, "-": np.bitwise_xor, "*": np.bitwise_and}
"""Arithmetic of booleans, which are integers of one bit."""
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
WITH_VARIABLE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": _arithmetic(np.add, "+", constants=False),
    "-": _arithmetic(np.subtract, "-", constants=False),
    "*": _arithmetic(np.multiply, "*", constants=False),
    "<<": _arithmetic(np.left_shift, "<<", constants=False),
    ">>": _bitwise(np.right_shift, constants=False),
    "&": _bitwise(np.bitwise_and, constants=False),
    "|": _bitwise(np.bitwise_or, constants=False),
    "^": _bitwise(np.bitwise_xor, constants=False),
}
"""The same where neither operand is a constant of the source."""
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


def variable(value: Any) -> Any:
    """A constant of kernel source that is assigned to a variable: a float becomes a float32."""
    return dense(value) if isinstance(value, float) else value


def logical_not(value: Any) -> Any:
    """`not value` in kernel source; of a tile it is elementwise."""
    return ~_truth(value) if is_tile(value) else not value


def logical_and(left: Any, right: Any) -> Any:
    """`left and right` in kernel source where `left` is a tile: elementwise."""
    return _truth(left) & _truth(right)


def logical_or(left: Any, right: Any) -> Any:
    """`left or right` in kernel source where `left` is a tile: elementwise."""
    return _truth(left) | _truth(right)


def is_tile(value: Any) -> bool:
    """A value with axes, symbolic or dense."""
    return isinstance(value, BoxMask | Affine) or (isinstance(value, Tile) and value.data.ndim > 0)


def _truth(value: Any) -> Any:
    """A tile of booleans, or a boolean scalar."""
    if isinstance(value, BoxMask | bool):
        return value
    tile = dense(value)
    if tile.dtype is not dtypes.int1 and tile.shape:
        raise TypeError(f"not, and, or: expected tiles of tl.int1, got {tile.dtype}")
    return tile if tile.shape else bool(tile)


def cast(value: Any, dtype: Any, *arguments: Any, **options: Any) -> Any:
    """value.to(dtype) in kernel source, also for Python numbers."""
    if not _is_number(value):
        return value.to(dtype, *arguments, **options)
    if dtype is dtypes.int64 and isinstance(value, int):
        return Int64(value)
    return dense(value).to(dtype, *arguments, **options)
