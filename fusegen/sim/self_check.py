"""The contract of a generated module, as a host program: import it, join the process group, call `self_check`.

A module defines TOLERANCE, process_group(heap), available_cores(), heap_bytes(**shape, ranks=, cores=) and
self_check(**shape, launches=, seed=, dump_dir=) -> largest error of the rank; it may define slot_axes(**shape, ranks=,
cores=) -> by name of an allocation of signal slots, which kernels know as `NAME_ptr`, the axes of these slots; and it
may define KERNEL, Workspace and dump(workspace, path), which writes the state of a workspace as JSON.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from fusegen.sim.errors import SimulationError
from fusegen.sim.findings import Finding, HostError, WrongValues
from fusegen.sim.slots import SlotNames

CONTRACT: Final = ("process_group", "available_cores", "heap_bytes", "self_check", "TOLERANCE")
"""What every generated module defines."""


class SelfCheck:
    """The self-check of the module at `path` on every rank. Each rank has a module object of its own, as in a process.

    `errors` are the largest errors by rank, infinite where NaN, and None for ranks that have not returned one.
    """

    def __init__(
        self, path: Path, *, shape: dict[str, int], ranks: int, launches: int, seed: int, dump_dir: Path
    ) -> None:
        self._path = path
        self._source = path.read_bytes()
        self._shape = shape
        self._ranks = ranks
        self._options = {"launches": launches, "seed": seed, "dump_dir": dump_dir}
        self._dump_dir = dump_dir
        self._workspaces: dict[int, tuple[ModuleType, Any]] = {}
        self._tolerance = 0.0
        self.slot_names = SlotNames({})
        self.errors: list[float | None] = [None] * ranks

    @property
    def max_abs_err(self) -> float | None:
        """The largest error of all ranks; None when a rank has not returned one."""
        errors = [error for error in self.errors if error is not None]
        return max(errors) if len(errors) == self._ranks else None

    def is_source(self, file: str) -> bool:
        """A file is simulated source."""
        return file == str(self._path)

    def start(self, rank: int) -> None:
        """Run the self-check of a rank."""
        module = ModuleType(self._path.stem)
        module.__file__ = str(self._path)
        with _registered(module):
            exec(_compiled(self._source, str(self._path)), vars(module))
        self._check_contract(module)
        self._tolerance = float(module.TOLERANCE)
        self.slot_names = self._slot_names(module)
        self._watch_workspaces(module, rank)
        heap = module.heap_bytes(**self._shape, ranks=self._ranks, cores=module.available_cores())
        with module.process_group(heap):
            error = module.self_check(**self._shape, **self._options)
        if not _is_number(error):
            raise TypeError(f"self_check: expected the largest error, a number, got {error!r}")
        self.errors[rank] = math.inf if math.isnan(error) else float(error)

    def dump(self, rank: int) -> dict[str, Any] | None:
        """What the module's `dump` says of the workspace that a rank has made last, written to the dump folder too."""
        if rank not in self._workspaces:
            return None
        module, workspace = self._workspaces[rank]
        path = module.dump(workspace, self._dump_dir / f"{module.KERNEL}.rank{rank}.json")
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return facts

    def _watch_workspaces(self, module: ModuleType, rank: int) -> None:
        """Remember the workspaces of a rank: a host that hangs has them in local variables."""
        if not all(hasattr(module, name) for name in ("KERNEL", "Workspace", "dump")):
            return
        create = module.Workspace.__init__

        @wraps(create)
        def remembered(workspace: Any, *args: Any, **kwargs: Any) -> None:
            create(workspace, *args, **kwargs)
            self._workspaces[rank] = module, workspace

        module.Workspace.__init__ = remembered

    def result(self) -> Finding | None:
        """A finding for ranks that left without a result or have a wrong one."""
        absent = tuple(rank for rank, error in enumerate(self.errors) if error is None)
        if absent:
            message = f"{_ranks(absent)} exited with status 0 before self_check returned an error"
            return HostError(message, exception="SystemExit", ranks=absent)
        errors = dict(enumerate(error for error in self.errors if error is not None))
        wrong = tuple(rank for rank, error in errors.items() if error > self._tolerance)
        if not wrong:
            return None
        largest = max(errors.values())
        advice = ": elements that were never written count as infinite" if math.isinf(largest) else ""
        return WrongValues(
            f"{_ranks(wrong)} of {self._ranks}: expected an error of at most {self._tolerance:g}, "
            f"got {largest:g}{advice}",
            ranks=wrong,
            largest=largest if math.isfinite(largest) else None,
            tolerance=self._tolerance,
        )

    def _slot_names(self, module: ModuleType) -> SlotNames:
        if not hasattr(module, "slot_axes"):
            return SlotNames({})
        dims = {
            name: self._shape[name] for name in inspect.signature(module.slot_axes).parameters if name in self._shape
        }
        groups = module.slot_axes(**dims, ranks=self._ranks, cores=module.available_cores())
        return SlotNames({f"{name}_ptr": axes for name, axes in groups.items()})

    def _check_contract(self, module: ModuleType) -> None:
        for name in CONTRACT:
            if not hasattr(module, name):
                raise SimulationError(f"{self._path}: expected a generated module, which defines {name}")
        if not _is_number(module.TOLERANCE) or math.isnan(module.TOLERANCE):
            raise SimulationError(f"{self._path}: expected TOLERANCE to be a number, got {module.TOLERANCE!r}")
        names = [name for name in inspect.signature(module.self_check).parameters if name not in self._options]
        if set(names) != set(self._shape):
            raise SimulationError(f"shape: expected {', '.join(names)}, got {', '.join(self._shape) or 'nothing'}")


@lru_cache(maxsize=16)  # every rank loads the same module, in every run
def _compiled(source: bytes, path: str) -> CodeType:
    return compile(decode_source(source), path, "exec")


@contextmanager
def _registered(module: ModuleType) -> Iterator[None]:
    """While a module is imported it is in sys.modules, where dataclasses look for it."""
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        if before is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = before


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
