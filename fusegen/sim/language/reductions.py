"""Builtins of triton.language that combine the elements along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.language.elementwise import fdiv, single_of_bfloat16, unary
from fusegen.sim.tiles import Tile, dense, wrap


def sum_of(value: Any, axis: int | None = None, keep_dims: bool = False) -> Any:
    """The sum along an axis, or of all elements: a bfloat16 in float32, every other type in itself."""
    tile = single_of_bfloat16(dense(value))
    function = np.bitwise_xor if tile.dtype.kind == "bool" else np.add
    return _reduced(function, tile, axis, keep_dims)


def xor_sum(value: Any, axis: int | None = None, keep_dims: bool = False) -> Any:
    """The exclusive or along an axis, or of all elements; TypeError for floating-point values."""
    tile = dense(value)
    if tile.dtype.is_floating():
        raise TypeError(f"tl.xor_sum: expected integers, got {tile.dtype}")
    return _reduced(np.bitwise_xor, tile, axis, keep_dims)


def maximum_of(
    value: Any,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """The maximum along an axis, or of all elements, and if wanted its place: the first one, an int32.

    Half precision becomes float32, unless the place of a float16 is wanted; integers stay, as in Ascend's front end.
    """
    if return_indices:
        return _with_place(np.argmax, value, axis, keep_dims)
    return _reduced(np.fmax, _of_full_precision(value), axis, keep_dims)


def minimum_of(
    value: Any,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """The minimum along an axis, as `maximum_of`."""
    if return_indices:
        return _with_place(np.argmin, value, axis, keep_dims)
    return _reduced(np.fmin, _of_full_precision(value), axis, keep_dims)


def argmax(value: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> Any:
    """The place of the maximum along an axis, the first one, as int32."""
    return _with_place(np.argmax, value, axis, keep_dims)[1]


def argmin(value: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> Any:
    """The place of the minimum along an axis, the first one, as int32."""
    return _with_place(np.argmin, value, axis, keep_dims)[1]


def softmax(value: Any, ieee_rounding: bool = False) -> Any:
    """exp(value) over its sum along axis 0; of half precision computed in float32 and rounded."""
    tile = dense(value)
    single = tile if tile.dtype is dtypes.float64 else dense(tile.to(dtypes.float32))
    numerator = unary("exp", np.exp)(single - maximum_of(single, 0))
    return fdiv(numerator, sum_of(numerator, 0)).to(tile.dtype)


def cumsum(value: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Sums of the elements up to each one along an axis; from its end when reversed."""
    return _scanned(np.add, single_of_bfloat16(dense(value)), axis, reverse)


def cumprod(value: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Products of the elements up to each one along an axis; from its end when reversed."""
    return _scanned(np.multiply, single_of_bfloat16(dense(value)), axis, reverse)


def reduce(value: Any, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False) -> Any:
    """Combine the elements along an axis, or all, from first to last; of a tuple of tiles, a tuple."""
    tiles = _tiles(value)
    shape = tiles[0].shape
    if axis is None:
        tiles = [Tile(tile.data.reshape(-1), tile.dtype) for tile in tiles]
    rows = [np.moveaxis(tile.data, axis or 0, 0) for tile in tiles]
    total = _row(tiles, rows, 0)
    for index in range(1, len(rows[0])):
        total = _combined(combine_fn, tiles, total, _row(tiles, rows, index))
    if keep_dims:
        kept = [1] * len(shape) if axis is None else [1 if i == axis % len(shape) else n for i, n in enumerate(shape)]
        total = [Tile(dense(entry).data.reshape(kept), dense(entry).dtype) for entry in total]
    return tuple(total) if isinstance(value, tuple) else total[0]


def associative_scan(value: Any, axis: int, combine_fn: Callable[..., Any], reverse: bool = False) -> Any:
    """What `reduce` has of the elements up to each one; of a tuple of tiles, a tuple."""
    tiles = _tiles(value)
    rows = [np.moveaxis(tile.data, axis, 0)[:: -1 if reverse else 1] for tile in tiles]
    total = _row(tiles, rows, 0)
    scanned = [total]
    for index in range(1, len(rows[0])):
        total = _combined(combine_fn, tiles, total, _row(tiles, rows, index))
        scanned.append(total)
    results = []
    for place, tile in enumerate(tiles):
        stacked = np.stack([dense(entry[place]).data for entry in scanned])[:: -1 if reverse else 1]
        results.append(Tile(np.moveaxis(stacked, 0, axis), tile.dtype))
    return tuple(results) if isinstance(value, tuple) else results[0]


def sort(value: Any, dim: int | None = None, descending: bool = False) -> Any:
    """The last axis in order; ValueError for another axis."""
    tile = dense(value)
    if dim not in (None, -1, len(tile.shape) - 1):
        raise ValueError(f"tl.sort: expected the last axis of {list(tile.shape)}, got {dim}")
    ordered = np.sort(tile.data, axis=-1)
    return Tile(ordered[..., ::-1] if descending else ordered, tile.dtype)


def _tiles(value: Any) -> list[Tile]:
    return [dense(entry) for entry in (value if isinstance(value, tuple) else (value,))]


def _row(tiles: list[Tile], rows: list[np.ndarray], index: int) -> list[Any]:
    """Of every tile the elements at one place of the axis."""
    return [wrap(row[index], tile.dtype) for tile, row in zip(tiles, rows, strict=True)]


def _combined(combine_fn: Callable[..., Any], tiles: list[Tile], left: list[Any], right: list[Any]) -> list[Any]:
    """What the function makes of two rows, in the types of the tiles."""
    result = combine_fn(*left, *right)
    entries = result if isinstance(result, tuple) else (result,)
    return [dense(entry).to(tile.dtype) for entry, tile in zip(entries, tiles, strict=True)]


def _reduced(function: np.ufunc, tile: Tile, axis: int | None, keep_dims: bool) -> Any:
    with np.errstate(all="ignore"):
        result = function.reduce(tile.data, axis=axis, keepdims=keep_dims, dtype=tile.dtype.numpy)
    return wrap(np.asarray(result, tile.dtype.numpy), tile.dtype)


def _scanned(function: np.ufunc, tile: Tile, axis: int, reverse: bool) -> Any:
    data = np.flip(tile.data, axis) if reverse else tile.data
    with np.errstate(all="ignore"):
        result = function.accumulate(data, axis=axis, dtype=tile.dtype.numpy)
    return Tile(np.flip(result, axis) if reverse else result, tile.dtype)


def _of_full_precision(value: Any) -> Tile:
    tile = dense(value)
    is_half = tile.dtype.is_floating() and tile.dtype.bits < 32
    return dense(tile.to(dtypes.float32)) if is_half else tile


def _with_place(function: Callable[..., Any], value: Any, axis: int | None, keep_dims: bool) -> tuple[Any, Any]:
    if axis is None:
        raise ValueError("a place along an axis: expected an axis, got None")
    tile = single_of_bfloat16(dense(value))
    place = np.expand_dims(function(tile.data, axis=axis), axis)
    extreme = np.take_along_axis(tile.data, place, axis)
    if not keep_dims:
        place, extreme = np.squeeze(place, axis), np.squeeze(extreme, axis)
    return wrap(extreme, tile.dtype), wrap(place.astype(np.int32), dtypes.int32)
