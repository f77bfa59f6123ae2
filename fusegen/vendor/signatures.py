"""The public functions of the vendor's shared-memory library that kernels call: names, operands and results.

The compiler takes any symbol with any operands; only the device's linker or its memory would notice. Spelling, number
and types of operands are checked against this table instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ELEMENTS: Final = {
    "half": "f16",
    "bfloat16": "bf16",
    "float": "f32",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}
"""Element types by their names in symbols."""
SLOTS: Final = ("int32", "int64")
"""Element types of signal slots."""
POINTER: Final = "pointer"
"""An operand or result that is memory of the symbol's element type."""
ELEMENT: Final = "element"
"""An operand of the symbol's element type."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Operands and result of a function; `elements` are the types that `{type}` in its name may be."""

    operands: tuple[str, ...]
    result: str = ""
    elements: tuple[str, ...] = ()


SIGNATURES: Final = {
    "aclshmem_wait_{type}": Signature((POINTER, "i64", ELEMENT), "i32", SLOTS),
    "aclshmem_consume_token_{type}_ptr_1d": Signature((POINTER, "i32"), POINTER, tuple(ELEMENTS)),
    "aclshmem_ptr_{type}": Signature((POINTER, "i32"), POINTER, tuple(ELEMENTS)),
    "aclshmem_{type}_p": Signature((POINTER, ELEMENT, "i32"), "", ("int64",)),
    "aclshmem_{type}_putmem": Signature((POINTER, POINTER, "i32", "i32"), "", tuple(ELEMENTS)),
    "aclshmem_fence": Signature(()),
    "aclshmem_barrier_all": Signature(()),
    "aclshmemx_barrier_all_vec": Signature(()),
    "aclshmem_my_pe": Signature((), "i32"),
    "aclshmem_n_pes": Signature((), "i32"),
}
_PATTERNS: Final = {name: re.compile(name.replace("{type}", r"(\w+?)")) for name in SIGNATURES}


def base_symbol(callee: str) -> str:
    """The library's name for a callee: without the prefix of the C interface and the core type that is appended."""
    return callee.strip('@"').removeprefix("_mlir_ciface_").removesuffix(".cube").removesuffix(".vector")


def is_library_call(callee: str) -> bool:
    """True for functions of the shared-memory library, misspelt ones too."""
    return base_symbol(callee).startswith("aclshmem")


def signature_of(symbol: str) -> tuple[str, Signature] | None:
    """The table's name for a symbol and its row; None where there is none."""
    for name, pattern in _PATTERNS.items():
        match = pattern.fullmatch(symbol)
        if match is not None and (not match.groups() or match[1] in SIGNATURES[name].elements):
            return name, SIGNATURES[name]
    return None


def signature_fault(symbol: str, operands: Sequence[str], results: Sequence[str]) -> str:
    """What is wrong with a call of `symbol` with operands and results of these MLIR types; nothing if it is right.

    An address that is returned as i64, as the 950 compiler needs it, counts as a pointer.
    """
    found = signature_of(symbol)
    if found is None:
        return f"{symbol}: expected a public function of the shared-memory library, got an unknown name"
    name, signature = found
    match = _PATTERNS[name].fullmatch(symbol)
    element = ELEMENTS[match[1]] if match is not None and match.groups() else ""
    expected = tuple(_spelt(operand, element) for operand in signature.operands)
    got = tuple(map(_kind, operands))
    if got != expected:
        return f"{symbol}: expected operands ({', '.join(expected)}), got ({', '.join(got)})"
    expected = (_spelt(signature.result, element),) if signature.result else ()
    got = tuple(map(_kind, results))
    if got != expected and not (signature.result == POINTER and got == ("i64",)):
        return f"{symbol}: expected the result ({', '.join(expected)}), got ({', '.join(got)})"
    return ""


def _spelt(operand: str, element: str) -> str:
    if operand == POINTER:
        return f"pointer to {element}"
    return element if operand == ELEMENT else operand


def _kind(mlir_type: str) -> str:
    """`memref<?xi64, strided<...>>` is a pointer to i64; other types are what they are."""
    match = re.match(r"memref<(?:[?\d]+x)*(\w+)", mlir_type)
    return f"pointer to {match[1]}" if match else mlir_type
