"""Which cores run which stage, and what grid that needs."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    AllCores,
    Engine,
    KernelPlan,
    Launch,
    LaunchKind,
    Role,
    Workers,
)


def assign_workers(plan: KernelPlan) -> KernelPlan:
    """Give each stage its cores: all of them, or those of one role. Interleaved roles alternate."""
    selections: tuple[AllCores | Role, ...]
    if plan.roles == "shared":
        roles = 1
        selections = tuple(AllCores() for _ in plan.stages)
        decision = Decision(
            "roles",
            "every core runs every stage, one after the other",
            "roles: shared; a single core is enough, and a barrier keeps the stages apart",
            "1.1",
        )
    else:
        roles = len(plan.stages)
        selections = tuple(Role(index, roles) for index in range(roles))
        decision = Decision(
            "roles",
            ", ".join(f"cores with core % {roles} == {i}: {stage.name}" for i, stage in enumerate(plan.stages)),
            "producers and consumers run at the same time; an odd number of cores gives the first role one more",
            "1.3",
        )
    stages = tuple(
        replace(stage, workers=Workers(Engine.VECTOR, selection))
        for stage, selection in zip(plan.stages, selections, strict=True)
    )
    grid = Decision(
        "grid",
        f"one program on each vector core, at least {roles}, all resident",
        "programs wait for each other: one that only starts when another ends would never be released",
        "2.1",
    )
    launch = Launch(LaunchKind.VECTOR, roles)
    return replace(plan, stages=stages, launch=launch, decisions=(*plan.decisions, decision, grid))
