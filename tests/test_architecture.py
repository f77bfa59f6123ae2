"""Imports point one way, and modules stay readable in one sitting."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fusegen"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 400
LONGEST_TEMPLATE = 150

ALLOWED = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "targets": {"errors"},
    "project": {"errors"},
    "doctor": {"errors", "project"},
    "spec": {"errors", "targets"},
    "plan": {"errors", "targets", "spec"},
    "render": {"__init__", "errors", "targets", "spec", "plan", "project"},
    "pipeline": {"__init__", "errors", "targets", "project", "spec", "plan", "render"},
    "sim": {"errors", "targets"},
    "verify": {"__init__", "errors", "sim"},
    "vendor": {"errors", "targets", "sim"},
    "dumps": {"errors"},
    "report": {"errors", "targets", "project", "doctor", "spec", "plan", "render", "pipeline", "sim", "vendor", "cli"},
    "cli": {
        "__init__",
        "errors",
        "targets",
        "project",
        "doctor",
        "spec",
        "plan",
        "render",
        "pipeline",
        "sim",
        "verify",
        "vendor",
        "dumps",
        "report",
    },
}
"""What each part of fusegen may import from the others; `__init__` is the version."""


def part(path: Path) -> str:
    """The part that a module belongs to: its file or folder directly below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of fusegen that a module imports anywhere, in functions and for type checkers too."""
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module), level=0):
                is_package = module == "fusegen"
                names = [f"fusegen.{alias.name}" for alias in node.names] if is_package else [module]
            case ast.ImportFrom():
                pytest.fail(f"{path}:{node.lineno}: expected absolute imports")
        for name in names:
            head, *tail = name.split(".")
            if head == "fusegen":
                parts.add("__init__" if not tail or tail[0].startswith("__") else tail[0])
    return parts


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    assert imported_parts(path) - {part(path)} <= ALLOWED[part(path)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_short_and_documented(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_MODULE
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", sorted((ROOT / "templates").rglob("*.j2")), ids=lambda path: path.name)
def test_templates_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_TEMPLATE


def test_generated_modules_import_nothing_of_fusegen() -> None:
    for path in (ROOT / "generated").glob("*.py"):
        assert imported_parts(path) == set(), path.name
