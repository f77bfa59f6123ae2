"""A host program on the emulated machine: set-up, run, and what came out.

What the hosts run is a `HostProgram`: the self-check of a generated module, or any other script.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from fusegen.sim.actors import Actor
from fusegen.sim.engines import Links
from fusegen.sim.errors import SimulationError
from fusegen.sim.events import Observer
from fusegen.sim.findings import ActorName, Deadlock, Finding, StepLimit
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.host.output import RankLines
from fusegen.sim.host.process import Hosts
from fusegen.sim.host.programs import MakePrograms, TextPrograms
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import Machine, run_user_code
from fusegen.sim.mix import CoreCount, CoreUnit
from fusegen.sim.order.checker import OrderChecker
from fusegen.sim.order.proof import Proof
from fusegen.sim.schedule import Schedule
from fusegen.sim.slots import SlotNames
from fusegen.sim.stand_ins import installed
from fusegen.sim.verdict import verdict
from fusegen.targets import Target

MAX_RANKS: Final = 16
DEFAULT_STEP_LIMIT: Final = 20_000_000
HANGS: Final = (Deadlock, StepLimit)
"""Findings that programs may wait under."""


class HostProgram(Protocol):
    """What the processes of all ranks run."""

    @property
    def slot_names(self) -> SlotNames:
        """How the program names its signal slots."""
        ...

    def is_source(self, file: str) -> bool:
        """A file is simulated source: findings name its lines."""
        ...

    def start(self, rank: int) -> None:
        """Run the process of a rank, from its start to its end. What it raises is a finding."""
        ...

    def dump(self, rank: int) -> dict[str, Any] | None:
        """The signal slots and the launches of a rank, for a run that hangs; None where there is nothing to say.

        Runs as the host of the rank, while nothing else runs.
        """
        ...

    def result(self) -> Finding | None:
        """What is wrong with the results, asked when every process has ended and nothing else was found."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run: whether every process came to its end, findings, scheduling points, and stores of tiles.

    `dumps` are those of the ranks that have one, when programs hang. `proof` is None when the order of the run was not
    checked. `launches` is the largest number of kernels that a rank has launched, and `stopped` tells that ranks
    wanted more of them than the launch limit.
    """

    finished: bool
    findings: tuple[Finding, ...]
    steps: int
    tiles: int
    dumps: tuple[dict[str, Any], ...] = ()
    proof: Proof | None = None
    launches: int = 0
    stopped: bool = False


def run_program(
    program: HostProgram,
    *,
    ranks: int,
    cores: int,
    core_unit: CoreUnit = "vector",
    schedule: Schedule,
    target: Target | None = None,
    ranks_per_node: int | None = None,
    step_limit: int = DEFAULT_STEP_LIMIT,
    progress: Callable[[int], None] | None = None,
    observers: Sequence[Observer] = (),
    races: bool = False,
    programs: MakePrograms = TextPrograms,
    launch_limit: int | None = None,
    show_ranks: bool = False,
) -> Outcome:
    """Run a program on `ranks` ranks of `cores` cores each, counted in `core_unit`; what is wrong with it is a finding.

    `target` is the device of every rank, by default one that has the engines that the program initialises. A node has
    `ranks_per_node` ranks, by default all of them. `races` asks for the check of order: whether accesses race, and
    whether the run proves all schedules. `programs` makes what the cores execute, by default the text of the kernels.
    Hosts that have launched `launch_limit` kernels stop at the next launch. `show_ranks` writes the rank before every
    line that the program prints.

    Raises SimulationError for an impossible machine, and whatever FusegenError the program meets, such as Unsupported.
    """
    if not 1 <= ranks <= MAX_RANKS:
        raise SimulationError(f"ranks: expected 1 to {MAX_RANKS}, got {ranks}")
    if cores < 1:
        raise SimulationError(f"cores: expected at least 1, got {cores}")
    ranks_per_node = ranks if ranks_per_node is None else ranks_per_node
    if ranks_per_node < 1 or ranks % ranks_per_node:
        raise SimulationError(
            f"ranks_per_node: expected a divisor of {ranks}, the number of ranks, got {ranks_per_node}"
        )
    if launch_limit is not None and launch_limit < 1:
        raise SimulationError(f"launch_limit: expected at least 1, got {launch_limit}")
    machine = Machine(
        schedule,
        step_limit=step_limit,
        is_source=lambda file: program.is_source(file) or file in hosts.imports.files,
    )
    machine.events.observers.extend(observers)
    order = None
    if races:
        order = OrderChecker(lambda line: machine.location(*line), lambda: program.slot_names, machine.events.shared)
        machine.events.observers.append(order.observe)
    count = CoreCount(cores, core_unit)
    hosts = Hosts(machine, ranks=ranks, cores=count, ranks_per_node=ranks_per_node, launch_limit=launch_limit)
    outputs = [RankLines(stream, rank=lambda: machine.current.name.rank) for stream in (sys.stdout, sys.stderr)]
    if show_ranks:
        for host in hosts.hosts:
            host.globals.print_to(stdout=outputs[0], stderr=outputs[1])
    heap = SymmetricHeap(ranks=ranks, links=Links(ranks_per_node=ranks_per_node, device=target))
    language = DeviceLanguage(machine, heap, on_tiles=progress, late_stores=schedule.late_stores)
    with installed(machine, hosts, heap, language, count, programs):
        for host in hosts.hosts:
            machine.spawn(Actor(ActorName(rank=host.rank, kind="host")), partial(host.run, program.start))
        try:
            machine.run()
            end = verdict(machine, hosts, language.signals, language.barrier, program.slot_names)
            if order is not None:
                order.finish(machine.blocked(), machine.line_of)
            dumps = _dumps(program, machine, hosts) if any(isinstance(each, HANGS) for each in end) else ()
        finally:
            machine.close()
            for output in outputs:
                output.finish()
    findings = end
    if not end:
        slots = [program.slot_names.layout_fault(*entry) for entry in language.signals.notified.items()]
        notes = (program.result(), *machine.notes, *slots, *language.transfers.findings())
        findings = tuple(finding for finding in notes if finding)
    proof = None
    if order is not None:
        findings = (*findings, *order.findings)
        proof = order.proof(is_clean=not findings)
    return Outcome(
        not end,
        findings,
        steps=machine.steps,
        tiles=language.tiles,
        dumps=dumps,
        proof=proof,
        launches=max(host.device.launched for host in hosts.hosts),
        stopped=bool(hosts.stopped),
    )


def _dumps(program: HostProgram, machine: Machine, hosts: Hosts) -> tuple[dict[str, Any], ...]:
    """What the ranks of a machine in which programs wait would dump; a rank whose dump raises has none."""
    if all(actor.is_host for actor in machine.blocked()):
        return ()
    machine.events.observers.clear()
    found: dict[int, dict[str, Any] | None] = {}
    for host in hosts.hosts:
        machine.current = Actor(ActorName(rank=host.rank, kind="host"))
        hosts.resume(machine.current)
        run_user_code(partial(_keep_dump, program, host.rank, found))
    return tuple(facts for facts in found.values() if facts is not None)


def _keep_dump(program: HostProgram, rank: int, found: dict[int, dict[str, Any] | None]) -> None:
    found[rank] = program.dump(rank)
