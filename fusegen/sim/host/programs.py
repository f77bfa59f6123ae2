"""What the actors of a kernel execute: one text on vector cores, or two on the cores of an AI core."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final, Protocol

from fusegen.sim.actors import CoreType
from fusegen.sim.elsewhere import absent, where_present
from fusegen.sim.findings import CoreKind
from fusegen.sim.instrument import bound_version, compiled_version, instrumented, source_of
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import Machine
from fusegen.sim.mix import has_mix_calls
from fusegen.sim.split.kinds import definition_of, functions_called
from fusegen.sim.split.versions import ABSENT, HAND_OVER, IS_FIRST_VECTOR, WHERE_PRESENT, split


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """A kernel that can be launched: `run` is called by each of `actors`."""

    run: Callable[..., Any]
    actors: tuple[CoreKind, ...] = ("AIV",)


class Programs(Protocol):
    """Makes programs of kernel functions."""

    def helper(self, function: FunctionType) -> Callable[..., Any]:
        """The function as a kernel calls it."""
        ...

    def kernel(self, function: FunctionType) -> KernelProgram:
        """The function as a launch runs it."""
        ...


MakePrograms = Callable[[Machine, DeviceLanguage], Programs]
"""Programs for one machine."""


class TextPrograms:
    """Programs that run the text of the function: on vector cores, or divided for the cores of an AI core."""

    def __init__(self, machine: Machine, language: DeviceLanguage) -> None:
        self._machine = machine
        self._language = language

    def helper(self, function: FunctionType) -> Callable[..., Any]:
        """The function as a kernel calls it."""
        return instrumented(function, tick=self._machine.tick)

    def kernel(self, function: FunctionType) -> KernelProgram:
        """The function as a launch runs it; raises Unsplittable for a mix kernel that cannot be divided."""
        codes = _codes(function)
        if codes is None:
            return KernelProgram(self.helper(function))
        runtime = {
            ABSENT: absent,
            HAND_OVER: self._language.hand_over,
            IS_FIRST_VECTOR: self._is_first_vector,
            WHERE_PRESENT: where_present,
        }
        bodies = {
            core: bound_version(code, function, tick=self._machine.tick, runtime=runtime)
            for core, code in codes.items()
        }
        return KernelProgram(partial(self._run, bodies["cube"], bodies["vector"]), ("AIC", "AIV", "AIV"))

    def _run(self, cube: Callable[..., Any], vector: Callable[..., Any], *values: Any) -> None:
        (cube if self._machine.current.name.kind == "AIC" else vector)(*values)

    def _is_first_vector(self) -> bool:
        """The actor makes the store of the calling line, which AIV 0 does for both vector cores."""
        caller = sys._getframe(1)
        self._machine.events.shared.add((caller.f_code.co_filename, caller.f_lineno))
        return not self._machine.current.name.sub_vec_id


_RUNTIME: Final = (ABSENT, HAND_OVER, IS_FIRST_VECTOR, WHERE_PRESENT)
_MOST_KERNELS: Final = 64
_known: Final[dict[tuple[object, ...], dict[CoreType, CodeType] | None]] = {}
"""Code of both versions, by files, texts, names and lines of a kernel and what it calls: every rank loads the same."""


def _codes(function: FunctionType) -> dict[CoreType, CodeType] | None:
    """What `bound_version` takes for each core type of a mix kernel; None for a vector kernel."""
    called = tuple(functions_called(function))
    codes = [each.__code__ for each in called]
    key = tuple((code.co_filename, source_of(code.co_filename), code.co_firstlineno) for code in codes)
    if key not in _known:
        if len(_known) == _MOST_KERNELS:
            _known.clear()
        is_mix = any(has_mix_calls(definition_of(each)) for each in called)
        _known[key] = _compiled_versions(function) if is_mix else None
    return _known[key]


def _compiled_versions(function: FunctionType) -> dict[CoreType, CodeType]:
    return {core: compiled_version(function, version, _RUNTIME) for core, version in split(function).items()}
