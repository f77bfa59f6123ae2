"""The published sweep of Reverse All2All, on the simulator with the order of all accesses checked.

    python -m benchmarks.sweep_reverse_all2all [--quick] [--json]

2 ranks with the 40 vector cores of an Ascend910B3 each, one launch for each of the 216 shapes. Exit status 1 unless
every run is without findings and every element is right bit for bit. A run of the largest shape takes 4 GB of memory,
and as many run at a time as there are CPUs.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fusegen.cli.base import echo_json
from fusegen.cli.report import console, table

MODULE: Final = Path(__file__).parents[1] / "generated" / "reverse_all2all_mte_signal.py"
RANKS: Final = 2
CORES: Final = 40
D: Final = 128
ROWS: Final = (*range(2040, 2049), *range(4088, 4097), *range(8184, 8193))
"""S around powers of two: full blocks of 64 rows, and tails of every kind beside them."""
HEADS: Final = (8, 12, 24, 28, 32, 40, 48, 56)


@dataclass(frozen=True, slots=True)
class Shape:
    """S rows that each rank receives from each, of H heads; D is fixed."""

    S: int
    H: int

    @property
    def size(self) -> int:
        """What the time of a run grows with."""
        return self.S * self.H


SWEEP: Final = tuple(Shape(S, H) for S in ROWS for H in HEADS)
QUICK: Final = (Shape(2040, 8), Shape(2045, 12), Shape(2048, 56), Shape(4091, 24), Shape(8184, 8), Shape(8192, 56))
"""The smallest and the largest extent of both axes, and tails."""


@dataclass(frozen=True, slots=True)
class Row:
    """A run: whether it was without findings, whether all elements were right bit for bit, and what it took."""

    S: int
    H: int
    D: int
    clean: bool
    exact: bool
    proved: bool
    findings: tuple[str, ...]
    tiles: int
    seconds: float


def swept(shape: Shape, module: Path = MODULE) -> Row:
    """Run one shape."""
    from fusegen.sim import run_module

    axes = {"S": shape.S, "H": shape.H, "D": D}
    result = run_module(module, ranks=RANKS, cores=CORES, shape=axes, races=True)
    return Row(
        **axes,
        clean=not result.findings,
        exact=result.max_abs_err == 0.0,
        proved=result.proof is not None and result.proof.proved,
        findings=tuple(map(str, result.findings)),
        tiles=result.tiles,
        seconds=result.wall_s,
    )


def sweep(shapes: Sequence[Shape], progress: Callable[[], None]) -> list[Row]:
    """Run all shapes in one process for each CPU, the longest runs first; the rows come in the order of the shapes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context) as pool:
        runs = {pool.submit(swept, shape): shape for shape in sorted(shapes, key=lambda shape: -shape.size)}
        rows = {}
        for run in as_completed(runs):
            rows[runs[run]] = run.result()
            progress()
    return [rows[shape] for shape in shapes]


def report(rows: Sequence[Row], seconds: float) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        "shapes": len(rows),
        "clean": sum(row.clean for row in rows),
        "exact": sum(row.exact for row in rows),
        "proved": sum(row.proved for row in rows),
        "seconds": seconds,
        "rows": [asdict(row) for row in rows],
    }


@contextmanager
def _bar(shapes: int) -> Iterator[Callable[[], None]]:
    """A function that is called when a run has ended."""
    columns = (TextColumn("Reverse All2All"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=shapes)
        yield lambda: bar.advance(task)


@click.command()
@click.option("--quick", is_flag=True, help="Only a few shapes, the smallest and the largest among them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.pass_context
def main(context: click.Context, quick: bool, as_json: bool) -> None:
    """Run the published sweep. Exit status 1 unless every run is clean and exact."""
    shapes = QUICK if quick else SWEEP
    started = time.perf_counter()
    with _bar(len(shapes)) as progress:
        rows = sweep(shapes, progress)
    document = report(rows, time.perf_counter() - started)
    if as_json:
        echo_json(document)
    else:
        _print(rows, document)
    context.exit(0 if document["clean"] == document["exact"] == len(rows) else 1)


def _print(rows: Sequence[Row], document: dict[str, Any]) -> None:
    """A line for each shape with a fault, and the counts."""
    faults = table("S", "H", "D", "clean", "exact", "findings", numbers=["S", "H", "D"])
    for row in rows:
        if not (row.clean and row.exact):
            answers = ("yes" if each else "no" for each in (row.clean, row.exact))
            faults.add_row(str(row.S), str(row.H), str(row.D), *answers, "\n".join(row.findings))
    if faults.row_count:
        console().print(faults)
    counts = "{shapes} shapes: {clean} clean, {exact} exact, {proved} proved for every schedule, in {seconds:.1f} s"
    console().print(counts.format(**document))


if __name__ == "__main__":
    main()
