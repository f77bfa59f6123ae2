"""What kernels import besides triton, as functions that emit markers with typed operands and results.

They check what the language promises where the front end would not: pointers stay pointers, so that a wrong operand is
an error at its line.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar

from triton.language import core, semantic
from triton.language.core import builtin

from fusegen.vendor.markers import BLOCK_SET, BLOCK_WAIT, LIBRARY, SCOPE_BEGIN, SCOPE_END, SUB_BLOCK, Marker

Function = TypeVar("Function", bound=Callable[..., Any])

SCOPES: Final = {"cta": 0, "gpu": 1, "sys": 2, "intra_node": 2, "inter_node": 3}
SEMANTICS: Final = {"relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}
SIGNAL_OPERATIONS: Final = {"set": 1}
"""`add` is missing: the public lowering of notify ignores it."""
ELEMENTS: Final = {"fp16": "half", "bf16": "bfloat16", "fp32": "float"}
"""Element types whose names in symbols differ from those of triton."""


def install() -> None:
    """Make the modules importable. Only for a process in which nobody else has stand-ins of these names."""
    functions: dict[str, dict[str, Callable[..., Any]]] = {
        "triton_dist": {},
        "triton_dist.language": {
            "wait": _wait,
            "symm_at": _symm_at,
            "consume_token": _consume_token,
            "notify": _notify,
            "rank": _nullary("aclshmem_my_pe"),
            "num_ranks": _nullary("aclshmem_n_pes"),
        },
        "triton_dist.language.extra": {},
        "triton_dist.language.extra.libshmem_device": {
            "putmem": _putmem,
            "fence": _nullary("aclshmem_fence"),
            "barrier_all": _nullary("aclshmem_barrier_all"),
            "barrier_all_vec": _nullary("aclshmemx_barrier_all_vec"),
            "my_pe": _nullary("aclshmem_my_pe"),
            "n_pes": _nullary("aclshmem_n_pes"),
        },
        "triton.language.extra.cann": {},
        "triton.language.extra.cann.extension": {
            "sub_vec_id": _nullary(SUB_BLOCK),
            "scope_begin": _scope_begin,
            "scope_end": _nullary(SCOPE_END),
            "sync_block_set": _block_sync(BLOCK_SET),
            "sync_block_wait": _block_sync(BLOCK_WAIT),
        },
    }
    for name, members in functions.items():
        module = sys.modules[name] = types.ModuleType(name)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)
        for member, function in members.items():
            # The front end calls functions of triton.language with its builder.
            function.__module__ = "triton.language.distributed"
            setattr(module, member, function)


def primitive(function: Function) -> Function:
    """A function that the front end calls with its builder."""
    wrapped: Function = builtin(function)
    return wrapped


@primitive
def _wait(pointer: Any, count: Any, scope: Any, semantics: Any, waitValue: Any = 1, _builder: Any = None) -> Any:
    element = _element(pointer, "dl.wait")
    value = _tensor(waitValue, _builder).to(pointer.type.element_ty, _builder=_builder)
    count = _tensor(count, _builder).to(core.int64, _builder=_builder)
    static = {"scope": _one_of(SCOPES, scope), "semantic": _one_of(SEMANTICS, semantics)}
    return _emit(f"aclshmem_wait_{element}", [pointer, count, value], core.int32, _builder, **static)


@primitive
def _symm_at(pointer: Any, rank: Any, _builder: Any = None) -> Any:
    element = _element(pointer, "dl.symm_at")
    return _emit(f"aclshmem_ptr_{element}", [pointer, rank], pointer.type, _builder)


@primitive
def _consume_token(value: Any, token: Any, _builder: Any = None) -> Any:
    element = _element(value, "dl.consume_token")
    return _emit(f"aclshmem_consume_token_{element}_ptr_1d", [value, token], value.type, _builder)


@primitive
def _notify(
    pointer: Any,
    rank: Any,
    signal: Any = 1,
    sig_op: Any = "set",
    comm_scope: Any = "inter_node",
    _builder: Any = None,
) -> Any:
    element = _element(pointer, "dl.notify")
    value = _tensor(signal, _builder).to(pointer.type.element_ty, _builder=_builder)
    static = {"commScope": _one_of(SCOPES, comm_scope), "sigOp": _one_of(SIGNAL_OPERATIONS, sig_op)}
    return _emit(f"aclshmem_{element}_p", [pointer, value, rank], core.int32, _builder, **static)


@primitive
def _putmem(target: Any, source: Any, size: Any, rank: Any, _builder: Any = None) -> Any:
    element = _element(target, "libshmem_device.putmem")
    return _emit(f"aclshmem_{element}_putmem", [target, source, size, rank], core.int32, _builder)


@primitive
def _scope_begin(core_mode: Any, _builder: Any = None) -> Any:
    modes = {"cube": "CUBE", "vector": "VECTOR"}
    return _emit(SCOPE_BEGIN, [0], core.int32, _builder, core=_one_of(modes, core_mode))


def _block_sync(symbol: str) -> Callable[..., Any]:
    @primitive
    def block_sync(sender: Any, receiver: Any, event: Any, _builder: Any = None) -> Any:
        modes = {"cube": "CUBE", "vector": "VECTOR"}
        static = {
            "sender": _one_of(modes, sender),
            "receiver": _one_of(modes, receiver),
            "event": core._constexpr_to_value(event),
        }
        return _emit(symbol, [0], core.int32, _builder, **static)

    return block_sync


def _nullary(symbol: str) -> Callable[..., Any]:
    @primitive
    def nullary(_builder: Any = None) -> Any:
        return _emit(symbol, [0], core.int32, _builder)

    return nullary


def _emit(symbol: str, operands: list[Any], result: Any, builder: Any, **static: Any) -> Any:
    """A marker; one without operands carries a zero, for a call without operands is not elementwise."""
    text = Marker(symbol, static).text
    handles = [_tensor(operand, builder).handle for operand in operands]
    call = builder.create_extern_elementwise(LIBRARY, "", text, handles, result.to_ir(builder), False)
    return core.tensor(call, result)


def _tensor(value: Any, builder: Any) -> Any:
    return value if isinstance(value, core.tensor) else semantic.to_tensor(value, builder)


def _element(pointer: Any, function: str) -> str:
    """Name of the element type of a scalar pointer in symbols."""
    if not isinstance(pointer, core.tensor) or not pointer.type.is_ptr():
        kind = pointer.type if isinstance(pointer, core.tensor) else type(pointer).__name__
        raise ValueError(f"{function}: expected a pointer to one element, got {kind}")
    name = pointer.type.element_ty.name
    return str(ELEMENTS.get(name, name))


def _one_of(values: dict[str, Any], word: Any) -> Any:
    word = core._constexpr_to_value(word)
    if word not in values:
        raise ValueError(f"expected one of {', '.join(values)}, got {word}")
    return values[word]
