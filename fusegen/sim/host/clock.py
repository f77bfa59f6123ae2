"""The `time` module as host code sees it: the same names, on virtual time."""

from __future__ import annotations

import time
from typing import Any

from fusegen.sim.machine import Machine


def time_module(machine: Machine) -> dict[str, Any]:
    """time. Clocks read the machine's virtual time; sleep parks the host."""
    names = {name: value for name, value in vars(time).items() if not name.startswith("__")}
    started = time.time()
    return {
        **names,
        "monotonic": lambda: machine.now,
        "monotonic_ns": lambda: round(machine.now * 1e9),
        "perf_counter": lambda: machine.now,
        "perf_counter_ns": lambda: round(machine.now * 1e9),
        "sleep": machine.sleep,
        "time": lambda: started + machine.now,
        "time_ns": lambda: round((started + machine.now) * 1e9),
    }
