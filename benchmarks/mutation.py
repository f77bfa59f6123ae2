"""How many seeded bugs the simulator catches: every row of tests/seeded_bugs on every generated kernel that it fits.

    python -m benchmarks.mutation [--json]

The table has mutant x spec, with what caught it and how many schedules that took. Exit status 1 when one is missed.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.seeded_bugs.catalogue import ROWS, mutants
from tests.seeded_bugs.conditions import SPECS
from tests.seeded_bugs.rows import Mutant
from tests.seeded_bugs.runner import Outcome, outcome


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else.")
def main(as_json: bool) -> None:
    """Run every seeded bug on every generated kernel that it fits."""
    outcomes = _outcomes([mutant for row in ROWS for spec in SPECS for mutant in mutants(row, spec)])
    caught = sum(each.caught for each in outcomes)
    if as_json:
        rows = [_row(each) for each in outcomes]
        print(json.dumps({"mutants": len(outcomes), "caught": caught, "rows": rows}, indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(_table(outcomes))
        print(f"{caught} of {len(outcomes)} mutants caught: {len(ROWS)} kinds of bugs in {len(SPECS)} kernels")
    raise SystemExit(0 if caught == len(outcomes) else 1)


def _outcomes(jobs: list[Mutant]) -> list[Outcome]:
    """What became of each mutant, in the order of the jobs."""
    found: dict[int, Outcome] = {}
    with (
        Progress(console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        task = progress.add_task("mutants", total=len(jobs))
        places = {pool.submit(outcome, job): place for place, job in enumerate(jobs)}
        for future in as_completed(places):
            found[places[future]] = future.result()
            progress.advance(task)
    return [found[place] for place in range(len(jobs))]


def _row(each: Outcome) -> dict[str, object]:
    """The outcome as JSON has it."""
    values = asdict(each)
    values.pop("seen")
    return {**values, "caught": each.caught, "seconds": round(each.seconds, 3)}


def _table(outcomes: list[Outcome]) -> Table:
    """A row for each mutant and spec: sites that were caught, by which findings, after how many schedules."""
    table = Table("mutant", "spec", "caught", "finding", "schedules", box=None)
    for name, spec, group in _grouped(outcomes):
        findings = Counter(each.finding for each in group if each.finding)
        missed = "; ".join(each.site for each in group if not each.caught)
        caught = sum(each.caught for each in group)
        shown = ", ".join(findings) + (f" MISSED: {missed}" if missed else "")
        table.add_row(name, spec, f"{caught}/{len(group)}", shown, str(max(each.schedules for each in group)))
    return table


def _grouped(outcomes: list[Outcome]) -> Iterator[tuple[str, str, list[Outcome]]]:
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault((each.mutant, each.spec), []).append(each)
    for (name, spec), group in groups.items():
        yield name, spec, group


if __name__ == "__main__":
    main()
