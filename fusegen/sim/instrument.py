"""Kernel source, loaded with its operators replaced by checked ones.

    a + b, a - b, a * b, a << b, a // b, a % b, a / b, ~a      ->  functions of `integers`, `variables` and `tiles`
    a and b, a or b, not a                                     ->  elementwise where a is a tile
    x = 0.5                                                    ->  x = variable(0.5), a float32
    value.to(dtype), value.cast(dtype)                         ->  cast(value, dtype), which also takes Python numbers
    range(...), min(a, b), max(a, b)                           ->  counter(...), minimum(a, b), maximum(a, b)
    tl.where(c, a, b)                                          ->  where_variables(c, a, b)
    for ...: / while ...:                                      ->  the body starts with tick()

`variables` and where_variables, and & | ^ >> with them, are for where no operand is a constant. Expressions over
constants, tl.constexpr parameters and module-level names stay as they are: Triton computes them exactly at compile
time. Line numbers are those of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from fusegen.sim import integers, tiles, variables
from fusegen.sim.errors import SimulationError
from fusegen.sim.language.elementwise import maximum, minimum, where_variables

OPERATORS: Final[Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("_checked_add", integers.add),
    ast.Sub: ("_checked_subtract", integers.subtract),
    ast.Mult: ("_checked_multiply", integers.multiply),
    ast.LShift: ("_checked_shift_left", integers.shift_left),
    ast.FloorDiv: ("_checked_floor_divide", integers.floor_divide),
    ast.Mod: ("_checked_modulo", integers.modulo),
    ast.Div: ("_true_divide", tiles.true_divide),
}

OF_VARIABLES: Final[Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("_add_variables", variables.add),
    ast.Sub: ("_subtract_variables", variables.subtract),
    ast.Mult: ("_multiply_variables", variables.multiply),
    ast.LShift: ("_shift_variables", variables.shift_left),
    ast.RShift: ("_shift_variables_right", variables.shift_right),
    ast.BitAnd: ("_and_variables", variables.bit_and),
    ast.BitOr: ("_or_variables", variables.bit_or),
    ast.BitXor: ("_xor_variables", variables.bit_xor),
}
"""Those whose result depends on whether an operand is a constant, for where none is."""
_HELPERS: Final[Mapping[str, Any]] = {
    **dict(OPERATORS.values()),
    **dict(OF_VARIABLES.values()),
    "_and": tiles.logical_and,
    "_cast": tiles.cast,
    "_counter": integers.counter,
    "_invert": integers.invert,
    "_is_tile": tiles.is_tile,
    "_max": maximum,
    "_min": minimum,
    "_not": tiles.logical_not,
    "_or": tiles.logical_or,
    "_variable": tiles.variable,
    "_where": where_variables,
}
_BUILTINS: Final = {"max": "_max", "min": "_min", "range": "_counter"}


def instrumented(function: FunctionType, *, tick: Callable[[], None]) -> Callable[..., Any]:
    """`function`, compiled again from its file with checked operators; it keeps its module's globals and defaults."""
    code = function.__code__
    helpers = _helpers(tick)
    source = source_of(code.co_filename)
    return _bound(
        _factory(source, code.co_filename, code.co_name, code.co_firstlineno, tuple(helpers)), function, helpers
    )


def compiled_version(function: FunctionType, version: ast.FunctionDef, runtime: tuple[str, ...]) -> CodeType:
    """Code for `bound_version`, of another text of the function, which may use the names in `runtime`.

    Changes the tree.
    """
    path = function.__code__.co_filename
    return _compiled(parsed(path), version, path, (*_helpers(_no_tick), *runtime))


def bound_version(
    code: CodeType, function: FunctionType, *, tick: Callable[[], None], runtime: Mapping[str, Any]
) -> Callable[..., Any]:
    """As `instrumented`, of a text that `compiled_version` has compiled; `runtime` has what its names mean."""
    return _bound(code, function, _helpers(tick) | dict(runtime))


def _no_tick() -> None:
    """Stands for the tick where only the names of helpers matter."""


def parsed(path: str) -> ast.Module:
    """The tree of a file, which nobody may change."""
    return _parsed(source_of(path), path)


def source_of(path: str) -> str:
    """The text of a file."""
    return decode_source(Path(path).read_bytes())


@lru_cache(maxsize=16)  # every rank loads the same files
def _parsed(source: str, path: str) -> ast.Module:
    return ast.parse(source, path)


def _helpers(tick: Callable[[], None]) -> dict[str, Any]:
    return {**_HELPERS, "_tick": tick}


def _bound(factory: CodeType, function: FunctionType, helpers: Mapping[str, Any]) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(factory, function.__globals__, namespace)
    result: FunctionType = namespace["_factory"](**helpers)
    result.__defaults__ = function.__defaults__
    result.__kwdefaults__ = function.__kwdefaults__
    return result


@lru_cache(maxsize=64)  # every rank loads the same kernels
def _factory(source: str, path: str, name: str, line: int, helpers: tuple[str, ...]) -> CodeType:
    """Code that defines `_factory(helpers) -> the instrumented function`, so that helpers are closure variables."""
    module = ast.parse(source, path)
    return _compiled(module, find_definition(module, path, name, line), path, helpers)


def _compiled(module: ast.Module, definition: ast.FunctionDef, path: str, helpers: tuple[str, ...]) -> CodeType:
    """Code that defines `_factory`; the names that `module` binds are constants unless the function binds them."""
    module_names = {name for node in module.body for name in _assigned(node)}
    given = _given(definition, module_names)
    definition = _Instrument(given, _constants(definition, given)).function(definition)
    factory = ast.parse(f"def _factory({', '.join(helpers)}): return {definition.name}").body[0]
    assert isinstance(factory, ast.FunctionDef)
    for node in ast.walk(factory):
        ast.copy_location(node, definition)
    factory.body.insert(0, definition)
    return compile(ast.fix_missing_locations(ast.Module([factory], [])), path, "exec")


def find_definition(module: ast.Module, path: str, name: str, line: int) -> ast.FunctionDef:
    """The tree of a function in its module's; `line` is that of its first decorator."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == line:
                return node
    raise SimulationError(f"{path}:{line}: expected the source of kernel {name} in this file")


def _assigned(node: ast.AST) -> list[str]:
    """Names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    return [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]


def _given(definition: ast.FunctionDef, module_names: set[str]) -> set[str]:
    """Names of the module, and those that are declared tl.constexpr: an operand beside them keeps its type."""
    parameters = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
    bindings = {name for statement in definition.body for name in _assigned(statement)}
    declared = {p.arg for p in parameters if _is_constexpr(p.annotation)} - bindings
    declared |= {
        node.target.id
        for node in ast.walk(definition)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _is_constexpr(node.annotation)
    }
    return (module_names - {parameter.arg for parameter in parameters} - bindings) | declared


def _constants(definition: ast.FunctionDef, given: set[str]) -> set[str]:
    """Names whose value Triton knows when it compiles the function."""
    bindings = [name for statement in definition.body for name in _assigned(statement)]
    constants = set(given)
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if bindings.count(name) == 1 and _is_constant(node.value, constants):
                constants.add(name)
    return constants


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'").endswith("constexpr")


def _is_constant(node: ast.expr, constants: set[str]) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in constants
        case ast.BinOp(left=left, right=right):
            return _is_constant(left, constants) and _is_constant(right, constants)
        case ast.UnaryOp(operand=operand):
            return _is_constant(operand, constants)
        case ast.Call(func=ast.Name(id="float"), args=[argument]):
            return _is_constant(argument, constants)
    return False


def _is_mask(node: ast.expr) -> bool:
    """A comparison, or several that are combined."""
    return isinstance(node, ast.Compare) or (isinstance(node, ast.BinOp) and _is_mask(node.left))


def _is_identity(node: ast.expr) -> bool:
    """`a is b` or `a is not b`, which is never a tile."""
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)


class _Instrument(ast.NodeTransformer):
    """Replaces operators, casts and loops inside one function.

    An operand of only `given` names is a constant for Triton. `constants` are the names whose value it knows.
    """

    def __init__(self, given: set[str], constants: set[str]) -> None:
        self._given = given
        self._constants = constants
        self._operands = 0

    def function(self, definition: ast.FunctionDef) -> ast.FunctionDef:
        """The transformed function, without decorators, annotations and defaults."""
        definition.body = [self.visit(statement) for statement in definition.body]
        definition.decorator_list = []
        definition.returns = None
        arguments = definition.args
        for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            parameter.annotation = None
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
        return definition

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        kind = type(node.op)
        if kind in OF_VARIABLES and not any(self._is_given(each) or _is_mask(each) for each in (node.left, node.right)):
            name, _ = OF_VARIABLES[kind]
        elif kind in OPERATORS:
            name, _ = OPERATORS[kind]
        else:
            return self._inside(node)
        if _is_constant(node, self._constants):
            return self._inside(node)
        return self._call(name, [self.visit(node.left), self.visit(node.right)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Invert):
            return self._call("_invert", [self.visit(node.operand)], node)
        if isinstance(node.op, ast.Not) and not _is_constant(node.operand, self._constants):
            return self._call("_not", [self.visit(node.operand)], node)
        return self._inside(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b`: _and(left, b) if _is_tile(left := a) else left and b."""
        if all(_is_identity(value) for value in node.values[:-1]):
            return self._inside(node)
        operands: list[ast.expr] = [self.visit(value) for value in node.values]
        helper = "_and" if isinstance(node.op, ast.And) else "_or"
        result: ast.expr = operands[0]
        for operand in operands[1:]:
            self._operands += 1
            name = f"_operand_{self._operands}"
            test = self._call("_is_tile", [ast.NamedExpr(ast.Name(name, ast.Store()), result)], node)
            elementwise = self._call(helper, [ast.Name(name, ast.Load()), operand], node)
            scalar = ast.BoolOp(node.op, [ast.Name(name, ast.Load()), operand])
            result = ast.copy_location(ast.IfExp(test, elementwise, scalar), node)
        ast.fix_missing_locations(result)
        return result

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        is_constant = _is_constant(node.value, self._constants)
        self.generic_visit(node)
        if is_constant and not (isinstance(node.value, ast.Constant) and not isinstance(node.value.value, float)):
            node.value = self._call("_variable", [node.value], node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.copy_location(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(value)), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=value, attr="to" | "cast" as name) if name == "to" or not self._is_given(value):
                return self._call("_cast", [value, *node.args], node, node.keywords)
            case ast.Attribute(value=value, attr="where") if self._is_given(value) and self._has_no_constant(node):
                node.func = ast.copy_location(ast.Name("_where", ast.Load()), node.func)
            case ast.Name(id=name) if name in _BUILTINS and name not in self._given:
                node.func = ast.copy_location(ast.Name(_BUILTINS[name], ast.Load()), node.func)
        return node

    def _is_given(self, node: ast.expr) -> bool:
        return _is_constant(node, self._given)

    def _has_no_constant(self, call: ast.Call) -> bool:
        return not any(map(self._is_given, [*call.args, *(keyword.value for keyword in call.keywords)]))

    def visit_For(self, node: ast.For) -> ast.stmt:
        return self._with_tick(node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        return self._with_tick(node)

    def _with_tick(self, node: ast.For | ast.While) -> ast.stmt:
        self.generic_visit(node)
        node.body.insert(0, ast.copy_location(ast.Expr(self._call("_tick", [], node)), node))
        return node

    def _inside(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return node

    def _call(
        self, name: str, arguments: list[ast.expr], node: ast.AST, keywords: list[ast.keyword] | None = None
    ) -> ast.expr:
        function = ast.Name(name, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(function, arguments, keywords or []), node))
