"""Where the specs, the generated modules and the templates of a project are.

Without configuration these are ./specs and ./generated, and the templates that come with fusegen. A `[tool.fusegen]`
table in the pyproject.toml of the current directory, or of the nearest directory above that has one, changes that:

    [tool.fusegen]
    specs = "kernels/specs"
    generated = "src/kernels"
    templates = "kernels/templates"

Its paths are relative to its file. Options of the command line win over both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fusegen.errors import Fault, ProjectError, nearest

_KEYS: Final = ("specs", "generated", "templates")


@dataclass(frozen=True, slots=True)
class Project:
    """The folders of one project. They need not exist yet."""

    root: Path
    specs: Path
    generated: Path
    templates: Path

    def spec_paths(self) -> tuple[Path, ...]:
        """All spec files in the order of their names; raises ProjectError when there is no specs folder."""
        if not self.specs.is_dir():
            raise ProjectError(f"{self.shown(self.specs)}: expected a folder of specs, got none ({_HOW_TO_START})")
        for path in sorted(self.specs.glob("*.yml")):
            raise ProjectError(f"{self.shown(path)}: expected the suffix .yaml, got .yml (rename the file)")
        return tuple(sorted(self.specs.glob("*.yaml")))

    def find_spec(self, name_or_path: str) -> Path:
        """The spec file for a name in the specs folder, or for a path to a .yaml file (which need not exist)."""
        if name_or_path.endswith(".yaml"):
            return Path(name_or_path)
        names = [path.stem for path in self.spec_paths()]
        if name_or_path in names:
            return self.specs / f"{name_or_path}.yaml"
        advice = nearest(name_or_path, names) or (f"specs: {', '.join(names)}" if names else _HOW_TO_START)
        folder = self.shown(self.specs)
        raise ProjectError(f"expected a spec in {folder}, or a path to a .yaml file, got {name_or_path} ({advice})")

    def module_path(self, name: str) -> Path:
        """Where the generated module of a spec stands."""
        return self.generated / f"{name}.py"

    def shown(self, path: Path) -> str:
        """A path as messages show it: relative to the root where it lies below it."""
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()


_HOW_TO_START: Final = "fusegen new PATTERN writes a first spec"


def find_project(start: Path, *, specs: Path | None = None, generated: Path | None = None) -> Project:
    """The project that `start` lies in; `specs` and `generated`, relative to `start`, win over its configuration.

    Raises ProjectError when a pyproject.toml cannot be read or its `[tool.fusegen]` is wrong.
    """
    start = start.absolute()
    root, table = _configuration(start)
    configured = {key: root / value for key, value in table.items()}
    project = Project(
        root=root,
        specs=start / specs if specs else configured.get("specs", root / "specs"),
        generated=start / generated if generated else configured.get("generated", root / "generated"),
        templates=configured.get("templates", packaged_templates()),
    )
    if project.specs.resolve() == project.generated.resolve():
        folder = project.shown(project.specs)
        raise ProjectError(f"generated: expected a folder of its own, got {folder}, which is that of the specs")
    return project


def packaged_templates() -> Path:
    """The templates that come with fusegen: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


def _configuration(start: Path) -> tuple[Path, Mapping[str, str]]:
    """The directory of the nearest `[tool.fusegen]` and its content; `start` and nothing without one."""
    for directory in (start, *start.parents):
        file = directory / "pyproject.toml"
        if not file.is_file():
            continue
        table = _parsed(file).get("tool", {}).get("fusegen")
        if table is not None:
            return directory, _checked(table, file)
    return start, {}


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ProjectError(f"{file}: expected valid TOML, got a syntax error (the parser says: {error})") from None
    except UnicodeDecodeError:
        raise ProjectError(f"{file}: expected UTF-8 text, got other bytes") from None
    except OSError as error:
        raise ProjectError(f"{file}: expected a readable file, got an unreadable one: {error.strerror}") from None


def _checked(table: Any, file: Path) -> Mapping[str, str]:
    if not isinstance(table, dict):
        raise ProjectError(str(Fault("tool.fusegen", "a table", str(table), file=str(file))))
    faults = []
    for key, value in table.items():
        field = f"tool.fusegen.{key}"
        if key not in _KEYS:
            advice = nearest(key, _KEYS) or f"keys: {', '.join(_KEYS)}"
            faults.append(Fault(field, "a known key", key, advice, file=str(file)))
        elif not isinstance(value, str) or not value:
            faults.append(Fault(field, "the path of a folder", repr(value), file=str(file)))
    if faults:
        raise ProjectError("\n".join(str(fault) for fault in faults))
    return table
