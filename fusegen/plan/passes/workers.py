"""Which cores run which stage, and what grid that needs."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from fusegen.plan.ir import AllCores, Decision, Engine, KernelPlan, Launch, Role, Workers
from fusegen.spec import KernelSpec


def assign_workers(plan: KernelPlan, spec: KernelSpec) -> KernelPlan:
    """Give each stage its cores. Interleaved roles alternate, so the two vector cores of an AI core differ."""
    selections: tuple[AllCores | Role, ...]
    match spec.roles:
        case "shared":
            selections = tuple(AllCores() for _ in plan.stages)
            roles = 1
            decision = Decision(
                "roles",
                "every core runs every stage, one after the other",
                "roles: shared; a single core is enough, and a barrier keeps the stages apart",
                "1.1",
            )
        case "interleaved":
            roles = len(plan.stages)
            selections = tuple(Role(index, roles) for index in range(roles))
            decision = Decision(
                "roles",
                ", ".join(f"cores with core % {roles} == {i}: {stage.name}" for i, stage in enumerate(plan.stages)),
                "the two vector cores of an AI core share its bandwidth: give them different work; an odd core count "
                "gives the first role one core more",
                "1.3",
            )
        case _:
            assert_never(spec.roles)
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
    launch = Launch(Engine.VECTOR, minimum_cores=roles, roles=roles)
    return replace(plan, stages=stages, launch=launch, decisions=(*plan.decisions, decision, grid))
