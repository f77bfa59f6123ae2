"""The lanes of a tile access: which ones a mask includes, what excluded ones hold, and values to store."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.sim.affine import Affine, BoxMask
from fusegen.sim.dtypes import DType
from fusegen.sim.shapes import Shape
from fusegen.sim.tiles import Tile, dense


def clip(index: Affine, mask: BoxMask) -> Affine:
    """The part of an index inside a box that is not empty."""
    base = index.base
    for coef, low in zip(index.coefs, mask.lower, strict=True):
        base += coef * low
    extents = tuple([high - low for low, high in zip(mask.lower, mask.upper, strict=True)])
    return Affine(base, index.coefs, extents, True)


def uniform(included: bool, shape: Shape) -> BoxMask:
    """A scalar mask on a tile."""
    return BoxMask((0,) * len(shape), shape if included else (0,) * len(shape), shape)


def filled(shape: Shape, element: DType, other: Any) -> np.ndarray:
    """A tile to load into: `other`, or what shows when it is used by mistake."""
    if other is not None:
        data = np.empty(shape, element.numpy)
        data[...] = dense(other).data
        return data
    if element.kind == "float":
        return np.full(shape, np.nan, element.numpy)
    return np.full(shape, True if element.kind == "bool" else np.iinfo(element.numpy).max // 2, element.numpy)


def converted(value: Any, element: DType) -> np.ndarray:
    """A value to store, as an array of the element type."""
    if type(value) is Tile and value.dtype is element:
        return value.data
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(dense(value).data).astype(element.numpy)
