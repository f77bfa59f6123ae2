"""Which cores run which stage, and what grid that needs."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import KernelPlan, Launch, LaunchKind
from fusegen.plan.stages import AllCores, First, Role, Selection, Stage

SHARE_REASON = "programs wait for each other: one that only starts when another ends would never be released"


def assign_workers(plan: KernelPlan) -> KernelPlan:
    """Give each stage its cores.

    In a mix kernel the composition has named cube and vector cores. In a vector kernel stages share all cores, or
    those that write buffers have one role and those that empty them the other; interleaved roles alternate.
    """
    return _mix(plan) if plan.is_mix else _vector(plan)


def _mix(plan: KernelPlan) -> KernelPlan:
    on = [f"{stage.name} on the {stage.workers.engine.value} cores" for stage in plan.stages]
    decisions = (
        Decision(
            "roles",
            ", ".join(on),
            "cube and vector cores have program counters of their own: a round is communicated while another is "
            "multiplied",
            "1.1",
        ),
        Decision("grid", "one program on each AI core, at least 1, all resident", SHARE_REASON, "2.1"),
    )
    return replace(plan, launch=Launch(LaunchKind.MIX, 1, 1), decisions=(*plan.decisions, *decisions))


def _vector(plan: KernelPlan) -> KernelPlan:
    shared = plan.choices.roles == "shared"
    roles = 1 if shared else 2
    stages = tuple(
        replace(stage, workers=replace(stage.workers, selection=_selection(plan, stage, roles))) for stage in plan.stages
    )
    # A role that splits off senders needs a core for the rest as well.
    parted = any(isinstance(stage.workers.part, First) for stage in stages)
    minimum = roles + parted
    if shared:
        decision = Decision(
            "roles",
            "every core runs every stage, one after the other",
            "roles: shared; a barrier keeps the stages apart",
            "1.1",
        )
    else:
        names = [
            " and ".join(s.name for s in stages if s.workers.selection == Role(index, roles)) for index in range(roles)
        ]
        decision = Decision(
            "roles",
            ", ".join(f"cores with core % {roles} == {index}: {name}" for index, name in enumerate(names)),
            "producers and consumers run at the same time; an odd number of cores gives the first role one more",
            "1.3",
        )
    grid = Decision("grid", f"one program on each vector core, at least {minimum}, all resident", SHARE_REASON, "2.1")
    launch = Launch(LaunchKind.VECTOR, roles, minimum)
    return replace(plan, stages=stages, launch=launch, decisions=(*plan.decisions, decision, grid))


def _selection(plan: KernelPlan, stage: Stage, roles: int) -> Selection:
    """Stages that write symmetric memory produce, the others consume."""
    if roles == 1:
        return AllCores()
    produces = any(plan.is_buffer(access.region) for access in stage.writes)
    return Role(0 if produces else 1, roles)
