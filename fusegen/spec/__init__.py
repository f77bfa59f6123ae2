"""Specs: what a kernel should be, as its author writes it in YAML."""

from fusegen.spec.fields import Reduction, SpecBase, cores_of
from fusegen.spec.gemm import AllGatherGemm, Gemm, GemmAllReduce, GemmReduceScatter
from fusegen.spec.loader import LoadedSpec, load_spec, load_specs
from fusegen.spec.model import KernelSpec
from fusegen.spec.movement import All2All, AllGather, AllReduce, Movement, ReduceScatter, ReverseAll2All

__all__ = [
    "All2All",
    "AllGather",
    "AllGatherGemm",
    "AllReduce",
    "Gemm",
    "GemmAllReduce",
    "GemmReduceScatter",
    "KernelSpec",
    "LoadedSpec",
    "Movement",
    "ReduceScatter",
    "Reduction",
    "ReverseAll2All",
    "SpecBase",
    "cores_of",
    "load_spec",
    "load_specs",
]
