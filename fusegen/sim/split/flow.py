"""How values flow through a mix kernel: where tile data comes from, and what depends on sub_vec_id()."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, Literal

from fusegen.sim.actors import CoreType
from fusegen.sim.errors import Unsplittable
from fusegen.sim.split.kinds import Callees, Role

OriginKind = Literal["cube", "vector", "neutral"]

_MODES: Final = ("cube", "vector")


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of a value: where its tile data comes from, and whether it depends on sub_vec_id().

    `is_tile` is meant for pointers and indices: a load through a tile of pointers gives tile data.
    """

    origins: frozenset[int] = frozenset()
    is_tile: bool = False
    per_vector: bool = False

    def joined(self, other: Value) -> Value:
        """What is known of a value that is one of two."""
        if self == other:
            return self
        is_tile, per_vector = self.is_tile or other.is_tile, self.per_vector or other.per_vector
        return Value(self.origins | other.origins, is_tile, per_vector)


Names = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Origin:
    """An operation that makes tile data; `scope` is the al.scope around it."""

    node: ast.expr
    kind: OriginKind
    scope: CoreType | None


@dataclass(frozen=True, slots=True)
class Use:
    """An operand that must be on one core type; None where the value that is stored decides.

    `per_vector` tells that not all vector cores get there, or not all with the same value.
    """

    node: ast.expr
    origins: frozenset[int]
    wanted: CoreType | None
    scope: CoreType | None
    per_vector: bool
    store: ast.Call | None = None


class Flow:
    """Follows values through a kernel: names to what is known of them, until nothing changes."""

    def __init__(self, callees: Callees, where: Callable[[ast.AST], str]) -> None:
        self._callees = callees
        self._where = where
        self._numbers: dict[ast.expr, int] = {}
        self._scope: CoreType | None = None
        self._per_vector = False
        self._returned = False
        self._left_loops: list[bool] = [False]
        self.origins: list[Origin] = []
        self.uses: dict[ast.expr, Use] = {}
        self.stores: dict[ast.Call, tuple[CoreType | None, bool]] = {}
        self.stored: dict[ast.Call, frozenset[int]] = {}
        self.moves: set[ast.expr] = set()

    def block(self, statements: Iterable[ast.stmt], names: Names) -> None:
        """Follow statements; `names` changes in place."""
        for statement in statements:
            self._statement(statement, names)

    def _statement(self, statement: ast.stmt, names: Names) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value, names)
            case ast.For(target=target, iter=source, body=body):
                counter = replace(self._value(source, names), origins=frozenset())
                self._loop(body, names, counter.per_vector, lambda inner: self._bind(target, counter, inner))
            case ast.While(test=test, body=body):
                self._loop(body, names, self._value(test, names).per_vector, lambda inner: self._value(test, inner))
            case ast.If(test=test, body=body, orelse=orelse):
                outside = self._per_vector
                self._per_vector = outside or self._value(test, names).per_vector
                other = dict(names)
                self.block(body, names)
                self.block(orelse, other)
                _join(names, other)
                if self._per_vector and not outside:
                    self._note_leaving(statement)
                self._per_vector = outside or self._returned
            case ast.With(items=items, body=body):
                self._with(items, body, names, statement)
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                self._value(value, names)
            case ast.Assert(test=test):
                self._value(test, names)
            case ast.Pass() | ast.Break() | ast.Continue() | ast.Return() | ast.Import() | ast.ImportFrom():
                pass
            case _:
                name = type(statement).__name__
                raise Unsplittable(name, self._where(statement), "expected a statement that Triton has")

    def _note_leaving(self, statement: ast.If) -> None:
        """After a return or break that only some vector cores take, the others go on alone."""
        nodes = list(ast.walk(statement))
        self._returned = self._returned or any(isinstance(node, ast.Return) for node in nodes)
        if any(isinstance(node, ast.Break | ast.Continue) for node in nodes):
            self._left_loops[-1] = True

    def _loop(self, body: list[ast.stmt], names: Names, per_vector: bool, enter: Callable[[Names], object]) -> None:
        outside = self._per_vector
        self._left_loops.append(per_vector)
        while True:
            self._per_vector = outside or self._returned or self._left_loops[-1]
            was_left = self._left_loops[-1]
            inner = dict(names)
            enter(inner)
            self.block(body, inner)
            before = dict(names)
            _join(names, inner)
            if names == before and was_left == self._left_loops[-1]:
                break
        self._left_loops.pop()
        self._per_vector = outside or self._returned

    def _with(self, items: list[ast.withitem], body: list[ast.stmt], names: Names, statement: ast.With) -> None:
        outside = self._scope
        for item in items:
            mode = self._callees.scope_mode(item)
            place = self._where(statement)
            if mode not in _MODES:
                text = ast.unparse(item.context_expr)
                raise Unsplittable(text, place, "expected al.scope(core_mode='cube') or al.scope(core_mode='vector')")
            core: CoreType = "cube" if mode == "cube" else "vector"
            if self._scope not in (None, core):
                raise Unsplittable(
                    f"al.scope(core_mode={core!r})", place, f"no core runs it inside a {self._scope} scope"
                )
            self._scope = core
        self.block(body, names)
        self._scope = outside

    def _assign(self, target: ast.expr, value: ast.expr, names: Names) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            values = [self._value(element, names) for element in value.elts]
            for element, each in zip(target.elts, values, strict=False):
                self._bind(element, each, names)
        else:
            self._bind(target, self._value(value, names), names)

    def _bind(self, target: ast.expr, value: Value, names: Names) -> None:
        if self._per_vector:
            value = replace(value, per_vector=True)
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = value

    def _value(self, node: ast.expr, names: Names) -> Value:
        """What is known of an expression; notes the origins and uses in it."""
        match node:
            case ast.Name(id=name):
                return names.get(name, Value())
            case ast.Call():
                return self._call(node, names)
            case ast.Subscript(value=value):
                return replace(self._value(value, names), is_tile=True)
            case ast.Attribute(value=value, attr=attribute):
                known = self._value(value, names)
                if attribute == "T":
                    return known
                return replace(known, origins=frozenset())
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.BoolOp() | ast.JoinedStr():
                operands = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return self._computed(node, operands, names)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = self._value(body, names).joined(self._value(orelse, names))
                return replace(chosen, per_vector=chosen.per_vector or self._value(test, names).per_vector)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return _all([self._value(element, names) for element in elements])
            case ast.NamedExpr(target=target, value=value):
                known = self._value(value, names)
                self._bind(target, known, names)
                return known
            case ast.Slice() | ast.Constant():
                return Value()
        operands = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return _all([self._value(operand, names) for operand in operands])

    def _call(self, node: ast.Call, names: Names) -> Value:
        role = self._callees.role(node)
        operands = [*node.args, *(keyword.value for keyword in node.keywords)]
        is_method = isinstance(node.func, ast.Attribute) and self._callees.callee(node.func) is None
        if is_method:
            assert isinstance(node.func, ast.Attribute)
            operands.insert(0, node.func.value)
        if role == "move" and operands:
            if not is_method:
                self.moves.add(node)
            known = self._value(operands[0], names)
            rest = _all([self._value(operand, names) for operand in operands[1:]])
            is_tile = known.is_tile or ast.unparse(node.func).endswith(("broadcast_to", "expand_dims"))
            return Value(known.origins, is_tile, known.per_vector or rest.per_vector)
        if role == "dot":
            return self._dot(node, operands, names)
        if role == "store":
            return self._store(node, operands, names)
        known = self._computed(node, operands, names, role)
        is_tile = known.is_tile or self._callees.makes_index(node)
        return replace(known, is_tile=is_tile, per_vector=known.per_vector or self._callees.is_sub_vec_id(node))

    def _computed(self, node: ast.expr, operands: list[ast.expr], names: Names, role: Role = "compute") -> Value:
        """An operation: of tile data it is the AIVs', of anything else everybody's."""
        values = [self._value(operand, names) for operand in operands]
        known = _all(values)
        if not known.origins:
            if role == "create" or (role == "load" and values and values[0].is_tile):
                return replace(known, origins=frozenset({self._origin(node, "neutral")}))
            return known
        if self._scope == "cube" and self._is_bias(node, values):
            return replace(known, origins=frozenset({self._origin(node, "cube")}))
        if self._scope == "cube":
            text = ast.unparse(node)
            raise Unsplittable(
                text, self._where(node), "the cube core has no arithmetic on tiles: expected it in a vector scope"
            )
        for operand, value in zip(operands, values, strict=True):
            self._use(operand, value, "vector")
        return replace(known, origins=frozenset({self._origin(node, "vector")}))

    def _is_bias(self, node: ast.expr, values: list[Value]) -> bool:
        """True for `dot result + row[None, :]`: the cube core adds a loaded row by itself, as its bias."""
        match node:
            case ast.BinOp(op=ast.Add(), right=ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(None), ast.Slice()]))):
                acc, row = ({self.origins[number].kind for number in value.origins} for value in values)
                return "cube" in acc and row == {"neutral"}
            case _:
                return False

    def _dot(self, node: ast.Call, operands: list[ast.expr], names: Names) -> Value:
        values = [self._value(operand, names) for operand in operands]
        known = _all(values)
        if self._scope == "vector":
            raise Unsplittable(
                "tl.dot", self._where(node), "expected it outside of a vector scope: the AIC computes it"
            )
        if self._scope is None and (self._per_vector or known.per_vector):
            raise Unsplittable(
                "tl.dot", self._where(node), "expected it to be independent of sub_vec_id(), which is of the AIVs"
            )
        for operand, value in zip(operands, values, strict=True):
            self._use(operand, value, "cube")
        return Value(frozenset({self._origin(node, "cube")}), True, known.per_vector)

    def _store(self, node: ast.Call, operands: list[ast.expr], names: Names) -> Value:
        values = [self._value(operand, names) for operand in operands]
        known = _all(values)
        per_vector = self._per_vector or known.per_vector
        self.stores[node] = self._scope, per_vector or self.stores.get(node, (None, False))[1]
        self.stored[node] = self.stored.get(node, frozenset()) | known.origins
        for operand, value in zip(operands, values, strict=True):
            self._use(operand, value, None, node)
        if is_plain_store(node):
            return Value()
        return Value(frozenset({self._origin(node, "vector")}), known.is_tile, per_vector)

    def _use(self, node: ast.expr, value: Value, wanted: CoreType | None, store: ast.Call | None = None) -> None:
        if not value.origins:
            return
        before = self.uses.get(node)
        origins = value.origins | (before.origins if before else frozenset())
        per_vector = self._per_vector or value.per_vector or (before is not None and before.per_vector)
        self.uses[node] = Use(node, origins, wanted, self._scope, per_vector, store)

    def _origin(self, node: ast.expr, kind: OriginKind) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self.origins)
            self.origins.append(Origin(node, kind, self._scope))
        return self._numbers[node]


def _all(values: list[Value]) -> Value:
    """What is known of a result that depends on all of the values."""
    return reduce(Value.joined, values, Value())


def _join(names: Names, other: Names) -> None:
    """Names after two paths meet."""
    for name, value in other.items():
        names[name] = names[name].joined(value) if name in names else value


def is_plain_store(call: ast.Call) -> bool:
    """The call is tl.store and no atomic operation."""
    return ast.unparse(call.func).rpartition(".")[2] == "store"
