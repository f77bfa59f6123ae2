"""How a diagnosis of dumps looks on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.markup import escape

from fusegen.cli.report import console, table

if TYPE_CHECKING:
    from fusegen.dumps import Diagnosis

SHOWN_SLOTS: Final = 12


def print_dumps(diagnosis: Diagnosis) -> None:
    """The launch, likely causes with what speaks for them and what to do, then the slots, stuck ones first."""
    out = console()
    first = diagnosis.dumps[0]
    shape = ", ".join(f"{axis}={extent}" for axis, extent in first.shape.items())
    ring = "one buffer" if first.buffer_num == 1 else f"a ring of {first.buffer_num} buffers"
    ranks = "one rank" if first.ranks == 1 else f"{first.ranks} ranks"
    rounds = "one round" if first.rounds == 1 else f"{first.rounds} rounds"
    out.print(escape(f"{first.kernel}: {shape}, {ranks}, {rounds} in {ring}, sync: {first.sync}"), soft_wrap=True)
    if diagnosis.missing_ranks:
        missing = ", ".join(map(str, diagnosis.missing_ranks))
        out.print(
            f"no dump of rank{'s' if len(diagnosis.missing_ranks) > 1 else ''} {missing}: with all of them, more shows"
        )
    _print_ranks(diagnosis)
    if not first.slots:
        out.print("\nThis kernel has no slots: its cores meet in barriers, whose state no dump shows.")
    elif not diagnosis.causes:
        out.print("\nEvery slot is at rest, as a finished launch leaves it.")
    for number, cause in enumerate(diagnosis.causes, start=1):
        out.print(f"\n[bold]likely cause {number}: {escape(cause.name)}[/] (guide {cause.guide})", soft_wrap=True)
        for text in cause.evidence:
            out.print(f"  {escape(text)}", soft_wrap=True)
        out.print(f"  what to do: {escape(cause.advice)}", soft_wrap=True)
    _print_slots(diagnosis)


def _print_ranks(diagnosis: Diagnosis) -> None:
    numbers = ["rank", "launches", "ended", "grid", "cores", "programs", "slots", "stuck"]
    rows = table(*numbers, numbers=numbers)
    for dump in diagnosis.dumps:
        own = [slot for slot in diagnosis.slots if slot.rank == dump.rank]
        counts = (dump.rank, dump.launches, dump.ended, dump.grid, dump.cores)
        programs = "-" if dump.total_cores is None else str(dump.total_cores)
        stuck = sum(not slot.at_rest for slot in own)
        rows.add_row(*map(str, counts), programs, str(len(own)), str(stuck))
    console().print(rows)


def _print_slots(diagnosis: Diagnosis) -> None:
    if not diagnosis.slots:
        return
    out = console()
    rows = table("rank", "slots", "slot", "position", "value", "meaning", "", numbers=["rank", "slot", "value"])
    for slot in diagnosis.slots[:SHOWN_SLOTS]:
        position = ", ".join(f"{axis} {at}" for axis, at in slot.position.items())
        value = str(slot.value) if abs(slot.value) < 1000 else f"{slot.value:#x}"
        where = (str(slot.rank), escape(slot.group), str(slot.index), escape(position), value)
        rows.add_row(*where, escape(slot.reading.meaning), "" if slot.at_rest else "[red]stuck[/]")
    out.print()
    out.print(rows)
    if len(diagnosis.slots) > SHOWN_SLOTS:
        out.print(f"and {len(diagnosis.slots) - SHOWN_SLOTS} more slots that are not 0: --json has all of them")
