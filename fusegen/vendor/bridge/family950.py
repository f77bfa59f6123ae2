"""Last step, for the 950 family only: its compiler predates distributed operations.

Operations that return something become calls of external functions, returned memory becomes an address that is cast,
and what both core types execute is written once for each of them. What the compiler then says about tiles, memory and
the split into core functions holds; the vendor's own lowering of distributed operations is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fusegen.vendor.bridge.raising import BOTH_CORES, CUSTOM
from fusegen.vendor.bridge.scopes import SCOPE
from fusegen.vendor.mlir import Block, Operation, Region, derived, walk, with_blocks

CORE_KEY: Final = "hivm.tcore_type"
_CORE: Final = re.compile(r"#hivm\.tcore_type<(\w+)>")
_MEMORY: Final = re.compile(r"memref<[^,x]+x(\w+)")


def calls_for_950(module: Operation) -> Operation:
    """The module as the compiler for the 950 family takes it."""
    is_mix = any(op.name == SCOPE or op.name == "linalg.matmul" for op in walk(module))
    declarations: dict[str, Operation] = {}
    (kernel,) = (op for op in module.body if op.name == "func.func")
    changed = _changed(kernel, "", is_mix, declarations)
    block = Block("", (), (*declarations.values(), changed))
    return replace(module, regions=(Region((block,)),))


def _changed(op: Operation, scope: str, is_mix: bool, declarations: dict[str, Operation]) -> Operation:
    inner_scope = _core(op) if op.name == SCOPE else scope

    def changed(block: Block) -> Block:
        operations: list[Operation] = []
        for inner in block.operations:
            if inner.name != CUSTOM:
                operations.append(_changed(inner, inner_scope, is_mix, declarations))
            elif inner.result_types:
                operations += _call(inner, declarations, is_mix)
            else:
                operations += _for_each_core(inner, inner_scope)
        return replace(block, operations=tuple(operations))

    return with_blocks(op, changed)


def _core(op: Operation) -> str:
    match = _CORE.fullmatch(op.attributes[CORE_KEY])
    return match[1] if match else ""


def _for_each_core(op: Operation, scope: str) -> Iterator[Operation]:
    """The operation for the core type of its scope, or outside of scopes for each that it names."""
    core = scope or _core(op)
    for each in ("CUBE", "VECTOR") if core == BOTH_CORES else (core,):
        yield replace(op, attributes={**op.attributes, CORE_KEY: f"#hivm.tcore_type<{each}>"})


def _call(op: Operation, declarations: dict[str, Operation], is_mix: bool) -> Iterator[Operation]:
    symbol = op.attributes["symbol"].strip('"')
    operands, types = list(op.operands), list(op.operand_types)
    for index, kind in enumerate(op.operand_types):
        match = _MEMORY.match(kind)
        if match is not None:
            plain = f"memref<?x{match[1]}, strided<[?], offset: ?>>"
            cast = derived(op.result, f"memory{index}")
            yield Operation("memref.cast", cast, (operands[index],), (kind,), (plain,), location=op.location)
            operands[index], types[index] = cast, plain
    returns_memory = op.result_types[0].startswith("memref<")
    result = derived(op.result, "address") if returns_memory else op.result
    result_type = "i64" if returns_memory else op.result_types[0]
    declarations[symbol] = _declaration(symbol, types, result_type, is_mix)
    yield Operation(
        "func.call",
        result,
        tuple(operands),
        tuple(types),
        (result_type,),
        properties={"callee": f"@{symbol}"},
        location=op.location,
    )
    if returns_memory:
        yield from _memory_at(op, result, operands[0], types[0])


def _declaration(symbol: str, types: list[str], result_type: str, is_mix: bool) -> Operation:
    core = "AIC_OR_AIV" if is_mix else "AIV"
    return Operation(
        "func.func",
        properties={
            "function_type": f"({', '.join(types)}) -> {result_type}",
            "sym_name": f'"{symbol}"',
            "sym_visibility": '"private"',
        },
        attributes={
            "hacc.always_inline": "",
            "hivm.func_core_type": f"#hivm.func_core_type<{core}>",
            "llvm.emit_c_interface": "",
        },
        regions=(Region(()),),
    )


def _memory_at(op: Operation, address: str, source: str, source_type: str) -> Iterator[Operation]:
    """The memory at an address, as large as that which the pointer was given for."""
    zero, size, place = derived(op.result, "zero"), derived(op.result, "size"), op.location
    yield Operation("arith.constant", zero, result_types=("index",), properties={"value": "0 : index"}, location=place)
    yield Operation("memref.dim", size, (source, zero), (source_type, "index"), ("index",), location=place)
    yield Operation(
        "hivm.hir.pointer_cast",
        op.result,
        (address, size),
        ("i64", "index"),
        op.result_types,
        properties={"operandSegmentSizes": "array<i32: 1, 1>"},
        location=place,
    )
    yield Operation(
        "annotation.mark",
        operands=(op.result,),
        operand_types=op.result_types,
        properties={"effects": '["write"]'},
        attributes={"address_space": "#hivm.address_space<gm>"},
        location=place,
    )
