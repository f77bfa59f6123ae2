"""A plan under given ranks, cores and shape: the value of every name, the work split, and how many cores have work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from fusegen.plan.expr import evaluate, symbols
from fusegen.plan.ir import DTYPE_BYTES, INT32_LIMIT, Granularity, KernelPlan
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
class Region:
    """A tensor or a symmetric allocation on one rank: elements and bytes."""

    name: str
    elements: int
    bytes: int

    @property
    def fits(self) -> bool:
        """True when 32-bit offsets reach every element."""
        return self.elements < INT32_LIMIT


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How a launch fills its cores (guide 1.2).

    total_tasks      work items that are dealt at a time: of all rounds where rounds are merged, of one round otherwise
    role_cores       cores of the smallest role
    active_cores     min(total_tasks, role_cores)
    merged           axes besides the ranks that the work index runs over, in the order in which they were merged
    carried          positions of each item axis that one work item carries
    tiles            tiles that each stage moves on each rank, in all rounds
    tiles_in_flight  tiles of each stage that can be under way at a time: the ring holds no more
    """

    total_tasks: int
    role_cores: int
    active_cores: int
    merged: tuple[str, ...]
    carried: Mapping[str, int]
    tiles: int
    tiles_in_flight: int

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


def given_values(plan: KernelPlan, ranks: int, shape: Mapping[str, int]) -> dict[str, int]:
    """Values of constants, dimensions and `ranks`, and of every definition that does not need the work split."""
    values = {**dict(plan.constants), **shape, "ranks": ranks}
    for definition in plan.definitions:
        if symbols(definition.value) <= values.keys():
            values[definition.name] = evaluate(definition.value, values)
    return values


def all_values(plan: KernelPlan, conditions: Conditions) -> dict[str, int]:
    """Values of everything that the kernel knows before its work loop. The shape must not be empty."""
    values = given_values(plan, conditions.ranks, conditions.shape)
    split = work_split(plan, conditions)
    for axis in plan.stages[0].tasks.items:
        values[carried(axis)] = split[axis.name]
    for definition in plan.definitions:
        values[definition.name] = evaluate(definition.value, values)
    return values


def regions(plan: KernelPlan, ranks: int, shape: Mapping[str, int]) -> dict[str, Region]:
    """Every tensor and symmetric allocation of one rank, by name."""
    values = given_values(plan, ranks, shape)
    sizes = [(name, elements, plan.tensor(name).dtype) for name, elements in plan.host.limits]
    sizes += [(allocation.name, allocation.elements, allocation.dtype) for allocation in plan.host.allocations]
    counts = ((name, evaluate(elements, values), dtype) for name, elements, dtype in sizes)
    return {name: Region(name, count, count * DTYPE_BYTES[dtype]) for name, count, dtype in counts}


def role_cores(plan: KernelPlan, cores: int) -> int:
    """Cores of the smallest role among `cores` launched ones."""
    return min(stage.workers.count(cores) for stage in plan.stages)


def work_split(plan: KernelPlan, conditions: Conditions) -> dict[str, int]:
    """Positions of each item axis that one work item carries: what the launcher's `work_split` computes.

    One axis after the other is merged until the cores are filled: the items that the ring lets be under way at a time
    are at least as many as the cores, and the idle places of the last wave at most one in LAST_WAVE of all items.
    """
    tasks = plan.stages[0].tasks
    values = given_values(plan, conditions.ranks, conditions.shape)
    extents = {axis.name: evaluate(axis.extent, values) for axis in tasks.items}
    if tasks.granularity is Granularity.TILE:
        return dict.fromkeys(extents, 1)
    cores = role_cores(plan, conditions.cores)
    rounds = evaluate(tasks.round.extent, values) if tasks.merged_rounds else 1
    items = conditions.ranks
    split = dict(extents)
    for axis, extent in extents.items():
        if min(rounds, plan.buffer_num) * items >= cores and LAST_WAVE * (-rounds * items % cores) <= rounds * items:
            break
        items, split[axis] = items * extent, 1
    return split


def occupancy(plan: KernelPlan, conditions: Conditions) -> Occupancy:
    """Cores that work and cores that idle. An empty shape has no work at all."""
    tasks = plan.stages[0].tasks
    values = given_values(plan, conditions.ranks, conditions.shape)
    extents = {axis.name: evaluate(axis.extent, values) for axis in tasks.items}
    split = dict.fromkeys(extents, 1) if conditions.empty() else work_split(plan, conditions)
    rounds = evaluate(tasks.round.extent, values)
    items = conditions.ranks * prod(-(-extent // split[axis]) for axis, extent in extents.items())
    tiles = conditions.ranks * prod(extents.values())
    total = items * (rounds if tasks.merged_rounds else 1)
    cores = role_cores(plan, conditions.cores)
    merged = [axis.name for axis in tasks.items if split[axis.name] < extents[axis.name]]
    return Occupancy(
        total_tasks=total,
        role_cores=cores,
        active_cores=min(total, cores),
        merged=(*((tasks.round.name,) if tasks.merged_rounds and rounds > 1 else ()), *merged),
        carried=split,
        tiles=tiles * rounds,
        tiles_in_flight=min(cores, tiles * min(rounds, plan.buffer_num)),
    )
