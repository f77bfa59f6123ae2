"""Patterns: each names its tensors, buffers and stages, and leaves everything else to the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fusegen.plan.ir import KernelPlan
from fusegen.plan.patterns import reverse_all2all
from fusegen.spec import KernelSpec

COMPOSITIONS: Mapping[str, Callable[[str, KernelSpec], KernelPlan]] = {"reverse_all2all": reverse_all2all.compose}
"""By the `pattern` key of a spec."""
