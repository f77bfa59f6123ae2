"""How results look on a terminal. Every function prints to stdout with rich; the data comes from elsewhere."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from fusegen.cli.values import Outcome
    from fusegen.doctor import Diagnosis
    from fusegen.project import Project
    from fusegen.sim.order.proof import Proof
    from fusegen.spec import LoadedSpec
    from fusegen.verify.verdicts import ConditionVerdict, Explored, Failure, SubjectVerdict

_LEAST_WIDTH: Final = 125
_PLAIN_WIDTH: Final = 140
"""Columns of output that goes to a file or a pipe."""


def console() -> Console:
    """A console for stdout, as wide as the terminal but never so narrow that a table would break words."""
    width = max(Console().width, _LEAST_WIDTH) if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(highlight=False, emoji=False, soft_wrap=False, width=width)


def table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """An empty table without a frame; columns of `numbers` are right-aligned."""
    empty = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        empty.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return empty


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
    rows = table("name", "pattern", "dtype", "target", "transport", "sync", "buffers", "module", numbers=["buffers"])
    for loaded in specs:
        rows.add_row(*(escape(str(word)) for word in spec_row(loaded, states[loaded.name]).values()))
    console().print(rows)


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """Python, packages, templates and folders, and what to install for the rest."""
    from fusegen.doctor import EXTRAS, GCC_INSTALL, GCC_PURPOSE, install_command

    out = console()
    out.print(f"[bold]Python[/] {diagnosis.python} {_mark(diagnosis.is_python_recent)}")
    out.print(f"[bold]core[/]   {_versions(diagnosis.core)}")
    for name, packages in diagnosis.extras.items():
        extra = EXTRAS[name]
        out.print(f"\n[bold]{name}[/]: {extra.purpose}{f' ({extra.note})' if extra.note else ''}")
        out.print(f"  {_versions(packages)}")
        if not diagnosis.is_installed(name):
            out.print(f"  to install: {escape(install_command(name))}")
    out.print(f"\n[bold]gcc[/] {diagnosis.gcc or '[red]missing[/]'}: {GCC_PURPOSE}")
    if diagnosis.gcc is None:
        out.print(f"  to install: {GCC_INSTALL}")
    project = diagnosis.project
    out.print(f"\n[bold]project[/] {escape(str(project.root))}")
    for label, path in (("specs", project.specs), ("generated", project.generated), ("templates", project.templates)):
        out.print(f"  {label}: {escape(project.shown(path))} {_mark(path.is_dir())}")


def _mark(is_fine: bool) -> str:
    return "[green]ok[/]" if is_fine else "[red]missing[/]"


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '[red]missing[/]'}" for name, version in packages.items())


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One row for each run, then every finding in full."""
    out = console()
    numbers = ["ranks", "cores", "launches", "max error", "steps", "tiles", "seconds"]
    rows = table("kernel", "ranks", "cores", "shape", *numbers[2:], "result", numbers=numbers)
    for outcome in outcomes:
        size, result = outcome.size, outcome.result
        rows.add_row(
            escape(outcome.name),
            str(size.ranks),
            str(size.cores),
            ", ".join(f"{axis}={extent}" for axis, extent in size.shape.items()),
            str(size.launches),
            "-" if result.max_abs_err is None else f"{result.max_abs_err:g}",
            f"{result.steps:,}",
            f"{result.tiles:,}",
            f"{result.wall_s:.2f}",
            verdict_of(result.proof) if result.ok else counted(len(result.findings)),
        )
    out.print(rows)
    for outcome in outcomes:
        for finding in outcome.result.findings:
            out.print(f"\n{escape(outcome.name)}: {escape(str(finding))}", soft_wrap=True)
        if outcome.dumps:
            files = " ".join(shlex.quote(file) for file in outcome.dumps)
            out.print(f"\n{escape(outcome.name)}: dumps of the signal slots: {escape(files)}", soft_wrap=True)
        if outcome.result.ok and outcome.result.proof is not None and not outcome.result.proof.proved:
            out.print(f"\n{escape(outcome.name)}: {escape(str(outcome.result.proof))}", soft_wrap=True)


def verdict_of(proof: Proof | None) -> str:
    """A run without findings, and whether it speaks for all schedules."""
    return "[green]ok, proved[/]" if proof is not None and proof.proved else "[green]ok[/]"


def counted(findings: int) -> str:
    """How many findings a run has; none where only its values are wrong."""
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


@contextmanager
def verification_bar(subjects: int) -> Iterator[Callable[[str, int, int], None]]:
    """A function that takes the name of a kernel, how many of its runs are done, and of how many."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} runs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(f"{escape(name)} ({len(tasks) + 1} of {subjects})", total=total)
            bar.update(tasks[name], completed=done, visible=done < total)

        yield show


def print_verdicts(verdicts: Sequence[SubjectVerdict], seconds: float) -> None:
    """One row for each kernel, then every finding in full with the file that reproduces it."""
    out = console()
    numbers = ["points", "proved", "schedules", "max error", "seconds"]
    rows = table("kernel", *numbers, "result", numbers=numbers)
    for verdict in verdicts:
        conditions = verdict.conditions
        rows.add_row(
            escape(verdict.subject.name),
            str(len(conditions)),
            str(sum(each.proved for each in conditions)),
            f"{verdict.schedules:,}",
            f"{max(each.max_abs_err for each in conditions):g}",
            f"{verdict.seconds:.1f}",
            _judgement(verdict),
        )
    out.print(rows)
    for verdict in verdicts:
        for each in verdict.conditions:
            _print_condition(out, verdict.subject.name, each)
        for explored in verdict.explored:
            _print_explored(out, verdict.subject.name, explored)
    schedules = sum(verdict.schedules for verdict in verdicts)
    out.print(f"\n{schedules:,} schedule{'s' if schedules != 1 else ''} in {seconds:.1f} s")


def _print_condition(out: Console, name: str, verdict: ConditionVerdict) -> None:
    where = f"{escape(name)} ({escape(str(verdict.condition))})"
    if verdict.failed is not None:
        _print_failure(out, where, verdict.failed, verdict.replay)
    elif not verdict.proved:
        out.print(f"\n{where}: {escape(str(verdict.proof))}", soft_wrap=True)


def _print_explored(out: Console, name: str, explored: Explored) -> None:
    where = f"{escape(name)} ({escape(str(explored.condition))})"
    out.print(f"\n{where}: {escape(str(explored))}", soft_wrap=True)
    if explored.failed is not None:
        _print_failure(out, where, explored.failed, explored.replay)


def _print_failure(out: Console, where: str, failure: Failure, replay: Path | None) -> None:
    for finding in failure.findings:
        out.print(f"\n{where}: {escape(str(finding))}", soft_wrap=True)
    made = f"schedule {failure.schedule}, seed {failure.seed}; to repeat it: fusegen run --replay {replay}"
    out.print(escape(made), soft_wrap=True)


def _judgement(verdict: SubjectVerdict) -> str:
    if not verdict.ok:
        count = len(verdict.failures)
        return f"[red]findings at {count} point{'s' if count > 1 else ''}[/]"
    return "[green]ok, proved[/]" if verdict.proved else "[green]ok[/], tested"
