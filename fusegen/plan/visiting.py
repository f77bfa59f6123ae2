"""What the swizzles of a kernel amount to (guide 1.4), as plain values: `fusegen explain --swizzle` prints them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, assert_never

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


@dataclass(frozen=True, slots=True)
class CommLoop:
    """A communication loop: its order, and the tiles that each rank has for each partner."""

    order: CommOrder
    tiles: int


@dataclass(frozen=True, slots=True)
class GemmLoop:
    """A GEMM loop: its order, and how many tiles the result has."""

    order: TileOrder
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class CommVisit:
    """A task of the communication loop of rank `CommVisiting.rank`, and the core that runs it."""

    work: int
    core: int
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
    tiles: int
    visits: tuple[CommVisit, ...]
    links: BusyLinks
    sequential: BusyLinks


@dataclass(frozen=True, slots=True)
class GemmVisiting:
    """The first tiles of a GEMM loop, and its reuse distances beside those of the row-major order.

    `ratio` is the mean distance as a part of the row-major one; below 1, operands are reused sooner.
    """

    order: str
    cores: int
    rows: int
    columns: int
    visits: tuple[GemmVisit, ...]
    reuse: ReuseDistance
    row_major: ReuseDistance
    ratio: float


@dataclass(frozen=True, slots=True)
class Visiting:
    """Both loops of a kernel; None for one that the kernel does not have."""

    comm: CommVisiting | None
    gemm: GemmVisiting | None

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        document = asdict(self)
        for loop in document.values():
            if loop is not None:
                loop["visits"] = list(loop["visits"])
        return document


def visiting(
    *,
    ranks: int,
    cores: int,
    comm: CommLoop | None = None,
    gemm: GemmLoop | None = None,
    rank: int = 0,
    first: int = FIRST,
) -> Visiting:
    """The first `first` work indices of each loop that is given, seen from `rank`, and what the orders achieve.

    `cores` counts the cores that share each loop: core c takes the work indices c, c + cores, c + 2 * cores, ...
    The split of an interleaved order must be a bijection on `ranks` (see `swizzle.split_fault`).
    """
    return Visiting(
        comm=None if comm is None else _comm(comm, rank=rank, ranks=ranks, cores=cores, first=first),
        gemm=None if gemm is None else _gemm(gemm, cores=cores, first=first),
    )


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


def _comm(loop: CommLoop, *, rank: int, ranks: int, cores: int, first: int) -> CommVisiting:
    visits = []
    for work in range(min(first, loop.tiles * ranks)):
        task = comm_task(loop.order, work, ranks=ranks, tiles=loop.tiles)
        visits.append(CommVisit(work, work % cores, task.tile, task.partner(rank=rank, ranks=ranks)))
    return CommVisiting(
        order=order_name(loop.order),
        rank=rank,
        ranks=ranks,
        cores=cores,
        tiles=loop.tiles,
        visits=tuple(visits),
        links=links_busy(loop.order, ranks=ranks, tiles=loop.tiles, cores=cores),
        sequential=links_busy(Sequential(), ranks=ranks, tiles=loop.tiles, cores=cores),
    )


def _gemm(loop: GemmLoop, *, cores: int, first: int) -> GemmVisiting:
    visits = []
    for work in range(min(first, loop.rows * loop.columns)):
        task = gemm_task(loop.order, work, rows=loop.rows, columns=loop.columns)
        visits.append(GemmVisit(work, work % cores, task.row, task.column))
    reuse = reuse_distance(loop.order, rows=loop.rows, columns=loop.columns)
    row_major = reuse_distance(RowMajor(), rows=loop.rows, columns=loop.columns)
    return GemmVisiting(
        order=order_name(loop.order),
        cores=cores,
        rows=loop.rows,
        columns=loop.columns,
        visits=tuple(visits),
        reuse=reuse,
        row_major=row_major,
        ratio=reuse.ratio(row_major),
    )
