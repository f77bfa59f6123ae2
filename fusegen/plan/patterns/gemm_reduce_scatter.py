"""GEMM + ReduceScatter: each rank gets its rows of the sum over ranks of A @ B; rows are split like torch.chunk."""

from __future__ import annotations

from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns.gemm_sum import compose_gemm_sum
from fusegen.plan.patterns.sum import SCATTERED
from fusegen.spec import GemmReduceScatter


def compose(name: str, spec: GemmReduceScatter) -> KernelPlan:
    """A round covers a panel of rows of every rank's share."""
    added = " + bias" if spec.bias else ""
    summary = f"GEMM + ReduceScatter: C = this rank's rows of the sum over ranks of A @ B{added}."
    return compose_gemm_sum(name, spec, SCATTERED, summary=summary)
