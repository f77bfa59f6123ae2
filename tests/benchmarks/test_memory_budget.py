"""The comparison of the planner's memory budget with the vendor's compiler."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import memory_budget
from benchmarks.memory_budget import Limits, Line, grid, limits, main
from fusegen.plan.passes import budget

MOVED = Line("allgather_mte_signal", ("dtype=float16", "tile.n=128"), "tile.m", (128, 256, 512))
SUM = Line("reduce_scatter_mte_signal", ("dtype=float16", "tile.n=128"), "tile.m", (32, 64, 128))
CUBE = ("dtype=float16", "bias=true", "tile.m=64", "tile.n=64")
DEPTH = Line("allgather_gemm_mte_barrier", CUBE, "tile.k", (256, 512, 1024))


@pytest.mark.parametrize(("line", "largest"), [(MOVED, 256), (SUM, 64), (DEPTH, 512)], ids=["moved", "sum", "depth"])
def test_planner_and_compiler_have_the_same_limit(line: Line, largest: int) -> None:
    assert limits(line) == Limits(line, largest, largest)


def test_a_budget_that_is_too_generous_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "sum_bytes", lambda plan, dtype, *, has_start: 12)
    assert limits(SUM) == Limits(SUM, 128, 64)


def test_a_budget_that_is_too_strict_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "sum_bytes", lambda plan, dtype, *, has_start: 48)
    assert limits(SUM) == Limits(SUM, 32, 64)


def test_values_that_the_spec_forbids_are_not_compiled() -> None:
    line = Line("allgather_mte_signal", ("tile.n=128",), "tile.m", (100,))
    assert limits(line) == Limits(line, 0, 0)


def test_the_grid_has_every_memory_on_both_families() -> None:
    lines = list(grid())
    assert {line.field for line in lines} == {"tile.m", "tile.n", "tile.k", "tile.d", "comm_tile.rows"}
    assert {change for line in lines for change in line.changes if "target" in change} == {
        "target=Ascend910B3",
        "target=Ascend950PR_9589",
    }
    assert len(set(lines)) == len(lines)


class Pool:
    """Maps in this process."""

    def __init__(self, jobs: int | None, context: Any) -> None:
        self.map = map

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("compiler", "status"), [(64, 0), (128, 1)])
def test_the_report(compiler: int, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(memory_budget, "limits", lambda line: Limits(line, 64, compiler))
    result = CliRunner().invoke(main, ["--short", "--json"])
    assert result.exit_code == status
    document = json.loads(result.stdout)
    assert document["ok"] is (status == 0)
    assert document["lines"][0] == {
        "line": {
            "spec": "allgather_mte_signal",
            "changes": ["dtype=float16", "target=Ascend910B3", "tile.n=128"],
            "field": "tile.m",
            "values": [64, 128, 256, 512, 1024],
        },
        "planner": 64,
        "compiler": compiler,
        "agrees": status == 0,
    }
    text = CliRunner().invoke(main, ["--short"]).stdout
    count = len(document["lines"])
    assert f"{count if status == 0 else 0} of {count} lines agree" in text
