"""Cores that fall far behind: nothing that they wait for may be gone when they look.

Schedules in turn or at random keep all actors close together and hardly ever show this.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.sim import run_module
from fusegen.sim.schedule import ScheduleName
from tests.kernels.cases import AXES, Condition, assert_clean, edited, moves_only, rendered, run, small
from tests.plan.plans import BASES, MIX

CONDITIONS = {
    ("S", "H", "D"): Condition(3, 4, (50, 1, 17), "starving"),
    ("M", "N"): Condition(3, 4, (50, 17), "starving"),
    ("M", "N", "K"): Condition(3, 3, (50, 17, 9), "starving", 2),
}
SKEWED: tuple[ScheduleName, ...] = ("pct", "slow-rank", "slow-core", "starving")
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
        result = run_module(module, ranks=2, cores=8, shape=shape, launches=2, schedule="starving", seed=seed)
        assert_clean(result, exact=False)


def found(folder: Path, text: str, pattern: str, condition: Condition) -> set[str]:
    """Kinds of findings under the first of a few seeds that has any."""
    results = (run(folder, text, pattern, condition, seed=seed) for seed in range(4))
    return next(({finding.kind for finding in result.findings} for result in results if result.findings), set())


@pytest.mark.parametrize("schedule", SKEWED)
@pytest.mark.parametrize("pattern", MIX)
def test_credits_of_neighbouring_uses_in_one_slot_are_missed(
    tmp_path: Path, pattern: str, schedule: ScheduleName
) -> None:
    """A reader that needs nothing from a slow writer hides the credit that this writer waits for."""
    condition = Condition(3, 4, (9, 5, 9), schedule, 3)
    text = rendered(pattern, (condition,), **small(pattern, buffer_num=2))
    broken = edited(text, ("(turn + 1) % 2 * credit_parity", "0"), ("turn % 2 * credit_parity", "0"))
    assert found(tmp_path, broken, pattern, condition) == {"Deadlock"}


@pytest.mark.parametrize("schedule", SKEWED)
@pytest.mark.parametrize("pattern", MIX)
def test_a_reader_without_a_share_must_not_run_ahead(tmp_path: Path, pattern: str, schedule: ScheduleName) -> None:
    """Two uses ahead it writes the slot again in which a slow writer looks for an earlier credit."""
    condition = Condition(3, 8, (100, 5, 9), schedule, 3)
    text = rendered(pattern, (condition,), **small(pattern, buffer_num=2))
    start = text.index("# Also a core without a share of the round waits for it to begin.")
    end = text.index("slot = ", start)
    broken = text[:start] + text[end:].replace("credit + slot", "credit_ptr + slot", 1)
    assert found(tmp_path, broken, pattern, condition) == {"Deadlock"}
