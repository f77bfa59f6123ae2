"""Rules of `diagnosis` about device barriers, and about flags between the cores of an AI core."""

from __future__ import annotations

from typing import Final

from fusegen.sim.actors import Actor, BarrierWait, FlagWait, TileWait
from fusegen.sim.device import Kernel, LaunchKey
from fusegen.sim.findings import Cause
from fusegen.sim.host.process import Host
from fusegen.sim.scene import Scene

SHOWN_ACTORS: Final = 4


def barrier_incomplete(scene: Scene) -> Cause | None:
    """A device barrier that some programs have not reached: they ended, wait elsewhere, or never started."""
    for barrier, groups in scene.barriers.items():
        arrived = {actor for actors in groups.values() for actor in actors}
        missing = [entry for host in scene.hosts for entry in _not_arrived(scene, host, barrier, arrived)]
        more = f" and {len(missing) - SHOWN_ACTORS} more" if len(missing) > SHOWN_ACTORS else ""
        text = f"{arrivals(scene, barrier)}; not there: {'; '.join(missing[:SHOWN_ACTORS])}{more}"
        return Cause("barrier count mismatch", text, "2.1")
    return None


def _not_arrived(scene: Scene, host: Host, barrier: BarrierWait, arrived: set[Actor]) -> list[str]:
    """Who of a rank is not at the barrier of a launch, and where it is instead."""
    kernel = _kernel(host, barrier.launch)
    if kernel is None:
        others = ", ".join(running.name for running in host.device.running) or "no kernel"
        return [f"rank {host.rank} runs {others}"]
    absent = [*kernel.ended, *(actor for actor in scene.blocked if actor.kernel is kernel and actor not in arrived)]
    missing = [scene.where(actor) for actor in absent if barrier.cubes or actor.name.kind == "AIV"]
    if kernel.started < kernel.programs:
        missing.append(f"rank {host.rank} programs {kernel.started} to {kernel.programs - 1}, not started")
    return missing


def _kernel(host: Host, launch: LaunchKey) -> Kernel | None:
    """The kernel of a launch, while it runs."""
    return next((kernel for kernel in host.device.running if kernel.key == launch), None)


def arrivals(scene: Scene, barrier: BarrierWait) -> str:
    """How many cores of each rank have arrived at a barrier."""
    counts = []
    for host in scene.hosts:
        kernel = _kernel(host, barrier.launch)
        arrived = len(scene.barriers[barrier].get(host.rank, []))
        expected = None if kernel is None else kernel.actors if barrier.cubes else kernel.vector_actors
        counts.append(f"rank {host.rank}: {arrived} of {expected or '?'}")
    return f"arrived: {', '.join(counts)}"


def flag_not_set(scene: Scene) -> Cause | None:
    """Somebody waits for a flag, and the core type that sets it has ended, or waits for a flag itself."""
    for actor in scene.blocked:
        wait = actor.waiting
        if not isinstance(wait, FlagWait) or actor.kernel is None:
            continue
        kind = "AIC" if wait.sender == "cube" else "AIV"
        mates = [*actor.kernel.ended, *(other for other in scene.blocked if other.kernel is actor.kernel)]
        senders = [mate for mate in mates if mate.name.program == actor.name.program and mate.name.kind == kind]
        stuck = [mate for mate in senders if mate.waiting is None or isinstance(mate.waiting, FlagWait | TileWait)]
        if stuck:
            who = "its AIC" if kind == "AIC" else "both its AIVs"
            text = (
                f"{actor.name} waits for {wait} at {scene.machine.location_of(actor)}, which takes a set of {who} for "
                f"every wait; {'; '.join(map(scene.where, stuck))}"
            )
            return Cause("flag not set", text, "2.1")
    return None


def signal_outside_of_scope(scene: Scene) -> Cause | None:
    """A mix kernel in which the AIC and the AIVs execute the same notify."""
    for (_, line), (code, kinds) in scene.signals.notifiers.items():
        if len(kinds) > 1:
            text = (
                f"the AIC and the AIVs both notify at {scene.machine.location(code, line)}, and nothing orders them: "
                "a core that has not done the work announces it; al.scope(core_mode=...) says which one is meant"
            )
            return Cause("signal outside of a scope", text, "2.1")
    return None
