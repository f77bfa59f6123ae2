"""Scalar integers: 32-bit results or findings, 64-bit ones by type."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.sim import integers
from fusegen.sim.findings import DivisionByZero, Found, IntegerOverflow
from fusegen.sim.integers import Int64

int32 = st.integers(integers.INT32_MIN, integers.INT32_MAX)
CHECKED = [
    (integers.add, operator.add, "+"),
    (integers.subtract, operator.sub, "-"),
    (integers.multiply, operator.mul, "*"),
]


@pytest.mark.parametrize(("checked", "exact", "symbol"), CHECKED)
@given(left=int32, right=int32)
def test_32_bit_results_are_exact_or_found(checked: Any, exact: Any, symbol: str, left: int, right: int) -> None:
    expected = exact(left, right)
    if integers.INT32_MIN <= expected <= integers.INT32_MAX:
        assert checked(left, right) == expected
        assert type(checked(left, right)) is int
    else:
        with pytest.raises(Found) as caught:
            checked(left, right)
        finding = caught.value.finding
        assert isinstance(finding, IntegerOverflow)
        assert (finding.operation, finding.value) == (f"{left} {symbol} {right}", expected)


@pytest.mark.parametrize(("checked", "exact", "symbol"), CHECKED)
@given(left=int32, right=int32)
def test_one_64_bit_operand_makes_the_result_64_bit(
    checked: Any, exact: Any, symbol: str, left: int, right: int
) -> None:
    for result in (checked(Int64(left), right), checked(left, Int64(right))):
        assert result == exact(left, right)
        assert type(result) is Int64


@given(left=int32, right=int32)
def test_division_of_negatives_is_found(left: int, right: int) -> None:
    for divide, exact in ((integers.floor_divide, operator.floordiv), (integers.modulo, operator.mod)):
        if left >= 0 and right > 0:
            assert divide(left, right) == exact(left, right)
        else:
            with pytest.raises(Found) as caught:
                divide(left, right)
            assert type(caught.value.finding) is (DivisionByZero if right == 0 else IntegerOverflow)


def test_constants_beyond_32_bits_compute_in_64() -> None:
    assert type(integers.multiply(2**33, 2)) is Int64
    assert type(integers.scalar(2**31)) is Int64
    assert type(integers.scalar(2**31 - 1)) is int


def test_counters_are_as_wide_as_their_bounds() -> None:
    assert [type(number) for number in integers.counter(Int64(2))] == [Int64, Int64]
    assert list(integers.counter(1, 7, 3)) == [1, 4]


def test_invert_of_a_condition() -> None:
    assert integers.invert(True) is False
    assert integers.invert(5) == ~5
