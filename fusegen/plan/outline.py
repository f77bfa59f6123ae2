"""The program of a plan in words, line by line: who runs what, in which rounds, and where all cores meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from fusegen.plan.ir import KernelPlan
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When
from fusegen.plan.stages import AllCores, Engine, First, Kind, Rest, Role, Stage, VectorCores

DOES = {
    Kind.MOVE: "moves tiles",
    Kind.ACCUMULATE: "adds tiles to the output, atomically",
    Kind.REDUCE: "adds the tiles of all ranks",
    Kind.GEMM: "multiplies tiles",
    Kind.PUT: "transfers blocks",
    Kind.ANNOUNCE: "announces tiles that the cube core has stored",
}
"""What a stage of each kind does."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the outline; `depth` counts the nodes around it."""

    depth: int
    text: str


def outline(plan: KernelPlan, *, rounds: int) -> tuple[Line, ...]:
    """The program, for launches of `rounds` rounds."""
    return tuple(_lines(plan, plan.program, rounds, 0))


def _lines(plan: KernelPlan, nodes: tuple[Node, ...], rounds: int, depth: int) -> Iterator[Line]:
    for node in nodes:
        match node:
            case Run(name):
                yield Line(depth, f"{name}: {DOES[plan.stage(name).kind]}")
            case Barrier(reason):
                yield Line(depth, f"barrier: {' '.join(reason.split())}")
            case When(role, lag, body):
                behind = f", {lag} round{'s' if lag > 1 else ''} behind" if lag else ""
                yield Line(depth, f"on cores with core % {plan.launch.roles} == {role}{behind}")
                yield from _lines(plan, body, rounds, depth + 1)
            case Scope(engine, body):
                yield Line(depth, f"on {engine.value} cores")
                yield from _lines(plan, body, rounds, depth + 1)
            case Rounds(axis, extra, body):
                each = f"in each of {rounds} rounds" if rounds != 1 else "in the one round"
                more = f", and {extra} more for what lags behind" if extra else ""
                yield Line(depth, f"{each} ({axis.label}){more}")
                yield from _lines(plan, body, rounds, depth + 1)
            case _:
                assert_never(node)


def workers_text(plan: KernelPlan, stage: Stage) -> str:
    """Which cores run a stage."""
    workers = stage.workers
    match workers.selection:
        case AllCores() if not plan.is_mix:
            selected = "all vector cores"
        case AllCores() if workers.engine is Engine.CUBE:
            selected = "the cube core of each AI core"
        case AllCores():
            selected = "both vector cores of each AI core, together"
        case VectorCores():
            selected = "both vector cores of each AI core, each for itself"
        case Role(index, roles):
            selected = f"vector cores with core % {roles} == {index}"
        case _:
            assert_never(workers.selection)
    match workers.part:
        case None:
            return selected
        case First(count):
            return f"the first {count.name} of {selected}"
        case Rest(count):
            return f"{selected}, without the first {count.name}"
        case _:
            assert_never(workers.part)


def group_text(plan: KernelPlan, stage: Stage) -> str:
    """The core type of a stage in a mix kernel, its role in a vector kernel."""
    match stage.workers.selection:
        case Role(index, roles):
            return f"vector cores, core % {roles} == {index}"
        case _:
            return f"{stage.workers.engine.value} cores"
