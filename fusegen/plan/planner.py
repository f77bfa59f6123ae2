"""From a spec to a proven plan: one line per pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fusegen.plan.ir import KernelPlan
from fusegen.plan.passes.barriers import cover_with_barriers
from fusegen.plan.passes.edges import derive_edges
from fusegen.plan.passes.flatten import flatten
from fusegen.plan.passes.host import derive_host_duties
from fusegen.plan.passes.names import define_names
from fusegen.plan.passes.prove import prove
from fusegen.plan.passes.signals import cover_with_signals
from fusegen.plan.passes.workers import assign_workers
from fusegen.plan.patterns import compose
from fusegen.spec import KernelSpec

Pass: TypeAlias = Callable[[KernelPlan], KernelPlan]


def cover_edges(plan: KernelPlan) -> KernelPlan:
    """Order every edge by the chosen synchronisation."""
    return cover_with_barriers(plan) if plan.choices.sync == "barrier" else cover_with_signals(plan)


PASSES: tuple[Pass, ...] = (
    flatten,
    assign_workers,
    derive_edges,
    cover_edges,
    define_names,
    derive_host_duties,
)


def make_plan(name: str, spec: KernelSpec, *, memory_check: bool = True) -> KernelPlan:
    """The plan of kernel `name`. Raises PlanError when the spec asks for what cannot work, with all faults.

    Without `memory_check` tiles may be too large for on-chip memory; `memory_faults` says so, and the compiler can be
    asked all the same.
    """
    plan = compose(name, spec)
    for step in PASSES:
        plan = step(plan)
    return prove(plan, memory_check=memory_check)
