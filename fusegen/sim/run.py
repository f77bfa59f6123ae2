"""Running a generated module on the emulated machine: the way in, and the verdict."""

from __future__ import annotations

import inspect
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final, Literal

from fusegen.sim.actors import Actor
from fusegen.sim.diagnosis import diagnose, waits_of
from fusegen.sim.errors import SimulationError
from fusegen.sim.findings import ActorName, Finding, HostError, StepLimit
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.host.process import Hosts
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import STALL_SECONDS, HostFailure, Machine
from fusegen.sim.schedule import schedule_named
from fusegen.sim.slots import SlotNames
from fusegen.sim.stand_ins import installed

MAX_RANKS: Final = 16
DEFAULT_STEP_LIMIT: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outcome of a run.

    `max_abs_err` is the largest over ranks, None when a rank did not finish; `rank_errors` has it by rank. `steps` are
    scheduling points, `tiles` stores of tiles, `wall_s` real seconds of the whole call.
    """

    ok: bool
    max_abs_err: float | None
    findings: tuple[Finding, ...]
    steps: int
    tiles: int
    wall_s: float
    rank_errors: tuple[float | None, ...]


def run_module(
    path: Path,
    *,
    ranks: int,
    cores: int,
    shape: Mapping[str, int],
    launches: int = 1,
    seed: int = 0,
    schedule: Literal["round-robin", "random"] = "round-robin",
    step_limit: int = DEFAULT_STEP_LIMIT,
    dump_dir: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunResult:
    """Run the self-check of the module at `path`, host and device code, on `ranks` ranks of `cores` vector cores each.

    `seed` chooses the inputs, and the order of actors where the schedule is random. A watchdog of the module writes to
    `dump_dir`, or to a temporary folder. `progress` is told the number of tiles stored, now and then.

    Raises SimulationError for arguments that the module cannot be run with, and Unsupported, by name, for a builtin
    that the simulator does not know. Everything that is wrong with the module is a finding.
    """
    started = time.perf_counter()
    if not 1 <= ranks <= MAX_RANKS:
        raise SimulationError(f"ranks: expected 1 to {MAX_RANKS}, got {ranks}")
    if cores < 1:
        raise SimulationError(f"cores: expected at least 1, got {cores}")
    if not path.is_file():
        raise SimulationError(f"{path}: expected the file of a generated module")
    with ExitStack() as stack:
        folder = dump_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fusegen-")))
        check = SelfCheck(path, shape=dict(shape), ranks=ranks, launches=launches, seed=seed, dump_dir=folder)
        machine = Machine(schedule_named(schedule, seed=seed), step_limit=step_limit, is_source=check.is_source)
        hosts = Hosts(machine, ranks=ranks, cores=cores)
        heap = SymmetricHeap(ranks=ranks)
        language = DeviceLanguage(machine, heap, on_tiles=progress)
        with installed(machine, hosts, heap, language, cores=cores):
            for rank in range(ranks):
                check.start(machine, rank=rank)
            try:
                machine.run()
                finding = _verdict(machine, hosts, language, check.slot_names, finished=check.finished)
            finally:
                machine.close()
    findings = (finding,) if finding else tuple(machine.notes)
    finished = [error for error in check.errors if error is not None]
    max_abs_err = max(finished) if len(finished) == ranks and finding is None else None
    return RunResult(
        ok=not findings and max_abs_err is not None and max_abs_err <= check.tolerance,
        max_abs_err=max_abs_err,
        findings=findings,
        steps=machine.steps,
        tiles=language.tiles,
        wall_s=time.perf_counter() - started,
        rank_errors=tuple(check.errors),
    )


class SelfCheck:
    """The host program of every rank: import the module, join the process group, call `self_check`.

    Each rank has a module object of its own, as each process would. `errors` are the largest absolute errors by rank,
    `slot_names` how the module names its signal slots.
    """

    def __init__(
        self, path: Path, *, shape: dict[str, int], ranks: int, launches: int, seed: int, dump_dir: Path
    ) -> None:
        self._path = path
        self._code = compile(path.read_text(), str(path), "exec")
        self._shape = shape
        self._ranks = ranks
        self._options = {"launches": launches, "seed": seed, "dump_dir": dump_dir}
        self._modules: dict[int, ModuleType] = {}
        self.slot_names = SlotNames({})
        self.errors: list[float | None] = [None] * ranks

    @property
    def finished(self) -> bool:
        return None not in self.errors

    @property
    def tolerance(self) -> float:
        return float(self._modules[0].TOLERANCE)

    def is_source(self, file: str) -> bool:
        """A file is simulated source."""
        return file == str(self._path)

    def start(self, machine: Machine, *, rank: int) -> None:
        """Add the host actor of a rank."""
        actor = Actor(ActorName(rank=rank, kind="host"))

        def body() -> None:
            machine.resumed(actor)
            self.errors[rank] = self._run(rank)

        machine.spawn(actor, body)

    def _run(self, rank: int) -> float:
        module = self._modules[rank] = ModuleType(self._path.stem)
        module.__file__ = str(self._path)
        exec(self._code, vars(module))
        self._check_arguments(module)
        self.slot_names = self._slot_names(module)
        with module.process_group(module.heap_bytes(**self._shape, ranks=self._ranks)):
            return float(module.self_check(**self._shape, **self._options))

    def _slot_names(self, module: ModuleType) -> SlotNames:
        if not hasattr(module, "slot_axes"):
            return SlotNames({})
        dims = {
            name: self._shape[name] for name in inspect.signature(module.slot_axes).parameters if name in self._shape
        }
        return SlotNames(module.slot_axes(**dims, ranks=self._ranks))

    def _check_arguments(self, module: ModuleType) -> None:
        for name in ("process_group", "heap_bytes", "self_check", "TOLERANCE"):
            if not hasattr(module, name):
                raise SimulationError(f"{self._path}: expected a generated module, which defines {name}")
        names = [name for name in inspect.signature(module.self_check).parameters if name not in self._options]
        if set(names) != set(self._shape):
            raise SimulationError(f"shape: expected {', '.join(names)}, got {', '.join(self._shape) or 'nothing'}")


def _verdict(
    machine: Machine, hosts: Hosts, language: DeviceLanguage, names: SlotNames, *, finished: bool
) -> Finding | None:
    """What the end of the run means.

    A host that raised before anything hung is the cause of what hangs after it. A host that raised while all programs
    were stalled, such as a watchdog, is a consequence of the deadlock.
    """
    if machine.finding is not None:
        return names.decoded(machine.finding)
    causes = [failure for failure in machine.failures if not failure.stalled]
    blocked = machine.blocked()
    if causes:
        return _host_error(machine, causes)
    if any(not actor.is_host for actor in blocked) or (blocked and not machine.failures):
        return diagnose(machine, hosts, language.barrier, names)
    if machine.failures:
        return _host_error(machine, machine.failures)
    if not finished:
        return StepLimit(f"a host still polls after {STALL_SECONDS:.0f} s of virtual time in which nothing happened")
    return None


def _host_error(machine: Machine, failures: list[HostFailure]) -> HostError:
    """The finding for hosts that raised; ranks that raised the same are named together."""
    first = failures[0]
    name = type(first.error).__name__
    same = [
        failure
        for failure in failures
        if (type(failure.error), str(failure.error)) == (type(first.error), str(first.error))
    ]
    ranks = tuple(sorted(failure.actor.name.rank for failure in same))
    location = machine.location_of_trace(first.error.__traceback__)
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    waiting = waits_of(machine)
    left = f"; meanwhile {'; '.join(waiting)}" if waiting else ""
    frames = [
        frame
        for frame in traceback.extract_tb(first.error.__traceback__)
        if not frame.filename.startswith(str(Path(__file__).parent))
    ]
    return HostError(
        f"{who} raised {name} at {location}: {first.error}{left}",
        actor=first.actor.name,
        location=location,
        exception=name,
        ranks=ranks,
        trace=tuple(f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames),
        waiting=tuple(waiting),
    )
