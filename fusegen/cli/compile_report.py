"""How compilations look on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fusegen.cli.report import console, table

if TYPE_CHECKING:
    from fusegen.targets import Target
    from fusegen.vendor.compilation import Compilation
    from fusegen.vendor.facts import CoreFacts
    from fusegen.vendor.native.trials import NativeVerdict


@contextmanager
def kernel_bar(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """A function that takes the name of a kernel that is done, how many are, and of how many."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} kernels"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda name, done, total: bar.update(task, description=escape(name), completed=done, total=total)


def print_compilations(compiled: Sequence[Compilation], native: Sequence[NativeVerdict] = ()) -> None:
    """One row for each core function, the calls where there is one kernel only, then what was found and not checked.

    `native` are the runs of the kernels, or none.
    """
    from fusegen.targets import target
    from fusegen.vendor.compilation import CHECKED, not_checked

    out = console()
    numbers = ["UB", "L1", "L0C", "buffers", "alternate", "events", "flags", "calls"]
    rows = table("kernel", "target", "core", *numbers, "result", numbers=numbers)
    for each in compiled:
        device = target(each.subject.target)
        cores = each.variants[0].cores
        for number, core in enumerate(cores):
            head = (escape(each.subject.name), device.name) if number == 0 else ("", "")
            rows.add_row(*head, core.core, *_figures(core, device), _result(each) if number == 0 else "")
        if not cores:
            rows.add_row(escape(each.subject.name), device.name, "-", *("-" for _ in numbers), _result(each))
    out.print(rows)
    if len(compiled) == 1:
        for core in compiled[0].variants[0].cores:
            _print_core(out, core)
    for each in compiled:
        name = escape(each.subject.name)
        for fault in each.subject.planner:
            out.print(f"\n{name}: the planner refuses it: {escape(fault)}", soft_wrap=True)
        for finding in each.findings:
            out.print(f"\n{name}: {escape(finding.shown(each.subject.module.name))}", soft_wrap=True)
        for note in dict.fromkeys(note for variant in each.variants for note in variant.notes):
            out.print(f"\n{name}: note of the compiler: {escape(note)}", soft_wrap=True)
    if native:
        _print_runs(out, compiled, native)
    out.print(f"\nchecked: {'; '.join(CHECKED)}", soft_wrap=True)
    devices = [target(each.subject.target) for each in compiled]
    for reason in dict.fromkeys(reason for device in devices for reason in not_checked(device)):
        out.print(f"not checked: {escape(reason)}", soft_wrap=True)


def _print_runs(out: Console, compiled: Sequence[Compilation], native: Sequence[NativeVerdict]) -> None:
    numbers = ["runs", "build s", "run s", "largest error"]
    rows = table("kernel", *numbers, "result", numbers=numbers)
    for each, verdict in zip(compiled, native, strict=True):
        errors = [trial.max_abs_err for trial in verdict.trials if trial.max_abs_err is not None]
        largest = f"{max(errors):.2g}" if errors else "-"
        figures = (str(len(verdict.trials)), f"{verdict.build_s:.1f}", f"{verdict.run_s:.1f}", largest)
        findings = len(verdict.findings)
        result = "[green]ok[/]" if verdict.ok else f"[red]{findings} finding{'s' if findings > 1 else ''}[/]"
        rows.add_row(escape(each.subject.name), *figures, result)
    out.print()
    out.print(rows)
    for each, verdict in zip(compiled, native, strict=True):
        for finding in verdict.findings:
            out.print(
                f"\n{escape(each.subject.name)}: {escape(finding.shown(each.subject.module.name))}", soft_wrap=True
            )


def _figures(core: CoreFacts, device: Target) -> tuple[str, ...]:
    memory = (f"{core.share(each, device):.0%}" if each in core.peak else "-" for each in ("ub", "cbuf", "cc"))
    counts = (core.buffers, core.multi_buffered, core.events, len(core.block_syncs), len(core.calls))
    return (*memory, *map(str, counts))


def _result(compiled: Compilation) -> str:
    if compiled.ok:
        variants = len(compiled.variants)
        return "[green]ok[/]" + (f", {variants} layouts" if variants > 1 else "")
    findings = len(compiled.findings)
    return f"[red]{findings} finding{'s' if findings > 1 else ''}[/]"


def _print_core(out: Console, core: CoreFacts) -> None:
    from fusegen.vendor.facts import MEMORIES

    memory = ", ".join(f"{MEMORIES[name]} {peak:,} bytes" for name, peak in core.peak.items())
    pipes = ", ".join(f"{pair} {count}" for pair, count in core.pipe_flags.items())
    syncs = ", ".join(f"{sync.action} {sync.pipes} {sync.flag}" for sync in core.block_syncs)
    out.print(f"\n{core.core}: {memory}; pipe flags {pipes}" + (f"; block syncs {syncs}" if syncs else ""))
    out.print(f"  calls: {', '.join(call.symbol for call in core.calls) or 'none'}", soft_wrap=True)
