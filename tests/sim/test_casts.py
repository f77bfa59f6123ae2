"""Casts by torch give what numpy gives, for every half-precision number and around every rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fusegen.sim import casts

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def every(dtype: np.dtype) -> np.ndarray:
    """All numbers of a 16-bit type."""
    return np.arange(2**16, dtype=np.uint16).view(dtype)


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_to_float32(dtype: np.dtype) -> None:
    assert_same(casts.cast(every(dtype), np.dtype(np.float32)), every(dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_from_float32_rounds_to_nearest_even(dtype: np.dtype) -> None:
    exact = every(dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        between = (exact[:-1] + exact[1:]) / 2
        values = np.concatenate([exact, between, np.nextafter(between, np.float32(0)), np.nextafter(between, np.inf)])
        expected = values.astype(dtype)
    assert_same(casts.cast(values, dtype), expected)


def test_views_are_cast_too() -> None:
    values = np.arange(64 * 64, dtype=np.float16).reshape(64, 64)
    assert_same(casts.cast(values.T, np.dtype(np.float32)), values.T.astype(np.float32))
    row = np.broadcast_to(values[0], (64, 64))
    assert_same(casts.cast(row, np.dtype(np.float32)), row.astype(np.float32))


@pytest.mark.parametrize("dtype", [*HALVES, np.dtype(np.float32)], ids=str)
def test_products_are_accumulated_in_float32(dtype: np.dtype) -> None:
    random = np.random.default_rng(1)
    left, right = (random.integers(-9, 9, shape).astype(dtype) for shape in ((20, 70), (70, 30)))
    start = np.full((20, 30), 0.25, np.float32)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert_same(casts.multiply(left, right, None), exact.astype(np.float32))
    assert_same(casts.multiply(left, right, start), (exact + 0.25).astype(np.float32))
    assert_same(casts.multiply(left.T.copy().T, right, start), (exact + 0.25).astype(np.float32))
