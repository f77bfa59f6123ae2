"""tl.atomic_*: each reads an element and writes it in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.memory import AccessPort, Memory, Pointer, Update


class Atomics:
    """The builtins, bound to one machine. All return the elements before; lanes that meet at an address all count.

    `place` checks a pointer on behalf of a builtin, and is a scheduling point; `changed` is told of the memory.
    The memory order and scope that a call names change no result: every atomic is ordered after those before it.
    """

    def __init__(
        self, port: AccessPort, place: Callable[[Any, str], Pointer], changed: Callable[[Memory], None]
    ) -> None:
        self._port = port
        self._place = place
        self._changed = changed

    def atomic_add(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Adds."""
        return self._update("tl.atomic_add", np.add, pointer, (val,), mask)

    def atomic_max(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Keeps the larger value."""
        return self._update("tl.atomic_max", np.maximum, pointer, (val,), mask)

    def atomic_min(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Keeps the smaller value."""
        return self._update("tl.atomic_min", np.minimum, pointer, (val,), mask)

    def atomic_and(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Bitwise and, of integers."""
        return self._update("tl.atomic_and", np.bitwise_and, pointer, (val,), mask, integers=True)

    def atomic_or(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Bitwise or, of integers."""
        return self._update("tl.atomic_or", np.bitwise_or, pointer, (val,), mask, integers=True)

    def atomic_xor(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Bitwise exclusive or, of integers."""
        return self._update("tl.atomic_xor", np.bitwise_xor, pointer, (val,), mask, integers=True)

    def atomic_xchg(self, pointer: Pointer, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        """Writes the value."""
        return self._update("tl.atomic_xchg", _exchanged, pointer, (val,), mask)

    def atomic_cas(self, pointer: Pointer, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
        """Writes `val` where the element is `cmp`."""
        return self._update("tl.atomic_cas", _compared, pointer, (cmp, val), None)

    def _update(
        self,
        builtin: str,
        update: Update,
        pointer: Pointer,
        values: tuple[Any, ...],
        mask: Any,
        *,
        integers: bool = False,
    ) -> Any:
        """Raises TypeError for elements that the builtin cannot update."""
        place = self._place(pointer, builtin)
        element = place.element
        if element is dtypes.int1 or (integers and not element.is_int()):
            raise TypeError(f"{builtin}: expected a pointer to {'integers' if integers else 'numbers'}, got {element}")
        with np.errstate(all="ignore"):
            before = self._port.atomic(place, update, values, mask)
        self._changed(place.memory)
        return before


def _exchanged(before: Any, value: Any) -> Any:
    return value


def _compared(before: Any, expected: Any, value: Any) -> Any:
    return np.where(before == expected, value, before)
