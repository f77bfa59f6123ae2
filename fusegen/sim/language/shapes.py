"""Builtins of triton.language that create tiles and change their shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.sim.affine import Affine, BoxMask
from fusegen.sim.dtypes import DType
from fusegen.sim.shapes import broadcast_shapes
from fusegen.sim.tiles import Tile, dense, extents, wrap


def arange(start: int, end: int) -> Affine:
    """start .. end - 1 as [end - start], a power of two; ValueError for another extent."""
    extent = end - start
    if extent < 1 or extent & (extent - 1):
        raise ValueError(f"tl.arange: expected a range of a power of two, got {start} to {end}")
    return Affine(start, (1 if extent > 1 else 0,), (extent,))


def full(shape: Any, value: Any, dtype: DType) -> Any:
    """A tile of one value."""
    number = dense(value).to(dtype)
    return wrap(np.full(extents((shape,)), dense(number).data, dtype.numpy), dtype)


def zeros(shape: Any, dtype: DType) -> Any:
    """A tile of zeros."""
    return full(shape, 0, dtype)


def zeros_like(value: Any) -> Any:
    """A tile of zeros with the shape and type of another."""
    tile = dense(value)
    return zeros(tile.shape, tile.dtype)


def broadcast_to(value: Any, *shape: Any) -> Any:
    """The same tile on a larger shape; ValueError where extents neither agree nor are 1."""
    target = extents(shape)
    return value.broadcast_to(target) if isinstance(value, Affine | BoxMask) else dense(value).broadcast_to(target)


def broadcast(left: Any, right: Any) -> tuple[Any, Any]:
    """Both on the shape that they have in common; ValueError if there is none."""
    shape = broadcast_shapes(dense(left).shape, dense(right).shape)
    return (broadcast_to(left, shape), broadcast_to(right, shape)) if shape else (left, right)


def expand_dims(value: Any, axis: Any) -> Any:
    """A new axis of extent 1 at place `axis` of the result, or several, each counted in the result."""
    tile = value if isinstance(value, Affine | BoxMask) else dense(value)
    axes = list(axis) if isinstance(axis, list | tuple) else [axis]
    rank = len(tile.shape) + len(axes)
    for place in sorted(entry % rank for entry in axes):
        tile = tile[(*(slice(None),) * place, None)]
    return tile


def reshape(value: Any, *shape: Any, can_reorder: bool = False) -> Any:
    """The same elements in row-major order; ValueError for another number of them."""
    return dense(value).reshape(*shape)


def view(value: Any, *shape: Any) -> Any:
    """As reshape."""
    return reshape(value, *shape)


def ravel(value: Any) -> Any:
    """All elements on one axis, in row-major order."""
    return reshape(value, dense(value).numel)


def permute(value: Any, *axes: Any) -> Any:
    """Axes in another order; ValueError unless each axis is named once."""
    tile, order = dense(value), extents(axes)
    if sorted(axis % max(len(order), 1) for axis in order) != list(range(len(tile.shape))):
        raise ValueError(f"tl.permute: expected an order of {len(tile.shape)} axes, got {list(order)}")
    return Tile(tile.data.transpose(order), tile.dtype, tile.is_index)


def trans(value: Any, *axes: Any) -> Any:
    """Axes in another order; the two of a matrix are exchanged when none are given."""
    if axes:
        return permute(value, *axes)
    tile = dense(value)
    if len(tile.shape) != 2:
        raise ValueError(f"tl.trans: expected a tile of two axes or an order of axes, got {list(tile.shape)}")
    return tile.T


def join(left: Any, right: Any) -> Any:
    """Both, broadcast, side by side on a new last axis of extent 2; TypeError unless they have one type."""
    a, b = _of_one_type("join", left, right)
    return Tile(np.stack(np.broadcast_arrays(a.data, b.data), axis=-1), a.dtype, a.is_index and b.is_index)


def split(value: Any) -> tuple[Any, Any]:
    """The two halves of a tile whose last axis has extent 2; ValueError for another extent."""
    tile = dense(value)
    if tile.shape[-1:] != (2,):
        raise ValueError(f"tl.split: expected a last axis of extent 2, got shape {list(tile.shape)}")
    first, second = (wrap(tile.data[..., index], tile.dtype, tile.is_index) for index in (0, 1))
    return first, second


def interleave(left: Any, right: Any) -> Any:
    """Elements of both in turn along the last axis."""
    joined = join(left, right)
    return joined if len(joined.shape) == 1 else joined.reshape((*joined.shape[:-2], 2 * joined.shape[-2]))


def cat(left: Any, right: Any, can_reorder: bool = False) -> Any:
    """Two tiles of one axis, one behind the other; Triton has it with can_reorder=True only: ValueError otherwise."""
    a, b = _of_one_type("cat", left, right)
    if not can_reorder or len(a.shape) != 1 or len(b.shape) != 1:
        raise ValueError(
            f"tl.cat: expected can_reorder=True and tiles of one axis, got {can_reorder}, {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    return Tile(np.concatenate([a.data, b.data]), a.dtype)


def flip(value: Any, dim: int | None = None) -> Any:
    """The last axis backwards; ValueError for another axis."""
    tile = dense(value)
    if dim not in (None, -1, len(tile.shape) - 1):
        raise ValueError(f"tl.flip: expected the last axis of {list(tile.shape)}, got {dim}")
    return Tile(tile.data[..., ::-1], tile.dtype, tile.is_index)


def cast(value: Any, dtype: DType, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> Any:
    """tl.cast: value.to(dtype)."""
    tile = value if isinstance(value, Affine | BoxMask) or hasattr(value, "to") else dense(value)
    return tile.to(dtype, fp_downcast_rounding, bitcast)


def _of_one_type(name: str, left: Any, right: Any) -> tuple[Tile, Tile]:
    a, b = dense(left), dense(right)
    if a.dtype is not b.dtype:
        raise TypeError(f"tl.{name}: expected values of one type, got {a.dtype} and {b.dtype}")
    return a, b
