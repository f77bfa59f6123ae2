"""How results look on a terminal. Every function prints to stdout with rich; the data comes from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from fusegen.cli.values import Outcome
    from fusegen.doctor import Diagnosis
    from fusegen.plan.explain import Explanation
    from fusegen.project import Project
    from fusegen.spec import LoadedSpec

_LEAST_WIDTH: Final = 125
_PLAIN_WIDTH: Final = 140
"""Columns of output that goes to a file or a pipe."""


def console() -> Console:
    """A console for stdout, as wide as the terminal but never so narrow that a table would break words."""
    width = max(Console().width, _LEAST_WIDTH) if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(highlight=False, emoji=False, soft_wrap=False, width=width)


def _table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return table


def spec_row(loaded: LoadedSpec, state: str) -> dict[str, Any]:
    """The choices that tell one spec from another, and the state of its module."""
    spec = loaded.spec
    return {
        "name": loaded.name,
        "pattern": spec.pattern,
        "dtype": spec.dtype,
        "target": spec.target,
        "transport": spec.transport,
        "sync": spec.sync,
        "buffer_num": spec.buffer_num,
        "module": state,
    }


def print_specs(specs: Sequence[LoadedSpec], states: Mapping[str, str], project: Project) -> None:
    """One row for each spec; `states` are those of the modules, by name."""
    if not specs:
        console().print(f"no specs in {escape(project.shown(project.specs))}: fusegen new PATTERN writes a first one")
        return
    table = _table("name", "pattern", "dtype", "target", "transport", "sync", "buffers", "module", numbers=["buffers"])
    for loaded in specs:
        table.add_row(*(escape(str(word)) for word in spec_row(loaded, states[loaded.name]).values()))
    console().print(table)


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """Python, packages, templates and folders, and what to install for the rest."""
    from fusegen.doctor import EXTRAS, install_command

    out = console()
    out.print(f"[bold]Python[/] {diagnosis.python} {_mark(diagnosis.is_python_recent)}")
    out.print(f"[bold]core[/]   {_versions(diagnosis.core)}")
    for name, packages in diagnosis.extras.items():
        extra = EXTRAS[name]
        out.print(f"\n[bold]{name}[/]: {extra.purpose}{f' ({extra.note})' if extra.note else ''}")
        out.print(f"  {_versions(packages)}")
        if not diagnosis.is_installed(name):
            out.print(f"  to install: {escape(install_command(name))}")
    project = diagnosis.project
    out.print(f"\n[bold]project[/] {escape(str(project.root))}")
    for label, path in (("specs", project.specs), ("generated", project.generated), ("templates", project.templates)):
        out.print(f"  {label}: {escape(project.shown(path))} {_mark(path.is_dir())}")


def _mark(is_fine: bool) -> str:
    return "[green]ok[/]" if is_fine else "[red]missing[/]"


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '[red]missing[/]'}" for name, version in packages.items())


def print_explanation(explanation: Explanation) -> None:
    """Decisions with their reasons, then memory, edges, launch and occupancy."""
    out = console()
    shape = ", ".join(f"{axis}={extent}" for axis, extent in explanation.shape.items())
    out.print(f"[bold]{escape(explanation.spec)}[/]: {explanation.ranks} ranks, {explanation.cores} cores, {shape}\n")
    decisions = _table("rule", "choice", "reason", "guide")
    for decision in explanation.decisions:
        decisions.add_row(*(escape(str(word)) for word in decision.values()))
    out.print(decisions)

    memory = _table("symmetric memory", "axes", "elements", "bytes", numbers=["elements", "bytes"])
    for buffer in explanation.buffers:
        memory.add_row(buffer["name"], _axes(buffer["axes"]), f"{buffer['elements']:,}", f"{buffer['bytes']:,}")
    for slots in explanation.slots:
        memory.add_row(f"slots of {slots['name']}", _axes(slots["axes"]), f"{slots['count']:,}", f"{slots['bytes']:,}")
    out.print(memory, "")

    edges = _table("edge", "from", "to", "over", "distance", "ordered by")
    for edge in explanation.edges:
        distance = "next launch" if edge["across_launches"] else _counted(edge["distance"], "round")
        edges.add_row(edge["kind"], edge["source"], edge["target"], edge["buffer"], distance, edge["cover"])
    out.print(edges, "")

    launch, occupancy = explanation.launch, explanation.occupancy
    cores = ", ".join(f"{stage} on {count}" for stage, count in launch["roles"].items())
    rounds, barriers = _counted(launch["rounds"], "round"), _counted(launch["barriers"], "barrier")
    kind = "AI" if launch["kind"] == "mix" else launch["kind"]
    out.print(f"[bold]launch[/]     {launch['grid']} {kind} cores ({cores}), {rounds}, {barriers}")
    carried = ", ".join(f"{count} {axis}" for axis, count in occupancy["carried"].items())
    merged = ", ".join((*occupancy["merged"], "ranks"))
    out.print(
        f"[bold]work[/]       {occupancy['total_tasks']:,} work items over {merged}, "
        f"each with {carried}; {occupancy['tiles']:,} tiles a stage and rank"
    )
    full = "[green]all have work[/]" if occupancy["full"] else f"[yellow]{occupancy['idle_cores']} idle[/]"
    out.print(
        f"[bold]occupancy[/]  {occupancy['active_cores']} of {occupancy['role_cores']} cores of a role work "
        f"({occupancy['utilization']:.0%}), {full}"
    )
    waiting = occupancy["active_cores"] - occupancy["tiles_in_flight"]
    if waiting > 0:
        out.print(
            f"[bold]ring[/]       holds {occupancy['tiles_in_flight']} tiles of each stage: {waiting} working cores "
            "wait for a free place at any time; a larger buffer_num lets more of them move data"
        )


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _axes(axes: Mapping[str, int]) -> str:
    return " x ".join(f"{axis} {extent}" for axis, extent in axes.items())


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One row for each run, then every finding in full."""
    out = console()
    numbers = ["ranks", "cores", "launches", "max abs error", "steps", "tiles", "seconds"]
    table = _table("kernel", "ranks", "cores", "shape", *numbers[2:], "result", numbers=numbers)
    for outcome in outcomes:
        size, result = outcome.size, outcome.result
        table.add_row(
            escape(outcome.name),
            str(size.ranks),
            str(size.cores),
            ", ".join(f"{axis}={extent}" for axis, extent in size.shape.items()),
            str(size.launches),
            "-" if result.max_abs_err is None else f"{result.max_abs_err:g}",
            f"{result.steps:,}",
            f"{result.tiles:,}",
            f"{result.wall_s:.2f}",
            "[green]ok[/]" if result.ok else _trouble(len(result.findings)),
        )
    out.print(table)
    for outcome in outcomes:
        for finding in outcome.result.findings:
            out.print(f"\n{escape(outcome.name)}: {escape(str(finding))}", soft_wrap=True)


def _trouble(findings: int) -> str:
    if not findings:
        return "[red]wrong values[/]"
    return f"[red]{findings} finding{'s' if findings > 1 else ''}[/]"


@contextmanager
def progress_bar(label: str, tiles: int | None) -> Iterator[Callable[[int], None] | None]:
    """A function that takes how many tiles are stored, of `tiles` if that is known; None when nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} tiles"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(label), total=tiles)
        yield lambda stored: bar.update(task, completed=stored)
