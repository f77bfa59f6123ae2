"""Shapes of tiles: how two of them broadcast, and which axes an index of `:` and None gives."""

from __future__ import annotations

from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

Shape = tuple[int, ...]

_ALL: Final = slice(None)
AS_ROW: Final = (None, 0)
AS_COLUMN: Final = (0, None)


@lru_cache(maxsize=4096)
def broadcast_shapes(left: Shape, right: Shape) -> Shape:
    """The common shape of two tiles; raises ValueError when they have none."""
    extents = []
    for a, b in zip_longest(reversed(left), reversed(right), fillvalue=1):
        if a != b and 1 not in (a, b):
            raise ValueError(f"tiles of shape {list(left)} and {list(right)} cannot be broadcast together")
        extents.append(max(a, b))
    return tuple(reversed(extents))


def expand_axes(shape: Shape, key: Any) -> tuple[int | None, ...]:
    """For each axis of `tile[key]` the axis it comes from, or None for a new one. Triton allows `:` and None only."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(shape) == 1 and len(keys) == 2:  # the usual ones, for speed
        if keys[0] is None and keys[1] == _ALL:
            return AS_ROW
        if keys[1] is None and keys[0] == _ALL:
            return AS_COLUMN
    axes: list[int | None] = []
    axis = 0
    for entry in keys:
        if entry is None:
            axes.append(None)
        elif isinstance(entry, slice) and entry == _ALL:
            axes.append(axis)
            axis += 1
        else:
            raise TypeError(f"a tile can be indexed with `:` and None only, got {entry!r}")
    if axis > len(shape):
        raise TypeError(f"a tile of shape {list(shape)} has no axis {axis - 1}")
    return (*axes, *range(axis, len(shape)))
