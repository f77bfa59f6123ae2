"""The vendor's programs on this machine: where the wheels have put them, their versions, and how they are run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fusegen.errors import FusegenError
from fusegen.targets import Target
from fusegen.vendor.mlir import PRINT_GENERIC

WHEELS: Final = ("triton-ascend", "ascendnpu-ir")
"""Packages of the extra that bring programs, for Linux on x86-64. They are pinned: their output is text to be read."""
NEWEST_PYTHON: Final = (3, 11)
"""The newest Python that the pinned triton-ascend has a wheel for."""
_PLACE: Final = re.compile(r'\.py"?:(\d+):\d+')
INSTALL: Final = "pip install 'fusegen[vendor]', or in a checkout pip install '.[vendor]'"


class VendorToolsMissing(FusegenError):
    """The vendor's wheels are not here. The user recovers by installing the extra, in a Python that has the wheels."""


class ToolFailed(FusegenError):
    """One of the vendor's programs ended with an error, or crashed; `line` is that of a Python file, or 0."""

    def __init__(self, message: str, line: int = 0) -> None:
        self.line = line
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Paths of the vendor's programs."""

    adapter: Path
    binaries: Path

    def compiler(self, target: Target) -> Path:
        """The compiler that knows the target."""
        return self.binaries / f"bishengir-compile{_twin(target)}"

    def optimizer(self, target: Target) -> Path:
        """The pass driver that reads what `compiler` writes."""
        return self.binaries / f"bishengir-opt{_twin(target)}"

    def read_ttir(self, text: str) -> str:
        """TTIR in generic form."""
        return run(self.adapter, ["-", *PRINT_GENERIC], text)

    def read_final(self, path: Path, target: Target) -> str:
        """Final HIVM of a file in generic form."""
        return run(self.optimizer(target), [str(path), *PRINT_GENERIC])

    def adapt(self, ttir: str, target: Target) -> str:
        """TTIR as linalg in generic form, by the passes that the vendor's back end runs."""
        is_950 = target.family == "950"
        family = f"compile-on-910-95={is_950}"
        passes = [
            f"--discrete-mask-access-conversion={family} force-simt-template=False",
            "--triton-to-annotation",
            f"--triton-to-unstructure={family} force-simt-template=False",
            "--triton-to-hivm",
            "--triton-to-hfusion",
            "--triton-to-llvm",
            "--bubble-up-operation",
            "--triton-to-linalg=global-kernel=false named-ops=True enable-nd2nz-on-vector=False "
            f"enable-select-analysis={is_950} {family}",
        ]
        return run(self.adapter, ["-", *passes, *PRINT_GENERIC], ttir)


def find_toolchain() -> Toolchain:
    """The programs of the installed wheels. Raises VendorToolsMissing, with what to install, where there are none."""
    triton, compiler = find_spec("triton"), find_spec("ascendnpuir")
    adapter = _folder(triton.origin if triton else None) / "backends/ascend/triton-adapter-opt"
    binaries = _folder(compiler.origin if compiler else None) / "bin"
    missing = [
        name for name, path in zip(WHEELS, (adapter, binaries / "bishengir-compile"), strict=True) if not path.is_file()
    ]
    if missing:
        raise VendorToolsMissing(_what_to_install(missing))
    return Toolchain(adapter, binaries)


def tool_versions() -> dict[str, str]:
    """Versions of the installed wheels."""
    return {name: version(name) for name in WHEELS}


def run(program: Path, arguments: Sequence[str], text: str | None = None) -> str:
    """What the program writes to stdout when it reads `text`. Raises ToolFailed, with the last of its messages."""
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        error = _first_error(done.stderr)
        place = _PLACE.search(error)
        message = error.rpartition("error: ")[2]
        raise ToolFailed(
            f"{program.name} ended with status {done.returncode}: {message}", int(place[1]) if place else 0
        )
    return done.stdout


def _first_error(messages: str) -> str:
    """The first error among the messages of a tool; where it crashed, what it last asserted, or the first line."""
    lines = messages.splitlines() or ["no message"]
    telling = [line for word in ("error:", "Assertion", "LLVM ERROR") for line in lines if word in line]
    return (telling or lines)[0][:300]


def _folder(origin: str | None) -> Path:
    return Path(origin).parent if origin else Path("/nonexistent")


def _twin(target: Target) -> str:
    return "-a5" if target.family == "950" else ""


def _what_to_install(missing: Sequence[str]) -> str:
    verb = "are" if len(missing) > 1 else "is"
    what = f"{' and '.join(missing)} {verb} not installed: this command needs the extra vendor"
    present = sys.version_info[:2]
    if present <= NEWEST_PYTHON:
        return f"{what}: {INSTALL}"
    newest = "{}.{}".format(*NEWEST_PYTHON)
    return (
        f"{what}, and triton-ascend has no wheel for Python {present[0]}.{present[1]}: {INSTALL} with Python {newest}"
    )
