"""Remote addresses and ranks, and the rules of UDMA (guide 1.5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.seeded_bugs.module import Module, Site

PUTMEM = "libshmem_device.putmem"
DEVICE_LANGUAGE = "import triton_dist.language as dl\n"
RANKS = ("target", "source", "owner")
"""Names of other ranks in kernels."""


def put_to_mapped_address(module: Module) -> Iterator[Site]:
    for put in module.calls(PUTMEM):
        destination, rank = put.args[0], module.source(put.args[3])
        text = module.edited((destination, f"dl.symm_at({module.source(destination)}, {rank})"))
        if DEVICE_LANGUAGE not in text:
            text = text.replace("import triton.language as tl\n", f"import triton.language as tl\n{DEVICE_LANGUAGE}")
        yield Site(module.label(destination), text)


def put_from_two_cores(module: Module) -> Iterator[Site]:
    """Every sender sends to every rank."""
    for put in module.calls(PUTMEM):
        loop = list(module.outward(put, ast.For))[-1]
        assert isinstance(loop.iter, ast.Call)
        yield Site(module.label(loop.iter), module.edited((loop.iter, f"range({module.source(loop.iter.args[1])})")))


def put_to_own_rank(module: Module) -> Iterator[Site]:
    for put in module.calls(PUTMEM):
        target = module.definition(module.source(put.args[3]), put)
        assert target is not None
        text = module.source(target.value).replace("rank + 1 + ", "rank + ")
        yield Site(module.label(target), module.edited((target.value, text)))


def put_to_other_rank(module: Module) -> Iterator[Site]:
    """The signal goes to the rank that should have got the block."""
    for put in module.calls(PUTMEM):
        pe = put.args[3]
        yield Site(module.label(put), module.edited((pe, f"({module.source(pe)} + 1) % ranks")))


def put_not_awaited(module: Module) -> Iterator[Site]:
    """The form that returns at once, without a quiet."""
    for put in module.calls(PUTMEM):
        yield Site(module.label(put.args[0]), module.edited((put.func, f"{PUTMEM}_nbi")))


def put_in_elements(module: Module) -> Iterator[Site]:
    """The size of a block in elements, where bytes are expected."""
    for assigned in module.found(ast.Assign):
        text = module.source(assigned.value)
        if text.endswith(" * ELEMENT_BYTES"):
            yield Site(module.label(assigned), module.edited((assigned.value, text.removesuffix(" * ELEMENT_BYTES"))))


def put_beyond_tail(module: Module) -> Iterator[Site]:
    """The last block is sent as if it were whole."""
    for assigned in module.found(ast.Assign):
        if module.source(assigned.targets[0]) == "block_bytes":
            for least in module.calls("tl.minimum", assigned):
                yield Site(module.label(assigned), module.edited((least, module.source(least.args[0]))))


def local_for_remote(module: Module) -> Iterator[Site]:
    """symm_at is left out: every rank works on its own memory."""
    for call in module.calls("dl.symm_at"):
        yield Site(module.label(call), module.edited((call, module.source(call.args[0]))))


def private_tensor_mapped(module: Module) -> Iterator[Site]:
    """symm_at of a tensor that is not in symmetric memory."""
    for call in module.calls("dl.symm_at"):
        yield Site(module.label(call), module.edited((call.args[0], "a_ptr")))


def notify_of_mapped_address(module: Module) -> Iterator[Site]:
    """notify translates its address itself; here it is given one that is already translated."""
    for call in module.calls("dl.notify"):
        rank = module.source(call.args[1])
        if rank != "rank":
            pointer = call.args[0]
            edit = pointer, f"dl.symm_at({module.source(pointer)}, {rank})"
            yield Site(module.label(call), module.edited(edit))


def rank_not_modulo(module: Module) -> Iterator[Site]:
    for assigned in module.found(ast.Assign):
        value = assigned.value
        if (
            module.source(assigned.targets[0]) in RANKS
            and isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Mod)
        ):
            yield Site(module.label(assigned), module.edited((value, module.source(value.left))))


def ranks_twice(module: Module) -> Iterator[Site]:
    """An order of ranks that is no bijection: two neighbours in the order of work have one rank."""
    for assigned in module.found(ast.Assign):
        text = module.source(assigned.value)
        if module.source(assigned.targets[0]) in RANKS:
            twice = re.sub(r"\b(work|row|step)\b", r"(\1 // 2 * 2)", text)
            if twice != text:
                yield Site(module.label(assigned), module.edited((assigned.value, twice)))
