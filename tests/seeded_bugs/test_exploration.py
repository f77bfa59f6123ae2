"""The proof of one run against the exploration of all orders, for seeded bugs and for edits that are harmless.

Where exploration finds something, no run may have been called a proof; where a run finds something, exploration must,
too; and what is proved has one order.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import run_module
from fusegen.sim.explore.run import Exploration, explore_module
from tests.seeded_bugs import barriers, host, mix, signals
from tests.seeded_bugs.catalogue import ROWS, mutants, sites
from tests.seeded_bugs.conditions import SPECS
from tests.seeded_bugs.rows import Mutant, Row

LIMIT = 6
"""Runs of an exploration; a bug shows in one of the first."""

SYNCHRONISING = {module.__name__ for module in (barriers, host, mix, signals)}
"""Where the rows are that change what orders the run; the others change what it computes or where it stores."""


def cases(*, harmless: bool) -> list[Any]:
    """A mutant of each row and spec, the first one, or every edit that is harmless."""
    found = []
    for row in ROWS:
        if row.sites.__module__ not in SYNCHRONISING and not harmless:
            continue
        for spec in SPECS:
            chosen = _harmless(row, spec) if harmless else mutants(row, spec)[:1]
            found += [pytest.param(each, id=f"{row.name}-{spec}-{place}") for place, each in enumerate(chosen)]
    return found


def _harmless(row: Row, spec: str) -> list[Mutant]:
    return [each for each in sites(row, spec) if row.why_harmless(each) is not None]


def both(folder: Path, mutant: Mutant) -> tuple[Any, Exploration]:
    """One run, and the exploration."""
    path = folder / f"{mutant.spec}.py"
    # A host that polls for a minute of virtual time makes deadlocks slow.
    path.write_text(mutant.text.replace("WATCHDOG_SECONDS = 60.0", "WATCHDOG_SECONDS = None"))
    condition = mutant.condition
    under: dict[str, Any] = {
        "ranks": condition.ranks,
        "cores": condition.cores,
        "shape": condition.shape,
        "launches": condition.launches,
    }
    with redirect_stdout(io.StringIO()):
        one = run_module(path, schedule="random", seed=1, races=True, **under)
        every = explore_module(path, limit=LIMIT, stop_at_finding=True, **under)
    return one, every


@pytest.mark.parametrize("mutant", cases(harmless=False))
def test_a_bug_that_one_run_finds_is_found_by_exploring(tmp_path: Path, mutant: Mutant) -> None:
    one, every = both(tmp_path, mutant)
    assert one.findings
    assert not one.proof.proved
    assert every.findings


@pytest.mark.parametrize("mutant", cases(harmless=True))
def test_what_is_proved_has_one_order(tmp_path: Path, mutant: Mutant) -> None:
    one, every = both(tmp_path, mutant)
    assert one.proof.proved, str(one.proof)
    assert [str(shown.finding) for shown in every.findings] == []
    assert (every.complete, every.orders) == (True, 1)
