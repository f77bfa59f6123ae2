"""The vendor's compiler, up to its final IR.

What turns final HIVM into an object file (hivmc) is not in the wheel, so the compiler always ends with an error. It has
succeeded when it has written the final IR.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fusegen.targets import Target
from fusegen.vendor.mlir import Operation, parse_module
from fusegen.vendor.tools import Toolchain

FINAL: Final = "module.hivm.opt.mlir"
_OPTIONS: Final = {
    "multibuffer": "--enable-auto-multi-buffer",
    "enable_auto_bind_sub_block": "--enable-auto-bind-sub-block",
}
"""Options of a launch, and those of the compiler that the vendor's back end makes of them."""
_COMMON: Final = ("--enable-hfusion-compile=true", "--enable-triton-kernel-compile=true")
_FAMILY: Final = {
    "910B": ("--enable-hivm-compile=true",),
    "950": (
        "--disable-ffts",
        "--limit-auto-multi-buffer-of-local-buffer=no-limit",
        "--enable-auto-blockify-loop",
        "--enable-vf-merge-level=1",
        # Its backup pass makes private functions public, which the verifier refuses.
        "--enable-hivm-delayed-cross-core-gss=false",
    ),
}
_OVERFLOW: Final = re.compile(r"error: (ub|cbuf|cc) overflow, requires (\d+) bits while (\d+) bits available")
_NOTE: Final = re.compile(r"\[NOTE\] (.*)")
_GIVEN_UP: Final = re.compile(r"(\w+) overflow detected; automatically set enable-auto-multi-buffer to false")
_ERROR: Final = re.compile(r"error: (.*)")
_PLACE: Final = re.compile(r'\.py"?:(\d+):\d+')
_NO_BACK_END: Final = ("External hivmc run fails",)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A memory, by its address space, that is too small: bytes that are needed and bytes that there are."""

    memory: str
    required: int
    available: int


@dataclass(frozen=True, slots=True)
class CompilerVerdict:
    """What the compiler made of a kernel: final HIVM, or nothing and what it said; what it tried on the way."""

    final: Operation | None
    overflow: Overflow | None
    errors: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]

    @property
    def lost_double_buffering(self) -> str:
        """The memory, by its address space, that suffices only without loading ahead; nothing where it suffices."""
        given_up = [match for note in self.notes if (match := _GIVEN_UP.match(note)) is not None]
        return given_up[-1][1].lower() if given_up and self.final is not None else ""


def compile_linalg(module: Operation, target: Target, options: Mapping[str, bool], tools: Toolchain) -> CompilerVerdict:
    """Compile linalg for a target with the options of the kernel's launch, in a temporary folder."""
    with TemporaryDirectory(prefix="fusegen-") as folder:
        source, final = Path(folder) / "kernel.mlir", Path(folder) / FINAL
        source.write_text(str(module), encoding="utf-8")
        arguments = [f"--target={target.name}", *_flags(target, options), f"--save-temps={folder}"]
        command = [str(tools.compiler(target)), str(source), *arguments, "-o", f"{folder}/kernel.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        made = parse_module(tools.read_final(final, target)) if final.is_file() else None
        verdict = _verdict(made, done.stderr)
        if made is None and verdict.overflow is None and not verdict.errors:
            first = next(iter(done.stderr.splitlines()), "no message")
            crash = f"{tools.compiler(target).name} ended with status {done.returncode}: {first}"
            return replace(verdict, errors=((0, crash),))
        return verdict


def _flags(target: Target, options: Mapping[str, bool]) -> list[str]:
    """Where a launch says nothing, the vendor's back end turns these options on for 910B and off for 950."""
    default = target.family == "910B"
    chosen = [f"{flag}={options.get(name, default)}" for name, flag in _OPTIONS.items()]
    return [*chosen, *_COMMON, *_FAMILY[target.family]]


def _verdict(final: Operation | None, messages: str) -> CompilerVerdict:
    overflows = [Overflow(m[1], int(m[2]) // 8, int(m[3]) // 8) for m in _OVERFLOW.finditer(messages)]
    errors = []
    for text in messages.splitlines():
        match = _ERROR.search(text)
        if match is not None and not match[1].startswith(_NO_BACK_END) and not _OVERFLOW.search(text):
            place = _PLACE.search(text)
            errors.append((int(place[1]) if place else 0, match[1]))
    notes = dict.fromkeys(match[1].strip() for match in _NOTE.finditer(messages))
    failed = final is None
    return CompilerVerdict(
        final=final,
        overflow=overflows[-1] if failed and overflows else None,
        errors=tuple(dict.fromkeys(errors)) if failed else (),
        notes=tuple(notes),
    )
