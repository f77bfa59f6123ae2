"""GEMM + AllReduce (one-shot): every rank gets the sum over ranks of A @ B, and adds it up itself."""

from __future__ import annotations

from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns.gemm_sum import compose_gemm_sum
from fusegen.plan.patterns.sum import WHOLE
from fusegen.spec import GemmAllReduce


def compose(name: str, spec: GemmAllReduce) -> KernelPlan:
    """A round covers a panel of rows."""
    added = " + bias" if spec.bias else ""
    return compose_gemm_sum(name, spec, WHOLE, summary=f"GEMM + AllReduce: C = sum over ranks of A @ B{added}.")
