"""The whole of it: build the kernel of a module, run it, and say what is wrong."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import Any, Final

from fusegen.errors import UsageError
from fusegen.vendor.compilation import Subject, bridge_subject
from fusegen.vendor.findings import Finding
from fusegen.vendor.native.build import build_library, find_gcc
from fusegen.vendor.tools import Toolchain, ToolFailed, find_toolchain

DEFAULT_RANKS: Final = (2, 4)
DEFAULT_SECONDS: Final = 60.0
SCHEDULES: Final = ("random", "slow-rank", "slow-core")
"""A missing wait shows where somebody is much too early, or much too late."""
_OUT_OF_TIME: Final = "Timeout ("
"""How faulthandler begins when it ends a process."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run: ranks, cores of each, sizes by axis, launches on one workspace, and who goes next.

    Cores are AI cores for a mix kernel, else vector cores; the schedule is one of the simulator's.
    """

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


Point = tuple[Sequence[int], int, Mapping[str, int], int]
"""A verification point: numbers of ranks, cores of each, sizes by axis, launches."""


def trials_of(points: Sequence[Point], ranks: Sequence[int] = ()) -> tuple[Trial, ...]:
    """Trials at the points that have one of the wanted numbers of ranks, with one schedule after the other.

    Where none is wanted these are 2 and 4, or all of the points if none has these. Raises UsageError where points
    have none of the wanted.
    """
    offered = {each for numbers, *_ in points for each in numbers}
    wanted = set(ranks) or offered.intersection(DEFAULT_RANKS) or offered
    if not wanted & offered:
        listed = ", ".join(map(str, sorted(offered)))
        raise UsageError(f"--ranks: expected numbers that a verification point has ({listed}), got {sorted(wanted)}")
    chosen = [(each, point) for point in points for each in point[0] if each in wanted]
    return tuple(
        Trial(each, cores, shape, launches, schedule)
        for (each, (_, cores, shape, launches)), schedule in zip(chosen, cycle(SCHEDULES), strict=False)
    )


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
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the build and of all trials."""
        return (*self.build, *(finding for trial in self.trials for finding in trial.findings))

    @property
    def ok(self) -> bool:
        """True without findings."""
        return not self.findings

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
    started = time.perf_counter()
    with TemporaryDirectory(prefix="fusegen-") as name:
        folder = Path(name)
        libraries, findings = _built(subject, folder, tools)
        built = time.perf_counter()
        runs = () if findings else tuple(_run(subject, libraries, trials, seconds, folder))
    return NativeVerdict(findings, runs, built - started, time.perf_counter() - built)


def _built(subject: Subject, folder: Path, tools: Toolchain) -> tuple[list[dict[str, Any]], tuple[Finding, ...]]:
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
    subject: Subject, libraries: list[dict[str, Any]], trials: Sequence[Trial], seconds: float, folder: Path
) -> Iterator[TrialVerdict]:
    """The verdicts in the order of the trials. A process that ends early is followed by one for what is left."""
    trace = folder / "trace"
    request = {
        "module": str(subject.module.absolute()),
        "target": subject.target,
        "parameters": dict(subject.entry.parameters),
        "is_mix": subject.entry.kind == "mix",
        "libraries": libraries,
        "seconds": seconds,
        "trace": str(trace),
    }
    source = ("", *subject.module.read_text(encoding="utf-8").splitlines())
    rest = list(trials)
    while rest:
        trace.write_bytes(b"")
        text = json.dumps({**request, "runs": [trial.to_json() for trial in rest]})
        command = [sys.executable, "-m", "fusegen.vendor.native"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        for answer in map(json.loads, done.stdout.splitlines()):
            trial = rest.pop(0)
            found = tuple(_finding(trial, *each, source=source) for each in answer["findings"])
            yield TrialVerdict(trial, answer["max_abs_err"], found, tuple(answer["slots"]))
        if rest:
            trial = rest.pop(0)
            yield TrialVerdict(
                trial, None, (_finding(trial, *_end_of(done, seconds, trace.read_text()), source=source),)
            )


def _finding(trial: Trial, kind: str, message: str, line: int, *, source: Sequence[str]) -> Finding:
    return Finding(kind, f"{trial}: {message}", line, source[line].strip())


def _end_of(done: subprocess.CompletedProcess[str], seconds: float, trace: str) -> tuple[str, str, int]:
    """Why a process has not answered about a run: kind, message, and the line that the program came from."""
    if not trace:
        *_, reason = done.stderr.strip().splitlines() or ("no message",)
        raise ToolFailed(f"the native run did not start: {reason}")
    last = json.loads(trace)
    line = last["line"]
    where = f"{last['program']} ran on from {'here' if line else 'its start'}"
    if _OUT_OF_TIME in done.stderr:
        return "OutOfTime", f"expected an end within {seconds:g} s, got none: {where}", line
    reason = Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
    return "Crash", f"the process ended with {reason}: {where}", line
