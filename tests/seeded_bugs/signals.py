"""Waits, notifies, tokens and credits that are missing, misplaced, or about something else (guide 1.3 and 2.1)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.seeded_bugs.accesses import (
    consumers,
    is_credit,
    notifies,
    reads,
    slot_text,
    wait_value,
    waits,
    waits_for_data,
    writes,
)
from tests.seeded_bugs.module import Module, Site

CORES = ("role_core", "vector_core", "core")


def credit_return_removed(module: Module) -> Iterator[Site]:
    for call in notifies(module, credit=True):
        yield Site(module.label(call), module.edited(module.without(module.statement(call))))


def notify_removed(module: Module) -> Iterator[Site]:
    for call in notifies(module, credit=False):
        yield Site(module.label(call), module.edited(module.without(module.statement(call))))


def two_resetters(module: Module) -> Iterator[Site]:
    """The cores that share work out go on one too few each time, or neighbours share a slot that each one has."""
    for call in notifies(module, credit=True):
        loops = [loop for loop in module.outward(call, ast.For) if module.source(loop.iter).startswith("range(role_co")]
        if loops:
            assert isinstance(loops[0].iter, ast.Call)
            step = loops[0].iter.args[2]
            yield Site(module.label(loops[0].iter), module.edited((step, f"{module.source(step)} - 1")))
        else:
            assert isinstance(call.args[0], ast.BinOp)
            slot = module.definition(module.source(call.args[0].right), call)
            assert slot is not None
            core = next(name for name in module.found(ast.Name, slot) if name.id in CORES)
            yield Site(module.label(slot), module.edited((core, f"{core.id} // 2 * 2")))


def reset_before_read(module: Module) -> Iterator[Site]:
    for call in notifies(module, credit=True):
        for read, _ in reversed(reads(module)):
            met = module.meeting(read, call)
            if met and module.span(read) < module.span(call):
                reader, reset = met
                moved = module.needed_by(reset, after=reader)
                yield Site(module.label(call), module.edited(*module.moved(moved, before=reader)))
                break


def fence_removed(module: Module) -> Iterator[Site]:
    for call in module.calls("libshmem_device.fence"):
        statement = module.statement(call)
        block = module.block(statement)
        after = block[block.index(statement) + 1 :]
        yield Site(f"before {module.label(after[0])}", module.edited(module.without(statement)))


def fence_after_notify(module: Module) -> Iterator[Site]:
    for call in module.calls("libshmem_device.fence"):
        fence = module.statement(call)
        block = module.block(fence)
        after = block[block.index(fence) + 1 :]
        notifying = next(each for each in after if module.calls("dl.notify", each))
        moved = [each for each in after if each is not fence and after.index(each) <= after.index(notifying)]
        yield Site(f"before {module.label(after[0])}", module.edited(*module.moved(moved, before=fence)))


def notify_before_store(module: Module) -> Iterator[Site]:
    """The notify is moved before the store, or the put, that it announces."""
    for call in notifies(module, credit=False):
        for write, _ in reversed(writes(module)):
            met = module.meeting(write, call)
            if met and module.span(write) < module.span(call) and not isinstance(met[0], ast.With):
                writer, notify = met
                moved = module.needed_by(notify, after=writer)
                yield Site(module.label(call), module.edited(*module.moved(moved, before=writer)))
                break


def notify_loop_too_short(module: Module) -> Iterator[Site]:
    """A loop that only notifies leaves its last turn out."""
    for loop in module.found(ast.For):
        is_storing = any(module.calls(name, loop) for name in ("tl.store", "libshmem_device.putmem"))
        if module.calls("dl.notify", loop) and not is_storing:
            assert isinstance(loop.iter, ast.Call)
            end = loop.iter.args[min(1, len(loop.iter.args) - 1)]
            yield Site(module.label(loop.iter), module.edited((end, f"{module.source(end)} - 1")))


def notify_to_wrong_rank(module: Module) -> Iterator[Site]:
    for call in module.calls("dl.notify"):
        rank = call.args[1]
        other = "(rank + 1) % ranks" if module.source(rank) == "rank" else "rank"
        yield Site(module.label(call), module.edited((rank, other)))


def token_not_consumed(module: Module) -> Iterator[Site]:
    for call in module.calls("dl.consume_token"):
        yield Site(module.label(call), module.edited((call, module.source(call.args[0]))))


def token_not_carried(module: Module) -> Iterator[Site]:
    """The accesses keep the pointer that consume_token was given."""
    for call in module.calls("dl.consume_token"):
        statement = module.statement(call)
        assert isinstance(statement, ast.Assign)
        name = module.source(statement.targets[0])
        uses = [
            each
            for each in module.found(ast.Name)
            if each.id == name and each.ctx.__class__ is ast.Load and module.definition(name, each) is statement
        ]
        yield Site(module.label(call), module.edited(*((use, module.source(call.args[0])) for use in uses)))


def wait_removed(module: Module, *, data: bool) -> Iterator[Site]:
    for wait in waits(module):
        if waits_for_data(wait) == data:
            edits = [(call, module.source(call.args[0])) for call in consumers(module, wait)]
            yield Site(module.label(wait), module.edited(module.without(module.statement(wait)), *edits))


def data_wait_removed(module: Module) -> Iterator[Site]:
    return wait_removed(module, data=True)


def credit_wait_removed(module: Module) -> Iterator[Site]:
    return wait_removed(module, data=False)


def wait_on_wrong_slot(module: Module) -> Iterator[Site]:
    for wait in waits(module):
        pointer = wait.args[0]
        yield Site(module.label(wait), module.edited((pointer, f"{module.source(pointer)} + SLOT_WORDS")))


def wait_on_wrong_buffer(module: Module) -> Iterator[Site]:
    yield from _waits_with(module, {"ring": "((ring + 1) % BUFFER_NUM)"})


def wait_on_wrong_rank(module: Module) -> Iterator[Site]:
    """The wait is for what another rank sends, or on the slot of this rank in place of the remote one."""
    yield from _waits_with(module, {name: f"(({name} + 1) % ranks)" for name in ("source", "target")})
    for wait in waits(module):
        assert isinstance(wait.args[0], ast.BinOp)
        pointer = wait.args[0].left
        if not module.source(pointer).endswith("_ptr"):
            yield Site(module.label(wait), module.edited((pointer, module.argument(pointer))))


def _waits_with(module: Module, names: dict[str, str]) -> Iterator[Site]:
    """Each wait whose slot has one of the names, with that name replaced."""
    for wait in waits(module):
        pointer, slot = slot_text(module, wait.args[0])
        other = slot
        for name, new in names.items():
            other = re.sub(rf"\b{name}\b", new, other)
        if other != slot:
            yield Site(module.label(wait), module.edited((wait.args[0], f"{pointer} + {other}")))


def wait_value_of_use_before(module: Module) -> Iterator[Site]:
    for wait in waits(module):
        value = wait_value(wait)
        if waits_for_data(wait):
            assert isinstance(value, (ast.BinOp, ast.Constant))
            before = module.source(value.left) if isinstance(value, ast.BinOp) else "0"
            yield Site(module.label(wait), module.edited((value, before)))


def values_of_uses_alike(module: Module) -> Iterator[Site]:
    """Plain 0 and 1 in slots whose values have to tell the uses of a launch apart."""
    values = [*map(wait_value, waits(module)), *(call.args[2] for call in module.calls("dl.notify"))]
    counted = [value for value in values if re.search(r"\buse\b", module.source(value))]
    if counted:
        edits = [(each, str(int(not is_credit(each) and isinstance(_top(each), ast.Add)))) for each in counted]
        yield Site("all waits and notifies", module.edited(*edits))


def _top(value: ast.expr) -> ast.operator | None:
    return value.op if isinstance(value, ast.BinOp) else None


def credit_parity_forgotten(module: Module) -> Iterator[Site]:
    """Credits of even and of odd uses go to one slot."""
    products = [each for each in module.found(ast.BinOp) if isinstance(each.op, ast.Mult)]
    parities = [each for each in products if module.source(each.right) == "credit_parity"]
    if parities:
        yield Site("all credits", module.edited(*((each, "0") for each in parities)))


def slot_of_one_word(module: Module) -> Iterator[Site]:
    for assigned in module.found(ast.Assign, module.tree):
        if module.source(assigned.targets[0]) == "SLOT_WORDS":
            yield Site(module.label(assigned), module.edited((assigned.value, "1")))
