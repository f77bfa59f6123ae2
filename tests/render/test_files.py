"""The generated folder: every kind of difference is told apart, and files are replaced whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fusegen.errors import ProjectError
from fusegen.render.files import (
    MANIFEST,
    Problem,
    RenderedModule,
    differences,
    manifest_text,
    read_manifest,
    replace_file,
    sha256,
)

KERNEL = {"name": "one_kernel"}
ONE = RenderedModule("one", "A = 1\n", "11", KERNEL)
TWO = RenderedModule("two", "B = 2\n", "22", KERNEL)
MODULES = {"one": ONE, "two": TWO}


def write_all(folder: Path) -> None:
    """A folder that is up to date."""
    for module in MODULES.values():
        replace_file(folder / module.filename, module.text)
    replace_file(folder / MANIFEST, manifest_text(MODULES))


def problems(folder: Path, modules: dict[str, RenderedModule] | None = None) -> list[tuple[str, Problem]]:
    """File names with what is wrong with them."""
    found = differences(folder, MODULES if modules is None else modules)
    return [(difference.filename, difference.problem) for difference in found]


def test_a_current_folder_has_no_differences(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert problems(tmp_path) == []


def test_a_missing_folder_misses_everything(tmp_path: Path) -> None:
    assert problems(tmp_path / "generated") == [
        ("one.py", Problem.MISSING),
        ("two.py", Problem.MISSING),
        (MANIFEST, Problem.MISSING),
    ]


def test_an_edited_module_is_told_from_a_stale_one(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "one.py").write_text("A = 3\n")
    changed = {"one": ONE, "two": RenderedModule("two", "B = 4\n", "23", KERNEL)}
    found = list(differences(tmp_path, changed))
    assert [(d.filename, d.problem) for d in found] == [
        ("one.py", Problem.EDITED),
        ("two.py", Problem.STALE),
        (MANIFEST, Problem.STALE),
    ]
    assert found[0].diff == f"--- {tmp_path.name}/one.py\n+++ {tmp_path.name}/one.py\n@@ -1 +1 @@\n-A = 3\n+A = 1\n"
    assert found[0].advice == "move the change to the spec; fusegen render discards it"
    assert found[1].advice == "run fusegen render"


def test_a_changed_spec_that_renders_the_same_makes_the_manifest_stale(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert problems(tmp_path, {"one": RenderedModule("one", ONE.text, "12", KERNEL), "two": TWO}) == [
        (MANIFEST, Problem.STALE)
    ]


def test_a_module_without_a_spec_is_an_orphan(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "__init__.py").write_text("")
    assert problems(tmp_path, {"one": ONE}) == [("two.py", Problem.ORPHAN), (MANIFEST, Problem.STALE)]


def test_line_ends_count(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "one.py").write_bytes(b"A = 1\r\n")
    assert problems(tmp_path) == [("one.py", Problem.EDITED)]


def test_a_file_without_its_last_newline_gives_a_readable_diff(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "one.py").write_text("A = 1")
    (difference,) = differences(tmp_path, MODULES)
    header = f"--- {tmp_path.name}/one.py\n+++ {tmp_path.name}/one.py\n"
    assert difference.diff == f"{header}@@ -1 +1 @@\n-A = 1\n\\ No newline at end of file\n+A = 1\n"


def test_the_manifest_has_hashes_and_the_generator(tmp_path: Path) -> None:
    document = json.loads(manifest_text(MODULES))
    assert document["generator"] == "fusegen 0.1.0"
    assert document["modules"]["one"] == {
        "spec_sha256": "11",
        "module_sha256": sha256("A = 1\n"),
        "kernel": KERNEL,
    }
    assert list(document["modules"]) == ["one", "two"]


@pytest.mark.parametrize("text", ["", "[]", '{"modules": 3}', '{"modules": {"one": {}}}'])
def test_a_broken_manifest_counts_as_stale(tmp_path: Path, text: str) -> None:
    write_all(tmp_path)
    (tmp_path / MANIFEST).write_text(text)
    assert read_manifest(tmp_path) == {}
    assert problems(tmp_path) == [(MANIFEST, Problem.STALE)]


def test_replacing_a_file_with_the_same_text_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "one.py"
    assert replace_file(path, "A = 1\n")
    before = path.stat().st_mtime_ns
    assert not replace_file(path, "A = 1\n")
    assert path.stat().st_mtime_ns == before


def test_replacing_keeps_the_permissions_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    replace_file(path, "A = 1\n")
    path.chmod(0o640)
    assert replace_file(path, "A = 2\n")
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["one.py"]


def test_a_failing_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.py"
    replace_file(path, "A = 1\n")

    def fail(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ProjectError, match=r"one\.py: cannot be written: No space left on device"):
        replace_file(path, "A = 2\n")
    assert path.read_text() == "A = 1\n"
    assert os.listdir(tmp_path) == ["one.py"]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "generated").write_text("")
    with pytest.raises(ProjectError, match=r"generated/one\.py: cannot be written"):
        replace_file(tmp_path / "generated" / "one.py", "A = 1\n")
