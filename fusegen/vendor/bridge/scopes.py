"""Third step: what stands between the markers of an `al.scope` becomes a region that one core type executes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fusegen.vendor.bridge.lowering import marker_of
from fusegen.vendor.bridge.refusals import ScopeEscape, ScopeMisplaced
from fusegen.vendor.markers import SCOPE_BEGIN, SCOPE_END
from fusegen.vendor.mlir import Block, Operation, Region, used_values, with_blocks

SCOPE: Final = "scope.scope"
_PURE: Final = (
    "arith.",
    "memref.dim",
    "memref.reinterpret_cast",
    "memref.cast",
    "memref.subview",
    "tensor.empty",
    "linalg.fill",
    "hivm.hir.get_sub_block_idx",
)
"""Operations that any core may execute: the passes in front share them between scopes."""


def scope_regions(op: Operation) -> Operation:
    """The operation with scopes instead of their markers. Raises ScopeEscape or ScopeMisplaced."""
    return with_blocks(op, lambda block: replace(block, operations=_scoped(block.operations)))


def _scoped(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    found: list[Operation] = []
    rest = list(operations)
    while rest:
        op = rest.pop(0)
        symbol = _symbol(op)
        if symbol == SCOPE_END:
            raise ScopeMisplaced("a scope ends in a block in which it does not begin", op.line)
        if symbol != SCOPE_BEGIN:
            found.append(scope_regions(op))
            continue
        length = _length(op, rest)
        inside, rest = rest[:length], rest[length + 1 :]
        shared, own = _shared_and_own(inside, rest)
        found += shared
        found.append(_scope(op, own))
    return tuple(found)


def _length(begin: Operation, rest: Sequence[Operation]) -> int:
    """Operations up to the marker that ends the scope."""
    for index, op in enumerate(rest):
        symbol = _symbol(op)
        if symbol == SCOPE_BEGIN:
            raise ScopeMisplaced("a scope begins inside of another one", op.line)
        if symbol == SCOPE_END:
            return index
    raise ScopeMisplaced("a scope does not end in the block in which it begins", begin.line)


def _symbol(op: Operation) -> str:
    found = marker_of(op)
    return found.symbol if found is not None else ""


def _shared_and_own(inside: Sequence[Operation], after: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
    """Definitions that are used after the scope, with all that they are made of, and the rest."""
    wanted = {value for op in after for value in used_values(op)}
    shared: set[str] = set()
    for op in reversed(inside):
        if op.result and op.result in wanted:
            if not op.name.startswith(_PURE):
                raise ScopeEscape(f"a value of {op.name} is used outside of its scope", op.line)
            shared.add(op.result)
            wanted |= used_values(op)
    return [op for op in inside if op.result in shared], [op for op in inside if op.result not in shared]


def _scope(begin: Operation, body: Sequence[Operation]) -> Operation:
    found = marker_of(begin)
    core = found.attributes["core"] if found is not None else ""
    end = Operation("scope.return", location=begin.location)
    operations = (*(scope_regions(op) for op in body), end)
    return Operation(
        SCOPE,
        attributes={"hivm.tcore_type": f"#hivm.tcore_type<{core}>"},
        regions=(Region((Block("", (), operations),)),),
        location=begin.location,
    )
