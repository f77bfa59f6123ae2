"""Loads, stores, block pointers and atomics leave in memory what Triton's interpreter leaves there.

Not compared, since the interpreter is known to differ: it stores a scalar whatever its mask says, checks only the upper
end of a block, and loads an int1 as an int8, as Ascend's front end does; it has no float atomics but atomic_add.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.language.comparing import Comparison

EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
DTYPES = ["int8", "uint8", "int32", "int64", "float16", "float32"]
MASKS = [
    "rows < {rows}",
    "(rows < {rows}) & (columns >= {columns})",
    "x_mask",
    "(rows >= {rows}) | (columns < {columns})",
]

MASKED = """
@triton.jit
def kernel(x_ptr, m_ptr, y_ptr):
    rows = tl.arange(0, 4)[:, None]
    columns = tl.arange(0, 8)[None, :]
    place = rows * 8 + columns
    x_mask = tl.load(m_ptr + place) != 0
    {gathered}
    value = tl.load(x_ptr + place, mask={mask}, other=7)
    record(value)
    tl.store(y_ptr + {target}, value, mask={stored})
"""


def tensor(dtype: str, seed: int = 1, size: int = 32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 50, (size,), generator=generator).to(getattr(torch, dtype))


@EXAMPLES
@given(
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
    st.sampled_from(MASKS),
    st.sampled_from(MASKS),
    st.sampled_from(["place", "31 - place", "columns * 4 + rows"]),
    st.booleans(),
    st.integers(0, 5),
    st.integers(0, 8),
)
def test_masks(
    comparison: Comparison,
    source: str,
    target: str,
    mask: str,
    stored: str,
    order: str,
    gathers: bool,
    rows: int,
    columns: int,
) -> None:
    text = MASKED.format(
        mask=mask.format(rows=rows, columns=columns),
        stored=stored.format(rows=columns % 5, columns=rows),
        target=order,
        gathered="place = place ^ 5" if gathers else "",
    )
    comparison.check(text, [tensor(source), tensor("int32", 2) > 20, tensor(target, 3)])


SCALAR_FORMS = """
@triton.jit
def kernel(x_ptr, m_ptr, y_ptr):
    for i in range(32):
        keep = tl.load(m_ptr + i) != 0
        value = tl.load(x_ptr + i, mask=keep, other=3)
        record(value)
        tl.store(y_ptr + i, value)
"""


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "float32"])
def test_scalar_accesses(comparison: Comparison, dtype: str) -> None:
    comparison.check(SCALAR_FORMS, [tensor(dtype), tensor("int32", 2) > 20, tensor(dtype, 3)])


BLOCKS = """
@triton.jit
def kernel(x_ptr, y_ptr):
    block = tl.make_block_ptr(
        x_ptr + 1,
        shape=({rows}, {columns}),
        strides=({strides}),
        offsets=({row}, {column}),
        block_shape=(4, 8),
        order=(1, 0),
    )
    out = tl.make_block_ptr(y_ptr, (8, 16), (16, 1), (0, 0), (4, 8), (1, 0))
    for step in range(2):
        value = tl.load(block, boundary_check={checked}, padding_option="zero")
        record(value)
        tl.store(out, value + 1, boundary_check=(0, 1))
        block = tl.advance(block, ({down}, 2))
        out = tl.advance(out, (4, 8))
"""


@EXAMPLES
@given(
    st.sampled_from(["int32", "float16", "float32"]),
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from(["12, 1", "1, 9", "16, 2"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["(0, 1)", "(0,)", "(1,)", "0", "()"]),
    st.integers(0, 3),
)
def test_block_pointers(
    comparison: Comparison,
    dtype: str,
    rows: int,
    columns: int,
    strides: str,
    row: int,
    column: int,
    checked: str,
    down: int,
) -> None:
    options = {"rows": rows, "columns": columns, "strides": strides, "row": row, "column": column, "down": down}
    source = BLOCKS.format(checked=checked, **options)
    if checked == "()":
        source = source.replace(', padding_option="zero"', "")
    comparison.check(source, [tensor(dtype, 1, 400), tensor(dtype, 2, 128)])


ATOMICS = """
@triton.jit
def kernel(x_ptr, y_ptr, old_ptr):
    place = tl.arange(0, 32)
    value = tl.load(x_ptr + place)
    old = tl.atomic_{name}(y_ptr + {target}, value, mask=place < 20)
    record(old)
    tl.store(old_ptr + place, old, mask=place < 20)
    first = tl.atomic_{name}(y_ptr + 1, tl.load(x_ptr + 3))
    tl.store(old_ptr + 40, first)
"""
CAS = """
@triton.jit
def kernel(x_ptr, y_ptr, old_ptr):
    place = tl.arange(0, 32)
    value = tl.load(x_ptr + place)
    old = tl.atomic_cas(y_ptr + place, value, value + 1)
    record(old)
    tl.store(old_ptr + place, old)
    tl.store(old_ptr + 40, tl.atomic_cas(y_ptr + 1, tl.load(y_ptr + 1), tl.load(x_ptr)))
"""


@pytest.mark.parametrize("target", ["place", "place // 4", "31 - place"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for name in ("add", "max", "min", "xchg") for dtype in ("int32", "int64", "uint32")),
        ("add", "float32"),
        *((name, dtype) for name in ("and", "or", "xor") for dtype in ("int32", "uint64")),
    ],
)
def test_atomics(comparison: Comparison, name: str, dtype: str, target: str) -> None:
    source = ATOMICS.format(name=name, target=target)
    comparison.check(source, [tensor(dtype), tensor(dtype, 2), torch.zeros(64, dtype=getattr(torch, dtype))])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_compare_and_swap(comparison: Comparison, dtype: str) -> None:
    before = tensor(dtype)
    before[::3] += 1
    comparison.check(CAS, [tensor(dtype), before, torch.zeros(64, dtype=getattr(torch, dtype))])


DOT = """
@triton.jit
def kernel(a_ptr, b_ptr, c_ptr):
    rows = tl.arange(0, 16)
    a = tl.load(a_ptr + rows[:, None] * 32 + tl.arange(0, 32)[None, :])
    b = tl.load(b_ptr + tl.arange(0, 32)[:, None] * 16 + rows[None, :])
    place = rows[:, None] * 16 + rows[None, :]
    product = tl.dot(a, b{options})
    total = tl.dot(a, b, acc=product{options})
    tl.store(c_ptr + place, total)
"""


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float16", ""),
        ("float16", ", out_dtype=tl.float16"),
        ("float32", ', input_precision="ieee"'),
        ("float32", ", allow_tf32=False"),
        ("int8", ""),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_dot(comparison: Comparison, dtype: str, options: str, exact: bool) -> None:
    """Integers are exact; sums of other positive numbers differ by up to 32 units in the last place of float32, or two
    of float16, which the order of addition decides."""
    a, b = (tensor("int32", seed, 512) - 25 for seed in (1, 2))
    scale = 10 if "float16" in options else 1
    a, b = (a // scale, b // scale) if exact or dtype == "int8" else (a.abs() / 7, b.abs() / 7)
    out = torch.zeros(256, dtype=torch.int32 if dtype == "int8" else torch.float32)
    tensors = [a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype)), out]
    inexact = 2 * 2**13 if "float16" in options else 32
    comparison.check(DOT.format(options=options), tensors, ulps=0 if exact or dtype == "int8" else inexact)


BATCH = """
@triton.jit
def kernel(a_ptr, c_ptr):
    columns = tl.arange(0, 16)[None, None, :]
    place = tl.arange(0, 2)[:, None, None] * 256 + tl.arange(0, 16)[None, :, None] * 16 + columns
    a = tl.load(a_ptr + place)
    product = tl.dot(a, tl.permute(a, (0, 2, 1)))
    tl.store(c_ptr + place, product)
"""


def test_dot_of_batches(comparison: Comparison) -> None:
    comparison.check(BATCH, [(tensor("int32", 1, 512) - 25).float(), torch.zeros(512)])
