"""What all signal protocols need: the access to a buffer, replaced stages, covered edges."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from fusegen.plan.expr import Const, Sym
from fusegen.plan.ir import BarrierCover, Buffer, EdgeKind, KernelPlan, SignalCover
from fusegen.plan.stages import Access, Each, Piece, Stage

Cover: TypeAlias = BarrierCover | SignalCover


def access_to(stage: Stage, buffer: Buffer) -> tuple[Access, Piece]:
    """The access of a stage to a buffer, and the pieces it touches. Raises ValueError unless there is exactly one."""
    (access,) = (each for each in (*stage.reads, *stage.writes) if each.region == buffer.name)
    if access.piece is None:
        raise ValueError(f"{stage.name}: expected the pieces of {buffer.name}")
    return access, access.piece


def with_stages(plan: KernelPlan, stages: dict[str, Stage]) -> KernelPlan:
    """The plan with the stages of those names replaced."""
    return replace(plan, stages=tuple(stages.get(stage.name, stage) for stage in plan.stages))


def cover_edges_of(
    plan: KernelPlan, buffer: Buffer, forward: Cover, within: Cover, across: Cover | None = None
) -> KernelPlan:
    """The buffer's edges with their covers: of tiles that are ready, and of the buffer that is free again.

    within, across   in the same launch, and in the next one; the same if not given
    """
    edges = []
    for edge in plan.edges:
        if edge.buffer == buffer.name:
            backward = across if across and edge.across_launches else within
            edge = replace(edge, cover=forward if edge.kind is EdgeKind.FORWARD else backward)
        edges.append(edge)
    return replace(plan, edges=tuple(edges))


def every_rank(name: str) -> Each:
    """A loop over all ranks."""
    return Each(name, Const(0), Sym("ranks"))
