"""Long lines of a rendered module, broken as ruff format breaks them, without ruff: a user's version may differ.

Only statements that templates produce need folding: assignments and calls on one line. The forms are

    name = call(arguments)          arguments on a line of their own, or one on each line
    name = (sum) * factor           the sum on a line of its own, or one term on each line
    name = sum                      the same in parentheses
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

LINE_LENGTH = 120


def fold(text: str) -> str:
    """The text with every statement that is too long for a line broken; other long lines stay as they are."""
    return "".join(f"{folded}\n" for line in text.splitlines() for folded in _folded(line))


def _folded(line: str) -> list[str]:
    statement = line.lstrip()
    if len(line) <= LINE_LENGTH or statement.startswith(("#", '"')):
        return [line]
    margin = line[: len(line) - len(statement)]
    try:
        (node,) = ast.parse(statement).body
    except SyntaxError:  # a head of a block, or a line of a docstring
        return [line]
    match node:
        case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.Expr(value=value):
            head = statement[: value.col_offset].rstrip("(")
            return _expression(margin, head, value, statement)
        case _:
            return [line]


def _expression(margin: str, head: str, value: ast.expr, source: str) -> list[str]:
    match value:
        case ast.Call(func=function):
            opening = f"{margin}{head}{_text(function, source)}("
            arguments = [_text(each, source) for each in value.args]
            arguments += [f"{keyword.arg}={_text(keyword.value, source)}" for keyword in value.keywords]
            return _bracketed(margin, opening, ", ".join(arguments), [f"{each}," for each in arguments], ")")
        case ast.BinOp(op=ast.Mult(), left=ast.BinOp(op=ast.Add()) as inner, right=ast.Name(factor)):
            return _sum(margin, f"{margin}{head}(", inner, source, f") * {factor}")
        case ast.BinOp():
            return _sum(margin, f"{margin}{head}(", value, source, ")")
        case _:
            return [f"{margin}{source}"]


def _sum(margin: str, opening: str, value: ast.BinOp, source: str, closing: str) -> list[str]:
    terms = list(_terms(value, source))
    return _bracketed(margin, opening, " ".join(terms), terms, closing)


def _terms(value: ast.expr, source: str) -> Iterator[str]:
    """The terms of a sum or a conjunction, each but the first with its operator in front."""
    match value:
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.BitAnd() as operator, right):
            yield from _terms(left, source)
            sign = {ast.Add: "+", ast.Sub: "-", ast.BitAnd: "&"}[type(operator)]
            yield f"{sign} {_operand(right, source)}"
        case _:
            yield _operand(value, source)


def _operand(value: ast.expr, source: str) -> str:
    """Source of an operand, with the parentheses that belong to it."""
    text = _text(value, source)
    before = source[: value.col_offset]
    after = source[value.end_col_offset :] if value.end_col_offset is not None else ""
    return f"({text})" if before.endswith("(") and after.startswith(")") and isinstance(value, ast.BinOp) else text


def _bracketed(margin: str, opening: str, joined: str, parts: list[str], closing: str) -> list[str]:
    """`joined` between brackets on a line of its own if it fits, otherwise one part on each line."""
    inner = f"{margin}    "
    middle = [f"{inner}{joined}"]
    if len(middle[0]) > LINE_LENGTH:
        middle = [f"{inner}{part}" for part in parts]
    return [opening, *middle, f"{margin}{closing}"]


def _text(value: ast.expr, source: str) -> str:
    text = ast.get_source_segment(source, value)
    if text is None:
        raise ValueError(f"no source for {ast.dump(value)}")
    return text
