"""Symbolic indices and masks agree with their dense twins, lane by lane."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fusegen.sim import dtypes
from fusegen.sim.affine import Affine, BoxMask
from fusegen.sim.events import EventPort
from fusegen.sim.findings import Found, IntegerOverflow, OutOfBounds
from fusegen.sim.language.shapes import arange
from fusegen.sim.memory import AccessPort, Memory, Pointer
from fusegen.sim.shapes import broadcast_shapes
from fusegen.sim.tiles import Tile, dense

ROWS, COLUMNS = 8, 16
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq]
small = st.integers(-20, 20)


def on_axis(axis: int) -> Affine:
    """A row or a column of indices, as a kernel writes it."""
    return Affine(0, (1,), (ROWS,))[:, None] if axis == 0 else Affine(0, (1,), (COLUMNS,))[None, :]


@st.composite
def indices(draw: st.DrawFn) -> Affine:
    """A two-dimensional index built by the operations of kernels."""
    rows = on_axis(0) * draw(small) + draw(small)
    columns = draw(small) * on_axis(1) - draw(small)
    return draw(st.sampled_from([rows, columns, rows + columns, rows - columns, -(columns + rows)]))


@st.composite
def masks(draw: st.DrawFn) -> BoxMask:
    """A conjunction of bounds on rows and columns."""
    first = draw(st.sampled_from(COMPARISONS))(on_axis(0) * draw(small) + draw(small), draw(small))
    second = draw(st.sampled_from(COMPARISONS))(on_axis(1) + draw(small), draw(small))
    return first & second


def values(index: Affine) -> np.ndarray:
    grid = np.full(index.shape, index.base)
    for axis, coef in enumerate(index.coefs):
        grid = grid + coef * np.arange(index.shape[axis]).reshape([-1 if i == axis else 1 for i in range(2)])
    return grid


@given(indices(), indices(), small, st.sampled_from([operator.add, operator.sub]))
def test_arithmetic_stays_affine_and_is_right(left: Affine, right: Affine, number: int, combine: Any) -> None:
    total = combine(left, right)
    assert isinstance(total, Affine)
    np.testing.assert_array_equal(total.to_tile().data, combine(values(left), values(right)))
    np.testing.assert_array_equal((left * number).to_tile().data, values(left) * number)
    np.testing.assert_array_equal((number - left).to_tile().data, number - values(left))


@given(indices(), small, st.sampled_from(COMPARISONS))
def test_comparison_with_a_number(index: Affine, limit: int, compare: Any) -> None:
    np.testing.assert_array_equal(dense(compare(index, limit)).data, compare(values(index), limit))


@given(indices(), indices(), st.sampled_from([*COMPARISONS, operator.ne]))
def test_comparison_with_an_index(left: Affine, right: Affine, compare: Any) -> None:
    expected = compare(values(left), values(right))
    np.testing.assert_array_equal(np.broadcast_to(dense(compare(left, right)).data, expected.shape), expected)


@given(masks(), masks())
def test_masks_combine(left: BoxMask, right: BoxMask) -> None:
    assert isinstance(left & right, BoxMask)
    a, b = left.to_tile().data, right.to_tile().data
    np.testing.assert_array_equal((left & right).to_tile().data, a & b)
    np.testing.assert_array_equal((left | right).data, a | b)
    np.testing.assert_array_equal((~left).data, ~a)
    assert left.is_empty == (not a.any())
    assert left.is_full == a.all()


def unobserved_port() -> AccessPort:
    """A port of a machine on which nobody runs and nobody listens."""
    return AccessPort(EventPort(running=lambda: pytest.fail("nobody listens"), is_source=lambda file: False))


@given(indices(), masks())
def test_load_and_store_by_box_equal_those_by_lanes(index: Affine, mask: BoxMask) -> None:
    index, mask = index.broadcast_to((ROWS, COLUMNS)), mask.broadcast_to((ROWS, COLUMNS))
    size = 800
    content = torch.arange(size, dtype=torch.float32)
    port = unobserved_port()
    memory = Memory(content.clone(), rank=0)
    affine = Pointer(memory, dtypes.float32, size // 2, "x") + index
    by_lanes = Pointer(memory, dtypes.float32, size // 2, "x") + index.to_tile()
    assert isinstance(affine.offset, Affine)
    assert isinstance(by_lanes.offset, np.ndarray)
    outcome = port.load(affine, mask, None)
    np.testing.assert_array_equal(outcome.data, port.load(by_lanes, mask.to_tile(), None).data)
    np.testing.assert_array_equal(outcome.data[mask.to_tile().data], (values(index) + size // 2)[mask.to_tile().data])
    if len(np.unique(values(index))) == index.to_tile().numel:  # otherwise the order of stores decides
        tile = Tile(np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32), dtypes.float32)
        other = Memory(content.clone(), rank=0)
        port.store(affine, tile, mask)
        port.store(Pointer(other, dtypes.float32, size // 2, "x") + index.to_tile(), tile, mask.to_tile())
        np.testing.assert_array_equal(memory.bytes, other.bytes)


def test_modulo_within_range_stays_affine() -> None:
    index = Affine(0, (1,), (8,))
    assert isinstance(index % 8, Affine)
    np.testing.assert_array_equal((index % 3).data, np.arange(8) % 3)


def test_a_range_of_one_broadcasts() -> None:
    index = arange(5, 6) + arange(0, 4)
    assert (index.base, index.coefs, index.shape) == (5, (1,), (4,))
    rows = arange(0, 1)[:, None] * 10 + arange(0, 4)[None, :]
    np.testing.assert_array_equal(rows.to_tile().data, [[0, 1, 2, 3]])


def test_a_constant_beyond_32_bits_widens() -> None:
    assert (arange(0, 4) + 2**32).to_tile().data.tolist() == [2**32 + i for i in range(4)]
    assert (arange(0, 4) * 2**32).to_tile().data.tolist() == [2**32 * i for i in range(4)]
    assert (arange(0, 4) + 1).dtype is dtypes.int32


def test_excluded_lanes_are_nan_or_huge() -> None:
    memory = Memory(torch.zeros(8), rank=0)
    pointer = Pointer(memory, dtypes.float32, 0, "x") + Affine(0, (1,), (8,))
    loaded = unobserved_port().load(pointer, Affine(0, (1,), (8,)) < 5, None)
    assert np.isnan(loaded.data).tolist() == [False] * 5 + [True] * 3


def test_out_of_bounds_names_the_elements() -> None:
    memory = Memory(torch.zeros(8), rank=3)
    pointer = Pointer(memory, dtypes.float32, 4, "x") + Affine(0, (1,), (8,))
    with pytest.raises(Found) as caught:
        unobserved_port().load(pointer, None, None)
    finding = caught.value.finding
    assert isinstance(finding, OutOfBounds)
    assert finding.message == "x: elements 4 to 11 on rank 3, expected 0 to 7"
    assert (finding.tensor, finding.first, finding.last, finding.elements) == ("x", 4, 11, 8)


def test_an_index_that_wraps_is_found_unless_the_mask_excludes_the_lane() -> None:
    memory = Memory(torch.zeros(8), rank=0)
    lanes = Affine(0, (1,), (8,))
    pointer = Pointer(memory, dtypes.float32, 0, "x") + lanes * 2**29
    port = unobserved_port()
    assert port.load(pointer, lanes < 1, None).data[0] == 0
    with pytest.raises(Found) as caught:
        port.load(pointer, lanes < 5, None)
    assert isinstance(caught.value.finding, IntegerOverflow)
    assert caught.value.finding.value == 4 * 2**29
    wide = Pointer(memory, dtypes.float32, 0, "x") + lanes.to(dtypes.int64) * 2**29
    with pytest.raises(Found) as caught:
        port.load(wide, lanes < 5, None)
    assert isinstance(caught.value.finding, OutOfBounds)


def test_shapes_that_do_not_broadcast() -> None:
    assert broadcast_shapes((8, 1), (4,)) == (8, 4)
    with pytest.raises(ValueError, match=r"tiles of shape \[8\] and \[4\] cannot be broadcast together"):
        broadcast_shapes((8,), (4,))
