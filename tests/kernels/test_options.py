"""Options of a spec one by one: types, bias, panels, communication tiles, orders; ordered sums are reproducible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusegen.sim.findings import HostError
from tests.kernels.cases import AXES, SUMS, Condition, assert_clean, edited, moves_only, rendered, run, small
from tests.plan.plans import BASES, MIX, choice_id

ROWS_TWICE = Condition(3, 4, (35, 33), launches=2)
HEADS_TWICE = Condition(3, 4, (35, 2, 33), launches=2)
GEMM_TWICE = Condition(3, 2, (51, 33, 17), launches=2)
CONDITION = {("S", "H", "D"): HEADS_TWICE, ("M", "N"): ROWS_TWICE, ("M", "N", "K"): GEMM_TWICE}


def check(folder: Path, pattern: str, condition: Condition | None = None, **changes: Any) -> None:
    condition = condition or CONDITION[AXES[pattern]]
    text = rendered(pattern, (condition,), **small(pattern, **changes))
    assert_clean(run(folder, text, pattern, condition), exact=moves_only(pattern))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("pattern", BASES)
def test_element_types(tmp_path: Path, pattern: str, dtype: str) -> None:
    check(tmp_path, pattern, dtype=dtype)


@pytest.mark.parametrize("reduce", ["ordered", "atomic"])
@pytest.mark.parametrize("pattern", SUMS)
def test_sums_of_float16_and_float32(tmp_path: Path, pattern: str, reduce: str) -> None:
    for dtype in ("float16", "float32"):
        check(tmp_path, pattern, dtype=dtype, reduce=reduce, sync="barrier")


BIASED: list[tuple[str, dict[str, Any]]] = [
    *((pattern, {"reduce": reduce}) for pattern in MIX[1:] for reduce in ("ordered", "atomic")),
    (MIX[0], {}),
    (MIX[0], {"transport": "udma", "buffer_num": 1}),
]


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize(("pattern", "changes"), BIASED, ids=[f"{p}-{choice_id(c)}" for p, c in BIASED])
def test_bias_and_another_output_type(tmp_path: Path, pattern: str, changes: dict[str, Any], sync: str) -> None:
    condition = Condition(3, 2, (15, 33, 17), launches=2)
    check(tmp_path, pattern, condition, **changes, sync=sync, dtype="float16", out_dtype="float32", bias=True)


@pytest.mark.parametrize("pvalue", [1, 2, 3, 4])
@pytest.mark.parametrize("pattern", MIX)
def test_tile_rows_in_a_panel(tmp_path: Path, pattern: str, pvalue: int) -> None:
    check(tmp_path, pattern, pvalue=pvalue)


@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (2, 16), (4, 32), (16, 16), (16, 32)])
@pytest.mark.parametrize("pattern", MIX)
def test_communication_tiles(tmp_path: Path, pattern: str, rows: int, columns: int) -> None:
    tiles = {"tile": {"m": 16, "n": 32, "k": 16}, "comm_tile": {"rows": rows, "columns": columns}}
    check(tmp_path, pattern, Condition(2, 2, (35, 49, 35), launches=1), **tiles)


@pytest.mark.parametrize("gemm", [{"offset": 1}, {"offset": 3}, {"offset": 7}, {"order": "row_major"}])
@pytest.mark.parametrize("pattern", MIX)
def test_orders_of_gemm_tiles(tmp_path: Path, pattern: str, gemm: dict[str, Any]) -> None:
    check(tmp_path, pattern, Condition(2, 2, (35, 65, 9), launches=1), swizzle={"gemm": gemm}, pvalue=2)


COMM_ORDERS = [
    (pattern, changes, order, ranks)
    for order, ranks in (({"npu_split": 2}, 4), ({"npu_split": 4}, 8), ({"order": "sequential"}, 3))
    for pattern in BASES
    for changes in ({"sync": "barrier"}, {"sync": "signal"})
]


@pytest.mark.parametrize(("pattern", "changes", "order", "ranks"), COMM_ORDERS)
def test_orders_of_ranks(
    tmp_path: Path, pattern: str, changes: dict[str, Any], order: dict[str, Any], ranks: int
) -> None:
    if pattern in MIX[1:]:
        changes = {**changes, "reduce": "atomic"}
    if "gemm" not in pattern and changes["sync"] == "barrier":
        changes = {**changes, "roles": "shared"}
    rows = (17, 1, 17) if AXES[pattern][0] == "S" else (17, 17) if pattern not in MIX else (17, 17, 3)
    condition = Condition(ranks, 3, rows, launches=2)
    check(tmp_path, pattern, condition, **changes, swizzle={"comm": order})


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", BASES)
def test_a_zero_extent_launches_nothing(tmp_path: Path, pattern: str, sync: str) -> None:
    bias: list[dict[str, Any]] = [{}, {"bias": True}] if pattern in MIX else [{}]
    shape = CONDITION[AXES[pattern]].shape
    for axis in range(len(shape)):
        condition = Condition(2, 3, tuple(0 if i == axis else extent for i, extent in enumerate(shape)))
        for changes in bias:
            text = rendered(pattern, (CONDITION[AXES[pattern]],), **small(pattern, sync=sync, **changes))
            result = run(tmp_path, text, pattern, condition)
            assert_clean(result, exact=True)
            assert result.tiles == 0


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", BASES)
def test_the_programs_of_a_launch_are_counted(tmp_path: Path, pattern: str, sync: str) -> None:
    """Guide 2.1, the assertion on total_vec: a grid that an edit made smaller works, and is refused."""
    condition = CONDITION[AXES[pattern]]
    text = rendered(pattern, (condition,), **small(pattern, sync=sync, debug={"total_cores": True}))
    assert_clean(run(tmp_path, text, pattern, condition), exact=moves_only(pattern))
    grid = ("[(cores,)]", "[(cores - 1,)]")
    (finding,) = run(tmp_path, edited(text, grid), pattern, condition).findings
    assert isinstance(finding, HostError)
    assert finding.ranks == (0, 1, 2)
    cores, kind = condition.cores, "AI cores" if pattern in MIX else "vector cores"
    message = (
        f"launch mode mismatch: expected a grid of {cores} programs, one for each of the workspace's {kind}, "
        f"got {cores - 1}: launch the kernel with the grid (workspace.cores,)"
    )
    assert message in finding.message
    unchecked = rendered(pattern, (condition,), **small(pattern, sync=sync))
    assert "total_cores" not in unchecked
    assert_clean(run(tmp_path, edited(unchecked, grid), pattern, condition), exact=moves_only(pattern))


def test_the_one_call_form_counts_programs_too(tmp_path: Path) -> None:
    condition = CONDITION[AXES["allgather"]]
    text = rendered("allgather", (condition,), **small("allgather", debug={"total_cores": True}))
    call = (
        "    own = torch.Generator()",
        "    return allgather(torch.ones(M, N, dtype=DTYPE).npu()).sum().item() * 0\n    own = torch.Generator()",
    )
    assert_clean(run(tmp_path, edited(text, call), "allgather", condition), exact=False)
    (finding,) = run(tmp_path, edited(text, call, ("[(cores,)]", "[(cores - 1,)]")), "allgather", condition).findings
    assert "launch mode mismatch: expected a grid of 4 programs" in finding.message


BITS = """
    told = [None] * ranks
    dist.all_gather_object(told, [each[-1].float().flatten().tolist() for each in runs])
    if rank == 0:
        Path({path!r}).write_text(json.dumps(told))
    largest = 0.0
"""
"""Collects the results of all ranks, for every launch of a self-check."""


@pytest.mark.parametrize("sync", ["barrier", "signal"])
@pytest.mark.parametrize("pattern", SUMS)
def test_ordered_sums_have_the_same_bits_every_time(tmp_path: Path, pattern: str, sync: str) -> None:
    shape = (19, 17, 9)[: len(AXES[pattern])]
    condition = Condition(5, 3, shape, launches=2)
    text = rendered(pattern, (condition,), **small(pattern, sync=sync, dtype="float16", watchdog={"enabled": True}))
    path = tmp_path / "bits.json"
    text = edited(text, ("\n    largest = 0.0\n", BITS.format(path=str(path))))
    found = []
    for name in ("round-robin", "random", "starving"):
        each = Condition(condition.ranks, condition.cores, condition.shape, name, condition.launches)
        assert_clean(run(tmp_path, text, pattern, each), exact=False)
        found.append(json.loads(path.read_text()))
        path.unlink()
    assert found[0] == found[1] == found[2]
    if "allreduce" in pattern:
        assert all(of_rank == found[0][0] for of_rank in found[0])
