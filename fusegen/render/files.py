"""Files of the generated folder: what they should hold, how they differ from it, and how they are replaced.

The manifest, MANIFEST.json, records for each module the SHA-256 of what the spec says and of the module's text, and the
version of fusegen that wrote them. It tells a module that was edited by hand from one whose spec has changed since. It
also describes the kernel (`fusegen.render.entry`), so that the module can be compiled without its spec.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, assert_never

from fusegen import __version__
from fusegen.errors import ProjectError

MANIFEST = "MANIFEST.json"


@dataclass(frozen=True, slots=True)
class RenderedModule:
    """A module as its spec says it should be; `kernel` is what the manifest says about its kernel."""

    name: str
    text: str
    spec_sha256: str
    kernel: Mapping[str, Any]

    @property
    def filename(self) -> str:
        """Name of the module's file."""
        return f"{self.name}.py"

    @property
    def sha256(self) -> str:
        """Of the module's text."""
        return sha256(self.text)


class Problem(Enum):
    """What can be wrong with a file of the generated folder."""

    MISSING = "missing"
    STALE = "stale"
    EDITED = "edited by hand"
    ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not what the specs say, and the unified diff from the file to what it should be."""

    problem: Problem
    filename: str
    diff: str

    @property
    def advice(self) -> str:
        """What to do about it."""
        match self.problem:
            case Problem.MISSING | Problem.STALE:
                return "run fusegen render"
            case Problem.EDITED:
                return "move the change to the spec; fusegen render discards it"
            case Problem.ORPHAN:
                return "no spec has this name: delete the file, or restore its spec"
            case _:
                assert_never(self.problem)


def sha256(text: str) -> str:
    """Of the UTF-8 bytes of `text`, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def manifest_text(modules: Mapping[str, RenderedModule], kept: Mapping[str, dict[str, Any]] | None = None) -> str:
    """The manifest of these modules and of `kept`, entries of modules that stay as they were."""
    entries = {
        **(kept or {}),
        **{
            m.name: {"spec_sha256": m.spec_sha256, "module_sha256": m.sha256, "kernel": dict(m.kernel)}
            for m in modules.values()
        },
    }
    ordered = {name: entries[name] for name in sorted(entries)}
    return json.dumps({"generator": f"fusegen {__version__}", "modules": ordered}, indent=2) + "\n"


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Entries of the folder's manifest; none where there is no manifest, or one that fusegen did not write."""
    path = folder / MANIFEST
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
        keys = ("spec_sha256", "module_sha256", "kernel")
        return {name: {key: entry[key] for key in keys} for name, entry in modules.items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def differences(folder: Path, modules: Mapping[str, RenderedModule]) -> Iterator[Difference]:
    """Files of `folder` that are missing, stale, edited by hand or orphans, in the order of their names, manifest last.

    `modules` are all modules that the specs ask for.
    """
    entries = read_manifest(folder)
    present = {path.stem: path for path in folder.glob("*.py") if path.name != "__init__.py"}
    for name in sorted(present.keys() | modules.keys()):
        filename = f"{name}.py"
        current = _read(present[name]) if name in present else ""
        if name not in modules:
            yield Difference(Problem.ORPHAN, filename, _diff(current, "", f"{folder.name}/{filename}"))
        elif name not in present:
            yield Difference(Problem.MISSING, filename, _diff("", modules[name].text, f"{folder.name}/{filename}"))
        elif current != modules[name].text:
            recorded = entries.get(name, {}).get("module_sha256")
            problem = Problem.STALE if sha256(current) == recorded else Problem.EDITED
            yield Difference(problem, filename, _diff(current, modules[name].text, f"{folder.name}/{filename}"))
    manifest = folder / MANIFEST
    expected = manifest_text(modules)
    current = _read(manifest) if manifest.is_file() else ""
    if current != expected:
        problem = Problem.STALE if manifest.is_file() else Problem.MISSING
        yield Difference(problem, MANIFEST, _diff(current, expected, f"{folder.name}/{MANIFEST}"))


def replace_file(path: Path, text: str) -> bool:
    """Write `text` to a temporary file beside `path`, then rename it; True when the file changed.

    A reader sees the old file or the new one, never a part. Raises ProjectError when the folder cannot be written.
    """
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise ProjectError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise ProjectError(f"{path}: cannot be written: {error.strerror}") from error
    return True


def _mode(path: Path) -> int:
    """Permissions of the file as it is, or those that a new file would have here."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _read(path: Path) -> str:
    """The text of a file as it stands: universal newlines would hide an edit of line ends."""
    return path.read_bytes().decode("utf-8", errors="replace")


def _diff(current: str, expected: str, filename: str) -> str:
    lines = difflib.unified_diff(
        current.splitlines(keepends=True),
        expected.splitlines(keepends=True),
        fromfile=filename if current else "/dev/null",
        tofile=filename if expected else "/dev/null",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
