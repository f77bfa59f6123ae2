"""Symbolic expressions: their text means what they evaluate to, intervals hold, equal polynomials mean equal values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.plan.expr import (
    HOST,
    KERNEL,
    Const,
    Expr,
    Sym,
    as_expr,
    cdiv,
    evaluate,
    interval,
    minimum,
    polynomial,
    product,
    substitute,
    symbols,
    text,
)

NAMES = ("a", "b", "c")
LEAVES = st.one_of(st.integers(0, 9).map(Const), st.sampled_from(NAMES).map(Sym))
POSITIVE = st.one_of(st.integers(1, 9).map(Const), st.sampled_from(NAMES).map(Sym))


def combined(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Sums, products and minima of any expressions; divisions by positive leaves only."""
    return st.one_of(
        st.tuples(children, children).map(lambda pair: pair[0] + pair[1]),
        st.tuples(children, children).map(lambda pair: pair[0] * pair[1]),
        st.tuples(children, children).map(lambda pair: minimum(*pair)),
        st.tuples(children, POSITIVE).map(lambda pair: pair[0] // pair[1]),
        st.tuples(children, POSITIVE).map(lambda pair: pair[0] % pair[1]),
        st.tuples(children, POSITIVE).map(lambda pair: cdiv(*pair)),
    )


EXPRESSIONS = st.recursive(LEAVES, combined, max_leaves=12)
VALUES = st.fixed_dictionaries({name: st.integers(1, 50) for name in NAMES})


class Triton:
    """What the kernel's and the launcher's text call."""

    @staticmethod
    def cdiv(left: int, right: int) -> int:
        return -(-left // right)

    minimum = min


@given(EXPRESSIONS, VALUES)
def test_text_means_what_the_expression_evaluates_to(expr: Expr, values: dict[str, int]) -> None:
    for dialect, names in ((KERNEL, {"tl": Triton}), (HOST, {"triton": Triton, "min": min})):
        assert eval(text(expr, dialect), {**names, **values}) == evaluate(expr, values)


@given(EXPRESSIONS, VALUES, VALUES)
def test_interval_contains_every_value(expr: Expr, one: dict[str, int], other: dict[str, int]) -> None:
    ranges = {name: (min(one[name], other[name]), max(one[name], other[name])) for name in NAMES}
    low, high = interval(expr, ranges)
    assert low <= evaluate(expr, one) <= high
    assert low <= evaluate(expr, other) <= high


@given(EXPRESSIONS, EXPRESSIONS, VALUES)
def test_equal_polynomials_have_equal_values(left: Expr, right: Expr, values: dict[str, int]) -> None:
    expanded = (left + right) * left
    distributed = left * left + right * left
    assert polynomial(expanded) == polynomial(distributed)
    assert evaluate(expanded, values) == evaluate(distributed, values)


def test_different_expressions_have_different_polynomials() -> None:
    a, b = Sym("a"), Sym("b")
    assert polynomial(a * b + a) != polynomial(a * b + b)
    assert polynomial(a // b) != polynomial(b // a)
    assert polynomial((a + b) - b) == polynomial(a)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Sym("a") * (Sym("b") // Sym("c")), "a * (b // c)"),
        (Sym("a") * Sym("b") // Sym("c"), "a * b // c"),
        (Sym("a") % Sym("b") // Sym("c"), "a % b // c"),
        (Sym("a") - (Sym("b") + 1), "a - (b + 1)"),
        (Sym("a") + (Sym("b") + 1), "a + b + 1"),
        (Sym("a") * (Sym("b") * Sym("c")), "a * b * c"),
        ((Sym("a") + 1) * 2, "(a + 1) * 2"),
        (cdiv(Sym("a"), Sym("b") + 1), "tl.cdiv(a, b + 1)"),
        (minimum(Sym("a"), 4) * 2, "tl.minimum(a, 4) * 2"),
    ],
)
def test_text_has_no_needless_parentheses(expr: Expr, expected: str) -> None:
    assert text(expr, KERNEL) == expected


def test_constants_fold_and_neutral_elements_disappear() -> None:
    a = Sym("a")
    assert a * 1 + 0 == a
    assert a * 0 == Const(0)
    assert a // 1 == a
    assert a % 1 == Const(0)
    assert cdiv(Const(7), 2) == Const(4)
    assert product(()) == Const(1)


def test_substitution_follows_the_replacements_own_symbols() -> None:
    replaced = substitute(Sym("a") * 2, {"a": Sym("b") + 1, "b": Const(3)})
    assert replaced == Const(8)
    assert symbols(Sym("a") * Sym("b") + 1) == {"a", "b"}


def test_only_expressions_numbers_and_names_become_expressions() -> None:
    assert as_expr("a") == Sym("a")
    with pytest.raises(TypeError, match=r"expected an expression, a number or a symbol's name, got 1\.5"):
        as_expr(1.5)
