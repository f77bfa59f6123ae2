"""What the text of a kernel does with the token of a dl.wait: whether it is consumed, and where it goes from there.

Where a value goes is followed by the names of one function, forward from the wait and once around its loops.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from types import CodeType
from typing import Final

from fusegen.sim.events import CodeLine

ATOMICS: Final = frozenset(f"atomic_{name}" for name in ("add", "and", "cas", "max", "min", "or", "xchg", "xor"))
COPIES: Final = ATOMICS | {"getmem", "getmem_nbi", "putmem", "putmem_nbi"}
LOADS: Final = COPIES | {"load"}
STORES: Final = COPIES | {"store"}
CONSUMES: Final = frozenset({"consume_token"})

Block = tuple[tuple[ast.stmt, str], ...]
"""The compound statements around a statement, with the branch of each that it is in."""


def is_consumed_in_text(wait: CodeLine) -> bool:
    """A call of consume_token takes what the wait at this line returns. A core without work may never come to it."""
    return any(_has_call(statement, names, CONSUMES) for statement, names in _carriers(wait.code, wait.line))


def reaches(wait: CodeLine, access: CodeLine, *, is_read: bool) -> bool:
    """The access is made with an address, or stores a value, that is computed from the token of the wait.

    Both are lines of one function. An index that has consumed the token orders an access as a pointer does, and what
    was loaded through the pointer can be stored only after the load.
    """
    return wait.code == access.code and _reaches(wait.code, wait.line, access.line, is_read)


@lru_cache(maxsize=512)
def _reaches(code: CodeType, wait: int, access: int, is_read: bool) -> bool:
    builtins = LOADS if is_read else STORES
    carriers = _carriers(code, wait)
    return any(_spans(statement, access) and _has_call(statement, names, builtins) for statement, names in carriers)


def _carriers(code: CodeType, wait: int) -> Iterator[tuple[ast.stmt, set[str]]]:
    """The simple statements that may follow a wait in its function, with the names that carry its token there."""
    functions = [node for node in ast.walk(_tree(code)) if isinstance(node, ast.FunctionDef) and _spans(node, wait)]
    if not functions:
        return
    statements = list(_statements(functions[-1].body, ()))
    start = next((index for index, (each, _) in enumerate(statements) if _spans(each, wait)), 0)
    here = statements[start][1]
    replaced: dict[str, list[Block]] = {}  # by carrier: the blocks in which it has got another value
    for statement, block in statements[start:] + statements[:start]:
        if _are_exclusive(here, block):
            continue
        names = {name for name, blocks in replaced.items() if not any(block[: len(each)] == each for each in blocks)}
        yield statement, names
        for target in _targets(statement):
            if _spans(statement, wait) or _uses(statement, names):
                replaced[target] = []
            elif target in replaced:
                replaced[target].append(block)


def _statements(body: list[ast.stmt], block: Block) -> Iterator[tuple[ast.stmt, Block]]:
    """Statements that are not made of others, in order, with their blocks."""
    for statement in body:
        branches = [(name, getattr(statement, name, [])) for name in ("body", "orelse")]
        if not any(inner for _, inner in branches):
            yield statement, block
        for name, inner in branches:
            yield from _statements(inner, (*block, (statement, name)))


def _are_exclusive(left: Block, right: Block) -> bool:
    """Two blocks are different branches of one statement."""
    return any(
        mine is other and branch != other_branch
        for (mine, branch), (other, other_branch) in zip(left, right, strict=False)
    )


def _has_call(statement: ast.stmt, names: set[str], builtins: frozenset[str]) -> bool:
    """A call of one of these builtins in the statement uses one of these names."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call) and _name(node.func) in builtins)
    return any(_uses(call, names) for call in calls)


def _uses(node: ast.AST, names: set[str]) -> bool:
    reads = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    if isinstance(node, ast.AugAssign):
        reads.update(_targets(node))
    return not names.isdisjoint(reads)


def _targets(statement: ast.stmt) -> list[str]:
    """The variables that a statement assigns."""
    return [each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


@lru_cache(maxsize=16)
def _tree(code: CodeType) -> ast.Module:
    return ast.parse(decode_source(Path(code.co_filename).read_bytes()))


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
