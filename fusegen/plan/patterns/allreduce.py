"""AllReduce (one-shot): every rank gets the sum over all ranks' A, and adds it up itself."""

from __future__ import annotations

from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns.sum import WHOLE, compose_sum
from fusegen.spec import AllReduce


def compose(name: str, spec: AllReduce) -> KernelPlan:
    """A round adds TILE_M rows on every rank."""
    summary = "AllReduce: C[m, n] = sum over ranks q of A_q[m, n] on every rank."
    return compose_sum(name, spec, WHOLE, summary=summary)
