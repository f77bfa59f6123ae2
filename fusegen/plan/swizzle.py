"""Swizzles (guide 1.4): the order in which communication loops visit ranks, and GEMM loops visit tiles.

    CommOrder = Sequential | Interleaved(split)        work index of `tiles * ranks` tasks -> tile, shift
    TileOrder = RowMajor | Zigzag(offset)              work index of `rows * columns` tiles -> row, column

A shift counts ranks from the own one: a producer's target is `(rank + shift) % ranks`, and the consumer that follows
the arrivals takes its source as `(rank + ranks - shift) % ranks`. A tile and a position give the same shift on every
rank, so no two ranks that are at the same work index address the same target.

Kernels compute the same orders with the functions of `templates/helpers/swizzle.py.j2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

from fusegen.errors import Fault, listed


@dataclass(frozen=True, slots=True)
class Sequential:
    """Rank by rank, the own one first, all tiles of a rank before the next one: one link is busy at a time."""


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Tile by tile, all ranks of a tile before the next one: every link is busy.

    `split` spreads neighbouring positions over the ranks: position p of a tile counts `p * (ranks // split)` ranks
    from the own one, wrapped around (see `rank_order`). 1 keeps the ranks in their order.
    """

    split: int = 1


@dataclass(frozen=True, slots=True)
class RowMajor:
    """Row by row: every row of tiles goes through all columns of B."""


@dataclass(frozen=True, slots=True)
class Zigzag:
    """The guide's Nz order: groups of `offset` columns, odd groups from the last row to the first."""

    offset: int = 7


LINK_TASKS = 2**15
"""Tasks of a communication loop that `links_busy` looks at; more would take seconds and change little."""

CommOrder: TypeAlias = Sequential | Interleaved
TileOrder: TypeAlias = RowMajor | Zigzag


class CommTask(NamedTuple):
    """A task of a communication loop: a tile, and the ranks from the own one to the partner."""

    tile: int
    shift: int

    def partner(self, *, rank: int, ranks: int) -> int:
        """The rank that `rank` addresses as a producer."""
        return (rank + self.shift) % ranks

    def source(self, *, rank: int, ranks: int) -> int:
        """The rank whose producer addresses `rank` at this task: where a consumer in the same order looks."""
        return (rank + ranks - self.shift) % ranks


class GemmTask(NamedTuple):
    """A tile of a GEMM: its row, which names rows of A, and its column, which names columns of B."""

    row: int
    column: int


def rank_order(position: int, *, ranks: int, split: int) -> int:
    """The rank at `position` of one tile's ranks, both from 0 to below `ranks`: the stride permutation of guide 1.4.

    The published formula takes the product modulo the stride, which is always 0, and so visits some ranks several
    times and others never. Modulo the number of ranks it transposes the ranks as a [split, ranks // split] matrix
    where `split` divides `ranks`: neighbouring positions are `ranks // split` ranks apart (8 ranks, split 2:
    0, 4, 1, 5, 2, 6, 3, 7). Other splits may repeat ranks, or give numbers from `ranks` on: see `is_bijection`.
    """
    product = position * (ranks // split)
    return product % ranks + product // ranks


def is_bijection(*, ranks: int, split: int) -> bool:
    """Whether `rank_order` visits each rank exactly once. Every divisor of `ranks` does; of the others, some do."""
    return split >= 1 and not _missed(ranks, split)


def splits(ranks: int) -> tuple[int, ...]:
    """Splits from 1 to `ranks` that visit each of `ranks` ranks once, ascending: 1, `ranks` and others between."""
    return tuple(split for split in range(1, ranks + 1) if is_bijection(ranks=ranks, split=split))


def split_fault(*, ranks: int, split: int, field: str = "split") -> Fault | None:
    """Why `split` cannot be used on `ranks` ranks, with the nearest splits that can; None when it can be used."""
    if is_bijection(ranks=ranks, split=split):
        return None
    below = [str(allowed) for allowed in splits(ranks) if allowed < split]
    above = [str(allowed) for allowed in splits(ranks) if allowed > split]
    nearest = below[-1:] + above[:1]
    noun = "split" if len(nearest) == 1 else "splits"
    # A split out of range has no order at all, and so no ranks to name.
    omission = f", which never visits {listed(_missed(ranks, split), 'and')}" if 1 <= split <= ranks else ""
    return Fault(
        field,
        expected=f"a split that visits each of {ranks} ranks once",
        got=f"{split}{omission}",
        advice=f"nearest allowed {noun}: {listed(nearest)}; divisors of the rank count always work",
    )


def _missed(ranks: int, split: int) -> list[str]:
    """Ranks that `rank_order` never visits, ascending; as many visits go to other ranks, or to none."""
    visited = {rank_order(position, ranks=ranks, split=split) for position in range(ranks)}
    return [str(rank) for rank in range(ranks) if rank not in visited]


def comm_task(order: CommOrder, work: int, *, ranks: int, tiles: int) -> CommTask:
    """The task at index `work`, from 0 to below `tiles * ranks`. An order visits each pair of tile and shift once.

    Interleaved orders shift each tile's ranks by the tile's number (guide 1.4, data shift). Counting from the own
    rank already keeps ranks off each other's targets. The shift is for the cores of one rank: where their number is
    a multiple of `ranks`, each core would meet one position, and so one partner, in its whole loop, and the core of
    the own rank would be done long before that of a far one. With the shift it goes round
    `ranks // gcd(ranks, cores // ranks)` partners: all 8 for 8 ranks and 40 cores, still only one for 2 and 40.

    It does no harm: for a fixed tile it adds a constant modulo `ranks`, so a bijection of ranks stays one. The price
    is small: consecutive indices that begin inside a tile may miss up to `split` ranks (for a split that divides
    `ranks`); 2 * ranks - 1 of them always hold a whole tile, and so meet every rank.
    """
    match order:
        case Sequential():
            return CommTask(tile=work % tiles, shift=work // tiles)
        case Interleaved(split):
            tile, position = work // ranks, work % ranks
            return CommTask(tile, (rank_order(position, ranks=ranks, split=split) + tile) % ranks)
        case _:
            assert_never(order)


def gemm_task(order: TileOrder, index: int, *, rows: int, columns: int) -> GemmTask:
    """The tile at `index`, from 0 to below `rows * columns`. An order visits each tile once."""
    match order:
        case RowMajor():
            return row_major(index, columns=columns)
        case Zigzag(offset):
            return zigzag(index, rows=rows, columns=columns, offset=offset)
        case _:
            assert_never(order)


def row_major(index: int, *, columns: int) -> GemmTask:
    """Row by row."""
    return GemmTask(index // columns, index % columns)


def zigzag(index: int, *, rows: int, columns: int, offset: int) -> GemmTask:
    """The order of gemm_swizzle2d_Nz (guide 1.4), for any `rows`, `columns` and `offset` from 1.

    Columns come in groups of `offset`, the last group has those that are left. In a group, all columns of a row come
    before the next row, so a row of A is used `offset` times in a row and the group's columns of B stay in L2. Odd
    groups go from the last row to the first: the rows of A at a turning point are still in L2.

    An `offset` of `columns` or more leaves one group: row-major.
    """
    group, inside = index // (rows * offset), index % (rows * offset)
    width = min(offset, columns - group * offset)
    row = inside // width
    return GemmTask(rows - 1 - row if group % 2 else row, group * offset + inside % width)


@dataclass(frozen=True, slots=True)
class BusyLinks:
    """Different partners that the cores of a rank address at once, the own rank among them.

    mean     over the waves of the loop
    minimum  over the waves of the loop
    most     what any order could reach: as many as there are ranks, cores, or tasks at most
    """

    mean: float
    minimum: int
    most: int


def links_busy(order: CommOrder, *, ranks: int, tiles: int, cores: int, rounds: int = 1) -> BusyLinks:
    """Partners at once when `cores` cores share a communication loop of `tiles * ranks` tasks in each round.

    The loop is `for work in range(core, rounds * tiles * ranks, cores)`: while tasks take equally long, the cores are
    at `cores` consecutive work indices, a wave. A short last wave counts only if there is no other one, and of long
    loops only evenly spaced waves count, LINK_TASKS tasks or a little more.
    The figures are the same on every rank. A loop without tasks keeps no link busy.
    """
    a_round = tiles * ranks
    total = rounds * a_round
    in_wave = min(cores, total)
    if not in_wave:
        return BusyLinks(0.0, 0, 0)
    step = in_wave * max(1, total // (LINK_TASKS + in_wave))
    waves = [
        len(
            {comm_task(order, work % a_round, ranks=ranks, tiles=tiles).shift for work in range(first, first + in_wave)}
        )
        for first in range(0, total - in_wave + 1, step)
    ]
    return BusyLinks(sum(waves) / len(waves), min(waves), min(ranks, in_wave))


@dataclass(frozen=True, slots=True)
class ReuseDistance:
    """How much L2 must hold, in tile rows of A and tile columns of B, until it is used again.

    The distance of a use is the number of different other tile rows of A and tile columns of B that were used since
    the previous use of the same one: the smallest number of others that a least-recently-used cache must keep for a
    hit. First uses have no distance.

    rows     mean over the reuses of tile rows of A
    columns  mean over the reuses of tile columns of B
    mean     over all reuses
    A mean over no reuse is 0; any other is at least 1.
    """

    rows: float
    columns: float
    mean: float

    def ratio(self, other: ReuseDistance) -> float:
        """`mean` as a part of `other`'s, below 1 where this order reuses sooner; 1 where nothing is reused."""
        return self.mean / other.mean if other.mean else 1.0


def reuse_distance(order: TileOrder, *, rows: int, columns: int) -> ReuseDistance:
    """Mean reuse distances when `rows * columns` tiles are computed one after the other.

    A tile uses its row of A first, then its column of B.
    """
    recent: list[int] = []  # operands, the last used one in front; column c of B is -1 - c
    distances: tuple[list[int], list[int]] = ([], [])
    for index in range(rows * columns):  # time grows with the distances: fine for thousands of tiles
        task = gemm_task(order, index, rows=rows, columns=columns)
        for found, operand in zip(distances, (task.row, -1 - task.column), strict=True):
            if operand in recent:
                distance = recent.index(operand)
                found.append(distance)
                del recent[distance]
            recent.insert(0, operand)
    of_rows, of_columns = distances
    return ReuseDistance(_mean(of_rows), _mean(of_columns), _mean(of_rows + of_columns))


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0
