"""Generated modules with a bug, run until they hang, and the dumps that all their ranks leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fusegen.dumps import Diagnosis, diagnose, load_dumps
from fusegen.sim import RunResult, run_module
from tests.kernels.cases import edited

GENERATED = Path(__file__).parents[2] / "generated"
HEADS: dict[str, Any] = {"ranks": 2, "cores": 4, "shape": {"S": 300, "H": 3, "D": 72}}
UDMA: dict[str, Any] = {**HEADS, "cores": 6}
ROWS: dict[str, Any] = {"ranks": 2, "cores": 4, "shape": {"M": 700, "N": 300}}
GEMM: dict[str, Any] = {"ranks": 2, "cores": 2, "shape": {"M": 2100, "N": 300, "K": 300}}
Edits = tuple[tuple[str, str], ...]


def run_edited(folder: Path, kernel: str, edits: Edits, conditions: dict[str, Any]) -> RunResult:
    """Run a generated module with texts replaced; a run that hangs leaves its dumps in `folder`.

    The watchdog is off: hosts that poll would take most of the time.
    """
    module = folder / f"{kernel}.py"
    text = (GENERATED / module.name).read_text()
    module.write_text(edited(text, ("WATCHDOG_SECONDS = 60.0", "WATCHDOG_SECONDS = None"), *edits))
    return run_module(module, **{**conditions, "dump_dir": folder})


def diagnosed(folder: Path) -> Diagnosis:
    """What the dumps in a folder say."""
    return diagnose(load_dumps(sorted(folder.glob("*.json"))))


def cause_names(diagnosis: Diagnosis) -> list[str]:
    return [cause.name for cause in diagnosis.causes]
