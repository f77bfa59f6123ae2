"""Errors of the simulator itself, as opposed to findings about the simulated module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegen.errors import FusegenError


class SimulationError(FusegenError):
    """The run was asked for something that the module cannot do. The caller recovers by correcting the arguments."""


class Unsupported(FusegenError):
    """The module uses a builtin that the simulator does not know. Nobody recovers: the result would be a guess.

    It is an error and not a finding because it says nothing about the module.
    """

    def __init__(self, name: str, advice: str = "") -> None:
        super().__init__(f"{name}: expected a builtin that the simulator supports{f' ({advice})' if advice else ''}")
        self.name = name


def unsupported(name: str) -> Callable[..., Any]:
    """A function that raises Unsupported for `name`."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(name)

    return refuse


class Unsplittable(Unsupported):
    """A mix kernel does something that the simulator cannot divide between AIC and AIVs. Nobody recovers.

    `place` is file and line.
    """

    def __init__(self, name: str, place: str, reason: str) -> None:
        FusegenError.__init__(self, f"{place}: {name}: {reason}")
        self.name = name


class Misplaced(FusegenError):
    """An operation met a value that only the other core type has: an error of the simulator's split, or a value that
    leaves an al.scope. Nobody recovers.
    """

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation}: expected a value of this core, got one that only the other core type of the AI core computes"
        )
