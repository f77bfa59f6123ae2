"""Symbolic upper bounds: never below a value, and exact where the kernels need them to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.plan.bounds import is_at_most, upper
from fusegen.plan.expr import Const, Expr, Sym, cdiv, evaluate, minimum, polynomial

A, B, N, WORK = Sym("a"), Sym("b"), Sym("n"), Sym("work")


@pytest.mark.parametrize(
    ("expr", "bound"),
    [
        (WORK // N, A - 1),
        (WORK % N, N - 1),
        (WORK // (A * N), Const(0)),
        (WORK % N * B, (N - 1) * B),
        (minimum(WORK + 1, B), B),
        (WORK % (A * N // N), A - 1),
    ],
)
def test_bounds_of_an_index_into_a_times_n(expr: Expr, bound: Expr) -> None:
    found = upper(expr, {"work": A * N - 1})
    assert is_at_most(found, bound)
    assert is_at_most(bound, found)
    assert not is_at_most(found, bound - 1)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.data())
def test_no_value_is_above_its_bound(a: int, b: int, n: int, data: st.DataObject) -> None:
    work = data.draw(st.integers(0, a * n - 1))
    values = {"a": a, "b": b, "n": n, "work": work}
    for expr in (
        WORK // N,
        WORK % N,
        WORK % N * B + B,
        minimum(WORK * B, B),
        WORK // B,
        (WORK + B) % A,
        WORK % (A * N // N),
    ):
        assert evaluate(expr, values) <= evaluate(upper(expr, {"work": A * N - 1}), values)


def test_at_most_holds_for_every_shape_or_not_at_all() -> None:
    assert is_at_most((A - 1) * N + N - 1, A * N - 1)
    assert not is_at_most((A - 1) * N + N, A * N - 1)
    assert not is_at_most(A, B)
    assert is_at_most(A, A + B)


# several terms, positive symbols, any expression


@pytest.mark.parametrize(
    ("dividend", "divisor", "bound"),
    [
        # (a + b) * n - 1, by n: several terms in the quotient
        ((A + B) * N - 1, N, A + B - 1),
        # a * (n + 1) - 1, by n + 1: several terms in the divisor
        (A * (N + 1) - 1, N + 1, A - 1),
        ((A + B) * (N + 2) - 1, N + 2, A + B - 1),
        ((A + B) * (A + B) - 1, A + B, A + B - 1),
        (A * N * 6 - 1, N * 2, A * 3 - 1),
        # exact multiples, as where a work index is divided by a count
        (A * N, N, A),
        ((A + B) * N, N, A + B),
        # no multiple: the dividend itself is a bound
        (A * N + 1, N, A * N + 1),
        (A * N * 3 - 1, N * 2, A * N * 3 - 1),
        (A + B - 1, N, A + B - 1),
    ],
)
def test_quotients_of_polynomials(dividend: Expr, divisor: Expr, bound: Expr) -> None:
    found = upper(WORK // divisor, {"work": dividend})
    assert polynomial(found) == polynomial(bound)


@pytest.mark.parametrize(
    ("smaller", "larger", "positive"),
    [
        (A, A * B, {"a", "b"}),
        (A + B - 1, A * B, {"a", "b"}),
        (A * B, A * B * N, {"a", "b", "n"}),
        (Const(1), A, {"a"}),
        (A - 1, A * A - 1, {"a"}),
    ],
)
def test_some_bounds_need_positive_symbols(smaller: Expr, larger: Expr, positive: set[str]) -> None:
    assert is_at_most(smaller, larger, frozenset(positive))
    assert not is_at_most(smaller, larger)
    assert not is_at_most(larger + 1, smaller, frozenset(positive))


LEAVES = st.one_of(st.integers(0, 9).map(Const), st.sampled_from([A, B, N, WORK, Sym("x")]))
DIVISORS = st.one_of(st.integers(1, 9).map(Const), st.sampled_from([A, B, N, A * N, A + B]))


def combined(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Everything that a plan combines positions with. A difference takes away what is there."""
    pairs = st.tuples(children, children)
    divisions = st.tuples(children, DIVISORS)
    return st.one_of(
        pairs.map(lambda pair: pair[0] + pair[1]),
        pairs.map(lambda pair: pair[0] * pair[1]),
        pairs.map(lambda pair: minimum(*pair)),
        pairs.map(lambda pair: pair[0] + pair[1] - pair[1]),
        divisions.map(lambda pair: pair[0] // pair[1]),
        divisions.map(lambda pair: pair[0] % pair[1]),
        divisions.map(lambda pair: cdiv(*pair)),
    )


EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(LEAVES, combined, max_leaves=10)


@given(EXPRESSIONS, st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.data())
def test_no_value_of_any_expression_is_above_its_bound(expr: Expr, a: int, b: int, n: int, data: st.DataObject) -> None:
    """`work` and `x` vary, the other symbols are fixed."""
    fixed = {"a": a, "b": b, "n": n}
    bounds = {"work": data.draw(st.sampled_from([A * N - 1, A * B * N - 1, (A + B) * N - 1])), "x": B}
    varying = {name: data.draw(st.integers(0, evaluate(bound, fixed))) for name, bound in bounds.items()}
    assert evaluate(expr, fixed | varying) <= evaluate(upper(expr, bounds), fixed)


@given(EXPRESSIONS, EXPRESSIONS, st.tuples(*[st.integers(1, 30)] * 5))
def test_what_is_at_most_for_every_shape_is_so_for_each(left: Expr, right: Expr, numbers: tuple[int, ...]) -> None:
    values = dict(zip(("a", "b", "n", "work", "x"), numbers, strict=True))
    if is_at_most(left, right, frozenset(values)):
        assert evaluate(left, values) <= evaluate(right, values)
