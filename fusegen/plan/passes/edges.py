"""Where stages meet: every pair of a writer and a reader of one buffer gives the edges that a cover must order."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import Edge, EdgeKind, KernelPlan


def derive_edges(plan: KernelPlan) -> KernelPlan:
    """Forward edge: a round's tile is read after it was written. Backward edges: it is written over after it was read.

    A ring position comes back after `buffer_num` rounds, and again in the next launch on the same workspace, which
    starts at position 0 whatever the last round of this one was (docs/platform.md, hazard 2). A buffer without a ring
    comes back in the next launch only.
    """
    decisions = []
    if any(buffer.ring for buffer in plan.buffers):
        ring = plan.buffer_num
        decisions.append(
            Decision(
                "ring",
                f"{ring} buffer{'s' if ring > 1 else ''}: round r uses buffer r % {ring}",
                "one round is read while the next one arrives" if ring > 1 else "rounds cannot overlap",
                "1.1",
            )
        )
    for buffer in plan.buffers:
        if buffer.ring is None:
            decisions.append(
                Decision(
                    f"region {buffer.name}",
                    "holds everything, each part is written once in a launch",
                    "whole blocks stay where they are until they are read: no writer waits for a free place",
                    "1.5",
                )
            )
    return replace(plan, edges=buffer_edges(plan), decisions=(*plan.decisions, *decisions))


def buffer_edges(plan: KernelPlan) -> tuple[Edge, ...]:
    """The edges that the plan's buffers make necessary, not covered yet."""
    edges: list[Edge] = []
    for buffer in plan.buffers:
        writers = [s.name for s in plan.stages if any(access.region == buffer.name for access in s.writes)]
        readers = [s.name for s in plan.stages if any(access.region == buffer.name for access in s.reads)]
        for writer in writers:
            for reader in readers:
                edges.append(Edge(EdgeKind.FORWARD, writer, reader, buffer.name, 0, across_launches=False))
                if buffer.ring:
                    distance = plan.buffer_num
                    edges.append(Edge(EdgeKind.BACKWARD, reader, writer, buffer.name, distance, across_launches=False))
                edges.append(Edge(EdgeKind.BACKWARD, reader, writer, buffer.name, 0, across_launches=True))
    return tuple(edges)
