"""The two versions of a mix kernel, by its placement: what the AIC executes, and what each AIV does.

    x = tl.load(p)                 AIVs'                 on the AIC   x = _absent()
    acc = tl.dot(a, b, acc)        AIC's                 on an AIV    acc = _absent()
    y = acc + x                    AIVs', of a dot       on the AIC   y = _absent(_hand_over(0, "vector", acc))
                                                         on an AIV    y = _hand_over(0, "vector", acc) + x
    tl.store(q, y)                 AIVs', once           on an AIV    if sub_vec_id() == 0: ..., as a call

What is then unused is removed. A scope of the other core type is left with the scalar code that is used behind it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Final

from fusegen.sim.actors import CoreType
from fusegen.sim.split.kinds import Callees, definition_of
from fusegen.sim.split.liveness import without_dead_code
from fusegen.sim.split.placement import Placement, place

ABSENT: Final = "_absent"
HAND_OVER: Final = "_hand_over"
IS_FIRST_VECTOR: Final = "_is_first_vector"
WHERE_PRESENT: Final = "_where_present"
_INTERNAL: Final = frozenset({ABSENT, HAND_OVER, IS_FIRST_VECTOR, WHERE_PRESENT})


def split(function: FunctionType) -> dict[CoreType, ast.FunctionDef]:
    """Both versions of a kernel; raises Unsplittable for what cannot be divided."""
    callees = Callees(function)
    definition = _Normalised(callees).visit(copy.deepcopy(definition_of(function)))
    file = Path(function.__code__.co_filename).name

    def where(node: ast.AST) -> str:
        return f"{file}:{getattr(node, 'lineno', definition.lineno)}"

    placement = place(definition, callees, where)
    return {core: _version(definition, placement, callees, core) for core in ("cube", "vector")}


def _version(definition: ast.FunctionDef, placement: Placement, callees: Callees, core: CoreType) -> ast.FunctionDef:
    twins: dict[int, ast.expr] = {}
    own = copy.deepcopy(definition, twins)
    version = _Version(_of_twins(placement, twins), callees, core)
    own.body = version.block(own.body)
    without_dead_code(own, version.is_pure)
    return ast.fix_missing_locations(own)


def _of_twins(placement: Placement, twins: dict[int, ast.expr]) -> Placement:
    """The same placement of a copied tree; `twins` are its nodes by the id of the original."""
    return Placement(
        homes={twins[id(node)]: home for node, home in placement.homes.items()},
        hand_overs={twins[id(node)]: core for node, core in placement.hand_overs.items()},
        once={twins[id(node)] for node in placement.once},
        moves={twins[id(node)] for node in placement.moves},
    )


class _Version(ast.NodeTransformer):
    """Rewrites the tree of a kernel into what one core type executes."""

    def __init__(self, placement: Placement, callees: Callees, core: CoreType) -> None:
        self._placement = placement
        self._callees = callees
        self._core = core
        self._keys = {node: key for key, node in enumerate(placement.hand_overs)}

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewritten statements."""
        return _rewritten(self, statements)

    def is_pure(self, node: ast.expr) -> bool:
        """Evaluating an expression of this version does nothing but give its value."""
        return all(self._is_pure_call(call) for call in ast.walk(node) if isinstance(call, ast.Call))

    def _is_pure_call(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Name) and call.func.id in _INTERNAL:
            return call.func.id != HAND_OVER
        return self._callees.is_pure_role(call)

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """The node as this core type executes it."""
        if not isinstance(node, ast.expr):
            changed: ast.AST | list[ast.stmt] = super().visit(node)
            return changed
        result = self._expression(node)
        wanted = self._placement.hand_overs.get(node)
        if wanted is None:
            return result
        return _call(HAND_OVER, [ast.Constant(self._keys[node]), ast.Constant(wanted), result], node)

    def _expression(self, node: ast.expr) -> ast.expr:
        home = self._placement.homes.get(node)
        if home is not None and home != self._core:
            operands = [self.visit(operand) for operand in _operands(node)]
            return self._absent([each for each in operands if isinstance(each, ast.expr)], node)
        self.generic_visit(node)
        if node in self._placement.moves:
            assert isinstance(node, ast.Call)
            return _call(WHERE_PRESENT, [node.func, *node.args], node, node.keywords)
        if node in self._placement.once and self._core == "vector":
            skipped = self._absent(copy.deepcopy(_operands(node)), node)
            return ast.copy_location(ast.IfExp(_call(IS_FIRST_VECTOR, [], node), node, skipped), node)
        return node

    def _absent(self, operands: list[ast.expr], node: ast.expr) -> ast.expr:
        """In place of an operation that this actor leaves to others: what its operands do besides having a value."""
        return _call(ABSENT, [operand for operand in operands if not self.is_pure(operand)], node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Name(id=name), args=[]) if name == ABSENT:
                return []
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        return _unpacked(node)

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        modes = {self._callees.scope_mode(item) for item in node.items}
        if modes == {self._core}:
            return self.block(node.body)
        return _Foreign(self._placement, self.is_pure).block(node.body)


class _Foreign(ast.NodeTransformer):
    """Rewrites the body of a scope of the other core type: what it assigns is kept where it is scalar code."""

    def __init__(self, placement: Placement, is_pure: Callable[[ast.expr], bool]) -> None:
        self._placement = placement
        self._is_pure = is_pure

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewritten statements."""
        return _rewritten(self, statements)

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """The node without what only the scope's own core does."""
        if not isinstance(node, ast.expr):
            changed: ast.AST | list[ast.stmt] = super().visit(node)
            return changed
        if node in self._placement.homes or (isinstance(node, ast.Call) and not self._is_pure(node)):
            return _call(ABSENT, [], node)
        self.generic_visit(node)
        if node in self._placement.moves:
            assert isinstance(node, ast.Call)
            return _call(WHERE_PRESENT, [node.func, *node.args], node, node.keywords)
        return node

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        return []

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return []

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        return _unpacked(node)

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        return self.block(node.body)

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        if self._is_pure(node.test):
            return self.generic_visit(node)
        names = {
            child.id: child
            for child in ast.walk(node)
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
        }
        return [ast.copy_location(ast.Assign([name], _call(ABSENT, [], node)), node) for name in names.values()]


def _unpacked(node: ast.Assign) -> ast.stmt:
    """`a, b = _absent()` as `a = b = _absent()`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id=function))):
            if function == ABSENT:
                node.targets = names
    return node


def _rewritten(rewriter: ast.NodeTransformer, statements: list[ast.stmt]) -> list[ast.stmt]:
    """All statements, each of which may have become several or none."""
    result: list[ast.stmt] = []
    for statement in statements:
        changed: ast.stmt | list[ast.stmt] = rewriter.visit(statement)
        result += changed if isinstance(changed, list) else [changed]
    return result


def _operands(node: ast.expr) -> list[ast.expr]:
    """Expressions that are evaluated before an operation."""
    if isinstance(node, ast.Call):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*owner, *node.args, *(keyword.value for keyword in node.keywords)]
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _call(
    name: str, arguments: list[ast.expr], place: ast.expr | ast.stmt, keywords: list[ast.keyword] | None = None
) -> ast.expr:
    call = ast.Call(ast.Name(name, ast.Load()), arguments, keywords or [])
    return ast.fix_missing_locations(ast.copy_location(call, place))


class _Normalised(ast.NodeTransformer):
    """Writes `name += value` as `name = name + value`, and `acc = acc + tl.dot(a, b)` as `acc = tl.dot(a, b, acc=acc)`.

    The second is what the vendor's compiler does: the cube adds to its accumulator.
    """

    def __init__(self, callees: Callees) -> None:
        self._callees = callees

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.BinOp(op=ast.Add(), left=left, right=right),
            ):
                for acc, dot in ((left, right), (right, left)):
                    is_own = isinstance(acc, ast.Name) and acc.id == target
                    if is_own and isinstance(dot, ast.Call) and self._is_plain_dot(dot):
                        dot.keywords.append(ast.keyword("acc", acc))
                        node.value = dot
                        break
        return node

    def _is_plain_dot(self, call: ast.Call) -> bool:
        """A dot without an accumulator."""
        has_acc = len(call.args) > 2 or any(keyword.arg == "acc" for keyword in call.keywords)
        return self._callees.role(call) == "dot" and not has_acc

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        left = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(left, node.op, node.value), node)
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))
