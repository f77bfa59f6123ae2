"""Symbolic integer expressions: every size, stride, slot and address of a kernel is one of these.

    Expr = Const(value) | Sym(name) | Binary(op, left, right)        op: + - * // % cdiv min

One expression serves four readers: the kernel's text and the launcher's text (`text`), numbers for `explain` and for
checks (`evaluate`), worst cases (`interval`), and proofs that hold for every shape (`polynomial`). Values are
non-negative integers; `-` is used only where the difference is known not to be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

IntLike: TypeAlias = "Expr | int"
Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""Smallest and largest value of each symbol, both included."""
Polynomial: TypeAlias = dict[tuple[str, ...], int]
"""Coefficient of each product of factors; a factor is the text of a symbol or of what is no polynomial."""


class Op(Enum):
    """The operations, by the text that Triton and Python share; `cdiv` and `min` are calls."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    FLOORDIV = "//"
    MOD = "%"
    CDIV = "cdiv"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the operations that are calls are spelt in one kind of source text."""

    cdiv: str
    minimum: str


KERNEL = Dialect(cdiv="tl.cdiv", minimum="tl.minimum")
HOST = Dialect(cdiv="triton.cdiv", minimum="min")

_APPLY: Mapping[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.FLOORDIV: lambda a, b: a // b,
    Op.MOD: lambda a, b: a % b,
    Op.CDIV: lambda a, b: -(-a // b),
    Op.MIN: min,
}
_PRECEDENCE = {Op.ADD: 1, Op.SUB: 1, Op.MUL: 2, Op.FLOORDIV: 2, Op.MOD: 2, Op.CDIV: 3, Op.MIN: 3}


class _Operators:
    """Python's operators build expressions; constants fold, and neutral elements disappear."""

    __slots__ = ()

    def __add__(self, other: IntLike) -> Expr:
        return _binary(Op.ADD, self, other)

    def __radd__(self, other: int) -> Expr:
        return _binary(Op.ADD, other, self)

    def __sub__(self, other: IntLike) -> Expr:
        return _binary(Op.SUB, self, other)

    def __mul__(self, other: IntLike) -> Expr:
        return _binary(Op.MUL, self, other)

    def __rmul__(self, other: int) -> Expr:
        return _binary(Op.MUL, other, self)

    def __floordiv__(self, other: IntLike) -> Expr:
        return _binary(Op.FLOORDIV, self, other)

    def __mod__(self, other: IntLike) -> Expr:
        return _binary(Op.MOD, self, other)


@dataclass(frozen=True, slots=True)
class Const(_Operators):
    """A number known when the kernel is rendered."""

    value: int


@dataclass(frozen=True, slots=True)
class Sym(_Operators):
    """A name of the kernel's or the launcher's text: a shape, a loop variable, a constexpr or a definition."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary(_Operators):
    """`left op right`."""

    op: Op
    left: Expr
    right: Expr


Expr: TypeAlias = Const | Sym | Binary


def as_expr(value: object) -> Expr:
    """`value` as an expression: an expression itself, a number, or the name of a symbol."""
    match value:
        case Const() | Sym() | Binary():
            return value
        case int():
            return Const(value)
        case str():
            return Sym(value)
        case _:
            raise TypeError(f"expected an expression, a number or a symbol's name, got {value!r}")


def cdiv(left: IntLike, right: IntLike) -> Expr:
    """`left / right`, rounded up."""
    return _binary(Op.CDIV, left, right)


def minimum(left: IntLike, right: IntLike) -> Expr:
    """The smaller of the two."""
    return _binary(Op.MIN, left, right)


def product(factors: Iterator[Expr] | tuple[Expr, ...]) -> Expr:
    """The product of all factors, 1 when there are none."""
    result: Expr = Const(1)
    for factor in factors:
        result = result * factor
    return result


def _binary(op: Op, left: object, right: object) -> Expr:
    a, b = as_expr(left), as_expr(right)
    match op, a, b:
        case _, Const(x), Const(y):
            return Const(_APPLY[op](x, y))
        case (Op.ADD, other, Const(0)) | (Op.ADD, Const(0), other) | (Op.SUB, other, Const(0)):
            return other
        case (Op.MUL, Const(0), _) | (Op.MUL, _, Const(0)):
            return Const(0)
        case (Op.MUL, other, Const(1)) | (Op.MUL, Const(1), other):
            return other
        case (Op.FLOORDIV | Op.CDIV, other, Const(1)):
            return other
        case Op.MOD, _, Const(1):
            return Const(0)
        case _:
            return Binary(op, a, b)


class NegativeValueError(ValueError):
    """A difference that may be negative. The planner recovers: it is a defect of the plan."""


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of `expr` for these values of its symbols. Raises KeyError for a symbol without a value."""
    match expr:
        case Const(value):
            return value
        case Sym(name):
            return values[name]
        case Binary(op, left, right):
            return _APPLY[op](evaluate(left, values), evaluate(right, values))
        case _:
            assert_never(expr)


def symbols(expr: Expr) -> frozenset[str]:
    """Names of all symbols in `expr`."""
    match expr:
        case Const():
            return frozenset()
        case Sym(name):
            return frozenset({name})
        case Binary(_, left, right):
            return symbols(left) | symbols(right)
        case _:
            assert_never(expr)


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """`expr` with symbols replaced, and the replacements' own symbols too, until none is left to replace."""
    match expr:
        case Const():
            return expr
        case Sym(name):
            return substitute(replacements[name], replacements) if name in replacements else expr
        case Binary(op, left, right):
            return _binary(op, substitute(left, replacements), substitute(right, replacements))
        case _:
            assert_never(expr)


def interval(expr: Expr, ranges: Ranges) -> tuple[int, int]:
    """Bounds of `expr` when every symbol ranges over its bounds, independently of the others.

    Raises NegativeValueError when a difference inside may be negative: the kernel's // and % would differ from these.
    """
    match expr:
        case Const(value):
            return value, value
        case Sym(name):
            return ranges[name]
        case Binary(Op.MOD, left, right):
            low, high = interval(left, ranges)
            divisor_low, divisor_high = interval(right, ranges)
            return (low, high) if high < divisor_low else (0, min(high, divisor_high - 1))
        case Binary(Op.SUB, left, right):
            (low, high), (less_low, less_high) = interval(left, ranges), interval(right, ranges)
            if low < less_high:
                raise NegativeValueError(f"{text(expr, KERNEL)} may be {low - less_high}")
            return low - less_high, high - less_low
        case Binary(Op.FLOORDIV | Op.CDIV as op, left, right):
            (low, high), (divisor_low, divisor_high) = interval(left, ranges), interval(right, ranges)
            return _APPLY[op](low, divisor_high), _APPLY[op](high, divisor_low)
        case Binary(op, left, right):  # + * min: monotone in both operands
            (low, high), (other_low, other_high) = interval(left, ranges), interval(right, ranges)
            return _APPLY[op](low, other_low), _APPLY[op](high, other_high)
        case _:
            assert_never(expr)


def polynomial(expr: Expr) -> Polynomial:
    """`expr` as a sum of products: expressions with equal polynomials are equal for every value of their symbols."""
    match expr:
        case Const(value):
            return {(): value} if value else {}
        case Binary(Op.ADD, left, right):
            return _sum(polynomial(left), polynomial(right), 1)
        case Binary(Op.SUB, left, right):
            return _sum(polynomial(left), polynomial(right), -1)
        case Binary(Op.MUL, left, right):
            result: Polynomial = {}
            for factors, coefficient in polynomial(left).items():
                scaled = {
                    tuple(sorted(factors + others)): coefficient * other for others, other in polynomial(right).items()
                }
                result = _sum(result, scaled, 1)
            return result
        case Sym() | Binary():
            return {(text(expr, KERNEL),): 1}
        case _:
            assert_never(expr)


def _sum(left: Polynomial, right: Polynomial, sign: int) -> Polynomial:
    total = dict(left)
    for factors, coefficient in right.items():
        total[factors] = total.get(factors, 0) + sign * coefficient
    return {factors: coefficient for factors, coefficient in total.items() if coefficient}


def text(expr: Expr, dialect: Dialect, names: Mapping[str, str] | None = None) -> str:
    """Source text of `expr` with as few parentheses as its meaning needs; `names` spells symbols another way."""
    return _text(expr, dialect, names or {})[0]


def _text(expr: Expr, dialect: Dialect, names: Mapping[str, str]) -> tuple[str, int]:
    """Text and its precedence: 1 sum, 2 product, 3 name, number or call."""
    match expr:
        case Const(value):
            return str(value), 3
        case Sym(name):
            return names.get(name, name), 3
        case Binary(Op.CDIV | Op.MIN as op, left, right):
            call = dialect.cdiv if op is Op.CDIV else dialect.minimum
            return f"{call}({_text(left, dialect, names)[0]}, {_text(right, dialect, names)[0]})", 3
        case Binary(op, left, right):
            own = _PRECEDENCE[op]
            (a, a_level), (b, b_level) = _text(left, dialect, names), _text(right, dialect, names)
            # a + (b + c) and a * (b * c) need no parentheses; a - (b + c), a // (b * c), a * (b // c) do.
            associative = isinstance(right, Binary) and right.op is op and op in (Op.ADD, Op.MUL)
            a = f"({a})" if a_level < own else a
            b = f"({b})" if b_level < own or (b_level == own and not associative and own < 3) else b
            return f"{a} {op.value} {b}", own
        case _:
            assert_never(expr)
