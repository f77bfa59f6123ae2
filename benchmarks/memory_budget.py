"""Does the planner know what fits? Its memory budget against the vendor's compiler, around the limits.

    python -m benchmarks.memory_budget [--short] [--jobs N] [--json]

A line of the grid is a spec with everything fixed but one extent of a tile, which goes through powers of two. Planner
and compiler each have a largest value that they accept; a tile that fits only without double buffering counts as too
large. Both must be the same power of two: exit status 1 where they are not.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from fusegen.cli.base import echo_json
from fusegen.cli.report import console, table
from fusegen.errors import SpecError
from fusegen.pipeline import BuiltModule, build
from fusegen.project import Project, find_project
from fusegen.spec import load_spec
from fusegen.vendor.compilation import Subject, compile_subject
from fusegen.vendor.entry import parse_entry

ROOT: Final = Path(__file__).parents[1]
TARGETS: Final = ("Ascend910B3", "Ascend950PR_9589")
DTYPES: Final = ("bfloat16", "float16", "float32")
TOO_LARGE: Final = ("MemoryOverflow", "LostDoubleBuffering")


@dataclass(frozen=True, slots=True)
class Line:
    """A spec with changes, and the field that goes through `values`, from small to large."""

    spec: str
    changes: tuple[str, ...]
    field: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest values of a line that planner and compiler accept; 0 where that is none."""

    line: Line
    planner: int
    compiler: int

    @property
    def agrees(self) -> bool:
        """True where both limits are the same power of two."""
        return self.planner == self.compiler


def grid(dtypes: Sequence[str] = DTYPES, targets: Sequence[str] = TARGETS) -> Iterator[Line]:
    """Lines for every memory: tiles that are moved, sums, sums beside a GEMM, accumulators, inputs of a GEMM."""
    for dtype in dtypes:
        for target in targets:
            yield from _vector_lines((f"dtype={dtype}", f"target={target}"))
            yield from _gemm_lines((f"dtype={dtype}", f"target={target}"), 64 if dtype == "float32" else 128)


def _vector_lines(common: tuple[str, ...]) -> Iterator[Line]:
    yield Line("allgather_mte_signal", (*common, "tile.n=128"), "tile.m", (64, 128, 256, 512, 1024))
    yield Line("reverse_all2all_mte_barrier", (*common, "tile.s=32"), "tile.d", (128, 256, 512, 1024))
    yield Line("allreduce_mte_signal", (*common, "tile.n=128", "reduce=atomic"), "tile.m", (64, 128, 256, 512))
    for columns, rows in ((16, (256, 512, 1024)), (128, (32, 64, 128, 256)), (512, (16, 32, 64))):
        yield Line("reduce_scatter_mte_signal", (*common, f"tile.n={columns}"), "tile.m", rows)


def _gemm_lines(common: tuple[str, ...], depth: int) -> Iterator[Line]:
    """`depth` is one that leaves room in L1 for tiles of 128 rows and 256 columns."""
    small = (*common, "tile.m=128", "tile.n=128", f"tile.k={depth}")
    for bias in ("true", "false"):
        changes = (*small, f"bias={bias}", "comm_tile.columns=128")
        yield Line("gemm_reduce_scatter_mte_signal", changes, "comm_tile.rows", (32, 64, 128))
    for columns in (256, 1024):
        changes = (*small, f"comm_tile.columns={columns}")
        yield Line("allgather_gemm_mte_signal", changes, "comm_tile.rows", (16, 32, 64, 128))
    for bias in ("true", "false"):
        base = (*common, f"bias={bias}")
        shallow = (*base, "tile.m=128", f"tile.k={depth}")
        yield Line("allgather_gemm_mte_barrier", shallow, "tile.n", (64, 128, 256, 512))
        depths = (depth, 2 * depth, 4 * depth, 8 * depth)
        for m, n in ((128, 128), (64, 64)):
            yield Line("allgather_gemm_mte_barrier", (*base, f"tile.m={m}", f"tile.n={n}"), "tile.k", depths)


def limits(line: Line) -> Limits:
    """Both limits. The compiler is asked about the planner's limit, its neighbour, and further where they disagree."""
    project = find_project(ROOT)
    built = [_built(project, line, value) for value in line.values]
    planner = max((index for index, each in enumerate(built) if each and not each.memory_faults), default=-1)
    compiler = planner
    while compiler >= 0 and not _compiles(built[compiler]):
        compiler -= 1
    while compiler >= planner and compiler + 1 < len(built) and _compiles(built[compiler + 1]):
        compiler += 1
    return Limits(line, *(line.values[index] if index >= 0 else 0 for index in (planner, compiler)))


def _built(project: Project, line: Line, value: int) -> BuiltModule | None:
    """The module at a value; None where the spec has other reasons to forbid it."""
    try:
        spec = load_spec(project.specs / f"{line.spec}.yaml", (*line.changes, f"{line.field}={value}"))
    except SpecError:
        return None
    return build(spec, project, memory_check=False)


def _compiles(built: BuiltModule | None) -> bool:
    if built is None:
        return False
    with TemporaryDirectory(prefix="fusegen-") as folder:
        rendered = built.rendered()
        module = Path(folder) / rendered.filename
        module.write_text(built.text, encoding="utf-8")
        entry = parse_entry(rendered.kernel)
        compiled = compile_subject(Subject(built.name, module, entry, entry.target))
    unexpected = [finding for finding in compiled.findings if finding.kind not in TOO_LARGE]
    if unexpected:
        raise AssertionError(f"{built.name}: expected only findings about memory, got {unexpected[0]}")
    return compiled.ok


@click.command()
@click.option("--short", is_flag=True, help="One dtype and one target.")
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [one for each CPU]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def main(context: click.Context, short: bool, jobs: int | None, as_json: bool) -> None:
    """Compare the planner's memory budget with the vendor's compiler."""
    lines = list(grid(("float16",), TARGETS[:1]) if short else grid())
    with ProcessPoolExecutor(jobs or os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(limits, lines))
    ok = all(each.agrees for each in found)
    if as_json:
        echo_json({"ok": ok, "lines": [asdict(each) | {"agrees": each.agrees} for each in found]})
    else:
        rows = table("spec", "with", "field", "planner", "compiler", "", numbers=["planner", "compiler"])
        for each in found:
            line = each.line
            verdict = "agree" if each.agrees else "differ"
            rows.add_row(line.spec, " ".join(line.changes), line.field, str(each.planner), str(each.compiler), verdict)
        console().print(rows)
        console().print(f"{sum(each.agrees for each in found)} of {len(found)} lines agree")
    context.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
