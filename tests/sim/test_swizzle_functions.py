"""The device functions of templates/helpers/swizzle.py.j2: on the machine, and against the plan's orders."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.plan.swizzle import Interleaved, comm_task, is_bijection, splits, zigzag
from fusegen.project import packaged_templates
from fusegen.render.environment import environment

ROOT = Path(__file__).parents[2]
MACROS: Any = environment(packaged_templates()).get_template("helpers/swizzle.py.j2").module
DEVICE = f"{MACROS.gemm_swizzle()}\n\n{MACROS.comm_swizzle()}"
HOST = MACROS.host_check("COMM_SPLIT")
SHAPES = [(1, 1), (1, 9), (9, 1), (4, 7), (5, 8), (3, 15), (13, 20)]
OFFSETS = [1, 3, 7, 16]


@pytest.fixture(scope="module")
def functions() -> dict[str, Any]:
    """The functions as plain Python, with the little of Triton that they use."""
    names: dict[str, Any] = {
        "triton": SimpleNamespace(jit=lambda function: function),
        "tl": SimpleNamespace(minimum=min, constexpr=int),
    }
    exec(DEVICE, names)
    return names


def test_the_text_is_as_ruff_would_write_it(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"import triton\nimport triton.language as tl\n\nCOMM_SPLIT = 2\n\n\n{DEVICE}\n\n{HOST}")
    for command in (["format", "--check"], ["check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(path)]
        result = subprocess.run(ruff, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr


def test_gemm_swizzle_on_the_machine(run_source) -> None:
    cases = [(*shape, offset) for shape in SHAPES for offset in OFFSETS]
    expected = [
        [list(zigzag(index, rows=rows, columns=columns, offset=offset)) for index in range(rows * columns)]
        for rows, columns, offset in cases
    ]
    source = f"""
{DEVICE}

@triton.jit
def kernel(out_ptr, rows, columns, OFFSET: tl.constexpr):
    for index in range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        row, column = gemm_swizzle(index, rows, columns, OFFSET)
        tl.store(out_ptr + 2 * index, row)
        tl.store(out_ptr + 2 * index + 1, column)


def check(rank, ranks):
    error = 0.0
    for (rows, columns, offset), expected in zip({cases}, {expected}):
        out = torch.full((rows * columns, 2), -1, dtype=torch.int32).npu()
        kernel[(4,)](out, rows, columns, OFFSET=offset)
        error = max(error, difference(out, expected))
    return error
"""
    result = run_source(source)
    assert (result.ok, result.findings, result.max_abs_err) == (True, (), 0.0)


def test_gemm_swizzle_stays_within_32_bits(run_source) -> None:
    """The last tile of the largest result: the machine reports an integer that does not fit, or a negative operand."""
    rows, columns, offset = 46_340, 46_341, 7
    last = rows * columns - 1
    assert 2**31 - 2 * columns < last < 2**31
    source = f"""
{DEVICE}

@triton.jit
def kernel(out_ptr, index, rows, columns, OFFSET: tl.constexpr):
    row, column = gemm_swizzle(index, rows, columns, OFFSET)
    tl.store(out_ptr, row)
    tl.store(out_ptr + 1, column)


def check(rank, ranks):
    out = torch.full((2,), -1, dtype=torch.int32).npu()
    kernel[(1,)](out, {last}, {rows}, {columns}, OFFSET={offset})
    return difference(out, {list(zigzag(last, rows=rows, columns=columns, offset=offset))})
"""
    result = run_source(source)
    assert (result.ok, result.findings, result.max_abs_err) == (True, (), 0.0)


def test_comm_swizzle_on_the_machine(run_source) -> None:
    tiles = 3
    cases = [(ranks, split) for ranks in (1, 2, 5, 8, 12, 16) for split in splits(ranks)]
    expected = [
        [comm_task(Interleaved(split), work, ranks=ranks, tiles=tiles).shift for work in range(tiles * ranks)]
        for ranks, split in cases
    ]
    source = f"""
{DEVICE}

@triton.jit
def kernel(out_ptr, tiles, ranks, SPLIT: tl.constexpr):
    for work in range(tl.program_id(0), tiles * ranks, tl.num_programs(0)):
        tl.store(out_ptr + work, comm_swizzle(work % ranks, work // ranks, ranks, SPLIT))


def check(rank, ranks):
    error = 0.0
    for (size, split), expected in zip({cases}, {expected}):
        out = torch.full(({tiles} * size,), -1, dtype=torch.int32).npu()
        kernel[(4,)](out, {tiles}, size, SPLIT=split)
        error = max(error, difference(out, expected))
    return error
"""
    result = run_source(source)
    assert (result.ok, result.findings, result.max_abs_err) == (True, (), 0.0)


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), offset=st.integers(1, 16))
def test_gemm_swizzle_is_the_zigzag(functions: dict[str, Any], rows: int, columns: int, offset: int) -> None:
    for index in range(rows * columns):
        task = zigzag(index, rows=rows, columns=columns, offset=offset)
        assert functions["gemm_swizzle"](index, rows, columns, offset) == task


def test_comm_swizzle_is_the_interleaved_order(functions: dict[str, Any]) -> None:
    for ranks in range(1, 17):
        for split in splits(ranks):
            for work in range(5 * ranks):
                task = comm_task(Interleaved(split), work, ranks=ranks, tiles=5)
                assert functions["comm_swizzle"](work % ranks, work // ranks, ranks, split) == task.shift


def test_the_launcher_refuses_what_the_plan_refuses() -> None:
    for split in range(2, 17):
        names: dict[str, Any] = {"COMM_SPLIT": split}
        exec(HOST, names)
        for ranks in range(1, 17):
            if is_bijection(ranks=ranks, split=split):
                names["_check_split"](ranks)
            else:
                with pytest.raises(ValueError, match=f"^COMM_SPLIT: expected a split that visits each of {ranks} "):
                    names["_check_split"](ranks)


def test_the_launchers_message() -> None:
    names: dict[str, Any] = {"COMM_SPLIT": 2}
    exec(HOST, names)
    message = (
        "COMM_SPLIT: expected a split that visits each of 5 ranks once, "
        "got 2, which never visits [1, 3] (a split that divides 5 always works)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        names["_check_split"](5)
