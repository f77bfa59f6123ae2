"""What a plan amounts to under given ranks, cores and shape, as plain values: `fusegen explain` prints them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fusegen.errors import Fault, PlanError
from fusegen.plan.evaluate import Conditions, given_values, occupancy, regions, rounds_of
from fusegen.plan.expr import HOST, evaluate, text
from fusegen.plan.ir import SLOT_BYTES, BarrierCover, Edge, KernelPlan, SignalCover
from fusegen.plan.passes.budget import offset_fault, transfer_fault
from fusegen.plan.program import Barrier, Node, Rounds


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sections of `fusegen explain`; `as_json` is its document.

    decisions  rule, choice, reason, guide section
    buffers    name, axes, dtype, elements and bytes on each rank
    slots      groups of signal slots: count and bytes on each rank, axes with extents, who resets
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
    slots: list[dict[str, Any]]
    occupancy: dict[str, Any]
    launch: dict[str, Any]
    edges: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings."""
        return asdict(self)


def explain(plan: KernelPlan, conditions: Conditions) -> Explanation:
    """Evaluate the plan. Raises PlanError when the launcher would refuse these conditions."""
    faults = condition_faults(plan, conditions)
    if faults:
        raise PlanError(faults)
    values = given_values(plan, conditions)
    sizes = regions(plan, conditions)
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
                "bytes": sizes[tensor.name].bytes,
            }
            for tensor in plan.tensors
        ],
        buffers=[
            {
                "name": buffer.name,
                "dtype": buffer.dtype,
                "axes": {axis.name: evaluate(axis.extent, values) for axis in buffer.layout.axes},
                "elements": sizes[buffer.name].elements,
                "bytes": sizes[buffer.name].bytes,
                "formula": text(buffer.layout.size(), HOST),
            }
            for buffer in plan.buffers
        ],
        slots=_slots(plan, values),
        occupancy=_occupancy(plan, conditions),
        launch=_launch(plan, conditions),
        edges=[_edge(edge) for edge in plan.edges],
    )


def condition_faults(plan: KernelPlan, conditions: Conditions) -> list[Fault]:
    """Why the launcher would refuse to launch; empty when it would not."""
    sizes = regions(plan, conditions)
    faults = [offset_fault(region, "shape") for region in sizes.values() if not region.fits]
    transfer = transfer_fault(plan, conditions, "shape")
    faults += [transfer] if transfer else []
    if conditions.cores < plan.launch.minimum_cores:
        roles = ", ".join(stage.name for stage in plan.stages)
        expected = f"at least {plan.launch.minimum_cores}"
        advice = f"each role needs a core of its own: {roles}"
        faults.append(Fault("cores", expected, str(conditions.cores), advice))
    return faults


def _launch(plan: KernelPlan, conditions: Conditions) -> dict[str, Any]:
    rounds = rounds_of(plan, conditions)
    return {
        "kind": plan.launch.kind.value,
        "grid": conditions.cores if rounds else 0,
        "minimum_cores": plan.launch.minimum_cores,
        "roles": {stage.name: stage.workers.count(conditions.cores) for stage in plan.stages},
        "rounds": rounds,
        "barriers": _barriers(plan.program, rounds) if rounds else 0,
    }


def _slots(plan: KernelPlan, values: dict[str, int]) -> list[dict[str, Any]]:
    groups = []
    for group in plan.slots:
        count = evaluate(group.layout.size(), values)
        groups.append(
            {
                "name": group.name,
                "buffer": group.buffer,
                "count": count,
                "bytes": count * SLOT_BYTES,
                "axes": {axis.name: evaluate(axis.extent, values) for axis in group.layout.axes},
                "resetters": list(group.resetters),
            }
        )
    return groups


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
        "tiles_in_flight": found.tiles_in_flight,
    }


def _barriers(nodes: tuple[Node, ...], rounds: int) -> int:
    """Barriers that each core passes in one launch."""
    total = 0
    for node in nodes:
        match node:
            case Barrier():
                total += 1
            case Rounds(_, extra, body):
                total += (rounds + extra) * _barriers(body, rounds)
            case _:  # no barrier stands in a condition: the prover refuses it
                pass
    return total


def _edge(edge: Edge) -> dict[str, Any]:
    match edge.cover:
        case SignalCover(slots, through):
            cover = f"slot of {slots}" + (f", through {through}" if through else "")
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
