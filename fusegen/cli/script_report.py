"""What `fusegen simulate` prints when its scripts have run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from fusegen.cli.report import console, counted, table, verdict_of

if TYPE_CHECKING:
    from fusegen.cli.simulate import Simulated


def print_simulated(outcomes: Sequence[Simulated]) -> None:
    """One row for each script, then every finding in full, and what is to be known about runs without any."""
    out = console()
    numbers = ["ranks", "cores", "launches", "steps", "tiles", "seconds"]
    rows = table("script", *numbers, "result", numbers=numbers)
    for outcome in outcomes:
        result = outcome.result
        rows.add_row(
            escape(outcome.script),
            str(outcome.ranks),
            f"{outcome.cores} {outcome.core_unit}",
            str(result.launches),
            f"{result.steps:,}",
            f"{result.tiles:,}",
            f"{result.wall_s:.2f}",
            verdict_of(result.proof) if result.ok else counted(len(result.findings)),
        )
    out.print()
    out.print(rows)
    for outcome in outcomes:
        result, name = outcome.result, escape(outcome.script)
        for finding in result.findings:
            out.print(f"\n{name}: {escape(str(finding))}", soft_wrap=True)
        if result.stopped:
            launches = f"{result.launches} launch{'es' if result.launches > 1 else ''}"
            text = f"stopped after {launches} (--launch-limit): nothing is known about what the script does then"
            out.print(f"\n{name}: {text}", soft_wrap=True)
        if result.ok and result.proof is not None and not result.proof.proved:
            out.print(f"\n{name}: {escape(str(result.proof))}", soft_wrap=True)
