"""How much faster than Triton's own interpreter the simulator is, with and without its check of order.

    python -m benchmarks.simulator [--json] [--repeats N]

The same kernel on both, reverse_all2all_mte_signal on 2 ranks of 40 vector cores, and only the time that its programs
take: from the start of the first one to the end of the last one, without the set-up of ranks and tensors and without
the comparison with the reference. Seconds are those of the processor, so that other work on the machine counts less.
A round runs the interpreter, the simulator, and the simulator with the check; a speedup is the ratio inside a round.
Exit status 1 when a median is below its target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import FunctionType
from typing import Any, Final

import click

from benchmarks.triton_interpreter import InterpreterProcess
from fusegen.cli.base import echo_json
from fusegen.sim import run_module
from fusegen.sim.host.programs import KernelProgram, TextPrograms
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import Machine

MODULE: Final = Path(__file__).parents[1] / "generated" / "reverse_all2all_mte_signal.py"
RANKS: Final = 2
CORES: Final = 40
SHAPE: Final = {"S": 512, "H": 8, "D": 128}
TARGET_UNCHECKED: Final = 25.0
TARGET_CHECKED: Final = 10.0


@dataclass(frozen=True, slots=True)
class Round:
    """Processor seconds of the programs of one launch, on each of the three, and how many tiles they store."""

    interpreter: float
    unchecked: float
    checked: float
    tiles: int

    @property
    def speedup_unchecked(self) -> float:
        return self.interpreter / self.unchecked

    @property
    def speedup_checked(self) -> float:
        return self.interpreter / self.checked


class ProgramTimes:
    """Times the programs of a run: `make` is what `run_module` takes as its programs."""

    def __init__(self) -> None:
        self._started: list[float] = []
        self._ended: list[float] = []

    @property
    def seconds(self) -> float:
        """From the start of the first program to the end of the last one."""
        return max(self._ended) - min(self._started)

    def make(self, machine: Machine, language: DeviceLanguage) -> _TimedPrograms:
        """Programs that run the text of the kernel."""
        return _TimedPrograms(machine, language, self._timed)

    def _timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*values: Any) -> None:
            self._started.append(time.process_time())
            run(*values)
            self._ended.append(time.process_time())

        return timed


class _TimedPrograms(TextPrograms):
    """The kernel's text, between two looks at the clock."""

    def __init__(
        self, machine: Machine, language: DeviceLanguage, timed: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        super().__init__(machine, language)
        self._timed = timed

    def kernel(self, function: FunctionType) -> KernelProgram:
        program = super().kernel(function)
        return KernelProgram(self._timed(program.run), program.actors)


def simulated(*, races: bool, shape: Mapping[str, int] = SHAPE, cores: int = CORES) -> tuple[float, int]:
    """Seconds of the programs in one run, and the tiles they store; raises RuntimeError when it has findings."""
    times = ProgramTimes()
    result = run_module(MODULE, ranks=RANKS, cores=cores, shape=shape, races=races, programs=times.make)
    if not result.ok:
        raise RuntimeError(f"{MODULE.name}: expected no findings and exact values, got {result.findings[:1]}")
    return times.seconds, result.tiles


def measured(*, repeats: int, shape: Mapping[str, int] = SHAPE, cores: int = CORES) -> list[Round]:
    """Rounds, after one that does not count."""
    rounds = []
    with InterpreterProcess() as interpreter:
        for _ in range(repeats + 1):
            interpreted = interpreter.seconds(MODULE, ranks=RANKS, cores=cores, shape=shape)
            unchecked, tiles = simulated(races=False, shape=shape, cores=cores)
            checked, _ = simulated(races=True, shape=shape, cores=cores)
            rounds.append(Round(interpreted, unchecked, checked, tiles))
    return rounds[1:]


def report(rounds: Sequence[Round]) -> dict[str, Any]:
    """The document of `--json`: medians, and the smallest and the largest ratio. A tile task stores one tile."""
    tiles = rounds[0].tiles
    seconds = {name: median(getattr(each, name) for each in rounds) for name in ("interpreter", "unchecked", "checked")}
    unchecked = sorted(each.speedup_unchecked for each in rounds)
    checked = sorted(each.speedup_checked for each in rounds)
    return {
        "module": MODULE.stem,
        "ranks": RANKS,
        "cores": CORES,
        "shape": SHAPE,
        "rounds": len(rounds),
        "tile_tasks": tiles,
        "speedup_unchecked": median(unchecked),
        "speedup_unchecked_range": [unchecked[0], unchecked[-1]],
        "target_unchecked": TARGET_UNCHECKED,
        "speedup_checked": median(checked),
        "speedup_checked_range": [checked[0], checked[-1]],
        "target_checked": TARGET_CHECKED,
        "us_per_tile_task": {name: each / tiles * 1e6 for name, each in seconds.items()},
    }


def meets_targets(document: Mapping[str, Any]) -> bool:
    """Both medians are at least what they should be."""
    return all(document[f"speedup_{each}"] >= document[f"target_{each}"] for each in ("unchecked", "checked"))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Rounds that count.")
@click.pass_context
def main(context: click.Context, as_json: bool, repeats: int) -> None:
    """Compare the simulator with Triton's interpreter. Exit status 1 when it is less fast than it should be."""
    document = report(measured(repeats=repeats))
    if as_json:
        echo_json(document)
    else:
        for name in ("unchecked", "checked"):
            low, high = document[f"speedup_{name}_range"]
            per_task = document["us_per_tile_task"]
            click.echo(
                f"{name:9}  {document[f'speedup_{name}']:5.1f} times as fast ({low:.1f} to {high:.1f}), "
                f"at least {document[f'target_{name}']:g} is fine: {per_task[name]:.0f} us for each tile task, "
                f"{per_task['interpreter']:.0f} us on the interpreter"
            )
    context.exit(0 if meets_targets(document) else 1)


if __name__ == "__main__":
    main()
