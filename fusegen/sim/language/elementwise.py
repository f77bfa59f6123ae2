"""Builtins of triton.language that compute element by element."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import torch

from fusegen.sim import dtypes
from fusegen.sim.casts import cast
from fusegen.sim.dtypes import DType
from fusegen.sim.integers import add, floor_divide, subtract
from fusegen.sim.tiles import Tile, dense, matched, wrap


class PropagateNan(Enum):
    """Whether a NaN wins against a number."""

    NONE = 0
    ALL = 0xFFFF


def minimum(left: Any, right: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> Any:
    """Elementwise, broadcast; a NaN loses against a number unless it is to be propagated."""
    if isinstance(left, int) and isinstance(right, int):
        return left if left <= right else right
    a, b, dtype, is_index = _extremes(left, right)
    return wrap((np.fmin if propagate_nan is PropagateNan.NONE else np.minimum)(a, b), dtype, is_index)


def maximum(left: Any, right: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> Any:
    """Elementwise, broadcast; a NaN loses against a number unless it is to be propagated."""
    if isinstance(left, int) and isinstance(right, int):
        return left if left >= right else right
    a, b, dtype, is_index = _extremes(left, right)
    return wrap((np.fmax if propagate_nan is PropagateNan.NONE else np.maximum)(a, b), dtype, is_index)


def clamp(value: Any, low: Any, high: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> Any:
    """Elementwise, of floating-point values; TypeError for others."""
    result = minimum(maximum(value, low, propagate_nan), high, propagate_nan)
    if not dense(result).dtype.is_floating():
        raise TypeError(f"tl.clamp: expected floating-point values, got {dense(result).dtype}")
    return result


def _extremes(left: Any, right: Any) -> tuple[np.ndarray, np.ndarray, DType, bool]:
    """Both operands as variables of their own type; a bfloat16 is widened to float32."""
    a, b = single_of_bfloat16(left), single_of_bfloat16(right)
    return matched(a, b, constants=False)


def single_of_bfloat16(value: Any) -> Any:
    """The value, or its float32 if it is a bfloat16."""
    return value.to(dtypes.float32) if isinstance(value, Tile) and value.dtype is dtypes.bfloat16 else value


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, `y` elsewhere; all three broadcast. A number beside a tile is a constant."""
    return _chosen(condition, x, y, constants=True)


def where_variables(condition: Any, x: Any, y: Any) -> Any:
    """As `where` of kernel source with no constant: a number beside a tile is a variable."""
    return _chosen(condition, x, y, constants=False)


def _chosen(condition: Any, left: Any, right: Any, *, constants: bool) -> Any:
    if isinstance(condition, bool) and all(isinstance(value, int) for value in (left, right)):
        return left if condition else right
    a, b, dtype, is_index = matched(left, right, constants=constants)
    return wrap(np.where(dense(condition).data.astype(np.bool_), a, b), dtype, is_index)


def cdiv(numerator: Any, denominator: Any) -> Any:
    """Ceiling division, computed as Triton does: (numerator + denominator - 1) // denominator."""
    if isinstance(numerator, int) and isinstance(denominator, int):
        return floor_divide(subtract(add(numerator, denominator), 1), denominator)
    return (numerator + (denominator - 1)) // denominator


def fma(left: Any, right: Any, addend: Any) -> Any:
    """left * right + addend of floating-point values, rounded once; TypeError for others."""
    a, b, dtype, is_index = matched(left, right, constants=False)
    product = Tile(a, dtype, is_index)
    c, _, dtype, _ = matched(addend, product, constants=False)
    if not dtype.is_floating():
        raise TypeError(f"tl.fma: expected floating-point values, got {dtype}")
    wide = np.longdouble if dtype is dtypes.float64 else np.float64
    with np.errstate(all="ignore"):
        exact = a.astype(wide) * b.astype(wide) + c.astype(wide)
        return wrap(exact.astype(dtype.numpy), dtype)


def fdiv(left: Any, right: Any, ieee_rounding: bool = False) -> Any:
    """left / right of floating-point values; TypeError for others."""
    for value in (left, right):
        if not dense(value).dtype.is_floating():
            raise TypeError(f"tl.fdiv: expected floating-point values, got {dense(value).dtype}")
    a, b, dtype, _ = matched(left, right, division=dense(left).dtype is not dense(right).dtype)
    with np.errstate(all="ignore"):
        return wrap(np.divide(a, b), dtype)


def absolute(value: Any) -> Any:
    """Elementwise |value|."""
    tile = dense(value)
    if tile.dtype.is_int_unsigned():
        return value
    with np.errstate(all="ignore"):
        return wrap(np.abs(tile.data), tile.dtype, tile.is_index)


def unary(name: str, function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """A floating-point function: of half precision it is computed in float32 and rounded. TypeError for integers."""

    def operation(value: Any) -> Any:
        tile = dense(value)
        if not tile.dtype.is_floating():
            raise TypeError(f"tl.{name}: expected floating-point values, got {tile.dtype}")
        wide = np.dtype(np.float64 if tile.dtype is dtypes.float64 else np.float32)
        with np.errstate(all="ignore"):
            return wrap(cast(np.asarray(function(tile.data.astype(wide))), tile.dtype.numpy), tile.dtype)

    return operation


def erf(values: np.ndarray) -> np.ndarray:
    """The error function, which numpy does not have."""
    with torch._C.DisableTorchFunction():
        wide = torch.erf(torch.from_numpy(values.astype(np.float64))).numpy()
        return np.asarray(wide, values.dtype)


def rsqrt(values: np.ndarray) -> np.ndarray:
    """1 / sqrt(values)."""
    result: np.ndarray = np.divide(np.ones((), values.dtype), np.sqrt(values))
    return result


def logistic(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-values))."""
    one = np.ones((), values.dtype)
    result: np.ndarray = np.divide(one, one + np.exp(-values))
    return result
