"""Specs: what a kernel should be, as its author writes it in YAML."""

from fusegen.spec.loader import LoadedSpec, load_spec, load_specs
from fusegen.spec.model import KernelSpec, ReverseAll2All

__all__ = ["KernelSpec", "LoadedSpec", "ReverseAll2All", "load_spec", "load_specs"]
