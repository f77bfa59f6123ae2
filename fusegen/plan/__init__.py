"""Planning: from a spec to a plan in which every edge is covered and every address proven (`ir` has the language)."""

from fusegen.plan.ir import KernelPlan
from fusegen.plan.planner import make_plan

__all__ = ["KernelPlan", "make_plan"]
