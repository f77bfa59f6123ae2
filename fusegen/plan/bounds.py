"""Largest values of expressions as expressions: bounds that hold for every shape, not for examples.

All values are integers of at least 0, all divisors at least 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fusegen.plan.expr import Binary, Const, Expr, Op, Polynomial, Sym, polynomial, substitute


def upper(expr: Expr, uppers: Mapping[str, Expr]) -> Expr:
    """An upper bound of `expr`, reached or not; `uppers` bounds the symbols that vary, other symbols are fixed.

    `minimum(a, b)` is bounded by b, which is where a loop stops.
    """
    match expr:
        case Const():
            return expr
        case Sym(name):
            return uppers.get(name, expr)
        case Binary(op, left, right):
            return _upper_of(op, left, right, uppers)
        case _:
            assert_never(expr)


def _upper_of(op: Op, left: Expr, right: Expr, uppers: Mapping[str, Expr]) -> Expr:
    match op:
        case Op.ADD:
            return upper(left, uppers) + upper(right, uppers)
        case Op.MUL:
            return upper(left, uppers) * upper(right, uppers)
        case Op.SUB:
            return upper(left, uppers) - right if isinstance(right, Const) else upper(left, uppers)
        case Op.CDIV:
            return upper(left, uppers)
        case Op.MOD:
            return upper(right, uppers) - 1
        case Op.FLOORDIV:
            return _quotient(upper(left, uppers), right)
        case Op.MIN:
            return upper(right, uppers)
        case _:
            assert_never(op)


def _quotient(dividend: Expr, divisor: Expr) -> Expr:
    """(q * divisor - 1) // divisor is q - 1, q * divisor // divisor is q; other quotients are at most the dividend."""
    for missing in (1, 0):
        quotient = _divided(polynomial(dividend + missing), polynomial(divisor))
        if quotient is not None:
            return _expression(quotient) - missing
    return dividend


def _divided(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """The quotient of polynomials where the division leaves no rest, otherwise None."""
    leading = max(divisor, key=_weight)
    result: Polynomial = {}
    while dividend:
        term = max(dividend, key=_weight)
        factors = _quotient_of_terms(term, leading)
        if factors is None or dividend[term] % divisor[leading]:
            return None
        coefficient = dividend[term] // divisor[leading]
        result[factors] = coefficient
        for others, value in divisor.items():
            product = tuple(sorted(factors + others))
            dividend = {**dividend, product: dividend.get(product, 0) - coefficient * value}
        dividend = {term: value for term, value in dividend.items() if value}
    return result


def _weight(term: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Terms of higher degree first: an order that products keep."""
    return len(term), term


def _quotient_of_terms(term: tuple[str, ...], divisor: tuple[str, ...]) -> tuple[str, ...] | None:
    rest = list(term)
    for factor in divisor:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def _expression(terms: Polynomial) -> Expr:
    total: Expr = Const(0)
    for factors, coefficient in terms.items():
        term: Expr = Const(coefficient)
        for factor in factors:
            term = term * Sym(factor)
        total = total + term
    return total


def is_at_most(expr: Expr, limit: Expr, positive: frozenset[str] = frozenset()) -> bool:
    """True when `limit - expr` is a polynomial without negative coefficients, so that no shape breaks the bound.

    Symbols in `positive` are known to be at least 1: the polynomial is taken in how much larger they are.
    """
    shifted = {name: Sym(f"{name}'") + 1 for name in positive}
    return all(coefficient >= 0 for coefficient in polynomial(substitute(limit - expr, shifted)).values())
