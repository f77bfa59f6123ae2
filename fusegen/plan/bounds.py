"""Largest values of expressions as expressions: bounds that hold for every shape, not for examples.

All values are integers of at least 0, all divisors at least 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fusegen.plan.expr import Binary, Const, Expr, Op, Polynomial, Sym, polynomial


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
        case Op.SUB | Op.CDIV:
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
    """(q * divisor - 1) // divisor is q - 1; any other quotient is at most the dividend."""
    quotient = _divided(polynomial(dividend + 1), polynomial(divisor))
    return dividend if quotient is None else _expression(quotient) - 1


def _divided(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """The quotient of polynomials where the divisor is a product that every term contains, otherwise None."""
    if len(divisor) != 1:
        return None
    ((factors, coefficient),) = divisor.items()
    result: Polynomial = {}
    for term, value in dividend.items():
        rest = list(term)
        for factor in factors:
            if factor not in rest:
                return None
            rest.remove(factor)
        if value % coefficient:
            return None
        result[tuple(rest)] = value // coefficient
    return result


def _expression(terms: Polynomial) -> Expr:
    total: Expr = Const(0)
    for factors, coefficient in terms.items():
        term: Expr = Const(coefficient)
        for factor in factors:
            term = term * Sym(factor)
        total = total + term
    return total


def is_at_most(expr: Expr, limit: Expr) -> bool:
    """True when `limit - expr` is a polynomial without negative coefficients, so that no shape breaks the bound."""
    return all(coefficient >= 0 for coefficient in polynomial(limit - expr).values())
