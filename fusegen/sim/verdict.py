"""What the end of a run means."""

from __future__ import annotations

import traceback
from pathlib import Path

from fusegen.sim.diagnosis import diagnose, waits_of
from fusegen.sim.findings import Finding, HostError, StepLimit
from fusegen.sim.host.process import Hosts
from fusegen.sim.machine import STALL_SECONDS, HostFailure, Machine, text_of
from fusegen.sim.scene import Scene
from fusegen.sim.signals import DeviceBarrier, Signals
from fusegen.sim.slots import SlotNames


def verdict(
    machine: Machine, hosts: Hosts, signals: Signals, barrier: DeviceBarrier, names: SlotNames
) -> Finding | None:
    """The finding that ended a run; None when every process ended by itself and without an error.

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
        return diagnose(Scene(machine, hosts, signals, barrier, names))
    if machine.failures:
        return _host_error(machine, machine.failures)
    if machine.actors:
        return StepLimit(f"a host still polls after {STALL_SECONDS:.0f} s of virtual time in which nothing happened")
    return None


def _host_error(machine: Machine, failures: list[HostFailure]) -> HostError:
    """The finding for hosts that raised; ranks that raised the same are named together."""
    first = failures[0]
    name, text = type(first.error).__name__, text_of(first.error)
    same = [failure for failure in failures if (type(failure.error).__name__, text_of(failure.error)) == (name, text)]
    ranks = tuple(sorted(failure.actor.name.rank for failure in same))
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    location = machine.location_of_trace(first.error.__traceback__)
    at = f" at {location}" if location else ""
    waiting = waits_of(machine)
    left = f"; meanwhile {'; '.join(waiting)}" if waiting else ""
    what = f"exited with status {text}{at}" if name == "SystemExit" else f"raised {name}{at}: {text}"
    frames = [
        frame
        for frame in traceback.extract_tb(first.error.__traceback__)
        if not frame.filename.startswith(str(Path(__file__).parent))
    ]
    return HostError(
        f"{who} {what}{left}",
        actor=first.actor.name,
        location=location,
        exception=name,
        ranks=ranks,
        trace=tuple(f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames),
        waiting=tuple(waiting),
    )
