"""Symbolic upper bounds: never below a value, and exact where the kernels need them to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.plan.bounds import is_at_most, upper
from fusegen.plan.expr import Const, Expr, Sym, evaluate, minimum

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
