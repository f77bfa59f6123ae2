"""The program of a plan: who runs which stage in which order, and where all cores meet.

Node = Run(stage) | Barrier(reason) | When(role, lag, body) | Scope(engine, body) | Rounds(axis, extra, body)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fusegen.plan.layout import Axis
from fusegen.plan.stages import Engine


@dataclass(frozen=True, slots=True)
class Run:
    """The work loop of a stage, in the round of the surrounding loop (in all rounds, where there is none around it)."""

    stage: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """All cores of all ranks meet. `reason` is the comment that the kernel carries."""

    reason: str


@dataclass(frozen=True, slots=True)
class When:
    """`body` on one role's cores, in round `step - lag` while there is one (lag None: always)."""

    role: int
    lag: int | None
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """`body` on one core type of a mix kernel; the other skips it (docs/platform.md, device language)."""

    engine: Engine
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """`body` once for each position of `axis`, and `extra` times more at the end for stages that lag behind."""

    axis: Axis
    extra: int
    body: tuple[Node, ...]


Node: TypeAlias = Run | Barrier | When | Scope | Rounds


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes of a program, outer before inner, in text order."""
    for node in nodes:
        yield node
        if isinstance(node, (When, Scope, Rounds)):
            yield from walk(node.body)
