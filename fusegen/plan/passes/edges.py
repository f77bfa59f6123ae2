"""Where stages meet: every pair of a writer and a reader of one buffer gives the edges that a cover must order."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    Edge,
    EdgeKind,
    KernelPlan,
)


def derive_edges(plan: KernelPlan) -> KernelPlan:
    """Forward edge: a round's tile is read after it was written. Backward edges: it is written over after it was read.

    A ring position comes back after `buffer_num` rounds, and again in the next launch on the same workspace, which
    starts at position 0 whatever the last round of this one was (docs/platform.md, hazard 2).
    """
    edges = buffer_edges(plan)
    decision = Decision(
        "ring",
        f"{plan.buffer_num} buffer{'s' if plan.buffer_num > 1 else ''}: round r uses buffer r % {plan.buffer_num}",
        "one round is read while the next one arrives" if plan.buffer_num > 1 else "rounds cannot overlap",
        "1.1",
    )
    return replace(plan, edges=edges, decisions=(*plan.decisions, decision))


def buffer_edges(plan: KernelPlan) -> tuple[Edge, ...]:
    """The edges that the plan's buffers make necessary, not covered yet."""
    edges: list[Edge] = []
    for buffer in plan.buffers:
        writers = [s.name for s in plan.stages if any(access.region == buffer.name for access in s.writes)]
        readers = [s.name for s in plan.stages if any(access.region == buffer.name for access in s.reads)]
        for writer in writers:
            for reader in readers:
                edges += [
                    Edge(EdgeKind.FORWARD, writer, reader, buffer.name, 0, across_launches=False),
                    Edge(EdgeKind.BACKWARD, reader, writer, buffer.name, plan.buffer_num, across_launches=False),
                    Edge(EdgeKind.BACKWARD, reader, writer, buffer.name, 0, across_launches=True),
                ]
    return tuple(edges)
