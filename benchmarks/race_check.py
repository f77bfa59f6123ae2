"""What the check of order costs: generated modules run with and without it, in turn, in one process.

    python -m benchmarks.race_check [--json] [--repeats N]

Seconds are those of the processor, so that other work on the machine counts less. The ratio of a pair is that of the
checked run to the plain one before it. Exit status 1 when a median is above LIMIT for a run of MIN_SECONDS or more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

import click

from fusegen.sim import run_module

GENERATED: Final = Path(__file__).parents[1] / "generated"
LIMIT: Final = 3.0
MIN_SECONDS: Final = 0.3
"""Shorter runs are mostly set-up."""


@dataclass(frozen=True, slots=True)
class Case:
    """A generated module and the machine that it runs on."""

    module: str
    ranks: int
    cores: int
    shape: Mapping[str, int]
    launches: int = 1


TILES: Final = {"S": 257, "H": 5, "D": 130}
ROWS: Final = {"M": 700, "N": 520}
PANELS: Final = {"M": 700, "N": 520, "K": 264}

CASES: Final = (
    Case("reverse_all2all_mte_signal", 2, 40, {"S": 2045, "H": 12, "D": 128}),
    Case("reverse_all2all_mte_signal", 8, 9, TILES, 3),
    Case("reverse_all2all_mte_barrier", 8, 9, TILES, 3),
    Case("reverse_all2all_udma_signal", 4, 16, TILES, 3),
    Case("all2all_mte_signal", 8, 9, TILES, 3),
    Case("allgather_mte_signal", 4, 9, ROWS, 3),
    Case("reduce_scatter_mte_signal", 8, 9, ROWS, 3),
    Case("allreduce_mte_signal", 8, 9, ROWS, 3),
    Case("allgather_gemm_mte_signal", 4, 6, PANELS, 2),
    Case("gemm_reduce_scatter_mte_signal", 4, 6, PANELS, 2),
    Case("gemm_allreduce_mte_signal", 4, 6, PANELS, 2),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Median seconds of a case without and with the check, and the ratios of its pairs of runs."""

    case: Case
    plain_s: float
    checked_s: float
    median: float
    smallest: float
    largest: float

    @property
    def counts(self) -> bool:
        """The run is long enough for its ratio to mean something."""
        return self.plain_s >= MIN_SECONDS


def seconds(case: Case, *, races: bool) -> float:
    """Processor seconds of one run; raises RuntimeError when the run has findings."""
    started = process_time()
    result = run_module(
        GENERATED / f"{case.module}.py",
        ranks=case.ranks,
        cores=case.cores,
        shape=case.shape,
        launches=case.launches,
        races=races,
    )
    if not result.ok:
        raise RuntimeError(f"{case.module}: expected no findings, got {result.findings[0]}")
    return process_time() - started


def cost(case: Case, *, repeats: int) -> Cost:
    """Measure a case, after a run of each sort that does not count."""
    seconds(case, races=True)
    pairs = [(seconds(case, races=False), seconds(case, races=True)) for _ in range(repeats)]
    ratios = [checked / plain for plain, checked in pairs]
    plain_s, checked_s = (median(each) for each in zip(*pairs, strict=True))
    return Cost(case, plain_s, checked_s, median(ratios), min(ratios), max(ratios))


def largest(costs: Sequence[Cost]) -> float | None:
    """The largest median ratio of the runs that count; None when none does."""
    return max((each.median for each in costs if each.counts), default=None)


def report(costs: Sequence[Cost]) -> dict[str, Any]:
    """The document of `--json`."""
    rows = [{**asdict(each), "case": {**asdict(each.case), "shape": dict(each.case.shape)}} for each in costs]
    return {"limit": LIMIT, "min_seconds": MIN_SECONDS, "largest_median": largest(costs), "cases": rows}


def _line(each: Cost) -> str:
    case = each.case
    shape = ", ".join(f"{name}={extent}" for name, extent in case.shape.items())
    machine = f"{case.ranks} x {case.cores}, {case.launches} launches, {shape}"
    ratios = f"{each.median:4.2f} ({each.smallest:.2f} to {each.largest:.2f})"
    note = "" if each.counts else "  too short to count"
    return f"{case.module:31}  {machine:45}  {each.plain_s:5.2f} s  {each.checked_s:5.2f} s  {ratios}{note}"


@click.command(help="What the check of order costs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Pairs of runs of each case.")
@click.option("--case", "names", multiple=True, type=click.Choice(sorted({case.module for case in CASES})))
def main(as_json: bool, repeats: int, names: tuple[str, ...]) -> None:
    """Measure, print, and say by the exit status whether the limit holds."""
    costs = []
    for case in CASES:
        if names and case.module not in names:
            continue
        costs.append(cost(case, repeats=repeats))
        if not as_json:
            click.echo(_line(costs[-1]))
    worst = largest(costs)
    if as_json:
        click.echo(json.dumps(report(costs), indent=2))
    elif worst is None:
        click.echo("no run is long enough to count")
    else:
        click.echo(f"largest median {worst:.2f}, at most {LIMIT:g} is fine")
    sys.exit(1 if worst is not None and worst > LIMIT else 0)


if __name__ == "__main__":
    main()
