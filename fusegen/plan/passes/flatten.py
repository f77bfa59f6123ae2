"""Work flattening (guide 1.2): which axes one work index runs over, and what one work item carries."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    Granularity,
    KernelPlan,
    Tasks,
)


def flatten(plan: KernelPlan) -> KernelPlan:
    """Decide merged rounds and the granularity of work items, the same for all stages: they share slots and buffers."""
    merged = plan.flatten != "none" and plan.sync != "barrier"
    granularity = Granularity.FILL if plan.flatten == "auto" else Granularity.TILE
    stages = tuple(
        replace(stage, tasks=replace(stage.tasks, merged_rounds=merged, granularity=granularity))
        for stage in plan.stages
    )
    decision = _decision(stages[0].tasks, plan)
    return replace(plan, stages=stages, decisions=(*plan.decisions, decision, _visiting_order(stages[0].tasks)))


def _decision(tasks: Tasks, plan: KernelPlan) -> Decision:
    rounds, ranks = tasks.round.label, tasks.rank.label
    items = ", then ".join(axis.label for axis in tasks.items)
    if tasks.granularity is Granularity.FILL:
        first = f"{rounds} and {ranks}" if tasks.merged_rounds else f"{ranks} of one of the {rounds}"
        choice = f"{first}, then {items}, until the cores of a role are filled"
        reason = "what the cores do not need stays inside a work item: neighbours there are neighbours in memory"
        if not tasks.merged_rounds:
            reason += f"; {rounds} cannot be merged, a barrier stands between them"
    elif tasks.merged_rounds:
        choice = f"all tiles of all {rounds}"
        reason = f"flatten: {plan.flatten}; the tasks of one round may be fewer than the cores"
    else:
        choice = f"all tiles of one of the {rounds} at a time"
        reason = f"flatten: {plan.flatten}"
    return Decision("work flattening", choice, reason, "1.2")


def _visiting_order(tasks: Tasks) -> Decision:
    return Decision(
        "visiting order",
        f"{tasks.rank.label} change fastest, each rank counts them from itself",
        "neighbouring cores have different partners, so all links carry data at once, and no two ranks start with "
        "the same one",
        "1.4",
    )
