"""tl.dot: the arithmetic of the cube core."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.casts import cast, multiply
from fusegen.sim.dtypes import DType
from fusegen.sim.elsewhere import ELSEWHERE
from fusegen.sim.errors import Misplaced, Unsupported
from fusegen.sim.tiles import Tile

FLOATING: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32)
INPUT_PRECISIONS: Final = (None, "hf32", "ieee", "tf32", "tf32x3")


def dot(left: Any, right: Any, acc: Any, out_dtype: DType, input_precision: str | None) -> Tile:
    """`left` [..., rows, depth] times `right` [..., depth, columns] plus `acc`, with at most one axis in front.

    Floating-point tiles are multiplied in float32, and the result is a float32, or where asked for and both are
    float16 a float16; int8 tiles give an int32. Every input precision multiplies float32 as it is. Raises TypeError for
    operands that are no tiles of one such type, or an accumulator of another type than the result, and ValueError for
    shapes that do not fit.
    """
    for name, operand in (("a", left), ("b", right)):
        if operand is ELSEWHERE:
            raise Misplaced("tl.dot")
        if not isinstance(operand, Tile) or operand.dtype not in (*FLOATING, dtypes.int8):
            got = repr(operand.dtype) if isinstance(operand, Tile) else type(operand).__name__
            raise TypeError(
                f"tl.dot: expected {name} to be a tile of tl.float16, tl.bfloat16, tl.float32 or tl.int8, got {got}"
            )
    if left.dtype is not right.dtype:
        raise TypeError(f"tl.dot: expected a and b of one type, got {left.dtype} and {right.dtype}")
    if len(left.shape) != len(right.shape) or not 2 <= len(left.shape) <= 3 or left.shape[-1] != right.shape[-2]:
        raise ValueError(f"tl.dot: expected a [M, K] and b [K, N], got {list(left.shape)} and {list(right.shape)}")
    if left.shape[:-2] != right.shape[:-2]:
        raise ValueError(f"tl.dot: expected as many products in a and b, got {left.shape[0]} and {right.shape[0]}")
    if input_precision not in INPUT_PRECISIONS:
        raise ValueError(
            f"tl.dot: expected input_precision 'ieee', 'tf32', 'tf32x3' or 'hf32', got {input_precision!r}"
        )
    result = _result(left.dtype, out_dtype)
    shape = (*left.shape[:-1], right.shape[-1])
    start = None if acc is None else _accumulator(acc, shape, result)
    if left.dtype is dtypes.int8:
        product = np.matmul(left.data.astype(np.int32), right.data.astype(np.int32))
        return Tile(product if start is None else product + start, result)
    return Tile(_floating(left.data, right.data, start, result), result)


def _floating(left: np.ndarray, right: np.ndarray, start: np.ndarray | None, result: DType) -> np.ndarray:
    """Products of floating-point matrices, rounded to the type of the result."""
    if left.ndim == 2:
        wide = start if start is None or result is dtypes.float32 else start.astype(np.float32)
        return cast_to(multiply(left, right, wide), result)
    starts = [None] * len(left) if start is None else list(start)
    return np.stack([_floating(a, b, acc, result) for a, b, acc in zip(left, right, starts, strict=True)])


def cast_to(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Float32 values in the type of a result."""
    return values if dtype is dtypes.float32 else cast(values, dtype.numpy)


def _result(operands: DType, wanted: DType) -> DType:
    """The type of a product."""
    if operands is dtypes.int8:
        return dtypes.int32
    if wanted is dtypes.float16 and operands is dtypes.float16:
        return dtypes.float16
    if wanted not in (dtypes.float32, dtypes.float16):
        raise Unsupported(f"tl.dot with out_dtype {wanted}")
    return dtypes.float32


def _accumulator(acc: Any, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    if acc is ELSEWHERE:
        raise Misplaced("tl.dot")
    if not isinstance(acc, Tile) or acc.dtype is not dtype:
        got = repr(acc.dtype) if isinstance(acc, Tile) else type(acc).__name__
        raise TypeError(f"tl.dot: expected acc to be a tile of {dtype}, got {got}")
    if acc.shape != shape:
        raise ValueError(f"tl.dot: expected acc of shape {list(shape)}, got {list(acc.shape)}")
    return acc.data
