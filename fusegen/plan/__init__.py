"""Planning: from a spec to a plan in which every edge is covered and every address proven.

planner   spec -> patterns (stages and buffers) -> passes, one after the other; the last one proves the plan
ir        the plan's language, with stages, program, layout, expr (symbolic sizes and addresses), facts
tasks     from a work index to a tile; swizzle: in which order; timeline, bounds: what the proof counts with
evaluate  a plan under ranks, cores and shape -> explain, advice, visiting, small (conditions to explore)
outline   the program of a plan in words; graph: as a flowchart
"""

from fusegen.plan.ir import KernelPlan
from fusegen.plan.planner import make_plan

__all__ = ["KernelPlan", "make_plan"]
