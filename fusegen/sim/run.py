"""Running the self-check of a generated module on the emulated machine: the way in."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusegen.sim.cost import Cost, CostCounter
from fusegen.sim.errors import SimulationError
from fusegen.sim.events import Observer
from fusegen.sim.findings import Finding
from fusegen.sim.host.programs import MakePrograms, TextPrograms
from fusegen.sim.mix import core_unit_of
from fusegen.sim.order.proof import Proof
from fusegen.sim.program import DEFAULT_STEP_LIMIT, run_program
from fusegen.sim.schedule import Schedule, ScheduleName, schedule_named
from fusegen.sim.schedule.replay import Recorded, Replay
from fusegen.sim.self_check import SelfCheck
from fusegen.targets import target as target_named


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outcome of a run.

    `max_abs_err` is the largest over ranks, None when a rank did not finish; `rank_errors` has it by rank. `steps` are
    scheduling points, `tiles` stores of tiles, `wall_s` real seconds of the whole call. `schedule` is what `Replay`
    takes, with `late_stores`, when the run was asked to record it, and `proof` says whether the run speaks for all
    schedules, when it was asked to check races. `dumps` are what the module's `dump` writes for each rank when programs
    wait and none can go on, or the run does not end: what a watchdog would write on devices. `cost` counts the work of
    each core, when the run was asked to.
    """

    ok: bool
    max_abs_err: float | None
    findings: tuple[Finding, ...]
    steps: int
    tiles: int
    wall_s: float
    rank_errors: tuple[float | None, ...]
    schedule: tuple[int, ...] | None = None
    proof: Proof | None = None
    late_stores: bool = False
    dumps: tuple[dict[str, Any], ...] = ()
    cost: Cost | None = None


def run_module(
    path: Path,
    *,
    ranks: int,
    cores: int,
    shape: Mapping[str, int],
    launches: int = 1,
    seed: int = 0,
    schedule: ScheduleName | Schedule = "round-robin",
    schedule_seed: int | None = None,
    target: str | None = None,
    ranks_per_node: int | None = None,
    record: bool = False,
    step_limit: int = DEFAULT_STEP_LIMIT,
    dump_dir: Path | None = None,
    progress: Callable[[int], None] | None = None,
    observers: Sequence[Observer] = (),
    races: bool = False,
    cost: bool = False,
    programs: MakePrograms = TextPrograms,
) -> RunResult:
    """Run the self-check of the module at `path`, host and device code, on `ranks` ranks of `cores` cores each.

    `cores` counts AI cores where the module has a mix kernel, vector cores otherwise (see `mix.core_unit_of`).

    `seed` chooses the inputs, `schedule_seed` (by default the same) the order of actors where the schedule is random.
    `target` names the device, which decides whether there is UDMA: by default it has the engines that the module
    initialises, as Ascend910B3 has without UDMA and Ascend950PR_9599 with it. Nodes have `ranks_per_node` ranks each,
    by default all of them. `record` asks for the schedule in the result. Dumps of a run that hangs go to `dump_dir`,
    or to a temporary folder. `progress` is told the number of tiles stored, now and then; `observers` receive every
    event. `races` checks that all accesses are ordered, and whether the run proves all schedules (docs/proof.md).
    `cost` counts the work of each core. `programs` makes what the cores execute, by default the text of the kernels.

    Raises SimulationError for arguments that the module cannot be run with, UsageError for an unknown target, and
    Unsupported, by name, for a builtin that the simulator does not know. Everything that is wrong with the module is a
    finding.
    """
    started = time.perf_counter()
    if not path.is_file():
        raise SimulationError(f"{path}: expected the file of a generated module")
    strategy: Schedule
    if isinstance(schedule, str):
        strategy = schedule_named(schedule, seed=seed if schedule_seed is None else schedule_seed)
    else:
        strategy = schedule
    recorder = Recorded(strategy) if record else None
    counter = CostCounter() if cost else None
    with ExitStack() as stack:
        folder = dump_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fusegen-")))
        check = SelfCheck(path, shape=dict(shape), ranks=ranks, launches=launches, seed=seed, dump_dir=folder)
        outcome = run_program(
            check,
            ranks=ranks,
            cores=cores,
            core_unit=core_unit_of(path),
            schedule=recorder or strategy,
            target=target_named(target) if target else None,
            ranks_per_node=ranks_per_node,
            step_limit=step_limit,
            progress=progress,
            observers=(*observers, counter.observe) if counter else observers,
            races=races,
            programs=programs,
        )
    if isinstance(strategy, Replay):
        strategy.check_complete()
    return RunResult(
        ok=not outcome.findings,
        max_abs_err=check.max_abs_err if outcome.finished else None,
        findings=outcome.findings,
        steps=outcome.steps,
        tiles=outcome.tiles,
        wall_s=time.perf_counter() - started,
        rank_errors=tuple(check.errors),
        schedule=tuple(recorder.picks) if recorder else None,
        proof=outcome.proof,
        late_stores=strategy.late_stores,
        dumps=outcome.dumps,
        cost=counter.cost() if counter else None,
    )
