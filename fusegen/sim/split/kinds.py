"""What the calls in kernel source do, as far as it matters for where they run.

compute   a result from operands; nothing else happens
create    a tile from nothing: zeros, full
move      the same elements in another shape, order or type: what the cube's load and store paths do by themselves
load, store, dot
effect    everything else: synchronisation, and functions of which nothing is known
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Literal

from fusegen.sim.errors import Unsplittable
from fusegen.sim.instrument import find_definition, parsed
from fusegen.sim.language.functions import FUNCTIONS

Role = Literal["compute", "create", "move", "load", "store", "dot", "effect"]

MOVES: Final = frozenset({"broadcast_to", "cast", "expand_dims", "permute", "reshape", "trans", "view"})
METHOD_MOVES: Final = frozenset({"broadcast_to", "cast", "expand_dims", "permute", "reshape", "to", "trans", "view"})
_CREATES: Final = frozenset({"full", "zeros"})
_DEVICE_ROLES: Final[Mapping[str, Role]] = {
    "atomic_add": "store",
    "atomic_and": "store",
    "atomic_cas": "store",
    "atomic_max": "store",
    "atomic_min": "store",
    "atomic_or": "store",
    "atomic_xchg": "store",
    "atomic_xor": "store",
    "dot": "dot",
    "load": "load",
    "num_programs": "compute",
    "num_ranks": "compute",
    "program_id": "compute",
    "rank": "compute",
    "store": "store",
    "sub_vec_id": "compute",
    "sub_vec_num": "compute",
    "symm_at": "compute",
}
"""Bound methods of the device language by name; those that are not here have effects."""
_NOT_IN_HELPERS: Final = frozenset({"load", "store", "dot"})


class Callees:
    """Resolves the calls of one kernel function through its module's names."""

    def __init__(self, function: FunctionType) -> None:
        self._globals = function.__globals__
        self._helpers: dict[str, Role] = {}
        self._roles: dict[int, Role] = {id(value): "compute" for value in FUNCTIONS.values()}
        self._roles |= {id(FUNCTIONS[name]): "move" for name in MOVES}
        self._roles |= {id(FUNCTIONS[name]): "create" for name in _CREATES}
        self._arange = FUNCTIONS["arange"]

    def callee(self, function: ast.expr) -> Any:
        """The object that an expression names; None where it names no attribute of a module or global name."""
        match function:
            case ast.Name(id=name):
                return self._globals.get(name, getattr(builtins, name, None))
            case ast.Attribute(value=value, attr=name):
                owner = self.callee(value)
                return vars(owner).get(name) if hasattr(owner, "__dict__") else None
        return None

    def role(self, call: ast.Call) -> Role:
        """What a call does."""
        callee = self.callee(call.func)
        if callee is None:
            if not isinstance(call.func, ast.Attribute) or self.callee(call.func.value) is not None:
                return "effect"  # an unknown name, or one that a module does not have: it raises when it is called
            return "move" if call.func.attr in METHOD_MOVES else "compute"
        if id(callee) in self._roles:
            return self._roles[id(callee)]
        if isinstance(helper := getattr(callee, "fn", None), FunctionType):
            return self._helper_role(helper)
        if getattr(callee, "__self__", None) is not None and not isinstance(callee, type(len)):
            return _DEVICE_ROLES.get(callee.__name__, "effect")
        is_builtin = callee in (range, min, max, abs, int, float, bool, len)
        return "compute" if is_builtin or isinstance(callee, type) else "effect"

    def makes_index(self, call: ast.Call) -> bool:
        """tl.arange: the origin of all index tiles."""
        return self.callee(call.func) is self._arange

    def is_sub_vec_id(self, call: ast.Call) -> bool:
        """The call that tells the two vector cores apart."""
        return getattr(self.callee(call.func), "__name__", "") == "sub_vec_id"

    def scope_mode(self, item: ast.withitem) -> str | None:
        """The core_mode of `al.scope(core_mode=...)`; None for another context manager."""
        call = item.context_expr
        if not isinstance(call, ast.Call) or getattr(self.callee(call.func), "__name__", "") != "scope":
            return None
        values = [keyword.value for keyword in call.keywords if keyword.arg == "core_mode"] or call.args[:1]
        mode = values[0].value if values and isinstance(values[0], ast.Constant) else None
        return str(mode)

    def is_pure(self, node: ast.expr) -> bool:
        """Evaluating the expression does nothing but give its value."""
        return all(self.is_pure_role(child) for child in ast.walk(node) if isinstance(child, ast.Call))

    def is_pure_role(self, call: ast.Call) -> bool:
        """The call itself does nothing but give its value."""
        return self.role(call) in ("compute", "create", "move")

    def _helper_role(self, helper: FunctionType) -> Role:
        """What a @triton.jit function does that a kernel calls; raises Unsplittable if it accesses tiles."""
        name = helper.__name__
        if name not in self._helpers:
            self._helpers[name] = "compute"  # for a helper that calls itself
            callees = Callees(helper)
            definition = definition_of(helper)
            role: Role = "compute"
            for call in (node for node in ast.walk(definition) if isinstance(node, ast.Call)):
                if call in definition.decorator_list:
                    continue
                inner = callees.role(call)
                if inner in _NOT_IN_HELPERS or callees.scope_mode(ast.withitem(call)) is not None:
                    place = f"{Path(helper.__code__.co_filename).name}:{call.lineno}"
                    reason = f"{name}, which a mix kernel calls, uses it: expected it in the kernel itself"
                    raise Unsplittable(ast.unparse(call.func), place, reason)
                if inner == "effect":
                    role = "effect"
            self._helpers[name] = role
        return self._helpers[name]


def definition_of(function: FunctionType) -> ast.FunctionDef:
    """The syntax tree of a function, from its file; nobody may change it."""
    code = function.__code__
    return find_definition(parsed(code.co_filename), code.co_filename, code.co_name, code.co_firstlineno)


def functions_called(function: FunctionType) -> Iterator[FunctionType]:
    """A kernel and the @triton.jit functions that it calls, directly or not."""
    seen: dict[FunctionType, None] = {}
    pending = [function]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen[current] = None
        callees = Callees(current)
        calls = (node for node in ast.walk(definition_of(current)) if isinstance(node, ast.Call))
        pending += [
            fn for call in calls if isinstance(fn := getattr(callees.callee(call.func), "fn", None), FunctionType)
        ]
    yield from seen
