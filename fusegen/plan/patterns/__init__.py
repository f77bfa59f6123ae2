"""Patterns: each names its tensors, buffers and stages, and leaves everything else to the passes."""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.errors import Fault, PlanError
from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns import reverse_all2all
from fusegen.spec import KernelSpec, ReverseAll2All


def compose(name: str, spec: KernelSpec) -> KernelPlan:
    """The stages and regions of the pattern that a spec asks for. Raises PlanError for what has no composition."""
    if faults := list(_not_composed(spec)):
        raise PlanError(faults)
    match spec:
        case ReverseAll2All():
            return reverse_all2all.compose(name, spec)
        case _:
            raise PlanError([Fault("pattern", "a pattern that can be planned: reverse_all2all", spec.pattern)])


def _not_composed(spec: KernelSpec) -> Iterator[Fault]:
    """Choices that a spec may make but that no composition heeds: a kernel that ignores them would be a lie."""
    comm = spec.swizzle.comm
    choices = (
        ("transport", "mte", spec.transport),
        ("announce", "per_tile", spec.announce),
        ("swizzle.comm.order", "nz", comm.order),
        ("swizzle.comm.npu_split", "1", str(comm.npu_split)),
    )
    for field, planned, chosen in choices:
        if chosen != planned:
            yield Fault(field, f"{planned}, which can be planned", chosen)
