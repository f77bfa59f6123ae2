"""What a run has its cores do, counted: the work of a kernel, whatever order and speed its cores have.

An observer. Nothing here is a time: the counts of a clean kernel are the same under every schedule, as long as no core
runs more than one program of a launch at a time or does work that depends on who comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any, Final

from fusegen.sim.actors import Actor
from fusegen.sim.events import (
    Access,
    Atomic,
    BarrierPassed,
    Event,
    Fenced,
    FlagSet,
    FlagWaited,
    Multiplied,
    Notified,
    Read,
    TileReceived,
    TileSent,
    Waited,
    Write,
)
from fusegen.sim.findings import CoreKind

UNITS: Final = {
    "steps": "operations on memory and on other cores, each a scheduling point: accesses with a lane that the mask "
    "includes, transfers, waits, notifies, fences, barriers, and flags and tiles between the cores of an AI core",
    "tile_operations": "loads, stores, atomic additions and dots of tiles",
    "bytes": "bytes: cube_operands are both inputs of every dot, padding included; mte_local and mte_remote are the "
    "elements of tiles that are loaded, stored or added to on the own and on another rank, without those that the mask "
    "excludes; udma is what transfers carry, counted once",
    "barriers": "device barriers passed",
    "signals": "notifies, and waits: one for each call, however many slots it waits for",
}


@dataclass(slots=True)
class Work:
    """What a core, or all cores together, have done. The units are those of UNITS."""

    steps: int = 0
    tile_operations: int = 0
    cube_operand_bytes: int = 0
    mte_local_bytes: int = 0
    mte_remote_bytes: int = 0
    udma_bytes: int = 0
    barriers: int = 0
    notifies: int = 0
    waits: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts, those of bytes and of signals together."""
        return {
            "steps": self.steps,
            "tile_operations": self.tile_operations,
            "bytes": {
                "cube_operands": self.cube_operand_bytes,
                "mte_local": self.mte_local_bytes,
                "mte_remote": self.mte_remote_bytes,
                "udma": self.udma_bytes,
            },
            "barriers": self.barriers,
            "signals": {"notifies": self.notifies, "waits": self.waits},
        }


@dataclass(frozen=True, slots=True)
class Core:
    """A cube or vector core of a rank.

    `core` counts what the grid does; `sub_vec_id` tells the AIVs of an AI core apart, and is None for all other cores.
    """

    rank: int
    core: int
    kind: CoreKind
    sub_vec_id: int | None

    @property
    def place(self) -> tuple[int, int, CoreKind, int]:
        """What cores are sorted by."""
        return self.rank, self.core, self.kind, self.sub_vec_id or 0


@dataclass(frozen=True, slots=True)
class Cost:
    """The work of every core that has done any."""

    cores: Mapping[Core, Work]

    @property
    def total(self) -> Work:
        """The work of all cores."""
        return _sum(self.cores.values())

    def of_rank(self, rank: int) -> Work:
        """The work of the cores of a rank."""
        return _sum(work for core, work in self.cores.items() if core.rank == rank)

    def to_json(self) -> dict[str, Any]:
        """Units, totals, and the counts by rank and by core."""
        ranks = sorted({core.rank for core in self.cores})
        cores = sorted(self.cores, key=lambda core: core.place)
        return {
            "units": dict(UNITS),
            "total": self.total.to_json(),
            "by_rank": [{"rank": rank, **self.of_rank(rank).to_json()} for rank in ranks],
            "by_core": [{**asdict(core), **self.cores[core].to_json()} for core in cores],
        }


class CostCounter:
    """Counts the work of a run: attach `observe` to it.

    A store that AIV 0 of an AI core makes for both of its vector cores, as the compiler splits it, is work of AIV 0.
    """

    def __init__(self) -> None:
        self._work: dict[Core, Work] = {}
        self._of_actor: dict[Actor, Work] = {}

    def cost(self) -> Cost:
        """The counts so far."""
        return Cost(self._work)

    def observe(self, event: Event) -> None:
        """Count what a program does; what hosts do is no work of a core."""
        if event.actor.kernel is None:
            return
        match event:
            case Read() | Write() | Atomic():
                self._count_access(event)
            case Multiplied(rows=rows, columns=columns, depth=depth, operand_bytes=size):
                work = self._of(event.actor)
                work.tile_operations += 1
                work.cube_operand_bytes += (rows + columns) * depth * size
            case BarrierPassed(actors=actors):
                for actor in actors:
                    work = self._of(actor)
                    work.steps += 1
                    work.barriers += 1
            case Notified():
                work = self._of(event.actor)
                work.steps += 1
                work.notifies += 1
            case Waited():
                work = self._of(event.actor)
                work.steps += 1
                work.waits += 1
            case Fenced() | FlagSet() | FlagWaited() | TileSent() | TileReceived():
                self._of(event.actor).steps += 1

    def _count_access(self, event: Access) -> None:
        """An access of lanes; a transfer is told as a read and a write, of which the write counts."""
        is_transfer = event.completion != "fence"
        if is_transfer and isinstance(event, Read):
            return
        work = self._of(event.actor)
        work.steps += 1
        lanes = event.lanes
        if isinstance(lanes, int):  # the scalar unit moves it
            return
        nbytes = prod(lanes.shape) * event.pointer.element.itemsize
        if is_transfer:
            work.udma_bytes += nbytes
            return
        work.tile_operations += 1
        if event.pointer.memory.rank == event.actor.name.rank:
            work.mte_local_bytes += nbytes
        else:
            work.mte_remote_bytes += nbytes

    def _of(self, actor: Actor) -> Work:
        work = self._of_actor.get(actor)
        if work is None:
            name = actor.name
            assert name.core is not None
            core = Core(name.rank, name.core, name.kind, name.sub_vec_id)
            work = self._of_actor[actor] = self._work.setdefault(core, Work())
        return work


def _sum(parts: Iterable[Work]) -> Work:
    total = Work()
    for part in parts:
        for each in fields(Work):
            setattr(total, each.name, getattr(total, each.name) + getattr(part, each.name))
    return total
