"""Swizzles (guide 1.4): every order visits everything once, refused splits, busy links and reuse distances."""

from __future__ import annotations

from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.plan.evaluate import Conditions
from fusegen.plan.swizzle import (
    BusyLinks,
    CommOrder,
    GemmTask,
    Interleaved,
    ReuseDistance,
    RowMajor,
    Sequential,
    TileOrder,
    Zigzag,
    comm_task,
    gemm_task,
    is_bijection,
    links_busy,
    rank_order,
    reuse_distance,
    row_major,
    split_fault,
    splits,
    zigzag,
)
from tests.plan.plans import plan_for
from tests.plan.walking import Walk

MOST_RANKS = 16
RANKS = st.integers(1, MOST_RANKS)
FAILING = {
    *((5, 2), (7, 2), (7, 3), (9, 2), (9, 4), (10, 3)),
    *((11, split) for split in range(2, 6)),
    *((13, split) for split in range(2, 7)),
    *((14, 3), (14, 4), (15, 2), (15, 6), (15, 7), (16, 3), (16, 5)),
}
"""Pairs of ranks and split that repeat ranks although the formula is the corrected one (PLATFORM 2)."""


def ranks_of_a_tile(ranks: int, split: int) -> list[int]:
    """Ranks in the order of their positions."""
    return [rank_order(position, ranks=ranks, split=split) for position in range(ranks)]


@st.composite
def ranks_and_split(draw: st.DrawFn) -> tuple[int, int]:
    """A number of ranks, and a split that is allowed on it."""
    ranks = draw(RANKS)
    return ranks, draw(st.sampled_from(splits(ranks)))


def test_rank_order_transposes_where_the_split_divides_the_ranks() -> None:
    assert ranks_of_a_tile(8, 1) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert ranks_of_a_tile(8, 2) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert ranks_of_a_tile(8, 4) == [0, 2, 4, 6, 1, 3, 5, 7]
    assert ranks_of_a_tile(8, 8) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_exactly_the_known_pairs_are_no_bijection() -> None:
    pairs = {(ranks, split) for ranks in range(1, MOST_RANKS + 1) for split in range(1, ranks + 1)}
    assert {(ranks, split) for ranks, split in pairs if not is_bijection(ranks=ranks, split=split)} == FAILING
    assert len(FAILING) == 22


@given(ranks_and_split())
def test_an_allowed_split_visits_each_rank_once(pair: tuple[int, int]) -> None:
    assert sorted(ranks_of_a_tile(*pair)) == list(range(pair[0]))


@given(st.integers(1, 64))
def test_divisors_are_allowed(ranks: int) -> None:
    assert {split for split in range(1, ranks + 1) if ranks % split == 0} <= set(splits(ranks))


def test_the_published_formula_repeats_ranks_for_every_split_above_one() -> None:
    def published(ranks: int, split: int) -> list[int]:
        stride = ranks // split
        return [(r * stride) % stride + (r * stride) // ranks for r in range(ranks)]

    assert published(8, 2) == [0, 0, 1, 1, 2, 2, 3, 3]
    for ranks in range(1, MOST_RANKS + 1):
        assert published(ranks, 1) == list(range(ranks))
        for split in range(2, ranks + 1):
            assert len(set(published(ranks, split))) < ranks


@pytest.mark.parametrize(
    ("ranks", "split", "got", "nearest"),
    [
        (5, 2, "2, which never visits 1 and 3", "splits: 1 or 3"),
        (14, 4, "4, which never visits 1", "splits: 2 or 5"),
        (8, 9, "9", "split: 8"),
        (8, 0, "0", "split: 1"),
    ],
)
def test_refusals_name_the_nearest_splits(ranks: int, split: int, got: str, nearest: str) -> None:
    assert str(split_fault(ranks=ranks, split=split)) == (
        f"split: expected a split that visits each of {ranks} ranks once, got {got} "
        f"(nearest allowed {nearest}; divisors of the rank count always work)"
    )


def test_one_rank_takes_every_split() -> None:
    """A module with a split still runs alone: there is nothing to permute."""
    assert [is_bijection(ranks=1, split=split) for split in (0, 1, 2, 16)] == [False, True, True, True]
    assert splits(1) == (1,)


def test_a_fault_names_the_field_of_the_spec() -> None:
    fault = split_fault(ranks=16, split=3, field="order.split")
    assert fault is not None
    assert fault.field == "order.split"
    assert split_fault(ranks=16, split=4) is None


@st.composite
def comm_loops(draw: st.DrawFn) -> tuple[CommOrder, int, int]:
    """An order, ranks and tiles."""
    ranks, split = draw(ranks_and_split())
    orders: list[CommOrder] = [Sequential(), Interleaved(split)]
    return draw(st.sampled_from(orders)), ranks, draw(st.integers(1, 20))


@given(comm_loops())
def test_a_communication_order_visits_each_tile_and_rank_once(loop: tuple[CommOrder, int, int]) -> None:
    order, ranks, tiles = loop
    tasks = [comm_task(order, work, ranks=ranks, tiles=tiles) for work in range(tiles * ranks)]
    assert sorted(tasks) == [(tile, shift) for tile in range(tiles) for shift in range(ranks)]


@given(comm_loops())
def test_no_two_ranks_address_the_same_partner_at_the_same_index(loop: tuple[CommOrder, int, int]) -> None:
    order, ranks, tiles = loop
    for work in range(tiles * ranks):
        task = comm_task(order, work, ranks=ranks, tiles=tiles)
        partners = [task.partner(rank=rank, ranks=ranks) for rank in range(ranks)]
        assert sorted(partners) == list(range(ranks))
        assert [task.source(rank=partner, ranks=ranks) for partner in partners] == list(range(ranks))


@pytest.mark.parametrize(
    ("swizzle", "order"),
    [
        ({"order": "sequential"}, Sequential()),
        ({"order": "nz"}, Interleaved()),
        ({"order": "nz", "npu_split": 2}, Interleaved(2)),
    ],
)
def test_kernels_visit_in_this_order(swizzle: dict[str, Any], order: CommOrder) -> None:
    """What `explain --swizzle` shows is what the work loop of a plan computes."""
    verify = [{"ranks": [4], "cores": 2, "shape": {"M": 16, "N": 100}}]
    plan = plan_for("allgather", flatten="none", swizzle={"comm": swizzle}, verify=verify)
    push = plan.stage("push")
    for rank in range(4):
        walk = Walk(plan, Conditions(4, 2, {"M": 16, "N": 100}), rank=rank)
        visited = [(tile["block_n"], tile["target"]) for tile in walk.visits(push)]
        tasks = [comm_task(order, work, ranks=4, tiles=4) for work in range(16)]
        assert visited == [(task.tile, task.partner(rank=rank, ranks=4)) for task in tasks]


@pytest.mark.parametrize(("ranks", "cores", "met"), [(8, 40, 8), (4, 40, 2), (2, 40, 1), (4, 4, 4)])
def test_the_shift_takes_a_core_round_its_partners(ranks: int, cores: int, met: int) -> None:
    """Without the shift a core would meet one partner only: cores are a multiple of ranks."""
    tiles = 16 * cores
    for core in range(cores):
        works = range(core, tiles * ranks, cores)
        assert len({work % ranks for work in works}) == 1
        assert len({comm_task(Interleaved(), work, ranks=ranks, tiles=tiles).shift for work in works}) == met
    assert met == ranks // gcd(ranks, cores // ranks)


@given(RANKS, st.integers(1, 40), st.data())
def test_consecutive_indices_miss_at_most_split_ranks(ranks: int, cores: int, data: st.DataObject) -> None:
    split = data.draw(st.sampled_from([split for split in splits(ranks) if ranks % split == 0]))
    tiles, first = 8 + cores, data.draw(st.integers(0, ranks - 1))
    window = range(first, first + cores)
    met = {comm_task(Interleaved(split), work, ranks=ranks, tiles=tiles).shift for work in window}
    assert len(met) >= min(ranks, cores) - split
    if cores >= 2 * ranks - 1:
        assert len(met) == ranks


SIZES = st.integers(1, 40)


@given(SIZES, SIZES, st.integers(1, 16))
def test_zigzag_visits_each_tile_once(rows: int, columns: int, offset: int) -> None:
    tiles = {zigzag(index, rows=rows, columns=columns, offset=offset) for index in range(rows * columns)}
    assert tiles == {(row, column) for row in range(rows) for column in range(columns)}


@given(SIZES, SIZES, st.integers(1, 16))
def test_zigzag_uses_the_same_row_of_a_when_it_changes_groups(rows: int, columns: int, offset: int) -> None:
    """The last tile of a group and the first of the next one are in one row, in the last or in the first."""
    for group in range(1, -(-columns // offset)):
        before, after = (
            zigzag(index, rows=rows, columns=columns, offset=offset)
            for index in (group * rows * offset - 1, group * rows * offset)
        )
        assert before.row == after.row == (rows - 1 if group % 2 else 0)
        assert after.column == before.column + 1 == group * offset


def test_zigzag_in_full() -> None:
    order = [zigzag(index, rows=3, columns=5, offset=2) for index in range(15)]
    assert order == [
        *((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)),
        *((2, 2), (2, 3), (1, 2), (1, 3), (0, 2), (0, 3)),
        *((0, 4), (1, 4), (2, 4)),  # the narrower last group
    ]


@given(SIZES, SIZES, st.integers(0, 5))
def test_one_group_is_row_major(rows: int, columns: int, wider: int) -> None:
    for index in range(rows * columns):
        expected = row_major(index, columns=columns)
        assert zigzag(index, rows=rows, columns=columns, offset=columns + wider) == expected
        assert gemm_task(RowMajor(), index, rows=rows, columns=columns) == expected
    assert row_major(7, columns=5) == GemmTask(row=1, column=2)


def test_interleaving_keeps_every_link_busy() -> None:
    assert links_busy(Sequential(), ranks=8, tiles=40, cores=8) == BusyLinks(mean=1.0, minimum=1, most=8)
    assert links_busy(Interleaved(), ranks=8, tiles=40, cores=8) == BusyLinks(mean=8.0, minimum=8, most=8)
    assert links_busy(Interleaved(2), ranks=8, tiles=40, cores=20) == BusyLinks(mean=8.0, minimum=8, most=8)
    assert links_busy(Interleaved(), ranks=8, tiles=40, cores=4) == BusyLinks(mean=4.0, minimum=4, most=4)


def test_busy_links_at_the_ends() -> None:
    # 3 tiles: the 4 cores are at ranks 0 0 0 1, 1 1 2 2, and a third time at 2 3 3 3.
    assert links_busy(Sequential(), ranks=4, tiles=3, cores=4) == BusyLinks(mean=2.0, minimum=2, most=4)
    # Cores without a task do not count.
    assert links_busy(Interleaved(), ranks=2, tiles=1, cores=40) == BusyLinks(mean=2.0, minimum=2, most=2)
    # Shifts 0 1 2 1, then 2 0 2 0, which begin inside a tile; the last wave has one task and does not count.
    assert links_busy(Interleaved(), ranks=3, tiles=3, cores=4) == BusyLinks(mean=2.5, minimum=2, most=3)
    assert links_busy(Interleaved(), ranks=8, tiles=0, cores=4) == BusyLinks(mean=0.0, minimum=0, most=0)


@given(comm_loops(), st.integers(1, 40))
def test_no_order_keeps_more_links_busy_than_possible(loop: tuple[CommOrder, int, int], cores: int) -> None:
    order, ranks, tiles = loop
    links = links_busy(order, ranks=ranks, tiles=tiles, cores=cores)
    assert 1 <= links.minimum <= links.mean <= links.most == min(ranks, cores)


def distances_by_definition(order: TileOrder, rows: int, columns: int) -> ReuseDistance:
    """The definition as it stands, in quadratic time."""
    uses: list[tuple[str, int]] = []
    for index in range(rows * columns):
        task = gemm_task(order, index, rows=rows, columns=columns)
        uses += [("A", task.row), ("B", task.column)]
    found: dict[str, list[int]] = {"A": [], "B": []}
    for now, use in enumerate(uses):
        if use in uses[:now]:
            before = now - 1 - uses[:now][::-1].index(use)
            found[use[0]].append(len(set(uses[before + 1 : now])))

    def mean(values: list[int]) -> float:
        return sum(values) / len(values) if values else 0.0

    return ReuseDistance(mean(found["A"]), mean(found["B"]), mean(found["A"] + found["B"]))


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([RowMajor(), Zigzag(1), Zigzag(2), Zigzag(3)]))
def test_reuse_distance_is_its_definition(rows: int, columns: int, order: TileOrder) -> None:
    assert reuse_distance(order, rows=rows, columns=columns) == distances_by_definition(order, rows, columns)


def test_zigzag_reuses_sooner_than_row_major() -> None:
    plain = reuse_distance(RowMajor(), rows=32, columns=24)
    nz = reuse_distance(Zigzag(7), rows=32, columns=24)
    assert plain.rows == 1.0  # the row of A stays, one column of B lies between
    assert plain.columns == pytest.approx(24 + 1, abs=0.05)  # the other 23, and two rows of A
    assert nz.columns == pytest.approx(7 + 1, abs=0.7)  # the other 6 of the group, and two rows of A
    assert 0.4 < nz.ratio(plain) < 0.5


def test_nothing_is_reused_where_there_is_one_tile_or_none() -> None:
    for rows in (0, 1):
        single = reuse_distance(Zigzag(), rows=rows, columns=1)
        assert single == ReuseDistance(rows=0.0, columns=0.0, mean=0.0)
        assert single.ratio(reuse_distance(RowMajor(), rows=rows, columns=1)) == 1.0
