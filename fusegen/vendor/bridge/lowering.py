"""First step: markers in the form that the adapter carries through.

The adapter understands pointers only as arguments plus offsets. So a marker gets its pointers as numbers, and a pointer
that it returns becomes one more argument of the kernel, from which addresses are computed as from any other. The number
of that argument stays in the marker's symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from fusegen.vendor.bridge.refusals import (
    BridgeRefusal,
    PointerChosenByCondition,
    PointerRebound,
    TokenOnPointerTensor,
    UnknownMarker,
)
from fusegen.vendor.markers import (
    ARGUMENT,
    BLOCK_SET,
    BLOCK_WAIT,
    LIBRARY,
    SCOPE_BEGIN,
    SCOPE_END,
    SUB_BLOCK,
    Marker,
    marker,
)
from fusegen.vendor.mlir import Operation, argument_attributes, derived, renamed, rewrite, walk, with_arguments
from fusegen.vendor.signatures import signature_of

CALL: Final = "tt.extern_elementwise"
LANGUAGE: Final = (SCOPE_BEGIN, SCOPE_END, BLOCK_SET, BLOCK_WAIT, SUB_BLOCK)
_POINTER: Final = "!tt.ptr<"
_ADDRESSING: Final = ("tt.addptr", "tt.advance", "tt.bitcast")


@dataclass(frozen=True, slots=True)
class LoweredTtir:
    """A module for the adapter, whose kernel has `stand_ins` more arguments at the end than before."""

    module: Operation
    stand_ins: int


def marker_of(op: Operation) -> Marker | None:
    """The marker that an operation is, if it is one."""
    if op.name != CALL or op.text("libname") != LIBRARY:
        return None
    return marker(op.text("symbol"))


def lower_markers(module: Operation) -> LoweredTtir:
    """The module as the adapter takes it. Raises BridgeRefusal for what it would change silently, or crash on."""
    for refusal in _refusals(module):
        raise refusal
    (kernel,) = (op for op in module.body if op.name == "tt.func")
    stand_ins: list[tuple[str, str]] = []
    names: dict[str, str] = {}

    def lowered(op: Operation) -> Iterable[Operation]:
        found = marker_of(op)
        if found is None:
            return (op,)
        call = op
        if op.result_types[0].startswith(_POINTER):
            stand_in = f"%stand_in{len(stand_ins)}"
            symbol = replace(found, attributes={**found.attributes, ARGUMENT: str(len(stand_ins))})
            stand_ins.append((stand_in, op.result_types[0]))
            names[op.result] = stand_in
            properties = {**op.properties, "symbol": f'"{symbol.text}"'}
            call = replace(op, result_types=("i32",), properties=properties)
        return _with_addresses(call)

    kernel = renamed(rewrite(kernel, lowered), names)
    entry = kernel.regions[0].blocks[0]
    attributes = argument_attributes(kernel)
    if attributes:
        attributes += ("{}",) * len(stand_ins)
    kernel = with_arguments(kernel, (*entry.arguments, *stand_ins), attributes)
    return LoweredTtir(rewrite(module, lambda op: (kernel if op.name == "tt.func" else op,)), len(stand_ins))


def _with_addresses(call: Operation) -> tuple[Operation, ...]:
    """The call behind one conversion for each of its pointers."""
    conversions = []
    operands, types = list(call.operands), list(call.operand_types)
    for index, kind in enumerate(types):
        if kind.startswith(_POINTER):
            address = derived(call.result, f"address{index}")
            conversions.append(
                Operation("tt.ptr_to_int", address, (operands[index],), (kind,), ("i64",), location=call.location)
            )
            operands[index], types[index] = address, "i64"
    return (*conversions, replace(call, operands=tuple(operands), operand_types=tuple(types)))


def _refusals(module: Operation) -> Iterator[BridgeRefusal]:
    definitions = {op.result: op for op in walk(module) if op.result}
    aliases: dict[str, str] = {}
    for op in walk(module):
        yield from _marker_refusals(op)
        if op.name in ("scf.if", "arith.select") and any(_POINTER in kind for kind in op.result_types):
            chosen = "if" if op.name == "scf.if" else "select"
            yield PointerChosenByCondition(f"a pointer comes out of an {chosen}", op.line)
        if op.name == "scf.while" and any(_POINTER in kind for kind in op.operand_types):
            yield PointerRebound("a while loop carries a pointer", op.line)
        if op.name == "scf.for":
            yield from _loop_refusals(op, definitions, aliases)


def _marker_refusals(op: Operation) -> Iterator[BridgeRefusal]:
    found = marker_of(op)
    if found is None:
        return
    if found.symbol not in LANGUAGE and signature_of(found.symbol) is None:
        yield UnknownMarker(f"{found.symbol} is no public function of the shared-memory library", op.line)
    if any(kind.startswith("tensor<") and _POINTER in kind for kind in (*op.operand_types, *op.result_types)):
        yield TokenOnPointerTensor(f"{found.symbol} on a tensor of pointers", op.line)


def _loop_refusals(
    loop: Operation, definitions: dict[str, Operation], aliases: dict[str, str]
) -> Iterator[BridgeRefusal]:
    """Pointers that a loop carries must stay in the memory that the loop starts with."""
    (block,) = loop.regions[0].blocks
    carried = block.arguments[1:]
    starts, ends = loop.operands[3:], block.operations[-1].operands
    for (name, kind), start in zip(carried, starts, strict=True):
        if _POINTER in kind:
            aliases[name] = _origin(start, definitions, aliases)
    for (name, kind), end in zip(carried, ends, strict=True):
        if _POINTER in kind and _origin(end, definitions, aliases) != aliases[name]:
            last = definitions.get(end, loop)
            yield PointerRebound("the pointer that a loop carries is rebound to another one", last.line)


def _origin(value: str, definitions: dict[str, Operation], aliases: dict[str, str]) -> str:
    """The pointer whose memory a pointer lies in: through additions and consumed tokens."""
    while value in definitions or value in aliases:
        if value in aliases:
            return aliases[value]
        op = definitions[value]
        found = marker_of(op)
        consumes = found is not None and "consume_token" in found.symbol
        if op.name not in _ADDRESSING and not consumes:
            return value
        value = op.operands[0]
    return value
