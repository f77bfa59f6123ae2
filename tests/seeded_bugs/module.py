"""The text of a generated module, where edits find their places by what the code does, not by its layout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
SHOWN = 72
"""Characters of a line of code that name a site."""


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a mutation fits: the code that stands there, and the module's text after the edit."""

    label: str
    text: str


class Module:
    """A module's text and syntax tree. Nodes are those of `tree`; lists of nodes are in the order of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._inside: dict[ast.AST, list[ast.AST]] = {}
        self._parents = {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}

    @cached_property
    def kernel(self) -> ast.FunctionDef:
        """The kernel that the launcher starts."""
        (kernel,) = (each for each in self.found(ast.FunctionDef, self.tree) if each.name.endswith("_kernel"))
        return kernel

    def function(self, name: str) -> ast.FunctionDef:
        """The function, or method, called `name`."""
        return next(each for each in self.found(ast.FunctionDef, self.tree) if each.name == name)

    @cached_property
    def slots(self) -> frozenset[str]:
        """Kernel arguments that point to signal slots: the host zeroes them."""
        calls = self.found(ast.Call, self.function("__init__"))
        zeroed = [call.func for call in calls if self.source(call.func).endswith(".fill_")]
        return frozenset(f"{self.source(func).split('.')[1]}_ptr" for func in zeroed)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """Kernel arguments that point to symmetric memory other than slots."""
        assigned = self.found(ast.Assign, self.function("__init__"))
        made = [each for each in assigned if "aclshmem_create_tensor" in self.source(each.value)]
        return frozenset(f"{self.source(each.targets[0]).split('.')[1]}_ptr" for each in made) - self.slots

    def found(self, kind: type[Node], within: ast.AST | None = None) -> list[Node]:
        """All nodes of a kind in a node, by default in the kernel."""
        nodes = [node for node in self._walked(within or self.kernel) if isinstance(node, kind)]
        return sorted(nodes, key=self.span)

    def assigned(self, statement: ast.stmt) -> list[str]:
        """The names that a statement assigns; none for other statements."""
        return [*map(self.source, statement.targets)] if isinstance(statement, ast.Assign) else []

    def _walked(self, node: ast.AST) -> list[ast.AST]:
        if node not in self._inside:
            self._inside[node] = list(ast.walk(node))
        return self._inside[node]

    def calls(self, name: str, within: ast.AST | None = None) -> list[ast.Call]:
        """All calls of what the text calls `name` in a node, by default in the kernel."""
        return [call for call in self.found(ast.Call, within) if self.source(call.func) == name]

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where the text of a node starts and ends."""
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def label(self, node: ast.AST) -> str:
        """The text of a node on one line, shortened."""
        line = " ".join(self.source(node).split())
        return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."

    def parent(self, node: ast.AST) -> ast.AST:
        """What a node stands in."""
        return self._parents[node]

    def outward(self, node: ast.AST, kind: type[Node]) -> Iterator[Node]:
        """The nodes of a kind around a node, innermost first."""
        at: ast.AST | None = node
        while at is not None:
            if isinstance(at, kind):
                yield at
            at = self._parents.get(at)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that has the node."""
        return next(self.outward(node, ast.stmt))

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which this one stands."""
        for _, body in ast.iter_fields(self.parent(statement)):
            if isinstance(body, list) and statement in body:
                return body
        raise AssertionError(self.source(statement))

    def meeting(self, first: ast.AST, second: ast.AST) -> tuple[ast.stmt, ast.stmt] | None:
        """The statements of one block that have the one and the other node; None when these stand in one statement."""
        around = list(self.outward(first, ast.stmt))
        for other in self.outward(second, ast.stmt):
            for one in around:
                if one is not other and self.parent(one) is self.parent(other):
                    return (one, other) if one in self.block(other) else None
        return None

    def definition(self, name: str, before: ast.AST) -> ast.Assign | None:
        """The assignment to a name that stands nearest before a node; None for an argument of the kernel."""
        assigned = [each for each in self.found(ast.Assign) if name in map(self.source, each.targets)]
        earlier = [each for each in assigned if self.span(each) < self.span(before)]
        return earlier[-1] if earlier else None

    def argument(self, pointer: ast.expr) -> str:
        """The kernel argument that a pointer comes from, through additions, symm_at and consume_token."""
        while True:
            match pointer:
                case ast.BinOp(left=left):
                    pointer = left
                case ast.Call(args=[first, *_]):
                    pointer = first
                case ast.Name(id=name):
                    assigned = self.definition(name, pointer)
                    if assigned is None:
                        return name
                    pointer = assigned.value
                case _:
                    return self.source(pointer)

    def edited(self, *edits: tuple[ast.AST | tuple[int, int], str]) -> str:
        """The text with nodes, or spans, replaced. Spans must not overlap."""
        spans = [(each if isinstance(each, tuple) else self.span(each), new) for each, new in edits]
        spans.sort()
        assert all(before[0][1] <= after[0][0] for before, after in pairwise(spans)), spans
        text = self.text
        for (start, end), new in reversed(spans):
            text = text[:start] + new + text[end:]
        return text

    def without(self, statement: ast.AST) -> tuple[ast.AST, str]:
        """The edit that removes a statement."""
        return statement, "pass"

    def moved(self, statements: Sequence[ast.stmt], before: ast.stmt) -> list[tuple[tuple[int, int], str]]:
        """The edits that move statements before another one of their block."""
        at = self._starts[before.lineno - 1]
        lines = [(self._starts[each.lineno - 1], self._end_of_line(each)) for each in statements]
        moved = "".join(self.text[start:end] for start, end in lines)
        return [((at, at), moved), *((line, "") for line in lines)]

    def needed_by(self, statement: ast.stmt, after: ast.stmt) -> list[ast.stmt]:
        """The statement, and those between `after` and it that define what it uses, in the order of the text."""
        block = self.block(statement)
        between = block[block.index(after) + 1 : block.index(statement)]
        kept, names = [statement], self._names(statement)
        for each in reversed(between):
            if isinstance(each, ast.Assign) and names & set(map(self.source, each.targets)):
                kept.insert(0, each)
                names |= self._names(each)
        return kept

    def _names(self, node: ast.AST) -> set[str]:
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}

    def _end_of_line(self, statement: ast.stmt) -> int:
        return self._starts[statement.end_lineno or statement.lineno]
