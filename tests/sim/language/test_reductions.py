"""Reductions and scans of random types, shapes and axes, as in Triton's interpreter.

Sums are small enough not to wrap, which they do not there; neither does it keep the axes where there is no axis.
"""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.language.comparing import Comparison

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint32"]
KERNEL = """
@triton.jit
def larger(left, right):
    return tl.maximum(left, right)


@triton.jit
def kernel(x_ptr, y_ptr):
    place = tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]
    result = {text}
    record(result)
    tl.store(y_ptr + {target}, result)
"""


@EXAMPLES
@given(
    st.sampled_from([*INTEGERS, "float16", "float32", "float64"]),
    st.sampled_from(
        ["sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce", "cumsum", "cumprod", "associative_scan"]
    ),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([0, 1, None]),
    st.booleans(),
    st.integers(0, 99),
)
def test_along_an_axis(
    comparison: Comparison, dtype: str, name: str, rows: int, columns: int, axis: int | None, flag: bool, seed: int
) -> None:
    is_scan = name in ("cumsum", "cumprod", "associative_scan")
    if name == "xor_sum" and dtype not in INTEGERS:
        name = "sum"
    if axis is None and (is_scan or name in ("argmax", "argmin")):
        axis = 0
    flag = flag and axis is not None
    function = ", larger" if name in ("reduce", "associative_scan") else ""
    option = f", {'reverse' if is_scan else 'keep_dims'}={flag}"
    text = f"tl.{name}(tl.load(x_ptr + place), {axis}{function}{option})"
    row, column = f"tl.arange(0, {columns})", f"tl.arange(0, {rows})"
    kept = {0: f"{row}[None, :]", 1: f"{column}[:, None]"}
    target = "place" if is_scan else kept[axis or 0] if flag else {0: row, 1: column, None: "0"}[axis]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, 4 if name != "cumprod" else 3, (rows * columns,), generator=generator)
    x = (x if dtype in INTEGERS else x / 2).to(getattr(torch, dtype))
    out = torch.zeros(64, dtype=torch.int64 if dtype in INTEGERS else torch.float64)
    source = KERNEL.format(rows=rows, columns=columns, text=text, target=target)
    comparison.check(source, [x, out if "arg" not in name else torch.zeros(64, dtype=torch.int64)])
