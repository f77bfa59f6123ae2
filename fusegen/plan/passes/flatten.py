"""Work flattening (guide 1.2): which axes one work index runs over, and what one work item carries."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import KernelPlan
from fusegen.plan.stages import Granularity, Grid, Stage, Tasks
from fusegen.plan.swizzle import CommOrder, Interleaved, Sequential, Zigzag


def flatten(plan: KernelPlan) -> KernelPlan:
    """Decide merged rounds and the granularity of work items, the same for all stages that share a ring.

    A stage that uses no ring passes over all its rounds at once in any case.
    """
    choices = plan.choices
    merged = choices.flatten != "none" and choices.sync != "barrier" and choices.announce == "per_tile"
    alike = len({(stage.tasks.items, stage.tasks.rank) for stage in plan.stages}) == 1
    granularity = Granularity.FILL if choices.flatten == "auto" and alike else Granularity.TILE
    order = _order(plan)
    stages = []
    for stage in plan.stages:
        tasks = stage.tasks
        if not isinstance(tasks.order, Grid):
            tasks = replace(tasks, order=order, granularity=granularity)
        if tasks.round is not None:
            tasks = replace(tasks, merged_rounds=merged or not _uses_ring(plan, stage))
        stages.append(replace(stage, tasks=tasks))
    plan = replace(plan, stages=tuple(stages))
    return replace(plan, decisions=(*plan.decisions, _decision(plan), *_visiting_order(plan)))


def _uses_ring(plan: KernelPlan, stage: Stage) -> bool:
    return any(plan.is_buffer(region) and plan.buffer(region).ring is not None for region in stage.regions())


def _order(plan: KernelPlan) -> CommOrder:
    return Sequential() if plan.choices.comm_order == "sequential" else Interleaved(plan.choices.npu_split)


def _decision(plan: KernelPlan) -> Decision:
    tasks = next((s.tasks for s in plan.stages if s.tasks.round is not None and _uses_ring(plan, s)), None)
    if tasks is None:
        return Decision("work flattening", "all tiles in one work index", "no ring: one pass over everything", "1.2")
    rounds = tasks.label()
    if plan.is_mix:
        return Decision(
            "work flattening",
            f"all tiles of one of the {rounds} at a time",
            "a round is a panel of rows with every column tile: cube and vector cores meet round by round",
            "1.2",
        )
    return _movement_decision(plan, tasks, rounds)


def _movement_decision(plan: KernelPlan, tasks: Tasks, rounds: str) -> Decision:
    ranks = tasks.rank.label if tasks.rank else "tiles"
    items = ", then ".join(axis.label for axis in tasks.items)
    flattening = plan.choices.flatten
    if tasks.granularity is Granularity.FILL:
        first = f"{rounds} and {ranks}" if tasks.merged_rounds else f"{ranks} of one of the {rounds}"
        choice = f"{first}, then {items}, until the cores of a role are filled"
        reason = "what the cores do not need stays inside a work item: neighbours there are neighbours in memory"
        if plan.choices.sync == "barrier":
            reason += f"; {rounds} cannot be merged, a barrier stands between them"
        elif not tasks.merged_rounds:
            reason += f"; {rounds} are not merged: a round's announcements follow all its stores"
    elif tasks.merged_rounds:
        choice = f"all tiles of all {rounds}"
        reason = f"flatten: {flattening}; the tasks of one round may be fewer than the cores"
    else:
        choice = f"all tiles of one of the {rounds} at a time"
        batched = plan.choices.announce == "batched"
        reason = "a round's announcements follow all its stores" if batched else f"flatten: {flattening}"
    return Decision("work flattening", choice, reason, "1.2")


def _visiting_order(plan: KernelPlan) -> list[Decision]:
    """How work indices walk over ranks and tiles (guide 1.4)."""
    decisions = []
    order = _order(plan)
    loops = [s for s in plan.stages if s.tasks.rank and s.tasks.items and not isinstance(s.tasks.order, Grid)]
    match order:
        case _ if not loops:
            choice = "each tile visits all ranks, or each core has one rank"
            reason = "there is no loop over tiles and ranks whose order could be chosen"
        case Sequential():
            choice = "one rank after the other, each rank starts with itself"
            reason = "swizzle.comm.order: sequential; all cores share one link at a time"
        case Interleaved(split):
            choice = "ranks change fastest, each rank counts them from itself" + (
                f", {split} strides apart" if split > 1 else ""
            )
            reason = (
                "neighbouring cores have different partners, so all links carry data at once, and no two ranks start "
                "with the same one; the next tile starts with the next rank"
            )
    decisions.append(Decision("visiting order", choice, reason, "1.4"))
    grids = [stage.tasks.order for stage in plan.stages if isinstance(stage.tasks.order, Grid)]
    if grids:
        zigzag = isinstance(grids[0].tiles, Zigzag)
        decisions.append(
            Decision(
                "GEMM tile order",
                "zigzag through groups of columns" if zigzag else "row by row",
                "tiles that follow each other share rows of A or columns of B, also where the direction turns"
                if zigzag
                else "swizzle.gemm.order: row_major",
                "1.4",
            )
        )
    return decisions
