"""COMPILED.json beside the generated modules: what the vendor's compiler said about each of them, and for which text.

Reading it needs no wheels: whether it is current is a matter of hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fusegen.targets import target
from fusegen.vendor.compilation import Compilation
from fusegen.vendor.facts import MEMORIES, memory_bytes

RECORD: Final = "COMPILED.json"


def record_text(compiled: Iterable[Compilation], tools: Mapping[str, str], kept: Mapping[str, Any]) -> str:
    """The record of these compilations and of `kept`, entries of modules that were not compiled this time."""
    entries = {**kept, **{each.subject.name: _entry(each) for each in compiled}}
    ordered = {name: entries[name] for name in sorted(entries)}
    return json.dumps({"tools": dict(tools), "modules": ordered}, indent=2) + "\n"


def read_record(folder: Path) -> dict[str, Any]:
    """Entries of the folder's record by module; none where there is no record, or one that fusegen did not write."""
    try:
        modules = json.loads((folder / RECORD).read_text(encoding="utf-8"))["modules"]
        return {name: entry for name, entry in modules.items() if "module_sha256" in entry and "targets" in entry}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def stale_modules(folder: Path) -> tuple[str, ...]:
    """Modules of the folder that the record does not have as they are, and entries without a module, by name."""
    present = {path.stem: path for path in folder.glob("*.py") if path.name != "__init__.py"}
    recorded = {name: entry["module_sha256"] for name, entry in read_record(folder).items()}
    current = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in present.items()}
    return tuple(sorted(name for name in recorded.keys() | current.keys() if recorded.get(name) != current.get(name)))


def _entry(compiled: Compilation) -> dict[str, Any]:
    device = target(compiled.subject.target)
    peaks: dict[str, int] = {}
    for variant in compiled.variants:
        for core in variant.cores:
            for memory, peak in core.peak.items():
                peaks[memory] = max(peaks.get(memory, 0), peak)
    verdict = {
        "ok": compiled.ok,
        "variants": len(compiled.variants),
        "memory": {
            MEMORIES[memory]: {"peak_bytes": peak, "share": round(peak / memory_bytes(memory, device), 3)}
            for memory, peak in sorted(peaks.items())
        },
        "notes": sorted({note for variant in compiled.variants for note in variant.notes}),
        "findings": [finding.to_json() for finding in compiled.findings],
    }
    return {"module_sha256": compiled.module_sha256, "targets": {device.name: verdict}}
