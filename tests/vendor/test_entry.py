"""A wrong entry in the manifest is told, with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.errors import UsageError
from fusegen.vendor.entry import parse_entry, read_entry
from tests.vendor.kernels import GENERATED

DATA = json.loads((GENERATED / "MANIFEST.json").read_text(encoding="utf-8"))["modules"]["allgather_mte_signal"][
    "kernel"
]


def test_entries_are_read_from_the_manifest() -> None:
    assert read_entry(GENERATED / "allgather_mte_signal.py") == parse_entry(DATA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "cube"}, "kind: Input should be 'vector' or 'mix'"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"tiles": {"ub": [{"field": "tile.m"}]}}, "tiles.ub.0.constant: Field required"),
    ],
)
def test_other_entries_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_entry(DATA | change)
    assert str(caught.value) == f"MANIFEST.json: expected the description of a kernel, got {message}"


def test_a_module_without_an_entry_is_told(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    with pytest.raises(UsageError, match=r"expected an entry with its kernel in .*MANIFEST\.json, got none"):
        read_entry(module)
