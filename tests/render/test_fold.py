"""Folding long lines: every form that templates produce, as ruff format would break it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.render.fold import LINE_LENGTH, fold

ROOT = Path(__file__).parents[2]
A, B, C = "first_" + "a" * 34, "second_" + "b" * 33, "third_" + "c" * 34
D = "fourth_" + "d" * 23
"""Names of 40 letters, and one of 30: A, B and D fit a line of their own, A, B and C do not."""

FORMS = {
    "arguments on a line": (f"token = wait({A}, {B}, {D})", f"token = wait(\n    {A}, {B}, {D}\n)"),
    "one argument on each line": (
        f"token = wait({A}, {B}, {C}, last=turn)",
        f"token = wait(\n    {A},\n    {B},\n    {C},\n    last=turn,\n)",
    ),
    "a call alone": (f"dl.notify({A}, {B}, {D})", f"dl.notify(\n    {A}, {B}, {D}\n)"),
    "a sum as an argument": (
        f"dl.notify({A} + {B}, {C})",
        f"dl.notify(\n    {A} + {B},\n    {C},\n)",
    ),
    "a call in a call": (f"a_tile = tl.trans(load({A}, {B}, x))", f"a_tile = tl.trans(load({A}, {B}, x))"),
    "a long call in a call": (
        f"transposed_tile = tl.trans(load({A}, {B}, {D[:10]}))",
        f"transposed_tile = tl.trans(\n    load({A}, {B}, {D[:10]})\n)",
    ),
    "a sum on a line": (f"gathered_m = {A} + {B} - {D}", f"gathered_m = (\n    {A} + {B} - {D}\n)"),
    "a sum, one term on each line": (
        f"offset = {A} * x + {B} * y + {C}",
        f"offset = (\n    {A} * x\n    + {B} * y\n    + {C}\n)",
    ),
    "a sum with a factor": (
        f"slot = ({A} + {B} + {C[:20]}) * SLOT_WORDS",
        f"slot = (\n    {A} + {B} + {C[:20]}\n) * SLOT_WORDS",
    ),
    "a sum with a factor, one term on each line": (
        f"slot = ({A} + {B} + {C}) * SLOT_WORDS",
        f"slot = (\n    {A}\n    + {B}\n    + {C}\n) * SLOT_WORDS",
    ),
    "a conjunction": (
        f"mask = ({A} < M)[:, None] & ({B} < N)[None, :] & {C}",
        f"mask = (\n    ({A} < M)[:, None]\n    & ({B} < N)[None, :]\n    & {C}\n)",
    ),
    "a sum in a difference": (
        f"m = {A} * x - ({B} + {C}) + 1",
        f"m = (\n    {A} * x\n    - ({B} + {C})\n    + 1\n)",
    ),
    "an increment": (f"used += {A} + {B} + {C}", f"used += (\n    {A}\n    + {B}\n    + {C}\n)"),
}


@pytest.mark.parametrize(("source", "folded"), FORMS.values(), ids=FORMS)
def test_each_form(source: str, folded: str) -> None:
    assert (len(source) > LINE_LENGTH) == (source != folded)
    assert fold(f"{source}\n") == f"{folded}\n"
    assert fold(f"{folded}\n") == f"{folded}\n"


def test_each_form_is_as_ruff_would_write_it(tmp_path: Path) -> None:
    """At every depth at which it may stand."""
    for number, (source, _) in enumerate(FORMS.values()):
        for depth in range(5):
            heads = "".join(f"{'    ' * level}if x:\n" for level in range(depth))
            path = tmp_path / f"form_{number}_{depth}.py"
            path.write_text(fold(f"{heads}{'    ' * depth}{source}\n"))
    ruff = [sys.executable, "-m", "ruff", "format", "--check", "--diff", "--config", str(ROOT / "pyproject.toml")]
    result = subprocess.run([*ruff, str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "line",
    [
        f"# {A} {B} {C} {A}",
        f'"""{A} {B} {C} {A}"""',
        f"if {A} == {B} and {B} == {C}:",
        f"for {A} in range({B}, {C}, {A}):",
        f"    {A} {B} {C} {A}, words of a docstring",
        f"return {A} + {B} + {C}",
        f"name = {A}{B}{C}",
    ],
    ids=["comment", "docstring", "condition", "loop", "words", "return", "name"],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert fold(f"{line}\n") == f"{line}\n"


def test_short_lines_stay_as_they_are() -> None:
    text = "x = 1\n\n\ny = f(\n    x,\n)\n"
    assert fold(text) == text


def test_the_longest_line_that_fits() -> None:
    line = "x = " + "a" * (LINE_LENGTH - 8) + " + b"
    assert len(line) == LINE_LENGTH
    assert fold(f"{line}\n") == f"{line}\n"
    first = line.removeprefix("x = ").removesuffix(" + b")
    assert fold(f"{line}b\n") == f"x = (\n    {first}\n    + bb\n)\n"


NAMES = st.text("abcxyz", min_size=1, max_size=45)


@given(st.integers(0, 5), st.lists(NAMES, min_size=2, max_size=6), st.sampled_from(["sum", "call", "factor"]))
def test_folding_keeps_the_meaning_and_is_idempotent(depth: int, names: list[str], form: str) -> None:
    statement = {
        "sum": f"result = {' + '.join(names)}",
        "call": f"result = f({', '.join(names)})",
        "factor": f"result = ({' + '.join(names)}) * FACTOR",
    }[form]
    heads = "".join(f"{'    ' * level}if x:\n" for level in range(depth))
    text = f"{heads}{'    ' * depth}{statement}\n"
    folded = fold(text)
    assert fold(folded) == folded
    assert parsed(folded) == parsed(text)


def parsed(text: str) -> str:
    """The syntax tree without positions."""
    return ast.dump(ast.parse(text))
