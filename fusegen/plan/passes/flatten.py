"""Work flattening (guide 1.2): which axes one work index runs over, and what one work item carries."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from fusegen.plan.ir import Decision, Granularity, KernelPlan
from fusegen.spec import KernelSpec


def flatten(plan: KernelPlan, spec: KernelSpec) -> KernelPlan:
    """Decide merged rounds and the granularity of work items, the same for all stages: they share slots and buffers."""
    barrier = spec.sync == "barrier"
    match spec.flatten:
        case "none":
            merged, granularity = False, Granularity.TILE
            choice, reason = "the tiles of one S block at a time", "flatten: none"
        case "s":
            merged, granularity = True, Granularity.TILE
            choice, reason = "all tiles of all S blocks", "flatten: s; tasks of one S block may be fewer than the cores"
        case "auto":
            merged, granularity = not barrier, Granularity.FILL
            if barrier:
                choice = "ranks, then heads, then D blocks of one S block, until the cores are filled"
                reason = "a barrier separates the S blocks, so S cannot be merged"
            else:
                choice = "S blocks and ranks, then heads, then D blocks, until the role's cores are filled"
                reason = "axes that are not needed stay inside a work item, where neighbours share rows of A and C"
        case _:
            assert_never(spec.flatten)
    stages = tuple(
        replace(stage, tasks=replace(stage.tasks, merged_rounds=merged, granularity=granularity))
        for stage in plan.stages
    )
    decision = Decision("work flattening", choice, reason, "1.2")
    return replace(plan, stages=stages, decisions=(*plan.decisions, decision))
