"""What a plan amounts to under given ranks, cores and shape, as plain values: `fusegen explain` prints them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fusegen.errors import Fault, PlanError
from fusegen.plan.evaluate import Conditions, occupancy
from fusegen.plan.expr import HOST, evaluate, text
from fusegen.plan.ir import INT32_LIMIT, SLOT_BYTES, BarrierCover, Edge, KernelPlan, SignalCover
from fusegen.plan.passes.prove import DTYPE_BYTES
from fusegen.plan.program import Barrier, Node, Rounds


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sections of `fusegen explain`; `as_json` is its document.

    decisions  rule, choice, reason, guide section
    buffers    name, axes, dtype, elements and bytes on each rank
    slots      count and bytes on each rank, axes with extents, who resets
    occupancy  how the work index fills the cores (guide 1.2)
    launch     grid, rounds, barriers in one launch
    edges      who must wait for whom, and what orders them
    """

    spec: str
    ranks: int
    cores: int
    shape: dict[str, int]
    decisions: list[dict[str, Any]]
    tensors: list[dict[str, Any]]
    buffers: list[dict[str, Any]]
    slots: dict[str, Any]
    occupancy: dict[str, Any]
    launch: dict[str, Any]
    edges: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings."""
        return asdict(self)


def explain(plan: KernelPlan, conditions: Conditions) -> Explanation:
    """Evaluate the plan. Raises PlanError when the launcher would refuse these conditions."""
    if plan.host is None or plan.launch is None:
        raise ValueError(f"{plan.name}: expected a plan that has passed every pass")
    faults = condition_faults(plan, conditions)
    if faults:
        raise PlanError(faults)
    values = {**dict(plan.constants), **conditions.shape, "ranks": conditions.ranks}
    elements = {allocation.name: evaluate(allocation.elements, values) for allocation in plan.host.allocations}
    names = {definition.name: definition.value for definition in plan.definitions}
    values |= {name: evaluate(expr, values) for name, expr in names.items() if name.startswith("blocks_")}
    rounds = values["blocks_s"]
    return Explanation(
        spec=plan.name,
        ranks=conditions.ranks,
        cores=conditions.cores,
        shape=dict(conditions.shape),
        decisions=[asdict(decision) for decision in plan.decisions],
        tensors=[
            {
                "name": tensor.name,
                "role": tensor.role.value,
                "shape": [evaluate(axis.extent, values) for axis in tensor.axes],
                "bytes": evaluate(count, values) * DTYPE_BYTES[plan.dtype],
            }
            for tensor, (_, count) in zip(plan.tensors, plan.host.limits, strict=True)
        ],
        buffers=[
            {
                "name": buffer.name,
                "dtype": plan.dtype,
                "axes": {axis.name: evaluate(axis.extent, values) for axis in buffer.layout.axes},
                "elements": elements[buffer.name],
                "bytes": elements[buffer.name] * DTYPE_BYTES[plan.dtype],
                "formula": text(buffer.layout.size(), HOST),
            }
            for buffer in plan.buffers
        ],
        slots=_slots(plan, values),
        occupancy=_occupancy(plan, conditions),
        launch={
            "kind": plan.launch.engine.value,
            "grid": 0 if conditions.empty() else conditions.cores,
            "minimum_cores": plan.launch.minimum_cores,
            "roles": {stage.name: stage.workers.count(conditions.cores) for stage in plan.stages},
            "rounds": 0 if conditions.empty() else rounds,
            "barriers": 0 if conditions.empty() else _barriers(plan.program, rounds),
        },
        edges=[_edge(edge) for edge in plan.edges],
    )


def condition_faults(plan: KernelPlan, conditions: Conditions) -> list[Fault]:
    """Why the launcher would refuse to launch; empty when it would not."""
    if plan.host is None or plan.launch is None:
        raise ValueError(f"{plan.name}: expected a plan that has passed every pass")
    values = {**dict(plan.constants), **conditions.shape, "ranks": conditions.ranks}
    regions = (*plan.host.limits, *((allocation.name, allocation.elements) for allocation in plan.host.allocations))
    counts = ((name, evaluate(elements, values)) for name, elements in regions)
    faults = [
        Fault(
            "shape",
            f"fewer than 2**31 elements in {name}, for 32-bit offsets",
            str(count),
            "lower a dimension or split the call",
        )
        for name, count in counts
        if count >= INT32_LIMIT
    ]
    if conditions.cores < plan.launch.minimum_cores:
        roles = ", ".join(stage.name for stage in plan.stages)
        faults.append(
            Fault(
                "cores",
                f"at least {plan.launch.minimum_cores}",
                str(conditions.cores),
                f"each role needs a core of its own: {roles}",
            )
        )
    return faults


def _slots(plan: KernelPlan, values: dict[str, int]) -> dict[str, Any]:
    """One group at most now; a kernel without signals has none."""
    if not plan.slots:
        return {"count": 0, "bytes": 0, "axes": {}, "resetters": []}
    (group,) = plan.slots
    count = evaluate(group.layout.size(), values)
    return {
        "count": count,
        "bytes": count * SLOT_BYTES,
        "axes": {axis.name: evaluate(axis.extent, values) for axis in group.layout.axes},
        "resetters": list(group.resetters),
    }


def _occupancy(plan: KernelPlan, conditions: Conditions) -> dict[str, Any]:
    found = occupancy(plan, conditions)
    return {
        "total_tasks": found.total_tasks,
        "role_cores": found.role_cores,
        "active_cores": found.active_cores,
        "idle_cores": found.idle_cores,
        "utilization": found.utilization,
        "full": found.full,
        "merged": list(found.merged),
        "carried": dict(found.carried),
        "tiles": found.tiles,
    }


def _barriers(nodes: tuple[Node, ...], rounds: int) -> int:
    """Barriers that each core passes in one launch."""
    total = 0
    for node in nodes:
        match node:
            case Barrier():
                total += 1
            case Rounds(extra, body):
                total += (rounds + extra) * _barriers(body, rounds)
            case _:  # no barrier stands in a condition: the prover refuses it
                pass
    return total


def _edge(edge: Edge) -> dict[str, Any]:
    match edge.cover:
        case SignalCover(slots):
            cover = f"slot of {slots}"
        case BarrierCover():
            cover = "barrier"
        case None:
            cover = "nothing"
    return {
        "kind": edge.kind.value,
        "source": edge.source,
        "target": edge.target,
        "buffer": edge.buffer,
        "distance": edge.distance,
        "across_launches": edge.across_launches,
        "cover": cover,
    }
