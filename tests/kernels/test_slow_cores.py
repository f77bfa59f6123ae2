"""Cores that fall far behind: nothing that they wait for may be gone when they look.

Random schedules keep all actors close together and hardly ever show this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import run_module
from tests.kernels.cases import AXES, Condition, assert_clean, edited, moves_only, rendered, run, small
from tests.kernels.schedules import Starving
from tests.plan.plans import BASES, MIX

CONDITIONS = {
    ("S", "H", "D"): Condition(3, 4, (50, 1, 17), "starving"),
    ("M", "N"): Condition(3, 4, (50, 17), "starving"),
    ("M", "N", "K"): Condition(3, 3, (50, 17, 9), "starving", 2),
}
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("announce", ["per_tile", "batched"])
@pytest.mark.parametrize("pattern", BASES)
def test_signals(tmp_path: Path, pattern: str, announce: str) -> None:
    condition = CONDITIONS[AXES[pattern]]
    text = rendered(pattern, (condition,), **small(pattern, announce=announce))
    for seed in range(4):
        assert_clean(run(tmp_path, text, pattern, condition, seed=seed), exact=moves_only(pattern))


@pytest.mark.parametrize("pattern", MIX)
def test_checked_in_mix_kernels_with_more_cores_than_work(pattern: str) -> None:
    module = ROOT / "generated" / f"{pattern}_mte_signal.py"
    for seed in range(3):
        shape = {"M": 9, "N": 17, "K": 16}
        result = run_module(module, ranks=2, cores=8, shape=shape, launches=2, schedule=Starving(seed=seed))
        assert_clean(result, exact=False)


@pytest.mark.parametrize("pattern", MIX)
def test_a_credit_that_is_written_once_more_in_a_launch_is_missed(tmp_path: Path, pattern: str) -> None:
    """Why credits have a slot for each round: with one for each buffer, a slow writer finds a later value."""
    condition = Condition(3, 4, (9, 5, 9), "starving", 3)
    changes: dict[str, Any] = {"buffer_num": 2}
    text = rendered(pattern, (condition,), **small(pattern, **changes))
    assert text.count("panel * credit_panel") == 1
    before = "(panel + panels) % (panels + BUFFER_NUM) * credit_panel"
    value = "waitValue=tl.minimum(panel // BUFFER_NUM, 1) * (launch + 1)"
    uses = "tl.cdiv(panels - panel % BUFFER_NUM, BUFFER_NUM)"
    turn = f"(launch * {uses} + panel // BUFFER_NUM)"
    broken = edited(text, (before, "panel % BUFFER_NUM * credit_panel"), (value, f"waitValue={turn}"))
    broken = edited(broken, ("(panel * credit_panel", "(panel % BUFFER_NUM * credit_panel"))
    written = broken.index("(panel % BUFFER_NUM * credit_panel + rank")
    broken = broken[:written] + broken[written:].replace("launch + 1", f"({turn} + 1) % (2 * {uses})", 1)
    results = [run(tmp_path, broken, pattern, condition, seed=seed) for seed in range(6)]
    assert {finding.kind for result in results for finding in result.findings} >= {"Deadlock"}
