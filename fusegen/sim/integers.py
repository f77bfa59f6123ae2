"""Scalar integers as Triton computes them: a Python `int` is an int32, `Int64` an int64.

The functions below replace the operators of kernel source (see `instrument`), so that a result which would wrap on the
device, or a division that rounds the other way there, becomes a finding at its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fusegen.sim.findings import DivisionByZero, Found, IntegerOverflow

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1


class Int64(int):
    """A 64-bit scalar; whatever an int32 meets it becomes an Int64 too."""

    __slots__ = ()


def _widening(method: Callable[[int, Any], Any]) -> Callable[[Int64, Any], Any]:
    def operation(self: Int64, other: Any) -> Any:
        result = method(self, other)
        return result if result is NotImplemented else Int64(result)

    return operation


for _name in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(Int64, _method, _widening(getattr(int, _method)))


def scalar(value: int) -> int:
    """A kernel argument or a number from outside: an int32 when it fits, as Triton types it."""
    return value if INT32_MIN <= value <= INT32_MAX else Int64(value)


def add(left: Any, right: Any) -> Any:
    """left + right."""
    value = left + right
    if type(value) is int and not INT32_MIN <= value <= INT32_MAX:
        return checked(left, right, value, "+")
    return value if type(value) is not float else _single(left, right, "+")


def subtract(left: Any, right: Any) -> Any:
    """left - right."""
    value = left - right
    if type(value) is int and not INT32_MIN <= value <= INT32_MAX:
        return checked(left, right, value, "-")
    return value if type(value) is not float else _single(left, right, "-")


def multiply(left: Any, right: Any) -> Any:
    """left * right."""
    value = left * right
    if type(value) is int and not INT32_MIN <= value <= INT32_MAX:
        return checked(left, right, value, "*")
    return value if type(value) is not float else _single(left, right, "*")


def shift_left(left: Any, right: Any) -> Any:
    """left << right."""
    value = left << right
    if type(value) is int and not INT32_MIN <= value <= INT32_MAX:
        return checked(left, right, value, "<<")
    return value


def floor_divide(left: Any, right: Any) -> Any:
    """left // right; Triton rounds to zero, so negative operands are findings."""
    if isinstance(left, int) and isinstance(right, int):
        if left < 0 or right <= 0:
            raise _bad_division(left, right, "//")
        return left // right
    return left // right


def modulo(left: Any, right: Any) -> Any:
    """left % right; Triton's result has the sign of `left`, so negative operands are findings."""
    if isinstance(left, int) and isinstance(right, int):
        if left < 0 or right <= 0:
            raise _bad_division(left, right, "%")
        return left % right
    return left % right


def _single(left: Any, right: Any, symbol: str) -> Any:
    """Arithmetic of a floating-point constant and an integer scalar: computed in float32."""
    from fusegen.sim.tiles import WITH_VARIABLE

    return WITH_VARIABLE[symbol](left, right)


def invert(value: Any) -> Any:
    """~value; of an int1 scalar it is the logical not."""
    return not value if isinstance(value, bool) else ~value


def counter(*bounds: int) -> Iterable[int]:
    """range(*bounds); the counter is 64 bits wide if a bound is."""
    numbers = range(*bounds)
    if Int64 in map(type, bounds):
        return _wide(numbers)
    return numbers


def _wide(numbers: range) -> Iterator[int]:
    return (Int64(number) for number in numbers)


def checked(left: int, right: int, value: int, symbol: str) -> int:
    """`value` as an Int64 when a constant operand is beyond 32 bits, so that Triton computes in 64.

    A finding if not.
    """
    if not (INT32_MIN <= left <= INT32_MAX and INT32_MIN <= right <= INT32_MAX):
        return Int64(value)
    raise overflow(f"{left} {symbol} {right}", value)


def overflow(operation: str, value: int) -> Found:
    """The finding for a result beyond 32 bits."""
    return Found(
        IntegerOverflow(
            f"{operation} = {value} does not fit the 32 bits that Triton computes it in: cast an operand to tl.int64",
            operation=operation,
            value=value,
        )
    )


def _bad_division(left: int, right: int, symbol: str) -> Found:
    operation = f"{left} {symbol} {right}"
    if right == 0:
        return Found(DivisionByZero(f"{operation} divides by zero"))
    return negative_division(operation, left if left < 0 else right)


def negative_division(operation: str, value: int) -> Found:
    """The finding for `//` or `%` with a negative operand."""
    return Found(
        IntegerOverflow(
            f"{operation} has a negative operand: Triton rounds to zero where Python rounds down",
            operation=operation,
            value=value,
        )
    )
