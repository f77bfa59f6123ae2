"""Which core types a module means to execute its distributed calls, read from its text.

A vector kernel has one core type. In a mix kernel `al.scope` says which one it is; outside of scopes both execute a
call, which is meant only where both must take part: barriers, and questions that change nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fusegen.vendor.facts import CoreFacts
from fusegen.vendor.findings import Finding
from fusegen.vendor.signatures import SIGNATURES, signature_of

FUNCTIONS: Final = {
    "dl.wait": "aclshmem_wait_{type}",
    "dl.symm_at": "aclshmem_ptr_{type}",
    "dl.consume_token": "aclshmem_consume_token_{type}_ptr_1d",
    "dl.notify": "aclshmem_{type}_p",
    "dl.rank": "aclshmem_my_pe",
    "dl.num_ranks": "aclshmem_n_pes",
    "libshmem_device.putmem": "aclshmem_{type}_putmem",
    "libshmem_device.fence": "aclshmem_fence",
    "libshmem_device.barrier_all": "aclshmem_barrier_all",
    "libshmem_device.barrier_all_vec": "aclshmemx_barrier_all_vec",
    "libshmem_device.my_pe": "aclshmem_my_pe",
    "libshmem_device.n_pes": "aclshmem_n_pes",
}
"""Calls of the language, and the library's functions that they become."""
ANYWHERE: Final = ("aclshmem_barrier_all", "aclshmem_my_pe", "aclshmem_n_pes")
"""Functions that both core types may execute."""
CORES: Final = {"cube": "AIC", "vector": "AIV"}


@dataclass(frozen=True, slots=True)
class MeantCall:
    """A distributed call in the text: the library's function, its line, and the core type that it is meant for.

    `core` is empty where no scope says it.
    """

    function: str
    line: int
    core: str


def meant_calls(
    source: str, kernel: str, constants: Mapping[str, int | bool], *, is_mix: bool
) -> tuple[MeantCall, ...]:
    """The distributed calls of a kernel in the order in which they are executed first; branches on constants taken."""
    functions = _functions(source)
    return tuple(_calls(functions[kernel].body, "" if is_mix else "AIV", constants, functions))


def memory_line(source: str, kernel: str, memory: str) -> int:
    """The line that fills a memory: the first tl.dot for L1 and L0C, the first load of a vector core for the UB."""
    function = _functions(source)[kernel]
    wanted = "tl.load" if memory == "ub" else "tl.dot"
    scopes = [node for node in ast.walk(function) if isinstance(node, ast.With) and _core_of(node) == "AIV"]
    places = scopes if memory == "ub" and scopes else [function]
    lines = [
        node.lineno
        for place in places
        for node in ast.walk(place)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == wanted
    ]
    return min(lines, default=function.lineno)


def placement_findings(meant: Sequence[MeantCall], facts: Sequence[CoreFacts]) -> Iterator[Finding]:
    """Calls that a core function has and should not have, or should have and has not."""
    executed = {each.core: [_row(call.symbol) for call in each.calls] for each in facts}
    unclear = [call for call in meant if not call.core and call.function not in ANYWHERE]
    for call in unclear:
        cores = [core for core, functions in executed.items() if call.function in functions]
        if len(cores) > 1:
            message = f"expected one core type to execute {_spoken(call.function)}, got {' and '.join(cores)}"
            yield Finding("WrongCore", message, call.line, advice="put it into an al.scope")
    skipped = {call.function for call in unclear}
    for core, functions in executed.items():
        expected = [call.function for call in meant if call.core in (core, "") and call.function not in skipped]
        yield from _differences(core, expected, [each for each in functions if each not in skipped], meant)


def _differences(core: str, expected: list[str], got: list[str], meant: Sequence[MeantCall]) -> Iterator[Finding]:
    for function in SIGNATURES:
        wanted, found = expected.count(function), got.count(function)
        if wanted != found:
            line = next((call.line for call in meant if call.function == function), 0)
            kind = "WrongCore" if found > wanted else "MissingCall"
            yield Finding(kind, f"expected {wanted} calls of {_spoken(function)} on {core}, got {found}", line)
    for number, (wanted_function, function) in enumerate(zip(expected, got, strict=False), start=1):
        if wanted_function != function and sorted(expected) == sorted(got):
            what = f"expected {_spoken(wanted_function)} as call {number} on {core}, got {_spoken(function)}"
            yield Finding("WrongOrder", what)
            return


def _spoken(function: str) -> str:
    """The language's name of a library function, as the module has it."""
    return next(spoken for spoken, library in FUNCTIONS.items() if library == function)


def _row(symbol: str) -> str:
    found = signature_of(symbol)
    return found[0] if found else symbol


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    """The functions of a module by name."""
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def _calls(
    nodes: Iterable[ast.AST], core: str, constants: Mapping[str, int | bool], functions: Mapping[str, ast.FunctionDef]
) -> Iterator[MeantCall]:
    """Distributed calls below the nodes; those of a device function belong to the place where it is called."""
    for node in nodes:
        match node:
            case ast.With():
                yield from _calls(node.body, _core_of(node) or core, constants, functions)
            case ast.If(test=ast.Name(id=name)) if name in constants:
                yield from _calls(node.body if constants[name] else node.orelse, core, constants, functions)
            case ast.Call():
                yield from _calls(ast.iter_child_nodes(node), core, constants, functions)
                name = ast.unparse(node.func)
                if name in FUNCTIONS:
                    yield MeantCall(FUNCTIONS[name], node.lineno, core)
                elif name in functions:
                    yield from _calls(functions[name].body, core, constants, functions)
            case _:
                yield from _calls(ast.iter_child_nodes(node), core, constants, functions)


def _core_of(node: ast.With) -> str:
    match = re.search(r"al\.scope\(core_mode='(\w+)'\)", ast.unparse(node.items[0].context_expr))
    return CORES.get(match[1], "") if match else ""
