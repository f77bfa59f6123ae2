"""Patterns: each names its tensors, buffers and stages, and leaves everything else to the passes."""

from __future__ import annotations

from typing import assert_never

from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns import (
    all2all,
    allgather,
    allgather_gemm,
    allreduce,
    gemm_allreduce,
    gemm_reduce_scatter,
    reduce_scatter,
    reverse_all2all,
)
from fusegen.spec import (
    All2All,
    AllGather,
    AllGatherGemm,
    AllReduce,
    GemmAllReduce,
    GemmReduceScatter,
    KernelSpec,
    ReduceScatter,
    ReverseAll2All,
)


def compose(name: str, spec: KernelSpec) -> KernelPlan:
    """The stages and regions of the pattern that a spec asks for."""
    match spec:
        case ReverseAll2All():
            return reverse_all2all.compose(name, spec)
        case All2All():
            return all2all.compose(name, spec)
        case AllGather():
            return allgather.compose(name, spec)
        case ReduceScatter():
            return reduce_scatter.compose(name, spec)
        case AllReduce():
            return allreduce.compose(name, spec)
        case AllGatherGemm():
            return allgather_gemm.compose(name, spec)
        case GemmReduceScatter():
            return gemm_reduce_scatter.compose(name, spec)
        case GemmAllReduce():
            return gemm_allreduce.compose(name, spec)
        case _:
            assert_never(spec)
