"""fusegen simulate: scripts with kernels of anybody's, started on every rank as torchrun would."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fusegen.cli.base import echo_json, json_option
from fusegen.errors import UsageError, listed
from fusegen.sim.schedule import SCHEDULE_NAMES, ScheduleName
from fusegen.targets import target

if TYPE_CHECKING:
    from fusegen.sim.mix import CoreUnit
    from fusegen.sim.script import ScriptResult

USUAL_TARGET: Final = "Ascend910B3"
"""The device whose cores a rank has where neither --cores nor --target says it."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A script that has run: as it was named, with how many ranks and cores, and what came out."""

    script: str
    ranks: int
    cores: int
    core_unit: CoreUnit
    result: ScriptResult

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain data; the proof is null when the order was not checked."""
        result = self.result
        return {
            "script": self.script,
            "ranks": self.ranks,
            "cores": self.cores,
            "core_unit": self.core_unit,
            "ok": result.ok,
            "findings": [finding.to_json() for finding in result.findings],
            "launches": result.launches,
            "stopped_by_launch_limit": result.stopped,
            "proved": result.proof is not None and result.proof.proved,
            "proof": None if result.proof is None else str(result.proof),
            "steps": result.steps,
            "tiles": result.tiles,
            "wall_s": result.wall_s,
        }


@click.command(
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.argument("words", metavar="SCRIPT... [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--ranks", type=click.IntRange(1, 16), required=True, help="Number of ranks.")
@click.option(
    "--ranks-per-node",
    type=click.IntRange(1, 16),
    metavar="N",
    help="Ranks of one node, a divisor of the ranks: MTE does not reach other nodes.  [default: all ranks]",
)
@click.option(
    "--cores",
    type=click.IntRange(1),
    help="Cores of each rank: AI cores for mix kernels, else vector cores.  [default: all of the target]",
)
@click.option(
    "--target",
    "target_name",
    metavar="NAME",
    help=f"The device.  [default: the cores of {USUAL_TARGET}, with the engines that the script initialises]",
)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULE_NAMES),
    default="round-robin",
    show_default=True,
    help="Which core goes next, and with late-stores when others see what it has stored: docs/verifying.md.",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Seed of the schedule.")
@click.option(
    "--races/--no-races",
    default=True,
    show_default=True,
    help="Check that all accesses are ordered, and whether the run proves every schedule.",
)
@click.option(
    "--launch-limit",
    type=click.IntRange(1),
    metavar="N",
    help="Stop a rank that has launched N kernels and wants more.",
)
@json_option
@click.pass_context
def simulate(
    context: click.Context,
    words: tuple[str, ...],
    ranks: int,
    ranks_per_node: int | None,
    cores: int | None,
    target_name: str | None,
    schedule: ScheduleName,
    seed: int,
    races: bool,
    launch_limit: int | None,
    as_json: bool,
) -> None:
    """Run scripts with Triton-distributed kernels on a CPU, host code and kernels as they stand.

    Every rank runs SCRIPT as torchrun would start it, with ARGS. Options of fusegen come before SCRIPT. Several
    scripts, one run each, are files that end in .py; -- comes before the arguments of several scripts. What they print
    is shown with the rank before each line, and then what the simulator has found; an exception on a rank, such as that
    of a comparison, is a finding. Exit status 1: a finding, or a script that ends with another status than 0.

    \b
    Examples:
      fusegen simulate --ranks 4 script.py --rows 300
      fusegen simulate --ranks 2 --cores 8 --schedule slow-rank --seed 3 script.py
      fusegen simulate --ranks 2 --launch-limit 1 first.py second.py -- --rows 300
    """
    from fusegen.cli import script_report
    from fusegen.doctor import require_sim

    scripts, arguments = split_words(words)
    device = target(target_name or USUAL_TARGET)
    if ranks_per_node and ranks % ranks_per_node:
        raise UsageError(f"--ranks-per-node: expected a divisor of {ranks}, the number of ranks, got {ranks_per_node}")
    require_sim()
    from fusegen.sim.script import script_core_unit, simulate_script

    outcomes = []
    # What scripts print goes to stderr where stdout is for one JSON document.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        for script in scripts:
            if len(scripts) > 1:
                click.echo(f"{script}:")
            unit = script_core_unit(script)
            own_cores = cores or (device.ai_cores if unit == "AI" else device.vector_cores)
            result = simulate_script(
                script,
                arguments,
                ranks=ranks,
                cores=own_cores,
                core_unit=unit,
                target=target_name,
                ranks_per_node=ranks_per_node,
                schedule=schedule,
                seed=seed,
                races=races,
                launch_limit=launch_limit,
            )
            outcomes.append(Simulated(str(script), ranks, own_cores, unit, result))
    if as_json:
        documents = [outcome.to_json() for outcome in outcomes]
        echo_json(documents if len(documents) > 1 else documents[0])
    else:
        script_report.print_simulated(outcomes)
    context.exit(0 if all(outcome.result.ok for outcome in outcomes) else 1)


def split_words(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The scripts, which are the leading names that end in .py, and the arguments for each of them.

    UsageError for a file that is missing, and where it is not clear which words are arguments.
    """
    names = list(takewhile(lambda word: word.endswith(".py"), words))
    rest = list(words[len(names) :])
    if not names:
        raise UsageError(f"SCRIPT: expected a file that ends in .py, got {words[0]}")
    if rest and rest[0] != "--" and len(names) > 1:
        raise UsageError(f"ARGS: expected -- before the arguments of several scripts, got {rest[0]}")
    if missing := [name for name in names if not Path(name).is_file()]:
        raise UsageError(f"SCRIPT: expected files, got no such file: {listed(missing, 'and')}")
    return [Path(name) for name in names], rest[1:] if rest[:1] == ["--"] else rest
