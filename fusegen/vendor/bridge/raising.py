"""Second step: markers in the adapter's output become what the vendor's compiler knows.

Operations of the shared-memory library become `hivm.hir.custom` with the attributes that the vendor's public pass from
the distributed dialect gives them; hand-overs between core types become `hivm.hir.sync_block_*`. An address that was
passed as a number is again the memory that it was taken from, and the arguments that stood for returned pointers are
the results of their operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from fusegen.targets import Target
from fusegen.vendor.bridge.lowering import marker_of
from fusegen.vendor.bridge.refusals import AddressLost, UnknownMarker, UsedBeforeDefinition
from fusegen.vendor.markers import ARGUMENT, BLOCK_SET, BLOCK_WAIT, SCOPE_BEGIN, SCOPE_END, SUB_BLOCK, Marker
from fusegen.vendor.mlir import (
    Operation,
    argument_attributes,
    derived,
    renamed,
    rewrite,
    used_values,
    walk,
    with_arguments,
    with_blocks,
)
from fusegen.vendor.signatures import POINTER, signature_fault, signature_of

CUSTOM: Final = "hivm.hir.custom"
BOTH_CORES: Final = "CUBE_AND_VECTOR"
CORE_OF: Final = {"aclshmem_barrier_all": BOTH_CORES, "aclshmemx_barrier_all_vec": "VECTOR"}
"""Core types of functions that have one whatever the kernel."""
GRID_ARGUMENTS: Final = 6
"""Arguments that the adapter appends: numbers of programs and the own one, three of each."""
_ADDRESSES: Final = ("memref.extract_aligned_pointer_as_index", "arith.index_cast", "memref.reinterpret_cast")
_DONE_BY: Final = {"CUBE": "PIPE_FIX", "VECTOR": "PIPE_MTE3"}
"""The pipe that stores the results of a core type."""


def raise_markers(module: Operation, stand_ins: int, target: Target) -> Operation:
    """The module with custom operations. Raises BridgeRefusal, or UnknownMarker for a call that the table refutes."""
    (kernel,) = (op for op in module.body if op.name == "func.func")
    entry = kernel.regions[0].blocks[0]
    first = len(entry.arguments) - GRID_ARGUMENTS - stand_ins
    kept = [*range(first), *range(first + stand_ins, len(entry.arguments))]
    attributes = argument_attributes(kernel)
    returned = {entry.arguments[first + number][0]: f"%returned{number}" for number in range(stand_ins)}
    is_mix = kernel.attributes["mix_mode"] != '"aiv"'
    raising = _Raising(is_mix, dict(entry.arguments), tuple(dict(entry.arguments)[name] for name in returned))
    kernel = renamed(rewrite(kernel, raising), returned)
    kernel = with_arguments(
        kernel, [entry.arguments[index] for index in kept], [attributes[index] for index in kept] if attributes else ()
    )
    _check_order(kernel, frozenset(returned.values()))
    kernel = _without_dead_addresses(kernel)
    kernel = replace(kernel, attributes={key: value for key, value in kernel.attributes.items() if key != "mix_mode"})
    module = rewrite(module, lambda op: (kernel if op.name == "func.func" else op,))
    # Without the second attribute the compiler would share vector work out among the two AIVs by itself.
    device = {"hacc.target": f'#hacc.target<"{target.name}">', "hivm.disable_auto_tile_and_bind_subblock": ""}
    return replace(module, attributes={**module.attributes, **device})


@dataclass(slots=True)
class _Raising:
    """Rewrites one operation at a time, in the order of the text; remembers where addresses were taken from."""

    is_mix: bool
    arguments: dict[str, str]
    returned_types: tuple[str, ...]
    indices: dict[str, tuple[str, str]] = field(default_factory=dict)
    addresses: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __call__(self, op: Operation) -> Iterable[Operation]:
        if op.name == "memref.extract_aligned_pointer_as_index":
            self.indices[op.result] = op.operands[0], op.operand_types[0]
        elif op.name == "arith.index_cast" and op.operands[0] in self.indices:
            self.addresses[op.result] = self.indices[op.operands[0]]
        found = marker_of(op)
        if found is None or found.symbol in (SCOPE_BEGIN, SCOPE_END):
            return (op,)
        if found.symbol == SUB_BLOCK:
            return _sub_block(op)
        if found.symbol in (BLOCK_SET, BLOCK_WAIT):
            return (_block_sync(op, found),)
        return (self._custom(op, found),)

    def _custom(self, op: Operation, found: Marker) -> Operation:
        row = signature_of(found.symbol)
        if row is None:
            raise UnknownMarker(f"{found.symbol} is no public function of the shared-memory library", op.line)
        _, signature = row
        operands, types = [], []
        # Functions without operands carry a zero, see `stand_ins`.
        for operand, kind in zip(op.operands, op.operand_types, strict=True) if signature.operands else ():
            memory, memory_type = self.addresses.get(operand, (operand, kind))
            operands.append(memory)
            types.append(memory_type)
        lost = [
            index
            for index, (wanted, kind) in enumerate(zip(signature.operands, types, strict=False))
            if wanted == POINTER and not kind.startswith("memref<")
        ]
        if lost:
            raise AddressLost(f"operand {lost[0]} of {found.symbol} is no address in an argument", op.line)
        result, result_types = op.result, op.result_types
        if signature.result == POINTER:
            number = int(found.attributes[ARGUMENT])
            result, result_types = f"%returned{number}", (self.returned_types[number],)
        elif not signature.result:
            result, result_types = "", ()
        fault = signature_fault(found.symbol, types, result_types)
        if fault:
            raise UnknownMarker(fault, op.line)
        return Operation(
            CUSTOM,
            result,
            tuple(operands),
            tuple(types),
            result_types,
            properties=_properties(found, len(operands)),
            attributes=self._attributes(found, operands, types, returns=bool(result_types)),
            location=op.location,
        )

    def _attributes(self, found: Marker, operands: list[str], types: list[str], *, returns: bool) -> dict[str, str]:
        memory = [
            str(i) for i, name in enumerate(operands) if name in self.arguments and types[i].startswith("memref<")
        ]
        core = CORE_OF.get(found.symbol, BOTH_CORES if self.is_mix else "VECTOR")
        attributes = {key: f"{value} : i32" for key, value in found.attributes.items() if key != ARGUMENT}
        if not returns and not found.symbol.endswith("_p"):
            attributes |= {"libname": '"libshmem_device"', "libpath": '""', "pure": "false"}
        return attributes | {
            "gm_addr_args_indices": f"array<i32{': ' if memory else ''}{', '.join(memory)}>",
            "hivm.is_distributed": "",
            "hivm.pipe": "#hivm.pipe<PIPE_S>",
            "hivm.tcore_type": f"#hivm.tcore_type<{core}>",
            "hivm.vf_mode": "#hivm.vf_mode<SIMD>",
            "symbol": f'"{found.symbol}"',
        }


def _properties(found: Marker, operands: int) -> dict[str, str]:
    properties = {"name": f'"dist.{found.symbol}"', "operandSegmentSizes": f"array<i32: {operands}, 0, 0>"}
    return properties | ({"no_side_effect": ""} if "consume_token" in found.symbol else {})


def _sub_block(op: Operation) -> tuple[Operation, ...]:
    """Number of the AIV in its AI core, as the 32-bit integer that the kernel computes with."""
    wide = derived(op.result, "wide")
    return (
        Operation("hivm.hir.get_sub_block_idx", wide, result_types=("i64",), location=op.location),
        Operation("arith.trunci", op.result, (wide,), ("i64",), ("i32",), location=op.location),
    )


def _block_sync(op: Operation, found: Marker) -> Operation:
    """The sender's last store comes before; the receiver's scalar unit, which signals, goes on after."""
    is_set = found.symbol == BLOCK_SET
    properties = {
        "pipe": "#hivm.pipe<PIPE_S>",
        "static_flag_id": f"{found.attributes['event']} : i64",
        "tcore_type": f"#hivm.tcore_type<{found.attributes['sender' if is_set else 'receiver']}>",
        "tpipe": f"#hivm.pipe<{_DONE_BY[found.attributes['sender']]}>",
    }
    if is_set:
        properties["operandSegmentSizes"] = "array<i32: 0, 0>"
    return Operation(f"hivm.hir.{found.symbol}", properties=properties, location=op.location)


def _check_order(kernel: Operation, returned: frozenset[str]) -> None:
    """Raises UsedBeforeDefinition for an address that the adapter has moved in front of its pointer."""

    def check(op: Operation, defined: frozenset[str]) -> None:
        for operand in op.operands:
            if operand in returned and operand not in defined:
                raise UsedBeforeDefinition("an address is computed before the pointer is returned", op.line)
        for region in op.regions:
            for block in region.blocks:
                known = defined
                for inner in block.operations:
                    check(inner, known)
                    known |= {inner.result}

    check(kernel, frozenset())


def _without_dead_addresses(kernel: Operation) -> Operation:
    """The kernel without the address arithmetic that only markers used."""
    while True:
        used = used_values(kernel)
        if all(op.result in used for op in _address_operations(kernel)):
            return kernel
        kernel = _swept(kernel, used)


def _address_operations(kernel: Operation) -> Iterator[Operation]:
    return (op for op in walk(kernel) if op.name in _ADDRESSES)


def _swept(op: Operation, used: set[str]) -> Operation:
    return with_blocks(
        op,
        lambda block: replace(
            block,
            operations=tuple(
                _swept(inner, used)
                for inner in block.operations
                if inner.name not in _ADDRESSES or inner.result in used
            ),
        ),
    )
