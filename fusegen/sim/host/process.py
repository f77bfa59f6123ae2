"""The host process of each rank: its environment, its device, its current stream."""

from __future__ import annotations

import os

from fusegen.sim.actors import Actor
from fusegen.sim.device import Device, Stream
from fusegen.sim.machine import Machine


class Host:
    """What one rank's process has that the others do not see."""

    def __init__(self, device: Device, *, ranks: int) -> None:
        self.rank = device.rank
        self.device = device
        self.stream: Stream = device.default_stream
        self.has_process_group = False
        self.has_heap = False
        self.collectives = 0
        self.environment = {
            "RANK": str(device.rank),
            "LOCAL_RANK": str(device.rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
        }

    def drain(self) -> None:
        """Park until the current stream is idle."""
        self.device.drain(self.stream)


class Hosts:
    """The hosts of all ranks and the one that runs."""

    def __init__(self, machine: Machine, *, ranks: int, cores: int) -> None:
        self._machine = machine
        self.hosts = [Host(Device(machine, rank=rank, cores=cores), ranks=ranks) for rank in range(ranks)]
        machine.resumed = self.resume

    @property
    def current(self) -> Host:
        """The host whose code is running."""
        return self.hosts[self._machine.current.name.rank]

    def resume(self, actor: Actor) -> None:
        """Give the process its environment when a host gets control."""
        os.environ.update(self.hosts[actor.name.rank].environment)
