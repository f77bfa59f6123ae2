"""What the cores of an AI core owe each other (guide 2.1, docs/platform.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.seeded_bugs.accesses import writes
from tests.seeded_bugs.module import Module, Site

SET, WAIT = "al.sync_block_set", "al.sync_block_wait"


def scope_removed(module: Module) -> Iterator[Site]:
    for scope in module.found(ast.With):
        call = scope.items[0].context_expr
        start, _ = module.span(scope)
        _, end = module.span(call)
        inside = sorted({name for name in ("dl.wait", "dl.notify", "putmem") if name in module.source(scope)})
        label = f"{module.label(call)} around {', '.join(inside) or 'loads and stores'}"
        yield Site(label, module.edited(((start, end), "if ranks > 0")))


def flag_not_awaited(module: Module) -> Iterator[Site]:
    for call in module.calls(WAIT):
        yield Site(module.label(call), module.edited(module.without(module.statement(call))))


def flag_not_set(module: Module) -> Iterator[Site]:
    for call in module.calls(SET):
        yield Site(module.label(call), module.edited(module.without(module.statement(call))))


def flag_set_before_store(module: Module) -> Iterator[Site]:
    for call in module.calls(SET):
        for write, _ in writes(module):
            met = module.meeting(write, call)
            if met and met[1] is module.statement(call):
                yield Site(module.label(call), module.edited(*module.moved([met[1]], before=met[0])))


def flags_of_other_event(module: Module) -> Iterator[Site]:
    for name in (SET, WAIT):
        for call in module.calls(name):
            yield Site(module.label(call), module.edited((call.args[2], f"{module.source(call.args[2])} + 1")))


def flags_turned(module: Module) -> Iterator[Site]:
    """Sender and receiver of a flag are mixed up."""
    for name in (SET, WAIT):
        for call in module.calls(name):
            sender, receiver = call.args[:2]
            edits = (sender, module.source(receiver)), (receiver, module.source(sender))
            yield Site(module.label(call), module.edited(*edits))


def event_used_twice(module: Module) -> Iterator[Site]:
    """The event of the tiles also says that a round begins: who waits for a tile takes the other's flag."""
    for call in module.calls(SET):
        statement = module.statement(call)
        loop = next(module.outward(call, ast.For))
        outer = module.block(loop)
        first = outer[0]
        edit = (module.span(first)[0], module.span(first)[0]), f"{module.source(statement)}\n{' ' * first.col_offset}"
        yield Site(module.label(call), module.edited(edit))


def both_vector_cores_signal(module: Module) -> Iterator[Site]:
    for test in module.found(ast.Compare):
        if module.source(test) == "sub_vec_id() == 0":
            yield Site(module.label(test), module.edited((test, "sub_vec_id() >= 0")))


def vector_cores_alike(module: Module) -> Iterator[Site]:
    """Both vector cores of an AI core take the same share."""
    for assigned in module.found(ast.Assign):
        if module.source(assigned.targets[0]) == "vector_core":
            yield Site(module.label(assigned), module.edited((assigned.value, "core")))
