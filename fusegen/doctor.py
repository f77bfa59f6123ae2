"""What this installation of fusegen can do: Python, packages, templates, and the folders of the project."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final

from fusegen.errors import MissingExtraError
from fusegen.project import Project

OLDEST_PYTHON: Final = (3, 11)
CORE: Final = ("click", "jinja2", "pydantic", "PyYAML", "rich")


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional part of fusegen: what it is for, and the packages that it adds by their names in the registry.

    `note` says what installing the extra does not bring.
    """

    purpose: str
    packages: tuple[str, ...]
    note: str = ""


EXTRAS: Final[Mapping[str, Extra]] = MappingProxyType(
    {
        "sim": Extra("run kernels on the CPU machine", ("greenlet", "ml_dtypes", "numpy", "torch")),
        "vendor": Extra(
            "ask the vendor's compiler about kernels, on a CPU",
            ("ascendnpu-ir", "pybind11", "triton-ascend"),
            "on Linux with an x86-64 processor; triton-ascend has no wheel for Python 3.12 and later",
        ),
        "npu": Extra(
            "run kernels on Ascend devices",
            ("torch", "torch_npu", "triton-ascend"),
            "on Linux hosts with CANN, which also brings shmem",
        ),
        "dev": Extra(
            "work on fusegen itself",
            (
                "build",
                "hatchling",
                "hypothesis",
                "jsonschema",
                "mypy",
                "pybind11",
                "pytest",
                "pytest-xdist",
                "ruff",
                "triton-ascend",
                "types-greenlet",
                "types-PyYAML",
            ),
        ),
    }
)


GCC_PURPOSE: Final = "fusegen compile --run builds lowered kernels with it"
GCC_INSTALL: Final = "apt-get install gcc libc6-dev"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of an installation. A version is None where the package, or gcc, is missing."""

    python: str
    is_python_recent: bool
    core: Mapping[str, str | None]
    extras: Mapping[str, Mapping[str, str | None]]
    gcc: str | None
    has_templates: bool
    project: Project

    @property
    def ok(self) -> bool:
        """Whether specs can be loaded, rendered and checked."""
        return self.is_python_recent and self.has_templates and None not in self.core.values()

    def is_installed(self, extra: str) -> bool:
        """Whether every package of an extra is there."""
        return None not in self.extras[extra].values()

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain data."""
        project = self.project
        folders = {"specs": project.specs, "generated": project.generated, "templates": project.templates}
        return {
            "ok": self.ok,
            "python": {"version": self.python, "ok": self.is_python_recent},
            "core": dict(self.core),
            "extras": {
                name: {
                    "purpose": EXTRAS[name].purpose,
                    "installed": self.is_installed(name),
                    "packages": dict(packages),
                    "install": install_command(name),
                }
                for name, packages in self.extras.items()
            },
            "gcc": {"version": self.gcc, "purpose": GCC_PURPOSE, "install": GCC_INSTALL},
            "project": {
                "root": str(project.root),
                **{name: {"path": str(path), "exists": path.is_dir()} for name, path in folders.items()},
            },
        }


def diagnose(project: Project) -> Diagnosis:
    """Looks at the running interpreter and at the folders of `project`; imports none of the packages it reports."""
    return Diagnosis(
        python=platform.python_version(),
        is_python_recent=sys.version_info >= OLDEST_PYTHON,
        core={name: _version(name) for name in CORE},
        extras={name: {each: _version(each) for each in extra.packages} for name, extra in EXTRAS.items()},
        gcc=_gcc_version(),
        has_templates=project.templates.is_dir(),
        project=project,
    )


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'fusegen[{extra}]', or in a checkout pip install '.[{extra}]'"


def require_sim() -> None:
    """Raises MissingExtraError, naming the first missing module, unless the simulator's packages can be imported."""
    for module in EXTRAS["sim"].packages:
        if find_spec(module) is None:
            raise MissingExtraError(extra="sim", module=module)


def _gcc_version() -> str | None:
    if shutil.which("gcc") is None:
        return None
    told = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "of an unknown version"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
