"""Whether the text of a kernel consumes what a dl.wait returns: a core without work may never come to that line."""

from __future__ import annotations

import ast
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path

from fusegen.sim.events import CodeLine


def is_consumed_in_text(line: CodeLine) -> bool:
    """A call of consume_token in the file takes the variable that the wait at this line assigns."""
    tree = _tree(line.code.co_filename)
    tokens = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.lineno <= line.line <= (node.end_lineno or node.lineno)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return any(
        isinstance(argument, ast.Name) and argument.id in tokens
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _name(node.func) == "consume_token"
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    )


@lru_cache(maxsize=4)
def _tree(file: str) -> ast.Module:
    return ast.parse(decode_source(Path(file).read_bytes()))


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
