"""The measurement of what the check of order costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import race_check
from benchmarks.race_check import Case, Cost, cost, largest, main, seconds

SMALL = Case("allgather_mte_signal", 2, 3, {"M": 70, "N": 40})


def of(median: float, plain_s: float = 1.0) -> Cost:
    return Cost(SMALL, plain_s, plain_s * median, median, median - 0.5, median + 0.5)


def test_a_case_is_measured_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([9.0, 1.0, 2.0, 2.0, 5.0, 1.0, 3.0])
    monkeypatch.setattr(race_check, "seconds", lambda case, *, races: next(taken))
    assert cost(SMALL, repeats=3) == Cost(SMALL, 1.0, 3.0, 2.5, 2.0, 3.0)


def test_short_runs_do_not_count() -> None:
    assert largest([of(2.0), of(7.0, plain_s=0.29), of(2.5)]) == 2.5
    assert largest([of(7.0, plain_s=0.29)]) is None


def test_a_run_is_timed_and_must_be_clean() -> None:
    assert 0 < seconds(SMALL, races=True) < 60
    wrong = Case("allgather_mte_signal", 2, 1, {"M": 70, "N": 40})  # one core has no role to share
    with pytest.raises(RuntimeError, match="allgather_mte_signal: expected no findings, got HostError"):
        seconds(wrong, races=False)


@pytest.mark.parametrize(("ratio", "status"), [(2.9, 0), (3.1, 1)])
def test_the_report(monkeypatch: pytest.MonkeyPatch, ratio: float, status: int) -> None:
    asked: list[Any] = []

    def measured(case: Case, *, repeats: int) -> Cost:
        asked.append((case.module, repeats))
        return of(ratio)

    monkeypatch.setattr(race_check, "cost", measured)
    options = ["--repeats", "2", "--case", "allreduce_mte_signal"]
    text = CliRunner().invoke(main, options)
    assert (text.exit_code, asked) == (status, [("allreduce_mte_signal", 2)])
    assert text.output.splitlines()[-1] == f"largest median {ratio:.2f}, at most 3 is fine"
    document = json.loads(CliRunner().invoke(main, [*options, "--json"]).output)
    assert (document["largest_median"], document["cases"][0]["case"]["shape"]) == (ratio, {"M": 70, "N": 40})
