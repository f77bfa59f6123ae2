"""TTIR of a generated module, from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fusegen.vendor.entry import KernelEntry
from fusegen.vendor.tools import ToolFailed


@dataclass(frozen=True, slots=True)
class FrontVerdict:
    """What the front end made of a variant: TTIR, or nothing and what it said about a line of the module."""

    ttir: str | None
    line: int = 0
    message: str = ""


def front(module: Path, entry: KernelEntry, target: str) -> tuple[FrontVerdict, ...]:
    """TTIR for every variant of the kernel. Raises ToolFailed when the front end ends without an answer."""
    variants = [
        {"signature": entry.signature_of(variant), "constants": entry.constants_of(variant)}
        for variant in entry.variants
    ]
    request = {"module": str(module), "kernel": entry.name, "target": target, "variants": variants}
    command = [sys.executable, "-m", "fusegen.vendor.frontend"]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)
    if done.returncode:
        *_, reason = done.stderr.strip().splitlines() or ("no message",)
        raise ToolFailed(f"the front end of triton-ascend ended with status {done.returncode}: {reason}")
    return tuple(
        FrontVerdict(answer.get("ttir"), answer.get("line", 0), answer.get("message", ""))
        for answer in json.loads(done.stdout)
    )
