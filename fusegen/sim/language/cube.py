"""tl.dot: the arithmetic of the cube core."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.casts import multiply
from fusegen.sim.elsewhere import ELSEWHERE
from fusegen.sim.errors import Misplaced, Unsupported
from fusegen.sim.tiles import Tile

DOT_DTYPES: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32)


def dot(left: Any, right: Any, acc: Any, out_dtype: dtypes.DType) -> Tile:
    """`left` [rows, depth] times `right` [depth, columns] plus `acc`, computed in float32.

    Raises TypeError for operands that are no floating-point tiles of one type, or an accumulator that is not float32,
    and ValueError for shapes that do not fit.
    """
    for name, operand in (("a", left), ("b", right)):
        if operand is ELSEWHERE:
            raise Misplaced("tl.dot")
        if not isinstance(operand, Tile) or operand.dtype not in DOT_DTYPES:
            got = repr(operand.dtype) if isinstance(operand, Tile) else type(operand).__name__
            raise TypeError(f"tl.dot: expected {name} to be a tile of tl.float16, tl.bfloat16 or tl.float32, got {got}")
    if left.dtype is not right.dtype:
        raise TypeError(f"tl.dot: expected a and b of one type, got {left.dtype} and {right.dtype}")
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[0]:
        raise ValueError(f"tl.dot: expected a [M, K] and b [K, N], got {list(left.shape)} and {list(right.shape)}")
    if out_dtype is not dtypes.float32:
        raise Unsupported(f"tl.dot with out_dtype {out_dtype}")
    start = None if acc is None else _accumulator(acc, (left.shape[0], right.shape[1]))
    return Tile(multiply(left.data, right.data, start), dtypes.float32)


def _accumulator(acc: Any, shape: tuple[int, ...]) -> np.ndarray:
    if acc is ELSEWHERE:
        raise Misplaced("tl.dot")
    if not isinstance(acc, Tile) or acc.dtype is not dtypes.float32:
        got = repr(acc.dtype) if isinstance(acc, Tile) else type(acc).__name__
        raise TypeError(f"tl.dot: expected acc to be a tile of tl.float32, got {got}")
    if acc.shape != shape:
        raise ValueError(f"tl.dot: expected acc of shape {list(shape)}, got {list(acc.shape)}")
    return acc.data
