"""Errors of the simulator itself, as opposed to findings about the simulated module."""

from __future__ import annotations

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
