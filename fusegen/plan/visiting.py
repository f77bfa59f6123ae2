"""What the swizzles of a kernel amount to (guide 1.4), as plain values: `fusegen explain --swizzle` prints them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, assert_never

from fusegen.plan.evaluate import Conditions, all_values, worker_cores
from fusegen.plan.expr import evaluate
from fusegen.plan.ir import KernelPlan, PlanDefect
from fusegen.plan.stages import Grid, Kind, Peer, Stage, Tasks
from fusegen.plan.swizzle import (
    BusyLinks,
    CommOrder,
    Interleaved,
    ReuseDistance,
    RowMajor,
    Sequential,
    TileOrder,
    Zigzag,
    comm_task,
    gemm_task,
    links_busy,
    reuse_distance,
)

FIRST = 16
"""Work indices that are shown unless the caller asks for another number."""
REUSE_EDGE = 256
"""Rows, and columns, of tiles that reuse distances are found for: a larger grid would take seconds."""


@dataclass(frozen=True, slots=True)
class CommLoop:
    """A communication loop: its order, the tiles that each rank has for each partner, and the cores that share it.

    rounds   rounds that one work index runs over, one after the other
    """

    order: CommOrder
    tiles: int
    cores: int
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class GemmLoop:
    """A GEMM loop: its order, how many tiles a round has, and the cores that share it."""

    order: TileOrder
    rows: int
    columns: int
    cores: int


@dataclass(frozen=True, slots=True)
class CommVisit:
    """A task of the communication loop of rank `CommVisiting.rank`, and the core that runs it."""

    work: int
    core: int
    round: int
    tile: int
    partner: int


@dataclass(frozen=True, slots=True)
class GemmVisit:
    """A tile of the GEMM loop, and the core that computes it."""

    work: int
    core: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class CommVisiting:
    """The first tasks of a communication loop, and its busy links beside those of rank after rank."""

    order: str
    rank: int
    ranks: int
    cores: int
    rounds: int
    tiles: int
    visits: tuple[CommVisit, ...]
    links: BusyLinks
    sequential: BusyLinks


@dataclass(frozen=True, slots=True)
class GemmVisiting:
    """The first tiles of a GEMM loop, and its reuse distances beside those of the row-major order.

    analysed   rows and columns that the distances are about: REUSE_EDGE of each at most
    ratio      the mean distance as a part of the row-major one; below 1, operands are reused sooner
    """

    order: str
    cores: int
    rows: int
    columns: int
    visits: tuple[GemmVisit, ...]
    analysed: tuple[int, int]
    reuse: ReuseDistance
    row_major: ReuseDistance
    ratio: float


@dataclass(frozen=True, slots=True)
class Visiting:
    """Both loops of a kernel; None for one that the kernel does not have, and `notes` says why."""

    comm: CommVisiting | None
    gemm: GemmVisiting | None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        document = asdict(self)
        document["notes"] = list(self.notes)
        for loop in (document["comm"], document["gemm"]):
            if loop is not None:
                loop["visits"] = list(loop["visits"])
        if document["gemm"] is not None:
            document["gemm"]["analysed"] = dict(zip(("rows", "columns"), document["gemm"]["analysed"], strict=True))
        return document


def visiting(
    *,
    ranks: int,
    comm: CommLoop | None = None,
    gemm: GemmLoop | None = None,
    rank: int = 0,
    first: int = FIRST,
    notes: tuple[str, ...] = (),
) -> Visiting:
    """The first `first` work indices of each loop that is given, seen from `rank`, and what the orders achieve.

    Of the cores that share a loop, core c takes the work indices c, c + cores, c + 2 * cores, ...
    The split of an interleaved order must be a bijection on `ranks` (see `swizzle.split_fault`).
    """
    return Visiting(
        comm=None if comm is None else _comm(comm, rank=rank, ranks=ranks, first=first),
        gemm=None if gemm is None else _gemm(gemm, first=first),
        notes=notes,
    )


def visiting_of(plan: KernelPlan, conditions: Conditions) -> Visiting:
    """The loops of a plan, seen from rank 0; the conditions must be ones that the launcher accepts."""
    if conditions.empty():
        return Visiting(None, None, ("an empty shape: nothing is visited",))
    values = all_values(plan, conditions)
    comm = next((stage for stage in plan.stages if _communicates(stage)), None)
    gemm = next((stage for stage in plan.stages if stage.kind is Kind.GEMM), None)
    notes = []
    if comm is None:
        notes.append(f"no communication order: {_without_order(plan)}")
    if gemm is None:
        notes.append("no GEMM order: the kernel multiplies nothing")
    return visiting(
        ranks=conditions.ranks,
        comm=None if comm is None else _comm_loop(plan, conditions, comm, values),
        gemm=None if gemm is None else _gemm_loop(plan, conditions, gemm, values),
        notes=tuple(notes),
    )


def tile_order(tasks: Tasks) -> CommOrder | TileOrder | None:
    """The order of a stage's tasks; None where there is one partner or none, so that nothing is to be ordered."""
    if isinstance(tasks.order, Grid):
        return tasks.order.tiles
    return tasks.order if tasks.rank is not None and tasks.items else None


def _communicates(stage: Stage) -> bool:
    """True when the stage visits other ranks' memory in an order of tiles and ranks."""
    peers = any(isinstance(access.place, Peer) for access in (*stage.reads, *stage.writes))
    return peers and not isinstance(stage.tasks.order, Grid) and tile_order(stage.tasks) is not None


def _without_order(plan: KernelPlan) -> str:
    """How a kernel whose loops visit no ranks reaches them."""
    for stage in plan.stages:
        if stage.kind is Kind.PUT:
            return f"{stage.name} sends whole blocks, to each other rank from one core"
        if stage.kind is Kind.REDUCE:
            return f"{stage.name} goes through all ranks for each tile, so that sums have one order"
    return "no loop of this kernel visits ranks"


def _comm_loop(plan: KernelPlan, conditions: Conditions, stage: Stage, values: dict[str, int]) -> CommLoop:
    tasks = stage.tasks
    if tasks.rank is None or isinstance(tasks.order, Grid):
        raise PlanDefect(f"{stage.name}: expected an order of tiles and ranks")
    rounds = evaluate(tasks.round.extent, values) if tasks.round and tasks.merged_rounds else 1
    tiles = values[tasks.work] // evaluate(tasks.rank.extent, values)
    return CommLoop(tasks.order, tiles, worker_cores(plan, conditions, stage), rounds)


def _gemm_loop(plan: KernelPlan, conditions: Conditions, stage: Stage, values: dict[str, int]) -> GemmLoop:
    if not isinstance(stage.tasks.order, Grid):
        raise PlanDefect(f"{stage.name}: expected an order of GEMM tiles")
    columns = evaluate(stage.tasks.items[-1].extent, values)
    rows = values[stage.tasks.work] // columns
    return GemmLoop(stage.tasks.order.tiles, rows, columns, worker_cores(plan, conditions, stage))


def order_name(order: CommOrder | TileOrder) -> str:
    """The order in words, with its parameter."""
    match order:
        case Sequential():
            return "sequential"
        case Interleaved(split):
            return f"interleaved, split {split}"
        case RowMajor():
            return "row-major"
        case Zigzag(offset):
            return f"zigzag, groups of {offset} columns"
        case _:
            assert_never(order)


def _comm(loop: CommLoop, *, rank: int, ranks: int, first: int) -> CommVisiting:
    a_round = loop.tiles * ranks
    visits = []
    for work in range(min(first, loop.rounds * a_round)):
        task = comm_task(loop.order, work % a_round, ranks=ranks, tiles=loop.tiles)
        partner = task.partner(rank=rank, ranks=ranks)
        visits.append(CommVisit(work, work % loop.cores, work // a_round, task.tile, partner))
    links, sequential = (
        links_busy(order, ranks=ranks, tiles=loop.tiles, cores=loop.cores, rounds=loop.rounds)
        for order in (loop.order, Sequential())
    )
    return CommVisiting(
        order=order_name(loop.order),
        rank=rank,
        ranks=ranks,
        cores=loop.cores,
        rounds=loop.rounds,
        tiles=loop.tiles,
        visits=tuple(visits),
        links=links,
        sequential=sequential,
    )


def _gemm(loop: GemmLoop, *, first: int) -> GemmVisiting:
    visits = []
    for work in range(min(first, loop.rows * loop.columns)):
        task = gemm_task(loop.order, work, rows=loop.rows, columns=loop.columns)
        visits.append(GemmVisit(work, work % loop.cores, task.row, task.column))
    rows, columns = min(loop.rows, REUSE_EDGE), min(loop.columns, REUSE_EDGE)
    reuse = reuse_distance(loop.order, rows=rows, columns=columns)
    row_major = reuse_distance(RowMajor(), rows=rows, columns=columns)
    return GemmVisiting(
        order=order_name(loop.order),
        cores=loop.cores,
        rows=loop.rows,
        columns=loop.columns,
        visits=tuple(visits),
        analysed=(rows, columns),
        reuse=reuse,
        row_major=row_major,
        ratio=reuse.ratio(row_major),
    )
