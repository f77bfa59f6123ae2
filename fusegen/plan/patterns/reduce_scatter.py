"""ReduceScatter: each rank gets its rows of the sum over all ranks' A; rows are split like torch.chunk."""

from __future__ import annotations

from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns.sum import SCATTERED, compose_sum
from fusegen.spec import ReduceScatter


def compose(name: str, spec: ReduceScatter) -> KernelPlan:
    """A round adds TILE_M rows of every rank's share."""
    summary = "ReduceScatter: C_r[m, n] = sum over ranks q of A_q[r * rank_rows + m, n] on rank r."
    return compose_sum(name, spec, SCATTERED, summary=summary)
