"""What `fusegen explain` tells about swizzles: the first tasks, busy links, reuse distances."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from fusegen.cli.swizzle_report import print_visiting
from fusegen.plan.evaluate import Conditions
from fusegen.plan.swizzle import Interleaved, RowMajor, Sequential, Zigzag
from fusegen.plan.visiting import CommLoop, CommVisit, GemmLoop, GemmVisit, Visiting, order_name, visiting, visiting_of
from tests.plan.plans import plan_from, plan_of

COMM = CommLoop(Interleaved(2), tiles=6, cores=3)
GEMM = GemmLoop(Zigzag(2), rows=3, columns=5, cores=3)


def test_first_tasks_of_both_loops() -> None:
    result = visiting(ranks=4, comm=COMM, gemm=GEMM, rank=1, first=8)
    assert result.comm is not None
    assert result.gemm is not None
    # Shifts 0 2 1 3, then one more for the second tile; partners count from rank 1.
    assert result.comm.visits[:5] == (
        CommVisit(work=0, core=0, round=0, tile=0, partner=1),
        CommVisit(work=1, core=1, round=0, tile=0, partner=3),
        CommVisit(work=2, core=2, round=0, tile=0, partner=2),
        CommVisit(work=3, core=0, round=0, tile=0, partner=0),
        CommVisit(work=4, core=1, round=0, tile=1, partner=2),
    )
    assert result.gemm.visits[5:] == (
        GemmVisit(work=5, core=2, row=2, column=1),
        GemmVisit(work=6, core=0, row=2, column=2),
        GemmVisit(work=7, core=1, row=2, column=3),
    )


def test_no_more_tasks_than_there_are() -> None:
    result = visiting(ranks=2, comm=CommLoop(Sequential(), tiles=2, cores=8), gemm=GemmLoop(RowMajor(), 1, 3, 8))
    assert result.comm is not None
    assert result.gemm is not None
    assert [visit.partner for visit in result.comm.visits] == [0, 0, 1, 1]
    assert [visit.column for visit in result.gemm.visits] == [0, 1, 2]


def test_figures_stand_beside_those_of_the_plain_orders() -> None:
    result = visiting(ranks=8, comm=CommLoop(Interleaved(), tiles=8, cores=8), gemm=GemmLoop(Zigzag(2), 8, 8, 8))
    assert result.comm is not None
    assert result.gemm is not None
    assert (result.comm.links.mean, result.comm.sequential.mean) == (8.0, 1.0)
    assert result.gemm.row_major.rows == 1.0
    assert result.gemm.ratio == result.gemm.reuse.mean / result.gemm.row_major.mean < 1


def test_the_document_is_json() -> None:
    document = visiting(ranks=4, comm=replace(COMM, cores=4), first=1).as_json()
    assert json.loads(json.dumps(document)) == document
    assert document["gemm"] is None
    assert document["comm"] == {
        "order": "interleaved, split 2",
        "rank": 0,
        "ranks": 4,
        "cores": 4,
        "rounds": 1,
        "tiles": 6,
        "visits": [{"work": 0, "core": 0, "round": 0, "tile": 0, "partner": 0}],
        "links": {"mean": 4.0, "minimum": 4, "most": 4},
        "sequential": {"mean": pytest.approx(4 / 3), "minimum": 1, "most": 4},
    }


def test_orders_in_words() -> None:
    orders = (Sequential(), Interleaved(), RowMajor(), Zigzag(3))
    assert [order_name(order) for order in orders] == [
        "sequential",
        "interleaved, split 1",
        "row-major",
        "zigzag, groups of 3 columns",
    ]


def test_report_of_both_loops(capsys: pytest.CaptureFixture[str]) -> None:
    print_visiting(visiting(ranks=4, comm=replace(COMM, cores=4), gemm=replace(GEMM, cores=4), first=4))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == [
        "communication GEMM",
        "work core round tile partner work core row column",
        "0 0 0 0 0 0 0 0 0",
        "1 1 0 0 2 1 1 0 1",
    ]
    assert lines[6:] == [
        "",
        "communication of rank 0: 6 tiles x 4 ranks",
        "ranks addressed at once by 4 cores mean least possible",
        "interleaved, split 2 4.00 4 4",
        "sequential 1.33 1 4",
        "",
        "GEMM: 3 tile rows of A x 5 tile columns of B",
        "other rows and columns until reuse of A B both",
        "zigzag, groups of 2 columns 2.33 2.20 2.27",
        "row-major 1.00 5.80 3.18",
        "mean reuse distance: 0.71 of the row-major one",
    ]


def test_report_of_one_loop_and_of_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_visiting(visiting(ranks=4, gemm=GemmLoop(Zigzag(7), 4, 7, 4)))
    out = capsys.readouterr().out
    assert "communication" not in out
    assert "mean reuse distance: 1.00 of the row-major one" in out
    print_visiting(Visiting(comm=None, gemm=None, notes=("nothing",)))
    assert capsys.readouterr().out == "nothing\n"


def test_merged_rounds_share_one_work_index() -> None:
    loop = CommLoop(Interleaved(), tiles=1, cores=4, rounds=3)
    result = visiting(ranks=2, comm=loop).comm
    assert result is not None
    assert [(visit.core, visit.round, visit.partner) for visit in result.visits] == [
        (0, 0, 0),
        (1, 0, 1),
        (2, 1, 0),
        (3, 1, 1),
        (0, 2, 0),
        (1, 2, 1),
    ]
    assert (result.links.minimum, result.links.most) == (2, 2)


def test_reuse_is_found_for_a_part_of_a_large_grid() -> None:
    start = time.perf_counter()
    result = visiting(ranks=2, gemm=GemmLoop(Zigzag(7), 20_000, 300, 20)).gemm
    assert time.perf_counter() - start < 10  # uncapped, it would be hours
    assert result is not None
    assert (result.rows, result.columns, result.analysed) == (20_000, 300, (256, 256))
    # Row-major, a column of B comes back after the 255 others and two rows of A, the last column after one row.
    assert result.row_major.columns == 257 - 1 / 256
    assert result.ratio == pytest.approx(0.111, abs=0.001)


def test_a_large_grid_says_what_its_figures_are_about(capsys: pytest.CaptureFixture[str]) -> None:
    print_visiting(visiting(ranks=2, gemm=GemmLoop(Zigzag(7), 300, 7, 20)))
    assert capsys.readouterr().out.splitlines()[-1] == (
        "mean reuse distance: 1.00 of the row-major one, for a grid of 256 x 7 tiles"
    )


def test_loops_of_a_movement_kernel() -> None:
    result = visiting_of(plan_of(), Conditions(2, 8, {"S": 130, "H": 3, "D": 72}))
    assert result.comm is not None
    assert (result.comm.cores, result.comm.rounds, result.comm.tiles) == (4, 3, 3)
    assert result.gemm is None
    assert result.notes == ("no GEMM order: the kernel multiplies nothing",)


def test_both_loops_of_a_gemm_kernel_have_their_own_cores() -> None:
    plan = plan_from("allgather_gemm_mte_signal")
    result = visiting_of(plan, Conditions(2, 20, {"M": 130, "N": 264, "K": 72}))
    assert result.comm is not None
    assert result.gemm is not None
    assert (result.comm.cores, result.comm.rounds, result.comm.tiles) == (40, 1, 8)
    assert (result.gemm.cores, result.gemm.rows, result.gemm.columns) == (20, 4, 2)
    assert result.notes == ()


@pytest.mark.parametrize(
    ("name", "note"),
    [
        (
            "allgather_gemm_udma_signal",
            "no communication order: put sends whole blocks, to each other rank from one core",
        ),
        (
            "gemm_allreduce_mte_signal",
            "no communication order: reduce goes through all ranks for each tile, so that sums have one order",
        ),
    ],
)
def test_a_kernel_without_a_communication_order_says_why(name: str, note: str) -> None:
    result = visiting_of(plan_from(name), Conditions(2, 20, {"M": 130, "N": 264, "K": 72}))
    assert result.comm is None
    assert result.notes == (note,)


def test_an_empty_shape_visits_nothing() -> None:
    result = visiting_of(plan_of(), Conditions(2, 8, {"S": 0, "H": 3, "D": 72}))
    assert result.as_json() == {"comm": None, "gemm": None, "notes": ["an empty shape: nothing is visited"]}
