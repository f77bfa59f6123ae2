"""The part of triton.language that only computes. `FUNCTIONS` is the table of what is supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.affine import Affine, BoxMask, Shape
from fusegen.sim.dtypes import DType
from fusegen.sim.integers import add, counter, floor_divide, subtract
from fusegen.sim.tiles import Tile, dense, matched, wrap


class constexpr:  # the name is Triton's
    """tl.constexpr: an annotation; calling it gives the value itself."""

    def __new__(cls, value: Any) -> Any:
        return value


def arange(start: int, end: int) -> Affine:
    """start .. end - 1 as [end - start], a power of two; ValueError for another extent."""
    extent = end - start
    if extent < 1 or extent & (extent - 1):
        raise ValueError(f"tl.arange: expected a range of a power of two, got {start} to {end}")
    return Affine(start, (1 if extent > 1 else 0,), (extent,))


def _shape(shape: Any) -> Shape:
    return tuple(shape) if isinstance(shape, list | tuple) else (int(shape),)


def full(shape: Any, value: Any, dtype: DType) -> Any:
    """A tile of one value."""
    number = dense(value).data.astype(dtype.numpy)
    return wrap(np.full(_shape(shape), number, dtype.numpy), dtype)


def zeros(shape: Any, dtype: DType) -> Any:
    """A tile of zeros."""
    return full(shape, 0, dtype)


def zeros_like(value: Any) -> Any:
    """A tile of zeros with the shape and type of another."""
    tile = dense(value)
    return zeros(tile.shape, tile.dtype)


def cdiv(numerator: Any, denominator: Any) -> Any:
    """Ceiling division, computed as Triton does: (numerator + denominator - 1) // denominator."""
    if isinstance(numerator, int) and isinstance(denominator, int):
        return floor_divide(subtract(add(numerator, denominator), 1), denominator)
    return (numerator + (denominator - 1)) // denominator


def minimum(left: Any, right: Any, **_: Any) -> Any:
    """Elementwise, broadcast; a NaN loses against a number."""
    if isinstance(left, int) and isinstance(right, int):
        return left if left <= right else right
    a, b, dtype, is_index = matched(left, right)
    return wrap(np.fmin(a, b) if dtype.is_floating() else np.minimum(a, b), dtype, is_index)


def maximum(left: Any, right: Any, **_: Any) -> Any:
    """Elementwise, broadcast; a NaN loses against a number."""
    if isinstance(left, int) and isinstance(right, int):
        return left if left >= right else right
    a, b, dtype, is_index = matched(left, right)
    return wrap(np.fmax(a, b) if dtype.is_floating() else np.maximum(a, b), dtype, is_index)


def where(condition: Any, left: Any, right: Any) -> Any:
    """`left` where the condition holds, `right` elsewhere; all three broadcast."""
    if isinstance(condition, bool) and all(isinstance(value, int) for value in (left, right)):
        return left if condition else right
    a, b, dtype, is_index = matched(left, right)
    return wrap(np.where(dense(condition).data.astype(np.bool_), a, b), dtype, is_index)


def broadcast_to(value: Any, *shape: Any) -> Any:
    """The same tile on a larger shape; ValueError where extents neither agree nor are 1."""
    extents = _shape(shape[0]) if len(shape) == 1 else shape
    return value.broadcast_to(extents) if isinstance(value, Affine | BoxMask) else dense(value).broadcast_to(extents)


def expand_dims(value: Any, axis: int) -> Any:
    """A new axis of extent 1 at place `axis` of the result."""
    position = axis + len(value.shape) + 1 if axis < 0 else axis
    return value[(*(slice(None),) * position, None)]


def reshape(value: Any, *shape: Any) -> Tile:
    """The same elements in row-major order; ValueError for another number of them."""
    return dense(value).reshape(_shape(shape[0]) if len(shape) == 1 else shape)


def trans(value: Any, *axes: int) -> Tile:
    """Axes in another order; reversed when none are given."""
    tile = dense(value)
    return tile.trans(*axes) if axes else tile.T


def cast(value: Any, dtype: DType, **options: Any) -> Any:
    """tl.cast: value.to(dtype)."""
    return dense(value).to(dtype, **options)


def _unary(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """A floating-point function, computed in float32 or wider and rounded to the tile's type."""

    def operation(value: Any) -> Any:
        tile = dense(value)
        dtype = tile.dtype if tile.dtype.is_floating() else dtypes.float32
        wide = np.float64 if dtype is dtypes.float64 else np.float32
        with np.errstate(all="ignore"):
            return wrap(function(tile.data.astype(wide)).astype(dtype.numpy), dtype)

    return operation


def absolute(value: Any) -> Any:
    """Elementwise |value|."""
    tile = dense(value)
    return wrap(np.abs(tile.data), tile.dtype, tile.is_index)


def _reduction(function: Callable[..., Any], *, widens: bool) -> Callable[..., Any]:
    """A reduction over one axis or all; sums of narrow types are computed in 32 bits."""

    def operation(value: Any, axis: int | None = None, keep_dims: bool = False) -> Any:
        tile = dense(value)
        dtype = tile.dtype
        if (widens and dtype.kind == "bool") or (widens and dtype.is_int() and dtype.bits < 32):
            dtype = dtypes.int32
        elif dtype is dtypes.bfloat16:
            dtype = dtypes.float32
        wide = dtypes.float32 if dtype is dtypes.float16 else dtype
        with np.errstate(all="ignore"):
            result = function(tile.data.astype(wide.numpy), axis=axis, keepdims=keep_dims)
            return wrap(np.asarray(result).astype(dtype.numpy), dtype)

    return operation


def _argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The place of an extreme along an axis, as int32."""

    def operation(value: Any, axis: int, keep_dims: bool = False) -> Any:
        return wrap(
            np.asarray(function(dense(value).data, axis=axis, keepdims=keep_dims)).astype(np.int32), dtypes.int32
        )

    return operation


def static_assert(condition: bool, message: str = "") -> None:
    """AssertionError unless a compile-time condition holds."""
    if not condition:
        raise AssertionError(f"tl.static_assert: {message}")


def static_range(*bounds: int) -> Any:
    """tl.static_range: an unrolled loop."""
    return range(*bounds)


def loop_range(*bounds: int, **_: Any) -> Any:
    """tl.range: its options (num_stages, ...) guide the compiler and change no result."""
    return counter(*bounds)


def hint(value: Any, *_: Any) -> Any:
    """multiple_of, max_contiguous and such: promises to the compiler, not checked."""
    return value


FUNCTIONS: Final[Mapping[str, Any]] = {
    **{dtype.name: dtype for dtype in dtypes.ALL},
    "abs": absolute,
    "arange": arange,
    "argmax": _argument(np.argmax),
    "argmin": _argument(np.argmin),
    "broadcast_to": broadcast_to,
    "cast": cast,
    "cdiv": cdiv,
    "ceil": _unary(np.ceil),
    "constexpr": constexpr,
    "cos": _unary(np.cos),
    "dtype": DType,
    "exp": _unary(np.exp),
    "exp2": _unary(np.exp2),
    "expand_dims": expand_dims,
    "floor": _unary(np.floor),
    "full": full,
    "log": _unary(np.log),
    "log2": _unary(np.log2),
    "max": _reduction(np.max, widens=False),
    "max_constancy": hint,
    "max_contiguous": hint,
    "maximum": maximum,
    "min": _reduction(np.min, widens=False),
    "minimum": minimum,
    "multiple_of": hint,
    "pointer_type": dtypes.PointerType,
    "range": loop_range,
    "reshape": reshape,
    "rsqrt": _unary(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _unary(lambda x: 1 / (1 + np.exp(-x))),
    "sin": _unary(np.sin),
    "sqrt": _unary(np.sqrt),
    "static_assert": static_assert,
    "static_range": static_range,
    "sum": _reduction(np.sum, widens=True),
    "trans": trans,
    "view": reshape,
    "where": where,
    "zeros": zeros,
    "zeros_like": zeros_like,
}
