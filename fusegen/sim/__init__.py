"""The simulator: runs generated modules and scripts, host and device code, with many ranks and cores on a CPU.

result = run_module(Path("generated/x.py"), ranks=2, cores=40, shape={"S": 2045, "H": 12, "D": 128})

run       -> self_check (what a generated module is), program (machine set-up), verdict
script    -> program: `simulate_script` runs any script
stand_ins -> host (triton, torch_npu, torch.distributed, shmem, time) and language (tl, dl, libshmem_device)
language  -> flags (what the cores of an AI core tell each other), values (affine, shapes, tiles, integers), memory,
             signals, store_buffers (stores that show late), engines (and nodes), udma (its rules)
split     -> a mix kernel's text for the AIC and for the AIVs
observers -> timing (virtual time), cost, order (races, proof)
machine   -> actors, schedule, events; device (cores, streams); findings, diagnosis
explore   -> run, again and again: every order in which the actors can synchronise

Importing this package imports neither torch nor greenlet: `run_module` does when it is first used.
"""

from typing import TYPE_CHECKING, Any

from fusegen.sim.errors import SimulationError, Unsupported
from fusegen.sim.findings import (
    Deadlock,
    Finding,
    HostError,
    IntegerOverflow,
    LeakedCollective,
    LeftoverFlag,
    MisalignedSlot,
    OutOfBounds,
    StepLimit,
    UdmaRule,
    WrongValues,
)
from fusegen.sim.schedule import ScheduleName
from fusegen.sim.schedule.replay import Replay, ReplayMismatch

if TYPE_CHECKING:
    from fusegen.sim.run import RunResult, run_module

__all__ = [
    "Deadlock",
    "Finding",
    "HostError",
    "IntegerOverflow",
    "LeakedCollective",
    "LeftoverFlag",
    "MisalignedSlot",
    "OutOfBounds",
    "Replay",
    "ReplayMismatch",
    "RunResult",
    "ScheduleName",
    "SimulationError",
    "StepLimit",
    "UdmaRule",
    "Unsupported",
    "WrongValues",
    "run_module",
]


def __getattr__(name: str) -> Any:
    if name in ("RunResult", "run_module"):
        from fusegen.sim import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
