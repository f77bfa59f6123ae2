"""Replay files that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.errors import UsageError
from fusegen.verify.replay import ReplayFile, read_replay

FIELDS = {
    "kernel": "k",
    "ranks": 2,
    "cores": 3,
    "shape": {"S": 1},
    "launches": 1,
    "seed": 0,
    "target": None,
    "races": True,
    "schedule": "random",
    "late_stores": False,
    "findings": ["Deadlock: 2 actors wait"],
    "picks": [0, 1],
    "source": "pass",
}


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    path.write_text(ReplayFile.model_validate(FIELDS).model_dump_json(), encoding="utf-8")
    assert read_replay(path).model_dump(exclude={"format", "fusegen"}) == FIELDS | {
        "findings": ("Deadlock: 2 actors wait",),
        "picks": (0, 1),
    }


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"ranks": 17}, ["ranks: expected less than or equal to 16, got 17"]),
        (
            {"kernel": "../k", "cores": "three"},
            ["kernel: expected text that matches pattern", "cores: expected a valid integer"],
        ),
        ({"colour": "red"}, ["colour: expected a field of a replay file, got one that no replay file has"]),
        ({"format": "fusegen replay 2"}, ["format: expected 'fusegen replay 1', got 'fusegen replay 2'"]),
    ],
)
def test_every_wrong_field_is_named(tmp_path: Path, changes: dict[str, object], faults: list[str]) -> None:
    path = tmp_path / "replay.json"
    path.write_text(json.dumps(FIELDS | changes), encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        read_replay(path)
    lines = str(raised.value).splitlines()
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith(f"{path}: {fault}")


def test_a_missing_field_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    path.write_text(json.dumps({name: value for name, value in FIELDS.items() if name != "picks"}), encoding="utf-8")
    advice = r"\(files of another version may lack it: fusegen verify writes a new one\)"
    with pytest.raises(UsageError, match=rf"replay.json: picks: expected a value, got nothing {advice}"):
        read_replay(path)


def test_no_file_and_no_json(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    with pytest.raises(UsageError, match="expected a file that fusegen verify wrote, got No such file"):
        read_replay(path)
    path.write_text("def", encoding="utf-8")
    with pytest.raises(UsageError, match="expected the JSON that fusegen verify wrote, got expected value"):
        read_replay(path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (json.dumps(FIELDS)[:90], "EOF while parsing"),
        ("[" * 100_000, "recursion limit exceeded"),
        (json.dumps(FIELDS | {"source": "\ud800"}), "hex escape"),
    ],
)
def test_a_file_that_was_cut_or_edited_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "replay.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=f"expected the JSON that fusegen verify wrote, got .*{fault}"):
        read_replay(path)
