"""The names that the kernel defines before its loops."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.ir import KernelPlan
from fusegen.plan.tasks import prologue


def define_names(plan: KernelPlan) -> KernelPlan:
    """Block counts, work counts and strides; the launcher's sizes and the proofs read the same definitions."""
    return replace(plan, definitions=prologue(plan))
