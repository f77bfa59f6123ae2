"""The whole of it: build the kernel of a module, run it, and say what is wrong."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fusegen.vendor.compilation import Subject, bridge_subject
from fusegen.vendor.findings import Finding
from fusegen.vendor.native.build import build_library, find_gcc
from fusegen.vendor.tools import Toolchain, ToolFailed, find_toolchain

DEFAULT_RANKS: Final = (2, 4)
DEFAULT_SECONDS: Final = 60.0
_OUT_OF_TIME: Final = "Timeout ("
"""How faulthandler begins when it ends a process."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run: ranks, programs of each, sizes by axis, launches on one workspace, and who goes next."""

    ranks: int
    cores: int
    shape: Mapping[str, int]
    launches: int
    schedule: str = "random"
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The trial as the arguments of a run."""
        return {
            "ranks": self.ranks,
            "cores": self.cores,
            "shape": dict(self.shape),
            "launches": self.launches,
            "schedule": self.schedule,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        sizes = ", ".join(f"{axis} {size}" for axis, size in self.shape.items())
        return f"{self.ranks} ranks of {self.cores} cores, {sizes}, {self.launches} launches"


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """A trial and how it went.

    `max_abs_err` is the largest error of all ranks, None for a run that did not finish. `slots` has what the module's
    `dump` says for each rank of a run that hangs: every slot that is not zero, decoded.
    """

    trial: Trial
    max_abs_err: float | None
    findings: tuple[Finding, ...]
    slots: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        error = self.max_abs_err
        return {
            **self.trial.to_json(),
            "ok": not self.findings,
            "max_abs_err": error if error is None or math.isfinite(error) else None,
            "findings": [finding.to_json() for finding in self.findings],
            "slots": list(self.slots),
        }


@dataclass(frozen=True, slots=True)
class NativeVerdict:
    """All trials of a module; `build` are findings that kept its kernel from being built. Times are seconds."""

    build: tuple[Finding, ...]
    trials: tuple[TrialVerdict, ...]
    build_s: float
    run_s: float

    @property
    def ok(self) -> bool:
        """True without findings."""
        return not self.build and not any(trial.findings for trial in self.trials)

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "ok": self.ok,
            "build": [finding.to_json() for finding in self.build],
            "trials": [trial.to_json() for trial in self.trials],
            "build_s": round(self.build_s, 2),
            "run_s": round(self.run_s, 2),
        }


def run_natively(subject: Subject, trials: Sequence[Trial], *, seconds: float = DEFAULT_SECONDS) -> NativeVerdict:
    """Build the kernel in all its variants and make the trials, each of which may take so many seconds.

    Whatever is wrong with the kernel is a finding. Raises VendorToolsMissing without the wheels or gcc.
    """
    tools = find_toolchain()
    find_gcc()
    subject = _with_any_strides(subject, trials)
    started = time.perf_counter()
    with TemporaryDirectory(prefix="fusegen-") as folder:
        libraries, findings = _built(subject, Path(folder), tools)
        built = time.perf_counter()
        runs = () if findings else tuple(_run(subject, libraries, trials, seconds))
    return NativeVerdict(findings, runs, built - started, time.perf_counter() - built)


def _with_any_strides(subject: Subject, trials: Sequence[Trial]) -> Subject:
    """With variants without constant strides where a matrix may have one column, which then may lie anyhow."""
    if not any(1 in trial.shape.values() for trial in trials):
        return subject
    variants = list(subject.entry.variants)
    for variant in subject.entry.variants:
        flags = {name: value for name, value in variant.items() if isinstance(value, bool)}
        for stride in variant.keys() - flags.keys():
            del stride
        if flags not in variants:
            variants.append(flags)
    entry = subject.entry.model_copy(update={"variants": tuple(variants)})
    return Subject(subject.name, subject.module, entry, subject.target)


def _built(
    subject: Subject, folder: Path, tools: Toolchain
) -> tuple[list[dict[str, Any]], tuple[Finding, ...]]:
    libraries: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for number, each in enumerate(bridge_subject(subject, tools)):
        if each.bridged is None:
            findings += [each.finding] if each.finding else []
            continue
        library = folder / f"variant{number}.so"
        try:
            build_library(each.bridged.distributed, subject.entry.name, library, tools)
        except ToolFailed as failure:
            findings.append(Finding("NotBuilt", str(failure), failure.line))
            continue
        libraries.append({"variant": dict(each.variant), "path": str(library)})
    return libraries, tuple(dict.fromkeys(findings))


def _run(
    subject: Subject, libraries: list[dict[str, Any]], trials: Sequence[Trial], seconds: float
) -> Iterator[TrialVerdict]:
    request = {
        "module": str(subject.module.absolute()),
        "target": subject.target,
        "parameters": dict(subject.entry.parameters),
        "is_mix": subject.entry.kind == "mix",
        "libraries": libraries,
        "seconds": seconds,
    }
    source = subject.module.read_text(encoding="utf-8").splitlines()
    rest = list(trials)
    while rest:
        runs = [trial.to_json() for trial in rest]
        command = [sys.executable, "-m", "fusegen.vendor.native"]
        text = json.dumps({**request, "runs": runs})
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        for answer in map(json.loads, done.stdout.splitlines()):
            yield _verdict(rest.pop(0), answer, source)
        if rest:
            yield TrialVerdict(rest.pop(0), None, (_lost(done, seconds),))


def _verdict(trial: Trial, answer: Mapping[str, Any], source: Sequence[str]) -> TrialVerdict:
    findings = []
    for each in answer["findings"]:
        line = each.get("line", 0)
        text = source[line - 1].strip() if line else ""
        findings.append(Finding(each["kind"], f"{trial}: {each['message']}", line, text))
    return TrialVerdict(trial, answer["max_abs_err"], tuple(findings), tuple(answer["slots"]))


def _lost(done: subprocess.CompletedProcess[str], seconds: float) -> Finding:
    """Why the process has not answered about a run."""
    if _OUT_OF_TIME in done.stderr:
        return Finding("OutOfTime", f"expected a run to end within {seconds:g} s, got none: no program of it waits")
    *_, last = done.stderr.strip().splitlines() or ("no message",)
    return Finding("Crash", f"the native run ended with status {done.returncode}: {last}")
