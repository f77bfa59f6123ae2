"""Random expressions, over tiles and over scalars, have the value and the type that Triton's interpreter gives.

Where the interpreter is known to be wrong its values are not asked for:

* it stores bfloat16 as 16-bit integers and computes with these, and rounds to bfloat16 by cutting off: bfloat16
  operands are widened first, and of arithmetic on them only the type is compared;
* + - * of booleans are numpy's there, and of one bit in Triton's intermediate code;
* sums and running sums of narrow integers do not wrap there, and minimum and maximum propagate a NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.language.comparing import Comparison

ROWS, COLUMNS = 2, 8
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ARITHMETIC = ["+", "-", "*"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]
EXAMPLES = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@dataclass(frozen=True)
class Expression:
    """The text over a and b, tensors of two types, and n, an int32."""

    text: str
    left: str
    right: str


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    """One or two operations on operands of random types, some of them constants or variables that hold constants."""
    left, right = (
        draw(st.sampled_from([*SIGNED, *UNSIGNED, *FLOATS])),
        draw(st.sampled_from([*SIGNED, *UNSIGNED, *FLOATS])),
    )
    is_integer = left not in FLOATS and right not in FLOATS
    operators = [*ARITHMETIC, *COMPARISONS, "minimum", "maximum", "where"]
    if is_integer:
        operators += ["&", "|", "^"]
    if (left in UNSIGNED) == (right in UNSIGNED) or not is_integer:
        operators += ["/"]
        operators += ["//"] if is_integer else []
    operator = draw(st.sampled_from(operators))
    second = draw(st.sampled_from(["b", "b", "3", "variable", "n", "(n + 1)", "0.5", "half"]))
    if operator in ("&", "|", "^", "//") and second in ("0.5", "half"):
        second = "3"
    if left in UNSIGNED and operator in ("//", "/") and second in ("variable", "n", "(n + 1)"):
        second = "3"
    first, other = ("a", second) if second == "b" or draw(st.booleans()) else (second, "a")
    if operator in ("//", "/", "&", "|", "^") and other == "a":
        first, other = "a", second
    if operator in ("minimum", "maximum"):
        return Expression(f"tl.{operator}({first}, {other})", left, right)
    if operator == "where":
        return Expression(f"tl.where(a > b, {first}, {other})", left, right)
    text = f"{first} {operator} {other}"
    return Expression(f"({text}) * a" if draw(st.booleans()) and operator in ARITHMETIC else text, left, right)


HEAD = """
@triton.jit
def kernel(a_ptr, b_ptr, n_ptr, out_ptr):
    n = tl.load(n_ptr)
    variable = 5
    half = 0.5
"""
TILES = """
    place = tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]
    a = tl.load(a_ptr + place)
    b = tl.load(b_ptr + {other})
    result = {text}
    record(result)
    tl.store(out_ptr + place, result)
"""
SCALARS = """
    for i in range({size}):
        a = tl.load(a_ptr + i)
        b = tl.load(b_ptr + i)
        result = {text}
        record(result)
        tl.store(out_ptr + i, result)
"""
PLACES = ["place", "tl.arange(0, 8)[None, :]", "tl.arange(0, 2)[:, None]", "tl.arange(0, 8)", "0"]


def values(name: str, seed: int, *, bound: int = 100) -> torch.Tensor:
    """Numbers that make products of narrow types wrap: floats are multiples of a quarter; 0 is not among them."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(1, bound + 1, (ROWS * COLUMNS,), generator=generator)
    if name in FLOATS:
        return ((numbers - bound // 2) / 4 + 0.125).to(getattr(torch, name))
    sign = 1 if name in UNSIGNED else torch.randint(0, 2, (ROWS * COLUMNS,), generator=generator) * 2 - 1
    return (numbers * sign).to(getattr(torch, name))


def out_of(expression: Expression) -> torch.Tensor:
    """Where any result fits: a float64, or an int64 where both operands are integers."""
    is_float = (
        {expression.left, expression.right} & set(FLOATS) or "0.5" in expression.text or "half" in expression.text
    )
    is_float = is_float or " / " in expression.text
    return torch.zeros(ROWS * COLUMNS, dtype=torch.float64 if is_float else torch.int64)


@EXAMPLES
@given(expressions(), st.sampled_from(PLACES), st.integers(0, 99))
def test_over_tiles(comparison: Comparison, expression: Expression, other: str, seed: int) -> None:
    source = HEAD + TILES.format(rows=ROWS, columns=COLUMNS, text=expression.text, other=other)
    tensors = [values(expression.left, seed), values(expression.right, seed + 1), torch.tensor([7], dtype=torch.int32)]
    comparison.check(source, [*tensors, out_of(expression)])


@EXAMPLES
@given(expressions(), st.integers(0, 99))
def test_over_scalars(comparison: Comparison, expression: Expression, seed: int) -> None:
    source = HEAD + SCALARS.format(size=ROWS * COLUMNS, text=expression.text)
    left, right = values(expression.left, seed), values(expression.right, seed + 1)
    if "//" in expression.text:  # of negative scalars a finding
        left, right = left.abs(), right.abs()
    comparison.check(source, [left, right, torch.tensor([7], dtype=torch.int32), out_of(expression)])


ALL = [*SIGNED, *UNSIGNED, *FLOATS]


def of_many(texts: list[str], form: str) -> str:
    """A kernel that computes each expression, and stores its values behind those of the one before."""
    head, indent = (TILES.split("    result")[0].format(rows=ROWS, columns=COLUMNS, other="place"), "    ")
    if form == "scalars":
        head, indent = SCALARS.split("        result")[0].format(size=ROWS * COLUMNS), "        "
    place = "place" if form == "tiles" else "i"
    lines = [
        f"record({text})\ntl.store(out_ptr + {ROWS * COLUMNS * i} + {place}, {text})" for i, text in enumerate(texts)
    ]
    return HEAD + head + "".join(f"{indent}{line}\n" for text in lines for line in text.splitlines())


def check_many(comparison: Comparison, texts: list[str], form: str, left: torch.Tensor, right: torch.Tensor) -> None:
    out = torch.zeros(ROWS * COLUMNS * len(texts), dtype=torch.float64)
    comparison.check(of_many(texts, form), [left, right, torch.tensor([7], dtype=torch.int32), out])


@pytest.mark.parametrize("form", ["tiles", "scalars"])
@pytest.mark.parametrize("name", ALL)
def test_casts(comparison: Comparison, name: str, form: str) -> None:
    """From each type to each, of values that both have."""
    texts = [
        f"{'tl.abs(a)' if target in UNSIGNED and name in FLOATS else 'a'}.to(tl.{target})" for target in [*ALL, "int1"]
    ]
    check_many(comparison, texts, form, values(name, 1), values(name, 2))


@pytest.mark.parametrize("other", [*ALL, "bfloat16"])
def test_types_beside_bfloat16(comparison: Comparison, other: str) -> None:
    """Types alone: the interpreter computes with the bits of a bfloat16."""
    right = values("float32" if other == "bfloat16" else other, 2).to(getattr(torch, other))
    body = TILES.split("    result")[0].format(rows=ROWS, columns=COLUMNS, other="place")
    body += "".join(f"    record(a {operator} b)\n" for operator in ("+", "-", "*", "<", "=="))
    comparison.check(HEAD + body, [values("float32", 1).bfloat16(), right, torch.tensor([7], dtype=torch.int32), right])


def test_widened_bfloat16(comparison: Comparison) -> None:
    texts = ["tl.minimum(a, b)", "tl.maximum(a, 0.5)", "tl.max(a, 1)[:, None] + b.to(tl.float32)", "a.to(tl.float32)"]
    left, right = values("float32", 1).bfloat16(), values("float32", 2).bfloat16()
    check_many(comparison, texts, "tiles", left, right)
