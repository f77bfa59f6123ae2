"""Seeding defects into finished plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fusegen.plan import KernelPlan
from fusegen.plan.ir import PlanDefect
from fusegen.plan.passes.prove import prove
from fusegen.plan.program import Node, Rounds, Run, Scope, When

Keep = Callable[[Node], tuple[Node, ...]]


def refused(plan: KernelPlan, message: str, **changes: Any) -> None:
    """The plan is proved; with these fields changed it is refused with a message that matches."""
    assert prove(plan) == plan
    broken = replace(plan, **changes)
    assert broken != plan, "the defect changes nothing"
    with pytest.raises(PlanDefect, match=message):
        prove(broken)


def stages_with(plan: KernelPlan, name: str, **changes: Any) -> dict[str, Any]:
    """The plan's stages, one of them changed, as a field."""
    stage = replace(plan.stage(name), **changes)
    return {"stages": tuple(stage if each.name == name else each for each in plan.stages)}


def slots_with(plan: KernelPlan, name: str, **changes: Any) -> dict[str, Any]:
    """The plan's slot groups, one of them changed, as a field."""
    group = replace(plan.slot_group(name), **changes)
    return {"slots": tuple(group if each.name == name else each for each in plan.slots)}


def mapped(program: tuple[Node, ...], change: Keep) -> tuple[Node, ...]:
    """The program with each run and barrier replaced by what `change` makes of it."""
    result: list[Node] = []
    for node in program:
        match node:
            case Rounds() | When() | Scope():
                result.append(replace(node, body=mapped(node.body, change)))
            case _:
                result += change(node)
    return tuple(result)


def without_scopes(program: tuple[Node, ...]) -> tuple[Node, ...]:
    """The program with what scopes hold in their place."""
    result: list[Node] = []
    for node in program:
        match node:
            case Scope():
                result += without_scopes(node.body)
            case Rounds() | When():
                result.append(replace(node, body=without_scopes(node.body)))
            case _:
                result.append(node)
    return tuple(result)


def run_times(program: tuple[Node, ...], stage: str, times: int) -> tuple[Node, ...]:
    """The program with a stage run more or less often."""
    return mapped(program, lambda node: (node,) * times if node == Run(stage) else (node,))
