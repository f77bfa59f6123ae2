"""Loops, branches, helpers and compile-time arithmetic, as in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from tests.sim.language.comparing import Comparison

HELPERS = """
SCALE = tl.constexpr(3)


@triton.jit
def doubled(value, times: tl.constexpr = 2):
    return value * times


@triton.jit
def divided(value, by):
    return value // by, value % by


@triton.jit
def first_above(x_ptr, limit, n):
    for i in range(n):
        pass
    found = n
    while found > 0 and limit < found:
        found -= 1
    return found


@triton.jit
def kernel(x_ptr, y_ptr):
    place = tl.arange(0, 8)
    x = tl.load(x_ptr + place)
    n = tl.load(x_ptr + 9)
"""
BODIES = {
    "loops": """
    total = 0
    for i in range(n):
        total += i
    for i in tl.range(0, 9, step=2, num_stages=3):
        total += i * 10
    for i in tl.range(3, n):
        total += 1
    for i in tl.static_range(2, 8, 3):
        total = total + i * 100
    for i in tl.static_range(4):
        total += 1
    tl.store(y_ptr, total)
""",
    "while": """
    left = n
    steps = 0
    while left > 1 and steps < 100:
        left = left // 2
        steps += 1
    tl.store(y_ptr, steps)
    tl.store(y_ptr + 1, first_above(x_ptr, 3, n))
""",
    "early return": """
    tl.store(y_ptr, 1)
    if n > 3:
        return
    tl.store(y_ptr, 2)
""",
    "nested calls and tuples": """
    quotient, rest = divided(x, 3)
    tl.store(y_ptr + place, doubled(quotient) + doubled(rest, 10))
    high, low = divided(n, 4)
    pair = (high, low)
    tl.store(y_ptr + 8, pair[0] * 10 + pair[1])
""",
    "logical operators": """
    if n > 3 and not n > 100:
        tl.store(y_ptr + 8, 1)
    if n < 3 or n == 5:
        tl.store(y_ptr + 9, 1)
""",
    "constants": """
    size: tl.constexpr = 4 * 2
    tl.static_assert(size == 8)
    tl.static_print("size", size)
    tl.device_assert(n > 0, "n")
    tl.assume(n > 0)
    tl.debug_barrier()
    tl.device_print("n", n)
    tl.store(y_ptr + tl.arange(0, size), x + size)
    half = 0.5
    tl.store(y_ptr + 8, (n * half * 4).to(tl.int32))
    tl.store(y_ptr + 9, (n * 0.1 * 1000).to(tl.int32))
""",
    "conditional expressions": """
    chosen = n if n > 3 else 3
    tl.store(y_ptr, chosen)
    tl.store(y_ptr + 1, 7 if n is None else 8)
    tl.store(y_ptr + 2, max(n, 3) + min(n, 3))
    nothing = -float("inf")
    tl.store(y_ptr + 3, tl.where(n > nothing, 5, 6))
""",
}


@pytest.mark.parametrize("name", BODIES)
def test_statements(comparison: Comparison, name: str) -> None:
    x = torch.tensor([3, 7, 0, 5, 6, 1, 2, 4, 0, 5, 0, 0], dtype=torch.int32)
    got = comparison.check(HELPERS + BODIES[name], [x, torch.zeros(16, dtype=torch.int32)])
    assert got[1].any()


def test_logical_operators_on_tiles(comparison: Comparison) -> None:
    """Elementwise, also beside a scalar; the interpreter leaves them to Python, which gives the last operand."""
    source = """
@triton.jit
def kernel(x_ptr, y_ptr):
    place = tl.arange(0, 8)
    x = tl.load(x_ptr + place)
    inside = (x > 2 and place < 6) or not x != 7
    tl.store(y_ptr + place, tl.where(inside and tl.load(x_ptr) == 3, 1, 0))
"""
    x = torch.tensor([3, 7, 0, 5, 6, 1, 2, 4], dtype=torch.int32)
    _, y = comparison.simulated(source, [x, torch.zeros(8, dtype=torch.int32)])[0]
    assert y.tolist() == [1, 1, 0, 1, 1, 0, 0, 0]


PROGRAMS = """
@triton.jit
def kernel(y_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(y_ptr + (z * ny + y) * nx + x, x + 10 * y + 100 * z + 1000 * tl.num_programs(2))
"""


@pytest.mark.parametrize("grid", [(3,), (2, 3), (2, 3, 2)])
def test_programs(comparison: Comparison, grid: tuple[int, ...]) -> None:
    comparison.check(PROGRAMS, [torch.zeros(16, dtype=torch.int32)], grid)


def test_prints_name_the_program(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    source = "@triton.jit\ndef kernel(x_ptr):\n"
    source += "    x = tl.load(x_ptr + tl.arange(0, 2))\n    tl.device_print('x', x, 3)\n    tl.device_print('done')\n"
    source += "    tl.device_print('bits', x, hex=True)\n    tl.static_print('at', 'compile time')\n"
    comparison.simulated(source, [torch.tensor([1, 20], dtype=torch.int32)])
    lines = ["(0, 0, 0) x [ 1 20]", "(0, 0, 0) x 3", "(0, 0, 0) done", "(0, 0, 0) bits [0x01 0x14]", "at compile time"]
    assert capsys.readouterr().out.splitlines() == lines
