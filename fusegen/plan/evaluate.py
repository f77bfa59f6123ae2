"""A plan under given ranks, cores and shape: the value of every name, the work split, and how many cores have work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from fusegen.plan.expr import evaluate, symbols
from fusegen.plan.ir import DTYPE_BYTES, INT32_LIMIT, KernelPlan
from fusegen.plan.stages import Granularity, Kind, Stage, Tasks
from fusegen.plan.tasks import LAST_WAVE, carried, work_count, works


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
class StageWork:
    """The work of one stage on each rank, and the cores that share it.

    cores    workers of the stage
    axes     work items along each axis: partner ranks, then items; a work item is one position of all of them
    carried  positions of each item axis that one work item carries
    round    work items of one round, or of everything where the stage has no rounds
    dealt    work items that are dealt at a time: of all rounds where rounds are merged
    total    work items in a launch
    tiles    tiles in a launch
    """

    cores: int
    axes: Mapping[str, int]
    carried: Mapping[str, int]
    round: int
    dealt: int
    total: int
    tiles: int

    @property
    def active_cores(self) -> int:
        """Workers that have work."""
        return min(self.dealt, self.cores)

    @property
    def utilization(self) -> float:
        """Share of the workers that have work; 1 for a stage without workers."""
        return self.active_cores / self.cores if self.cores else 1.0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How a launch fills its cores (guide 1.2), judged by the stage whose work they must share well.

    stage            name of that stage
    total_tasks      work items that are dealt at a time: of all rounds where rounds are merged, of one round otherwise
    role_cores       cores of the smallest role
    active_cores     min(total_tasks, role_cores)
    merged           axes besides the ranks that the work index runs over, in the order in which they were merged
    carried          positions of each item axis that one work item carries
    tiles            tiles that each stage moves on each rank, in all rounds
    tiles_in_flight  tiles of each stage that can be under way at a time: the ring holds no more
    """

    stage: str
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


def given_values(plan: KernelPlan, conditions: Conditions, rank: int = 0) -> dict[str, int]:
    """Values of constants, dimensions, ranks and cores, and of every definition that does not need the work split."""
    return _given(plan, conditions, rank=rank, role_cores=role_cores(plan, conditions.cores))


def _given(plan: KernelPlan, conditions: Conditions, *, rank: int, role_cores: int) -> dict[str, int]:
    values = {
        **dict(plan.constants),
        **conditions.shape,
        "ranks": conditions.ranks,
        "rank": rank,
        "cores": conditions.cores,
        "role_cores": role_cores,
        "launch": 0,
    }
    for definition in plan.definitions:
        if symbols(definition.value) <= values.keys():
            values[definition.name] = evaluate(definition.value, values)
    for tasks in works(plan.stages):
        if tasks.sizes:
            values |= of_round(tasks, values, 0)
    return values


def of_round(tasks: Tasks, values: Mapping[str, int], position: int) -> dict[str, int]:
    """Values of the names that differ from round to round, in the round at `position`."""
    found = dict(values)
    if tasks.round is not None:
        found[tasks.round.name] = position
    for definition in (*tasks.sizes, work_count(tasks)):
        found[definition.name] = evaluate(definition.value, found)
    return {definition.name: found[definition.name] for definition in (*tasks.sizes, work_count(tasks))}


def all_values(plan: KernelPlan, conditions: Conditions) -> dict[str, int]:
    """Values of everything that the kernel knows before its work loop. The shape must not be empty."""
    values = given_values(plan, conditions)
    split = work_split(plan, conditions)
    for axis in plan.stages[0].tasks.items:
        values[carried(axis)] = split[axis.name]
    for definition in plan.definitions:
        values[definition.name] = evaluate(definition.value, values)
    return values


def regions(plan: KernelPlan, conditions: Conditions) -> dict[str, Region]:
    """Every tensor and symmetric allocation by name, as large as it is on any rank."""
    values = given_values(plan, conditions)
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
    values = given_values(plan, conditions)
    extents = {axis.name: evaluate(axis.extent, values) for axis in tasks.items}
    if tasks.granularity is Granularity.TILE or tasks.round is None:
        return dict.fromkeys(extents, 1)
    cores = role_cores(plan, conditions.cores)
    rounds = evaluate(tasks.round.extent, values) if tasks.merged_rounds else 1
    items = evaluate(tasks.rank.extent, values) if tasks.rank else 1
    split = dict(extents)
    for axis, extent in extents.items():
        if min(rounds, plan.buffer_num) * items >= cores and LAST_WAVE * (-rounds * items % cores) <= rounds * items:
            break
        items, split[axis] = items * extent, 1
    return split


def worker_cores(plan: KernelPlan, conditions: Conditions, stage: Stage) -> int:
    """Cores that run `stage`: of a role that has one core more than the other, and of the part of it that is meant."""
    values = _given(plan, conditions, rank=0, role_cores=stage.workers.count(conditions.cores))
    return evaluate(stage.workers.cores(), values)


def stage_work(plan: KernelPlan, conditions: Conditions, stage: Stage) -> StageWork:
    """The work of `stage` on rank 0. An empty shape has no work at all."""
    tasks = stage.tasks
    values = given_values(plan, conditions)
    extents = {axis.name: evaluate(axis.extent, values) for axis in tasks.items}
    filled = tasks.granularity is Granularity.FILL and not conditions.empty()
    carried = work_split(plan, conditions) if filled else dict.fromkeys(extents, 1)
    ranks = {tasks.rank.name: evaluate(tasks.rank.extent, values)} if tasks.rank else {}
    axes = {**ranks, **{name: -(-extent // carried[name]) for name, extent in extents.items()}}
    rounds = evaluate(tasks.round.extent, values) if tasks.round else 1
    items = prod(axes.values())
    inner = prod(evaluate(axis.extent, values) for axis in stage.inner)
    total, tiles = items * rounds, prod(ranks.values()) * prod(extents.values()) * rounds
    if tasks.sizes:
        total = tiles = sum(of_round(tasks, values, position)[tasks.work] for position in range(rounds))
    return StageWork(
        cores=worker_cores(plan, conditions, stage),
        axes=axes,
        carried=carried,
        round=items,
        dealt=items * (rounds if tasks.merged_rounds else 1),
        total=total,
        tiles=tiles * inner,
    )


def main_stage(plan: KernelPlan, conditions: Conditions) -> Stage:
    """The stage whose work the cores must share well: the multiplication, else the first one with the most work."""
    gemm = next((stage for stage in plan.stages if stage.kind is Kind.GEMM), None)
    return gemm or max(plan.stages, key=lambda stage: stage_work(plan, conditions, stage).dealt)


def rounds_of(plan: KernelPlan, conditions: Conditions) -> int:
    """Rounds in one launch; 1 where the kernel has none, 0 for an empty shape."""
    if conditions.empty():
        return 0
    values = given_values(plan, conditions)
    axes = [stage.tasks.round for stage in plan.stages if stage.tasks.round is not None]
    return evaluate(axes[0].extent, values) if axes else 1


def occupancy(plan: KernelPlan, conditions: Conditions) -> Occupancy:
    """Cores that work and cores that idle. An empty shape has no work at all."""
    stage = main_stage(plan, conditions)
    tasks = stage.tasks
    work = stage_work(plan, conditions, stage)
    values = given_values(plan, conditions)
    rounds = evaluate(tasks.round.extent, values) if tasks.round else 1
    cores = work.cores if plan.is_mix or stage.workers.part else role_cores(plan, conditions.cores)
    merged = [axis.name for axis in tasks.items if work.carried[axis.name] < evaluate(axis.extent, values)]
    merged_rounds = (tasks.round.name,) if tasks.round and tasks.merged_rounds and rounds > 1 else ()
    rings = any(plan.buffer(region).ring for region in stage.regions() if plan.is_buffer(region))
    under_way = work.tiles * min(rounds, plan.buffer_num) // rounds if rings and rounds else work.tiles
    return Occupancy(
        stage=stage.name,
        total_tasks=work.dealt,
        role_cores=cores,
        active_cores=min(work.dealt, cores),
        merged=(*merged_rounds, *merged),
        carried=work.carried,
        tiles=work.tiles,
        tiles_in_flight=min(cores, under_way),
    )
