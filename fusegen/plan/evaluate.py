"""A plan under given ranks, cores and shape: the value of every name, the work split, and how many cores have work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from fusegen.plan.expr import evaluate
from fusegen.plan.ir import Granularity, KernelPlan
from fusegen.plan.tasks import LAST_WAVE, carried


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a plan leaves open until launch: ranks, launched cores, and the extent of each dimension."""

    ranks: int
    cores: int
    shape: Mapping[str, int]

    def empty(self) -> bool:
        """True when a dimension is zero: the launcher then returns without a launch."""
        return 0 in self.shape.values()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How a launch fills its cores (guide 1.2).

    total_tasks    work items that are dealt at a time: of all rounds where rounds are merged, of one round otherwise
    role_cores     cores of the smallest role
    active_cores   min(total_tasks, role_cores)
    merged         axes that the work index runs over, in the order in which they were merged
    carried        positions of each item axis that one work item carries
    tiles          tiles that each stage moves on each rank, in all rounds
    """

    total_tasks: int
    role_cores: int
    active_cores: int
    merged: tuple[str, ...]
    carried: Mapping[str, int]
    tiles: int

    @property
    def idle_cores(self) -> int:
        """Role cores without work."""
        return self.role_cores - self.active_cores

    @property
    def utilization(self) -> float:
        """Share of the role cores that have work."""
        return self.active_cores / self.role_cores

    @property
    def full(self) -> bool:
        """True when every role core has work."""
        return self.total_tasks >= self.role_cores


def base_values(plan: KernelPlan, conditions: Conditions) -> dict[str, int]:
    """Values of constants, dimensions and `ranks`, and of every definition that needs nothing else."""
    values = {**dict(plan.constants), **conditions.shape, "ranks": conditions.ranks}
    for definition in plan.definitions:
        try:
            values[definition.name] = evaluate(definition.value, values)
        except KeyError:  # needs the work split, see all_values
            continue
    return values


def all_values(plan: KernelPlan, conditions: Conditions) -> dict[str, int]:
    """Values of everything that the kernel knows before its work loop. The shape must not be empty."""
    values = base_values(plan, conditions)
    split = work_split(plan, conditions)
    for axis in plan.stages[0].tasks.items:
        values[carried(axis)] = split[axis.name]
    for definition in plan.definitions:
        values[definition.name] = evaluate(definition.value, values)
    return values


def role_cores(plan: KernelPlan, cores: int) -> int:
    """Cores of the smallest role among `cores` launched ones."""
    return min(stage.workers.count(cores) for stage in plan.stages)


def work_split(plan: KernelPlan, conditions: Conditions) -> dict[str, int]:
    """Positions of each item axis that one work item carries: what the launcher's `work_split` computes."""
    tasks = plan.stages[0].tasks
    values = base_values(plan, conditions)
    extents = {axis.name: evaluate(axis.extent, values) for axis in tasks.items}
    if tasks.granularity is Granularity.TILE:
        return dict.fromkeys(extents, 1)
    cores = role_cores(plan, conditions.cores)
    work = conditions.ranks * (values["blocks_s"] if tasks.merged_rounds else 1)
    split = dict(extents)
    for axis, extent in extents.items():
        if work >= cores and LAST_WAVE * (-work % cores) <= work:
            break
        work, split[axis] = work * extent, 1
    return split


def occupancy(plan: KernelPlan, conditions: Conditions) -> Occupancy:
    """Cores that work and cores that idle. An empty shape has no work at all."""
    tasks = plan.stages[0].tasks
    values = base_values(plan, conditions)
    extents = {axis.name: evaluate(axis.extent, values) for axis in tasks.items}
    split = dict.fromkeys(extents, 1) if conditions.empty() else work_split(plan, conditions)
    items = prod(-(-extent // split[axis]) for axis, extent in extents.items())
    total = conditions.ranks * items * (values["blocks_s"] if tasks.merged_rounds else 1)
    cores = role_cores(plan, conditions.cores)
    merged = (*(("s",) if tasks.merged_rounds else ()), *(axis for axis in extents if split[axis] == 1))
    return Occupancy(
        total_tasks=total,
        role_cores=cores,
        active_cores=min(total, cores),
        merged=tuple(axis.removeprefix("block_") for axis in merged),
        carried={axis: split[axis] for axis in extents},
        tiles=conditions.ranks * values["blocks_s"] * prod(extents.values()),
    )
