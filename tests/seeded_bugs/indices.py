"""Indices, masks and orders of tiles that are wrong for some tile, or wrap (guide 1.4 and 2.1)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.seeded_bugs.accesses import reads, writes
from tests.seeded_bugs.module import Module, Site


def ring_not_modulo(module: Module) -> Iterator[Site]:
    for assigned in module.found(ast.Assign):
        if module.source(assigned.targets[0]) == "ring" and isinstance(assigned.value, ast.BinOp):
            yield Site(module.label(assigned), module.edited((assigned.value, module.source(assigned.value.left))))


def access_to_other_buffer(module: Module) -> Iterator[Site]:
    for offset in _offsets(module):
        text = module.source(offset.value)
        other = re.sub(r"\bring\b", "((ring + 1) % BUFFER_NUM)", text)
        if other != text:
            yield Site(module.label(offset), module.edited((offset.value, other)))


def strides_of_user(module: Module) -> Iterator[Site]:
    """Rows of a symmetric buffer are as far apart as those of the user's tensor."""
    names = [arg.arg for arg in module.kernel.args.args]
    stride = next(name for name in names if name.startswith("stride_c"))
    for offset in _offsets(module):
        for product in module.found(ast.BinOp, offset):
            is_row = isinstance(product.op, ast.Mult) and module.source(product.left).endswith("[:, None]")
            if is_row:
                yield Site(module.label(offset), module.edited((product.right, stride)))


def _offsets(module: Module) -> list[ast.Assign]:
    """Assignments of the offsets of accesses to symmetric buffers."""
    found = []
    for call, pointer in [*reads(module), *writes(module)]:
        assert isinstance(pointer, ast.BinOp)
        offset = module.definition(module.source(pointer.right), call)
        if offset is not None and offset not in found:
            found.append(offset)
    return found


def mask_dropped(module: Module) -> Iterator[Site]:
    """One side of a mask of two, in an assignment or in a call."""
    for mask in module.found(ast.BinOp):
        if isinstance(mask.op, ast.BitAnd):
            for kept, dropped in ((mask.left, mask.right), (mask.right, mask.left)):
                label = f"{module.label(dropped)} in {module.label(module.statement(mask))}{_masked(module, mask)}"
                yield Site(label, module.edited((mask, module.source(kept))))


def _masked(module: Module, mask: ast.BinOp) -> str:
    """The first access with a mask that is an assignment of its own."""
    statement = module.statement(mask)
    if not isinstance(statement, ast.Assign) or statement.value is not mask:
        return ""
    accesses = [call for name in ("tl.load", "tl.store", "tl.atomic_add") for call in module.calls(name)]
    later = [call for call in accesses if module.span(call) > module.span(statement)]
    return f" for {module.label(min(later, key=module.span))}"


def tail_not_counted(module: Module) -> Iterator[Site]:
    """The number of blocks is rounded down."""
    for call in module.calls("tl.cdiv"):
        length, block = map(module.source, call.args)
        if re.fullmatch(r"[A-Z]|rank_rows", length) and block.isupper():
            yield Site(module.label(call), module.edited((call, f"({length} // {block})")))


def tiles_twice(module: Module) -> Iterator[Site]:
    """A swizzle that is no bijection: a term is left out."""
    edits = {
        "gemm_swizzle": (
            ("(rows - 1 - 2 * row)", "(rows - 1 - row)"),
            ("tl.minimum(OFFSET, columns - group * OFFSET)", "OFFSET"),
        ),
        "comm_swizzle": ((" + product // ranks", ""),),
    }
    for function in module.found(ast.FunctionDef, module.tree):
        for old, new in edits.get(function.name, ()):
            text = module.source(function)
            assert text.count(old) == 1, (function.name, old)
            yield Site(f"{function.name}: {old.strip()}", module.edited((function, text.replace(old, new))))


def division_by_reciprocal(module: Module) -> Iterator[Site]:
    """A work index times 2**30 over the divisor, and shifted: from twice the divisor on, the product wraps."""
    for assigned in module.found(ast.Assign):
        value = assigned.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv) and module.source(value.left) == "work":
            divisor = module.source(value.right)
            if isinstance(value.right, ast.BinOp):
                divisor = f"({divisor})"
            text = f"work * ((1 << 30) // {divisor} + 1) >> 30"
            yield Site(module.label(assigned), module.edited((value, text)))


def sum_overwritten(module: Module) -> Iterator[Site]:
    """A store where the products of the ranks are added."""
    for call in module.calls("tl.atomic_add"):
        yield Site(module.label(call), module.edited((call.func, "tl.store")))


def sum_added_to_rest(module: Module) -> Iterator[Site]:
    """An atomic addition to an output that nobody zeroes, in place of the sum in a fixed order."""
    for call in module.calls("tl.store"):
        if module.source(call.args[1]).startswith("total"):
            yield Site(module.label(call), module.edited((call.func, "tl.atomic_add")))
