"""Tensors as callers have them: transposed, sliced, expanded, and dense in no direction at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.cases import AXES, Condition, assert_clean, edited, moves_only, rendered, run, small
from tests.plan.plans import BASES, MIX

SHAPES = {("S", "H", "D"): (19, 2, 17), ("M", "N"): (33, 17), ("M", "N", "K"): (33, 17, 18)}
FRESH = "return tensor.transpose(-1, -2) if turned and len(shape) > 1 else tensor"
SPREAD = """wide = torch.full([2 * extent for extent in shape], float("nan"), dtype=dtype, device="npu")
    return wide[tuple(slice(None, None, 2) for _ in shape)]"""
C = re.compile(r'_fresh\(shapes\["c"\], (\w+), gap=gap\)')


def module(pattern: str, condition: Condition, sync: str, **changes: Any) -> str:
    return rendered(pattern, (condition,), **small(pattern, sync=sync, **changes))


def condition_of(pattern: str) -> Condition:
    return Condition(3, 3 if pattern in MIX else 4, SHAPES[AXES[pattern]], launches=3)


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", BASES)
def test_neither_rows_nor_columns_dense(tmp_path: Path, pattern: str, sync: str) -> None:
    """Every second element along each axis, of the inputs and of C."""
    condition = condition_of(pattern)
    text = edited(module(pattern, condition, sync), (FRESH, SPREAD))
    assert_clean(run(tmp_path, text, pattern, condition), exact=moves_only(pattern))


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", BASES)
def test_expanded_inputs_and_a_transposed_output(tmp_path: Path, pattern: str, sync: str) -> None:
    """All rows of A are one row in memory, all columns of B one column; the columns of C are dense."""
    condition = condition_of(pattern)
    expanded = "a = a[:1].expand(a.shape)\n            "
    if pattern in MIX:
        expanded += "b = b[:, :1].expand(b.shape)\n            "
    text = edited(module(pattern, condition, sync), ("runs.append(", f"{expanded}runs.append("))
    text, count = C.subn(r'_fresh(shapes["c"], \1, gap=gap, turned=True)', text)
    assert count == 1
    assert_clean(run(tmp_path, text, pattern, condition), exact=moves_only(pattern))


@pytest.mark.parametrize("pattern", MIX)
def test_expanded_columns_of_a_and_rows_of_b(tmp_path: Path, pattern: str) -> None:
    """All terms of a sum are alike, and it has no unit variance: rounding to float32 is what the tolerance leaves."""
    condition = condition_of(pattern)
    expanded = "a, b = a[:, :1].expand(a.shape), b[:1].expand(b.shape)\n            runs.append("
    text = edited(module(pattern, condition, "signal", dtype="float32"), ("runs.append(", expanded))
    assert_clean(run(tmp_path, text, pattern, condition), exact=False)


@pytest.mark.parametrize("shape", [(33, 17, 1), (33, 1, 18), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("pattern", ["gemm_reduce_scatter", "gemm_allreduce"])
def test_a_single_column_is_launched_as_dense_rows(tmp_path: Path, pattern: str, shape: tuple[int, ...]) -> None:
    """Another stride would be another kernel, which nobody has compiled."""
    condition = Condition(2, 3, shape, launches=3)
    check = "assert (a_turned or a.stride(-1) == 1) and (b_turned or b.stride(-1) == 1)\n    workspace.launches += 1"
    text = edited(module(pattern, condition, "signal"), ("workspace.launches += 1", check))
    assert_clean(run(tmp_path, text, pattern, condition), exact=False)
