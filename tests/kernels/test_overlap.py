"""Guide 1.1 and 1.3 in a generated kernel: two buffers overlap moving and multiplying, and signals cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.sim.timing import Clocks, Costs
from tests.kernels.cases import Condition, assert_clean, rendered, run, small

CONDITION = Condition(2, 2, (96, 16, 64), "round-robin", 1)
COSTS = Costs(access=10, per_byte=1, per_product=1 / 64, signal=10, barrier=100)
"""Moving a panel takes about as long as multiplying it: where one of the two dominates there is little to overlap."""


def makespan(folder: Path, sync: str, buffer_num: int) -> float:
    clocks = Clocks(COSTS)
    text = rendered("allgather_gemm", (CONDITION,), **small("allgather_gemm", sync=sync, buffer_num=buffer_num))
    assert_clean(run(folder, text, "allgather_gemm", CONDITION, observers=(clocks.observe,)), exact=False)
    return clocks.makespan


@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_two_buffers_are_faster_than_one(tmp_path: Path, sync: str) -> None:
    assert makespan(tmp_path, sync, 2) < 0.8 * makespan(tmp_path, sync, 1)


@pytest.mark.parametrize("buffer_num", [1, 2])
def test_signals_are_not_slower_than_barriers(tmp_path: Path, buffer_num: int) -> None:
    assert makespan(tmp_path, "signal", buffer_num) <= makespan(tmp_path, "barrier", buffer_num)
