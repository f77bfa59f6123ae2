"""What the calls of a kernel do: which announce, which return credits, which read and write what peers share."""

from __future__ import annotations

import ast

from tests.seeded_bugs.module import Module


def notifies(module: Module, *, credit: bool) -> list[ast.Call]:
    """Calls of notify that return credits, or those that announce data.

    A credit goes round: its value is 0, or is taken modulo something.
    """
    return [call for call in module.calls("dl.notify") if is_credit(call.args[2]) == credit]


def is_credit(value: ast.expr) -> bool:
    is_zero = isinstance(value, ast.Constant) and value.value == 0
    return is_zero or any(isinstance(node, ast.Mod) for node in ast.walk(value))


def waits(module: Module) -> list[ast.Call]:
    return module.calls("dl.wait")


def wait_value(wait: ast.Call) -> ast.expr:
    """What a wait waits for."""
    return next(each.value for each in wait.keywords if each.arg == "waitValue")


def waits_for_data(wait: ast.Call) -> bool:
    """True for a wait for a tile or block, False for one for a credit."""
    value = wait_value(wait)
    if isinstance(value, ast.Constant):
        return value.value != 0
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)


def consumers(module: Module, wait: ast.Call) -> list[ast.Call]:
    """The calls of consume_token that take the token of a wait."""
    statement = module.statement(wait)
    assert isinstance(statement, ast.Assign)
    calls = module.calls("dl.consume_token")
    return [call for call in calls if module.definition(module.source(call.args[1]), call) is statement]


def reads(module: Module) -> list[tuple[ast.Call, ast.expr]]:
    """Loads and puts that read shared data, and their pointers, in the order of the text."""
    return _accesses(module, {"tl.load": 0, "libshmem_device.putmem": 1})


def writes(module: Module) -> list[tuple[ast.Call, ast.expr]]:
    """Stores and puts that write shared data, and their pointers, in the order of the text."""
    return _accesses(module, {"tl.store": 0, "libshmem_device.putmem": 0})


def _accesses(module: Module, places: dict[str, int]) -> list[tuple[ast.Call, ast.expr]]:
    """Calls by these names whose argument at the place points to a symmetric buffer."""
    found = []
    for call in module.found(ast.Call):
        name = module.source(call.func)
        if name in places and module.argument(call.args[places[name]]) in module.buffers:
            found.append((call, call.args[places[name]]))
    return found


def slot_text(module: Module, pointer: ast.expr) -> tuple[str, str]:
    """The pointer to slots and the offset of a slot, with the name of a slot replaced by what it stands for."""
    assert isinstance(pointer, ast.BinOp)
    offset: ast.expr = pointer.right
    assigned = module.definition(module.source(offset), pointer)
    return module.source(pointer.left), module.source(assigned.value if assigned else offset)
