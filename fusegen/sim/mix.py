"""Which modules have mix kernels: decided from their source, before anything runs. Imports nothing heavy."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from typing import Final, Literal

CoreUnit = Literal["AI", "vector"]
"""What a kernel's grid counts: AI cores (one AIC and two AIVs each) for mix kernels, vector cores for all others."""


@dataclass(frozen=True, slots=True)
class CoreCount:
    """The cores of a device: `number` of `unit`, the one that its kernels are launched on."""

    number: int
    unit: CoreUnit = "vector"

    @property
    def vector(self) -> int:
        """Vector cores."""
        return 2 * self.number if self.unit == "AI" else self.number

    @property
    def ai(self) -> int:
        """AI cores; at least one, also where a test asks for a single vector core."""
        return self.number if self.unit == "AI" else max(self.number // 2, 1)


MIX_CALLS: Final = frozenset({"barrier_all", "dot", "scope", "sync_block_all", "sync_block_set", "sync_block_wait"})
"""Builtins that make a kernel a mix kernel: its text calls one of these names."""


def core_unit_of(module: Path) -> CoreUnit:
    """What `cores` counts for a module: AI cores if one of its @triton.jit functions makes a kernel a mix kernel.

    Vector cores for a file that cannot be read or is not Python: running it says what is wrong with it.
    """
    try:
        return _core_unit(module.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return "vector"


@lru_cache(maxsize=16)
def _core_unit(source: bytes) -> CoreUnit:
    tree = ast.parse(decode_source(source))
    kernels = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_jit(node))
    return "AI" if any(has_mix_calls(kernel) for kernel in kernels) else "vector"


def has_mix_calls(definition: ast.FunctionDef) -> bool:
    """The function itself calls a builtin that makes a kernel a mix kernel."""
    calls = (node.func for node in ast.walk(definition) if isinstance(node, ast.Call))
    return any(_last_name(function) in MIX_CALLS for function in calls)


def _is_jit(definition: ast.FunctionDef) -> bool:
    decorators = (node.func if isinstance(node, ast.Call) else node for node in definition.decorator_list)
    return any(_last_name(decorator) == "jit" for decorator in decorators)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
