"""tl.atomic_add on tiles: every lane counts, in the type of the memory, and once for each AI core."""

from __future__ import annotations

import pytest

from tests.sim.checks import assert_exact

SOURCE = """
@triton.jit
def kernel(x_ptr, y_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    value = tl.load(x_ptr + row[:, None] * COLS + col[None, :])
    mask = (row[:, None] < 5) & (col[None, :] >= 2)
    {body}
    {mix}


def check(rank, ranks):
    x = torch.randint(-9, 9, (8, 16), generator=torch.Generator().manual_seed(2)).to(torch.{dtype})
    y = torch.ones((8, 16), dtype=torch.{dtype}).npu()
    kernel[(3,)](x.npu(), y, ROWS=8, COLS=16)
    expected = torch.ones((8, 16), dtype=torch.{dtype})
    inside = torch.zeros((8, 16), dtype=torch.bool)
    inside[:5, 2:] = True
    {expected}
    return difference(y, expected)
"""
PLACES = "y_ptr + row[:, None] * COLS + col[None, :]"
ONE_AFTER_THE_OTHER = "for _ in range({times}):\n        expected = expected + torch.where(inside, x, 0)"


def source(body: str, expected: str, *, dtype: str = "float16", mix: str = "pass") -> str:
    text = SOURCE
    for name, value in {"body": body, "expected": expected, "dtype": dtype, "mix": mix}.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
@pytest.mark.parametrize("mix", ["pass", "libshmem_device.barrier_all()"])
def test_a_tile_is_added_once_by_each_program(run_source, dtype: str, mix: str) -> None:
    body = f'tl.atomic_add({PLACES}, value, mask=mask, sem="relaxed", scope="sys")'
    assert_exact(run_source(source(body, ONE_AFTER_THE_OTHER.format(times=3), dtype=dtype, mix=mix)))


def test_a_tile_is_added_by_both_vector_cores_where_it_depends_on_them(run_source) -> None:
    body = f"if sub_vec_id() < 2:\n        tl.atomic_add({PLACES}, value, mask=mask)"
    mix = "libshmem_device.barrier_all()"
    assert_exact(run_source(source(body, ONE_AFTER_THE_OTHER.format(times=6), mix=mix)))
    assert_exact(run_source(source(body, ONE_AFTER_THE_OTHER.format(times=3))))


def test_the_sum_is_rounded_to_the_type_of_the_memory(run_source) -> None:
    body = f"tl.atomic_add({PLACES}, (value * 0 + 1).to(tl.float16))"
    text = source(body, "expected += 2047").replace("torch.ones((8, 16), dtype", "torch.full((8, 16), 2047., dtype")
    expected = "expected = expected + 1\n    expected = expected + 1"
    assert_exact(run_source(text.replace("expected += 2047", expected)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_lanes_that_meet_all_count(run_source, dtype: str) -> None:
    body = "tl.atomic_add(y_ptr + row[:, None] * COLS + col[None, :] // 16, value * 0 + 1)"
    assert_exact(run_source(source(body, "expected[:, 0] += 48", dtype=dtype)))


def test_the_values_before_are_returned(run_source) -> None:
    body = f"before = tl.atomic_add({PLACES}, value, mask=mask)\n    tl.store({PLACES}, before + 1, mask=mask)"
    text = source(body, "expected[inside] = 2").replace("kernel[(3,)]", "kernel[(1,)]")
    assert_exact(run_source(text))
