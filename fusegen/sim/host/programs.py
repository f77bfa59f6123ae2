"""What the actors of a kernel execute: one text on vector cores, or two on the cores of an AI core."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType
from typing import Any, Final

from fusegen.sim.elsewhere import absent, where_present
from fusegen.sim.findings import CoreKind
from fusegen.sim.instrument import bound_version, compiled_version, instrumented, source_of
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import Machine
from fusegen.sim.mix import has_mix_calls
from fusegen.sim.split.kinds import definition_of, functions_called
from fusegen.sim.split.versions import ABSENT, HAND_OVER, IS_FIRST_VECTOR, WHERE_PRESENT, split

_RUNTIME: Final = (ABSENT, HAND_OVER, IS_FIRST_VECTOR, WHERE_PRESENT)
"""What the versions of a mix kernel call."""


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """A kernel that can be launched: `run` is called by each of `actors`."""

    run: Callable[..., Any]
    actors: tuple[CoreKind, ...] = ("AIV",)


class Programs:
    """Makes programs of kernel functions."""

    def __init__(self, machine: Machine, language: DeviceLanguage) -> None:
        self._machine = machine
        self._language = language

    def helper(self, function: FunctionType) -> Callable[..., Any]:
        """The function as a kernel calls it."""
        return instrumented(function, tick=self._machine.tick)

    def kernel(self, function: FunctionType) -> KernelProgram:
        """The function as a launch runs it; raises Unsplittable for a mix kernel that cannot be divided."""
        code = function.__code__
        versions = _versions(source_of(function), code.co_filename, code.co_name, code.co_firstlineno)
        if not versions:
            versions.append(_split(function) if _is_mix(function) else None)
        (codes,) = versions
        if codes is None:
            return KernelProgram(self.helper(function))
        runtime = dict(
            zip(_RUNTIME, (absent, self._language.hand_over, self._is_first_vector, where_present), strict=True)
        )
        cube, vector = (bound_version(code, function, tick=self._machine.tick, runtime=runtime) for code in codes)
        return KernelProgram(partial(self._run, cube, vector), ("AIC", "AIV", "AIV"))

    def _run(self, cube: Callable[..., Any], vector: Callable[..., Any], *values: Any) -> None:
        (cube if self._machine.current.name.kind == "AIC" else vector)(*values)

    def _is_first_vector(self) -> bool:
        """The actor makes the store of the calling line, which AIV 0 does for both vector cores."""
        caller = sys._getframe(1)
        self._machine.events.shared.add((caller.f_code.co_filename, caller.f_lineno))
        return not self._machine.current.name.sub_vec_id


@lru_cache(maxsize=64)
def _versions(source: str, path: str, name: str, line: int) -> list[tuple[CodeType, CodeType] | None]:
    """What was made of a kernel of this text, for every rank and run: empty until then, None in it for a vector kernel.

    What a name of the kernel stands for is in the text, too: its module imports or defines it.
    """
    return []


def _is_mix(function: FunctionType) -> bool:
    return any(has_mix_calls(definition_of(called)) for called in functions_called(function))


def _split(function: FunctionType) -> tuple[CodeType, CodeType]:
    """The code of a mix kernel for the AIC and for the AIVs."""
    texts = split(function)
    return compiled_version(function, texts["cube"], _RUNTIME), compiled_version(function, texts["vector"], _RUNTIME)
