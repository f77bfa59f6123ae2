"""The `time` module as host code sees it: the same names, on virtual time."""

from __future__ import annotations

import time
from typing import Any, Final

from fusegen.sim.actors import Actor
from fusegen.sim.machine import Machine

PATIENT_READS: Final = 1000
BUSY_SECONDS: Final = 1e-2
"""A host that reads the clock so often in a row polls it; it then sleeps for so much virtual time."""


class Clock:
    """Reads virtual time for the hosts."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._last: tuple[float, Actor] | None = None
        self._reads = 0

    def now(self) -> float:
        """Virtual seconds."""
        last = self._machine.now, self._machine.current
        self._reads = self._reads + 1 if last == self._last else 0
        self._last = last
        if self._reads > PATIENT_READS:
            self._machine.sleep(BUSY_SECONDS)
        return self._machine.now


def time_module(machine: Machine) -> dict[str, Any]:
    """time. Clocks read the machine's virtual time; sleep parks the host."""
    names = {name: value for name, value in vars(time).items() if not name.startswith("__")}
    started = time.time()
    now = Clock(machine).now
    return {
        **names,
        "monotonic": now,
        "monotonic_ns": lambda: round(now() * 1e9),
        "perf_counter": now,
        "perf_counter_ns": lambda: round(now() * 1e9),
        "sleep": machine.sleep,
        "time": lambda: started + now(),
        "time_ns": lambda: round((started + now()) * 1e9),
    }
