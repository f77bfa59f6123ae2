"""Patterns: each names its tensors, buffers and stages, and leaves everything else to the passes."""

from __future__ import annotations

from fusegen.errors import Fault, PlanError
from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns import reverse_all2all
from fusegen.spec import KernelSpec, ReverseAll2All


def compose(name: str, spec: KernelSpec) -> KernelPlan:
    """The stages and regions of the pattern that a spec asks for. Raises PlanError for one without a composition."""
    match spec:
        case ReverseAll2All():
            return reverse_all2all.compose(name, spec)
        case _:
            raise PlanError([Fault("pattern", "a pattern that can be planned: reverse_all2all", spec.pattern)])
