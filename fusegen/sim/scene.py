"""A machine in which nobody can go on: what the rules of `diagnosis` look at."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.sim.actors import Actor, SlotWait
from fusegen.sim.findings import Slot
from fusegen.sim.host.process import Hosts
from fusegen.sim.machine import Machine
from fusegen.sim.memory import Memory
from fusegen.sim.signals import DeviceBarrier, Signals, SlotRecord, value_at
from fusegen.sim.slots import SlotNames


@dataclass(frozen=True, slots=True)
class StuckSlot:
    """A slot that `actor` waits for: what it holds, and the notify that it got last, None if there was none.

    `lost` is that notify when a host has changed the slot since, which makes `record` None.
    """

    actor: Actor
    memory: Memory
    slot: Slot
    wanted: int
    actual: int
    word_bytes: int
    record: SlotRecord | None
    lost: SlotRecord | None

    def __str__(self) -> str:
        return f"{self.memory.name} {self.slot} on rank {self.memory.rank}"

    @property
    def announcement(self) -> SlotRecord | None:
        """The last write, if it announced data rather than returned a credit."""
        return self.record if self.record is not None and self.record.announces else None


class Scene:
    """Everything the rules look at."""

    def __init__(
        self, machine: Machine, hosts: Hosts, signals: Signals, barrier: DeviceBarrier, names: SlotNames
    ) -> None:
        self.machine = machine
        self.hosts = hosts.hosts
        self.signals = signals
        self.barriers = barrier.arrived
        self.names = names
        self.blocked = sorted(machine.blocked(), key=_order)
        self.stuck = [
            stuck_slot(actor, actor.waiting, names) for actor in self.blocked if isinstance(actor.waiting, SlotWait)
        ]

    def where(self, actor: Actor) -> str:
        """What an actor does now, with its line."""
        if actor.greenlet.dead:
            return f"{actor.name} has ended"
        return f"{actor.name} waits at {self.machine.location_of(actor)}"


def _order(actor: Actor) -> tuple[bool, int, int]:
    """Programs before hosts, by rank and core."""
    return actor.is_host, actor.name.rank, actor.name.core or 0


def stuck_slot(actor: Actor, wait: SlotWait, names: SlotNames) -> StuckSlot:
    """The first slot of a wait that does not have its value."""
    memory = wait.memory
    values = {address: value_at(memory, address, wait.element_bytes) for address in wait.addresses()}
    missing = [address for address, value in values.items() if value != wait.value]
    address = missing[0] if missing else wait.address
    record = lost = memory.records.get(address)
    if record is not None and record.is_in_memory(memory, address):
        lost = None
    else:
        record = None
    slot = names.at(memory, address)
    return StuckSlot(actor, memory, slot, wait.value, values[address], wait.element_bytes, record, lost)
