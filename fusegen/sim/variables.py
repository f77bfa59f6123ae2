"""Operators of kernel source where neither operand is a constant: a variable beside a narrow tile keeps its type.

An int8 tile plus 1 is an int8 tile; plus a variable, which is an int32, it is an int32 tile.
"""

from __future__ import annotations

from typing import Any

from fusegen.sim.integers import INT32_MAX, INT32_MIN, checked
from fusegen.sim.tiles import WITH_VARIABLE, Tile


def add(left: Any, right: Any) -> Any:
    """left + right."""
    value = left + right
    kind = type(value)
    if kind is int:
        return value if INT32_MIN <= value <= INT32_MAX else checked(left, right, value, "+")
    return WITH_VARIABLE["+"](left, right) if kind is Tile and value.dtype.bits < 32 else value


def subtract(left: Any, right: Any) -> Any:
    """left - right."""
    value = left - right
    kind = type(value)
    if kind is int:
        return value if INT32_MIN <= value <= INT32_MAX else checked(left, right, value, "-")
    return WITH_VARIABLE["-"](left, right) if kind is Tile and value.dtype.bits < 32 else value


def multiply(left: Any, right: Any) -> Any:
    """left * right."""
    value = left * right
    kind = type(value)
    if kind is int:
        return value if INT32_MIN <= value <= INT32_MAX else checked(left, right, value, "*")
    return WITH_VARIABLE["*"](left, right) if kind is Tile and value.dtype.bits < 32 else value


def shift_left(left: Any, right: Any) -> Any:
    """left << right."""
    value = left << right
    kind = type(value)
    if kind is int:
        return value if INT32_MIN <= value <= INT32_MAX else checked(left, right, value, "<<")
    return WITH_VARIABLE["<<"](left, right) if kind is Tile and value.dtype.bits < 32 else value


def shift_right(left: Any, right: Any) -> Any:
    """left >> right."""
    return WITH_VARIABLE[">>"](left, right) if _is_beside_tile(left, right) else left >> right


def bit_and(left: Any, right: Any) -> Any:
    """left & right."""
    return WITH_VARIABLE["&"](left, right) if _is_beside_tile(left, right) else left & right


def bit_or(left: Any, right: Any) -> Any:
    """left | right."""
    return WITH_VARIABLE["|"](left, right) if _is_beside_tile(left, right) else left | right


def bit_xor(left: Any, right: Any) -> Any:
    """left ^ right."""
    return WITH_VARIABLE["^"](left, right) if _is_beside_tile(left, right) else left ^ right


def _is_beside_tile(left: Any, right: Any) -> bool:
    """One is a tile, the other a Python number."""
    return (type(left) is Tile and isinstance(right, int)) or (type(right) is Tile and isinstance(left, int))
