"""The report of how many seeded bugs are caught."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import mutation
from benchmarks.mutation import main
from tests.seeded_bugs.runner import Outcome


def made(site: str, finding: str | None) -> Outcome:
    return Outcome("no fence", "allgather_mte_signal", site, finding, 1 if finding else 5, 0.12345, ("as it was said",))


def test_all_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "_outcomes", lambda jobs: [made("push", "MissingFence"), made("copy", "DataRace")])
    text = CliRunner().invoke(main)
    assert text.exit_code == 0
    row = " ".join(text.output.splitlines()[1].split())
    assert row == "no fence allgather_mte_signal 2/2 MissingFence, DataRace 1"
    assert "2 of 2 mutants caught" in text.output


def test_one_that_is_missed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "_outcomes", lambda jobs: [made("push", "MissingFence"), made("copy", None)])
    text = CliRunner().invoke(main)
    assert text.exit_code == 1
    assert "1/2     MissingFence MISSED: copy" in text.output
    result = CliRunner().invoke(main, ["--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["mutants"], document["caught"]) == (2, 1)
    assert document["rows"][1] == {
        "mutant": "no fence",
        "spec": "allgather_mte_signal",
        "site": "copy",
        "finding": None,
        "schedules": 5,
        "seconds": 0.123,
        "caught": False,
    }
