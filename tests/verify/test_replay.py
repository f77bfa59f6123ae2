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
        ({"ranks": 17}, ["ranks: Input should be less than or equal to 16"]),
        (
            {"kernel": "../k", "cores": "three"},
            ["kernel: String should match", "cores: Input should be a valid integer"],
        ),
        ({"colour": "red"}, ["colour: Extra inputs are not permitted"]),
        ({"format": "fusegen replay 2"}, ["format: Input should be 'fusegen replay 1'"]),
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


def test_no_file_and_no_json(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    with pytest.raises(UsageError, match="expected a file that fusegen verify wrote, got No such file"):
        read_replay(path)
    path.write_text("def", encoding="utf-8")
    with pytest.raises(UsageError, match="expected the JSON that fusegen verify wrote, got Expecting value"):
        read_replay(path)
