"""What the end of a run means."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from fusegen.sim.actors import Actor
from fusegen.sim.diagnosis import diagnose, missing_reset, waits_of
from fusegen.sim.findings import Finding, HostError, LeakedCollective, Location, StepLimit
from fusegen.sim.host.process import Hosts
from fusegen.sim.machine import STALL_SECONDS, HostFailure, Machine, text_of
from fusegen.sim.scene import Scene
from fusegen.sim.signals import DeviceBarrier, Signals
from fusegen.sim.slots import SlotNames

SHOWN_TEXTS: Final = 3


def verdict(
    machine: Machine, hosts: Hosts, signals: Signals, barrier: DeviceBarrier, names: SlotNames
) -> tuple[Finding, ...]:
    """The findings that ended a run; none when every process ended by itself and without an error.

    A host that raised before anything hung, or with nothing on its device that hangs, is the cause of what hangs after
    it. A host that raised while all programs were stalled and its own kernel among them, such as a watchdog, is a
    consequence of the deadlock.
    """
    if machine.finding is not None:
        return (names.decoded(machine.finding),)
    causes = [
        failure
        for failure in machine.failures
        if not failure.stalled or not hosts.hosts[failure.actor.name.rank].device.running
    ]
    blocked = machine.blocked()
    if causes:
        return _host_errors(machine, causes)
    if hosts.stopped and not any(_hangs_by_itself(actor, hosts) for actor in blocked):
        return ()
    if any(not actor.is_host for actor in blocked) or (blocked and not machine.failures):
        scene = Scene(machine, hosts, signals, barrier, names)
        deadlock = diagnose(scene)
        reset = missing_reset(scene, deadlock)
        return (deadlock, reset) if reset else (deadlock,)
    if machine.failures:
        return _host_errors(machine, machine.failures)
    if machine.actors:
        message = f"a host still polls after {STALL_SECONDS:.0f} s of virtual time in which nothing happened"
        return (StepLimit(message),)
    return ()


def _hangs_by_itself(actor: Actor, hosts: Hosts) -> bool:
    """A program hangs in a launch that the hosts which have reached the launch limit have made, too."""
    if actor.kernel is None:
        return False
    name, number = actor.kernel.key
    return all(host.device.launches[name] >= number for host in hosts.stopped)


def _host_errors(machine: Machine, failures: list[HostFailure]) -> tuple[HostError, ...]:
    """A finding for each line at which hosts raised, the first one first: only it can be why others still wait."""
    alike: dict[tuple[str, Location | str], list[HostFailure]] = {}
    for failure in failures:
        place = machine.location_of_trace(failure.error.__traceback__) or text_of(failure.error)
        alike.setdefault((type(failure.error).__name__, place), []).append(failure)
    first, *others = alike.values()
    return (_host_error(machine, first, waits_of(machine)), *(_host_error(machine, same, []) for same in others))


def _host_error(machine: Machine, failures: list[HostFailure], waiting: list[str]) -> HostError:
    """The finding for hosts that raised at one line; `waiting` is what the others were left with."""
    failures = sorted(failures, key=lambda failure: failure.actor.name.rank)
    first = failures[0]
    name, text = type(first.error).__name__, text_of(first.error)
    ranks = tuple(failure.actor.name.rank for failure in failures)
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    location = machine.location_of_trace(first.error.__traceback__)
    at = f" at {location}" if location else ""
    left = f"; meanwhile {'; '.join(waiting)}" if waiting else ""
    said = _texts(failures)
    raised = f"raised {name}{at}: {said}" if said else f"raised {name}{at}"
    what = f"exited with status {text}{at}" if name == "SystemExit" else raised
    frames = [
        frame
        for frame in traceback.extract_tb(first.error.__traceback__)
        if not frame.filename.startswith(str(Path(__file__).parent))
    ]
    trace = tuple(f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames)
    message, actor = f"{who} {what}{left}", first.actor.name
    if waiting:
        return LeakedCollective(message, actor, location, name, ranks, trace, tuple(waiting))
    return HostError(message, actor, location, name, ranks, trace)


def _texts(failures: list[HostFailure]) -> str:
    """What the errors say: the first one, and those that say something else with their ranks."""
    ranks: dict[str, int] = {}
    for failure in failures:
        ranks.setdefault(text_of(failure.error), failure.actor.name.rank)
    first, *others = ranks
    shown = [first, *(f"rank {ranks[text]}: {text}" for text in others[:SHOWN_TEXTS])]
    more = f" and {len(others) - SHOWN_TEXTS} more" if len(others) > SHOWN_TEXTS else ""
    return "; ".join(shown) + more
