"""Running mutants, and the modules without the bugs, under one schedule after the other."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from fusegen.sim import RunResult, ScheduleName, run_module
from tests.seeded_bugs.conditions import Condition
from tests.seeded_bugs.rows import Mutant

SCHEDULES: tuple[tuple[ScheduleName, int], ...] = (("round-robin", 0), *(("random", seed) for seed in range(1, 5)))
"""Names and seeds, in the order in which they are tried."""
STEP_LIMIT = 200_000


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    `finding` is the kind that caught it, None when nothing did; `schedules` were run until then; `seen` has the
    messages of the last one.
    """

    mutant: str
    spec: str
    site: str
    finding: str | None
    schedules: int
    seconds: float
    seen: tuple[str, ...]

    @property
    def caught(self) -> bool:
        return self.finding is not None


def outcome(mutant: Mutant) -> Outcome:
    """Run a mutant until a schedule shows one of the findings that it must cause."""
    started = time.perf_counter()
    caught: str | None = None
    results = []
    for result in _runs(mutant.spec, mutant.text, mutant.condition):
        results.append(result)
        caught = next((finding.kind for finding in result.findings if finding.kind in mutant.kinds), None)
        if caught:
            break
    seconds = time.perf_counter() - started
    seen = tuple(str(finding) for finding in results[-1].findings)
    return Outcome(mutant.name, mutant.spec, mutant.site, caught, len(results), seconds, seen)


def complaints(spec: str, text: str, condition: Condition) -> list[str]:
    """What is wrong with a module: findings, and why a run is not proved. Empty where nothing is.

    Two schedules: a proved run speaks for all.
    """
    found = []
    for result in islice(_runs(spec, text, condition), 2):
        found += [str(finding) for finding in result.findings]
        if result.proof is None or not result.proof.proved:
            found.append(str(result.proof))
    return found


def _runs(spec: str, text: str, condition: Condition) -> Iterator[RunResult]:
    for schedule, seed in SCHEDULES:
        with TemporaryDirectory(prefix="fusegen-") as folder, redirect_stdout(io.StringIO()):
            path = Path(folder) / f"{spec}.py"
            path.write_text(text)
            result = run_module(
                path,
                ranks=condition.ranks,
                cores=condition.cores,
                shape=condition.shape,
                launches=condition.launches,
                schedule=schedule,
                seed=seed,
                step_limit=STEP_LIMIT,
                races=True,
            )
        yield result
