"""TTIR of the kernel in a generated module. The file is compiled as it stands: its lines are those of the messages."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import Any, Final

from triton._C.libtriton import ir
from triton.backends.ascend.compiler import AscendBackend, make_ttir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.code_generator import get_jit_fn_file_line
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

from fusegen.vendor.frontend.stand_ins import install

_LANGUAGE: Final = ("triton", "triton_dist")
"""Top packages that the kernel half of a module imports; the host half needs others."""


def ttir_of(path: str, kernel: str, target: str, variants: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """TTIR for each variant as {"ttir": text}, or {"line": number, "message": text} where the front end refuses.

    `variants` have `signature`, types of the parameters that are not constants, and `constants`, values of the others.
    """
    install()
    function = _kernel(path, kernel)
    return [_answer(function, target, each["signature"], each["constants"]) for each in variants]


def _answer(function: Any, target: str, signature: dict[str, str], constants: dict[str, Any]) -> dict[str, Any]:
    context = ir.context()
    ir.load_dialects(context)
    backend = AscendBackend(GPUTarget("npu", target, 0))
    options = backend.parse_options({})
    source = ASTSource(fn=function, signature=signature, constants=constants)
    try:
        module = source.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
    except CompilationError as error:
        return _refusal(function, error)
    return {"ttir": str(make_ttir(module, {"hash": "unused"}, options))}


def _refusal(function: Any, error: CompilationError) -> dict[str, Any]:
    """The line of the kernel, and the reason of the innermost error: one in a called function has its own source."""
    inner: BaseException = error
    while isinstance(inner, CompilationError) and inner.__cause__ is not None:
        inner = inner.__cause__
    reason = inner.error_message if isinstance(inner, CompilationError) else str(inner)
    _, first = get_jit_fn_file_line(function)
    line = first + error.node.lineno - 1 if hasattr(error.node, "lineno") else 0
    return {"line": line, "message": reason or type(inner).__name__}


def _kernel(path: str, kernel: str) -> Any:
    """The jit function of that name, from the kernel half of the module: the other half needs torch and devices."""
    text = Path(path).read_text(encoding="utf-8")
    tree = ast.parse(text, path)
    tree.body = [node for node in tree.body if _belongs_to_kernel(node)]
    scope: dict[str, Any] = {"__name__": "fusegen_kernel", "__file__": path}
    sys.modules["fusegen_kernel"] = type(sys)("fusegen_kernel")
    exec(compile(tree, path, "exec"), scope)
    for value in scope.values():
        if isinstance(value, JITFunction):
            value.parse = functools.partial(_scopes_as_calls, value)
    return scope[kernel]


def _belongs_to_kernel(node: ast.stmt) -> bool:
    match node:
        case ast.Import(names=[ast.alias(name=name)]):
            return name.split(".")[0] in _LANGUAGE
        case ast.ImportFrom(module=str(name)):
            return name.split(".")[0] in _LANGUAGE and not name.startswith("triton.backends")
        case ast.FunctionDef(decorator_list=[decorator]):
            return ast.unparse(decorator).startswith("triton.jit")
        case _:
            return False


def _scopes_as_calls(function: Any) -> ast.Module:
    """The source of a function as the front end wants to visit it; nodes keep their lines."""
    tree: ast.Module = ast.parse(function.src)
    tree.body = [_Scopes().visit(tree.body[0])]
    return tree


class _Scopes(ast.NodeTransformer):
    """`with al.scope(core_mode=...)`, which the front end does not know, becomes a call before and one after."""

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        match node.items:
            case [ast.withitem(context_expr=ast.Call(func=ast.Attribute(value=al, attr="scope"), keywords=words))]:
                begin = _call(al, "scope_begin", words, node)
                return [begin, *node.body, _call(al, "scope_end", [], node)]
            case _:
                return node


def _call(module: ast.expr, name: str, keywords: list[ast.keyword], place: ast.With) -> ast.Expr:
    function = ast.Attribute(value=module, attr=name, ctx=ast.Load())
    statement = ast.Expr(ast.Call(func=function, args=[], keywords=keywords))
    return ast.fix_missing_locations(ast.copy_location(statement, place))
