"""How the visiting orders of a kernel look on a terminal; `plan.visiting` has the data."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table

from fusegen.cli.report import console
from fusegen.plan.swizzle import BusyLinks, ReuseDistance
from fusegen.plan.visiting import CommVisiting, GemmVisiting, Visiting


def print_visiting(visiting: Visiting) -> None:
    """The first work indices of each loop side by side, then busy links and reuse distances beside the plain orders.

    Last, what the kernel has none of.
    """
    out = console()
    loops: list[RenderableType] = []
    if visiting.comm is not None:
        loops.append(_comm_table(visiting.comm))
    if visiting.gemm is not None:
        loops.append(_gemm_table(visiting.gemm))
    if loops:
        out.print(Columns(loops, padding=(0, 6)))
    if visiting.comm is not None:
        comm = visiting.comm
        rounds = f"{comm.rounds:,} rounds x " if comm.rounds > 1 else ""
        out.print(f"\n[bold]communication[/] of rank {comm.rank}: {rounds}{comm.tiles:,} tiles x {comm.ranks} ranks")
        out.print(_links_table(comm))
    if visiting.gemm is not None:
        gemm = visiting.gemm
        out.print(f"\n[bold]GEMM[/]: {gemm.rows:,} tile rows of A x {gemm.columns:,} tile columns of B")
        out.print(_reuse_table(gemm))
        rows, columns = gemm.analysed
        part = "" if gemm.analysed == (gemm.rows, gemm.columns) else f", for a grid of {rows} x {columns} tiles"
        out.print(f"mean reuse distance: {gemm.ratio:.2f} of the row-major one{part}")
    for note in visiting.notes:
        out.print(note)


def _comm_table(loop: CommVisiting) -> Table:
    table = _numbers("work", "core", "round", "tile", "partner", title="communication")
    for visit in loop.visits:
        table.add_row(*map(str, (visit.work, visit.core, visit.round, visit.tile, visit.partner)))
    return table


def _gemm_table(loop: GemmVisiting) -> Table:
    table = _numbers("work", "core", "row", "column", title="GEMM")
    for visit in loop.visits:
        table.add_row(str(visit.work), str(visit.core), str(visit.row), str(visit.column))
    return table


def _links_table(loop: CommVisiting) -> Table:
    table = _numbers("mean", "least", "possible", first=f"ranks addressed at once by {loop.cores} cores")

    def add(name: str, links: BusyLinks) -> None:
        table.add_row(name, f"{links.mean:.2f}", str(links.minimum), str(links.most))

    add(loop.order, loop.links)
    add("sequential", loop.sequential)
    return table


def _reuse_table(loop: GemmVisiting) -> Table:
    table = _numbers("A", "B", "both", first="other rows and columns until reuse of")

    def add(name: str, reuse: ReuseDistance) -> None:
        table.add_row(name, f"{reuse.rows:.2f}", f"{reuse.columns:.2f}", f"{reuse.mean:.2f}")

    add(loop.order, loop.reuse)
    add("row-major", loop.row_major)
    return table


def _numbers(*columns: str, first: str = "", title: str | None = None) -> Table:
    """A table of right-aligned numbers, under names in a left-aligned `first` column where there is one."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="", pad_edge=False)
    if first:
        table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table
