"""A script as torchrun starts it, as a host program: `python SCRIPT ARGS` on every rank, and what comes out."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from fusegen.sim.errors import SimulationError
from fusegen.sim.findings import Finding
from fusegen.sim.mix import CoreUnit, core_unit_of
from fusegen.sim.order.proof import Proof
from fusegen.sim.program import run_program
from fusegen.sim.schedule import ScheduleName, schedule_named
from fusegen.sim.slots import SlotNames
from fusegen.targets import target as target_named


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """Outcome of a script.

    `launches` is the largest number of kernels that a rank has launched, and `stopped` tells that the launch limit
    ended the run. `steps` are scheduling points, `tiles` stores of tiles, `wall_s` real seconds of the whole call.
    `proof` says whether the run speaks for all schedules, when it was asked to check races.
    """

    findings: tuple[Finding, ...]
    launches: int
    stopped: bool
    steps: int
    tiles: int
    wall_s: float
    proof: Proof | None

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.findings


def simulate_script(
    path: Path,
    arguments: Sequence[str] = (),
    *,
    ranks: int,
    cores: int,
    core_unit: CoreUnit = "vector",
    target: str | None = None,
    ranks_per_node: int | None = None,
    schedule: ScheduleName = "round-robin",
    seed: int = 0,
    races: bool = True,
    launch_limit: int | None = None,
) -> ScriptResult:
    """Run the script at `path` on `ranks` ranks of `cores` cores each, counted in `core_unit`.

    What it prints goes to stdout and stderr, every line with its rank. `seed` is that of the schedule: the inputs are
    the script's own. With `launch_limit` a rank stops when it wants to launch one more kernel. `target`,
    `ranks_per_node` and `races` are those of `run_module`.

    Raises SimulationError for a file that is missing or no Python and for an impossible machine, UsageError for an
    unknown target, and Unsupported, by name, for what the simulator does not know. Everything else that is wrong with
    the script is a finding: an exception on a rank, also that of a comparison, is a HostError.
    """
    started = time.perf_counter()
    outcome = run_program(
        Script(path, arguments),
        ranks=ranks,
        cores=cores,
        core_unit=core_unit,
        schedule=schedule_named(schedule, seed=seed),
        target=target_named(target) if target else None,
        ranks_per_node=ranks_per_node,
        races=races,
        launch_limit=launch_limit,
        show_ranks=True,
    )
    return ScriptResult(
        findings=outcome.findings,
        launches=outcome.launches,
        stopped=outcome.stopped,
        steps=outcome.steps,
        tiles=outcome.tiles,
        wall_s=time.perf_counter() - started,
        proof=outcome.proof,
    )


class Script:
    """The script at `path` as `__main__` of every rank, with its folder first on sys.path."""

    slot_names = SlotNames({})

    def __init__(self, path: Path, arguments: Sequence[str]) -> None:
        self._given = str(path)
        self._path = path.absolute()
        self._arguments = tuple(arguments)
        self._code = _compiled(path)

    def is_source(self, file: str) -> bool:
        """A file is the script; modules that it imports are known to the machine."""
        return file == str(self._path)

    def start(self, rank: int) -> None:
        """Run the script."""
        module = ModuleType("__main__")
        module.__file__ = str(self._path)
        sys.modules["__main__"] = module
        sys.argv[:] = [self._given, *self._arguments]
        sys.path.insert(0, str(self._path.resolve().parent))
        exec(self._code, vars(module))

    def dump(self, rank: int) -> dict[str, Any] | None:
        """None: a script has no contract by which it could write its signal slots."""
        return None

    def result(self) -> Finding | None:
        """None: whether the results are right is the script's own business."""
        return None


def script_core_unit(path: Path) -> CoreUnit:
    """What a number of cores counts for a script: AI cores if it or a module that it imports has a mix kernel."""
    return "AI" if any(core_unit_of(source) == "AI" for source in _sources(path)) else "vector"


def _sources(path: Path) -> Iterator[Path]:
    """A script, and the files in its folder that it imports, directly or not."""
    pending, seen = [path], {path}
    while pending:
        source = pending.pop()
        yield source
        imported = {path.parent.joinpath(*name.split(".")) for name in _imports(source)}
        files = {file for stem in imported for file in (stem.with_suffix(".py"), stem / "__init__.py")}
        found = sorted(file for file in files - seen if file.is_file())
        seen.update(found)
        pending += found


def _imports(source: Path) -> Iterator[str]:
    """Modules that a file names in its import statements, and what it takes from them: that may be modules, too."""
    try:
        tree = ast.parse(decode_source(source.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return  # running it says what is wrong
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                package = module or ""
                yield from filter(None, (package, *(f"{package}.{alias.name}".strip(".") for alias in names)))


def _compiled(path: Path) -> CodeType:
    """Code of a script; SimulationError, with the line, for one that Python cannot read."""
    if not path.is_file():
        raise SimulationError(f"{path}: expected the file of a script, got no such file")
    try:
        return compile(path.read_bytes(), str(path.absolute()), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = f"`{error.text.strip()}`" if error.text else "this file"
        place = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise SimulationError(f"{place}: expected a script in Python, got {line} ({error.msg})") from None
    except ValueError as error:
        raise SimulationError(f"{path}: expected a script in Python, got a file that is none ({error})") from None
