"""What a spec may say: the patterns, and the union of their models.

Models check single fields. Rules about several fields stand in `rules.py`, and what fits a device is the planner's
business.

To add a pattern, write its model in `movement.py` or `gemm.py`, name it in `KernelSpec` and `PATTERNS`, and write its
starting spec in the folder `starters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from fusegen.spec.gemm import AllGatherGemm, GemmAllReduce, GemmReduceScatter
from fusegen.spec.movement import All2All, AllGather, AllReduce, ReduceScatter, ReverseAll2All

KernelSpec: TypeAlias = Annotated[
    ReverseAll2All
    | All2All
    | AllGather
    | ReduceScatter
    | AllReduce
    | AllGatherGemm
    | GemmReduceScatter
    | GemmAllReduce,
    Field(discriminator="pattern"),
]
"""Any spec: the union of the pattern models, told apart by `pattern`."""

PATTERNS: Final[Mapping[str, type[KernelSpec]]] = MappingProxyType(
    {
        "reverse_all2all": ReverseAll2All,
        "all2all": All2All,
        "allgather": AllGather,
        "reduce_scatter": ReduceScatter,
        "allreduce": AllReduce,
        "allgather_gemm": AllGatherGemm,
        "gemm_reduce_scatter": GemmReduceScatter,
        "gemm_allreduce": GemmAllReduce,
    }
)
