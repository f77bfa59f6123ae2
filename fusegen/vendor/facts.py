"""What final HIVM says about a kernel: for each core function its memory, its pipes, its calls.

Sizes are bytes. The grid is not in it, nor are times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from fusegen.targets import Target
from fusegen.vendor.mlir import Operation, walk
from fusegen.vendor.signatures import base_symbol, is_library_call, signature_fault

ELEMENT_BITS: Final = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
MEMORIES: Final = {"ub": "UB", "cbuf": "L1", "cc": "L0C"}
"""Address spaces by the names that the compiler gives them, and as the vendor's documents call them."""
_LOCAL: Final = re.compile(r"memref<([^,>]*).*#hivm\.address_space<(ub|cbuf|cc)>")
_CORE: Final = re.compile(r"#hivm\.func_core_type<(\w+)>")
_PIPE: Final = re.compile(r"#hivm\.pipe<PIPE_(\w+)>")
_NUMBER: Final = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of the shared-memory library: its symbol, and what is wrong with it, or nothing."""

    symbol: str
    fault: str


@dataclass(frozen=True, slots=True)
class BlockSync:
    """A flag between core types of an AI core: set or wait, the pipes (who ends, who goes on), its number."""

    action: str
    pipes: str
    flag: str


@dataclass(frozen=True, slots=True)
class CoreFacts:
    """One core function.

    core            AIC or AIV
    peak            highest byte in use of each memory, by address space
    buffers         local buffers, and `multi_buffered` how many of them the compiler alternates
    pipe_flags      flags by pair of pipes: who sets, who waits
    events          different event ids of these flags
    block_syncs     flags between core types, in the order of the text
    calls           of the shared-memory library, in the order of the text
    """

    name: str
    core: str
    peak: Mapping[str, int]
    buffers: int
    multi_buffered: int
    pipe_flags: Mapping[str, int]
    events: int
    block_syncs: tuple[BlockSync, ...]
    calls: tuple[LibraryCall, ...]

    def share(self, memory: str, target: Target) -> float:
        """How much of a memory is in use at the peak."""
        return self.peak.get(memory, 0) / memory_bytes(memory, target)

    def to_json(self, target: Target) -> dict[str, Any]:
        """The facts as plain data."""
        return {
            "function": self.name,
            "core": self.core,
            "memory": {
                MEMORIES[memory]: {
                    "peak_bytes": peak,
                    "of_bytes": memory_bytes(memory, target),
                    "share": round(self.share(memory, target), 3),
                }
                for memory, peak in self.peak.items()
            },
            "buffers": self.buffers,
            "multi_buffered": self.multi_buffered,
            "pipe_flags": dict(self.pipe_flags),
            "events": self.events,
            "block_syncs": [f"{sync.action} {sync.pipes} flag {sync.flag}" for sync in self.block_syncs],
            "calls": [call.symbol for call in self.calls],
        }


def memory_bytes(memory: str, target: Target) -> int:
    """Size of a memory by its address space."""
    return {"ub": target.ub_bytes, "cbuf": target.l1_bytes, "cc": target.l0c_bytes}[memory]


def core_facts(module: Operation) -> tuple[CoreFacts, ...]:
    """The facts of every core function of final HIVM, the cube's first."""
    found = [_facts(function) for function in module.body if _is_core_function(function)]
    return tuple(sorted(found, key=lambda each: each.core))


def _is_core_function(function: Operation) -> bool:
    """Not the host's functions, declarations, or pieces that vector code is moved to."""
    return "hacc.entry" in function.attributes and "DEVICE" in function.attributes.get("hacc.function_kind", "")


def _facts(function: Operation) -> CoreFacts:
    operations = list(walk(function))
    constants = {op.result: int(match[0]) for op in operations if (match := _constant(op)) is not None}
    peak: dict[str, int] = {}
    buffers: set[tuple[str, int, str]] = set()
    for op in operations:
        for memory, start, size, kind in _places(op, constants):
            peak[memory] = max(peak.get(memory, 0), start + size)
            buffers.add((memory, start, kind))
    core = _CORE.search(function.attributes.get("hivm.func_core_type", ""))
    flags = [op for op in operations if op.name == "hivm.hir.set_flag"]
    return CoreFacts(
        name=function.text("sym_name"),
        core=core[1] if core else "unknown",
        peak=dict(sorted(peak.items())),
        buffers=len(buffers),
        multi_buffered=sum(_alternates(op) for op in operations),
        pipe_flags=dict(sorted(Counter(_pipes(op, "set_pipe", "wait_pipe") for op in flags).items())),
        events=len({op.properties["static_event_id"] for op in flags if "static_event_id" in op.properties}),
        block_syncs=tuple(map(_block_sync, filter(_is_block_sync, operations))),
        calls=tuple(map(_library_call, filter(_calls_library, operations))),
    )


def _constant(op: Operation) -> re.Match[str] | None:
    is_constant = op.name in ("arith.constant", "llvm.mlir.constant")
    return _NUMBER.match(op.properties.get("value", "")) if is_constant else None


def _places(op: Operation, constants: Mapping[str, int]) -> Iterator[tuple[str, int, int, str]]:
    """Memory, first byte, size and type of each place that a local buffer has."""
    if op.name != "hivm.hir.pointer_cast":
        return
    match = _LOCAL.match(op.result_types[0])
    if match is None:
        return
    *extents, element = match[1].split("x")
    size = prod(map(int, extents)) * ELEMENT_BITS[element] // 8
    for operand in op.operands:
        yield match[2], constants[operand], size, match[1]


def _alternates(op: Operation) -> bool:
    """True for the choice between the copies of a multi-buffered buffer, which the 950 compiler has as descriptors."""
    if op.name == "llvm.select":
        return op.result_types[0].startswith("!llvm.struct<(ptr<")
    return op.name == "arith.select" and _LOCAL.match(op.result_types[0]) is not None


def _pipes(op: Operation, first: str, second: str) -> str:
    names = [_PIPE.search(op.properties.get(key, "")) for key in (first, second)]
    return ">".join(name[1] if name else "?" for name in names)


def _is_block_sync(op: Operation) -> bool:
    return op.name in ("hivm.hir.sync_block_set", "hivm.hir.sync_block_wait")


def _block_sync(op: Operation) -> BlockSync:
    flag = op.properties.get("static_flag_id", "chosen at run time").partition(" :")[0]
    return BlockSync(op.name.rpartition("_")[2], _pipes(op, "tpipe", "pipe"), flag)


def _calls_library(op: Operation) -> bool:
    return op.name == "func.call" and is_library_call(op.properties["callee"])


def _library_call(op: Operation) -> LibraryCall:
    symbol = base_symbol(op.properties["callee"])
    return LibraryCall(symbol, signature_fault(symbol, op.operand_types, op.result_types))
