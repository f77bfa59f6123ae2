"""The simulator: runs generated modules, host and device code, with many ranks and cores on a CPU.

result = run_module(Path("generated/x.py"), ranks=2, cores=40, shape={"S": 2045, "H": 12, "D": 128})

stand_ins -> host (triton, torch_npu, torch.distributed, shmem, time) and language (tl, dl, libshmem_device)
language  -> values (affine, tiles, integers), memory, signals
machine   -> actors, schedule; device (cores, streams); findings, diagnosis
"""

from fusegen.sim.errors import SimulationError, Unsupported
from fusegen.sim.findings import Deadlock, Finding, HostError, IntegerOverflow, MisalignedSlot, OutOfBounds, StepLimit
from fusegen.sim.run import RunResult, run_module

__all__ = [
    "Deadlock",
    "Finding",
    "HostError",
    "IntegerOverflow",
    "MisalignedSlot",
    "OutOfBounds",
    "RunResult",
    "SimulationError",
    "StepLimit",
    "Unsupported",
    "run_module",
]
