"""The host process of each rank: its environment, its device, its current stream."""

from __future__ import annotations

import os
import random
from collections import UserDict
from typing import Any, Final

import numpy as np
import torch

from fusegen.sim.actors import Actor
from fusegen.sim.device import Device, Stream
from fusegen.sim.machine import Machine
from fusegen.sim.mix import CoreCount

LOOPBACK: Final = "127.0.0.1"
FIRST_NODE: Final = "192.0.2.1"
"""Address of node 0 where there are several, of the range that is kept for examples."""


class Environment(UserDict[str, str]):
    """os.environ of one process; it accepts strings only, as the real one does."""

    def __setitem__(self, name: str, value: str) -> None:
        for text in (name, value):
            if not isinstance(text, str):
                raise TypeError(f"str expected, not {type(text).__name__}")
        super().__setitem__(name, value)


class Globals:
    """What host code can set for its whole process: random states, and torch's gradient mode and default dtype.

    Made of what is in force now; `environment` is its os.environ.
    """

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.save()

    def save(self) -> None:
        """Keep what is in force."""
        with torch._C.DisableTorchFunction():
            self._torch_random = torch.get_rng_state()
        self._random = random.getstate()
        self._numpy_random = np.random.get_state()
        self._gradients = torch.is_grad_enabled()
        self._dtype = torch.get_default_dtype()

    def restore(self) -> None:
        """Put in force what was kept."""
        os.environ = self.environment  # noqa: B003  the object is what differs between processes
        with torch._C.DisableTorchFunction():
            torch.set_rng_state(self._torch_random)
        random.setstate(self._random)
        np.random.set_state(self._numpy_random)
        torch.set_grad_enabled(self._gradients)
        torch.set_default_dtype(self._dtype)


class Host:
    """What one rank's process has that the others do not see.

    A node has `local_ranks` ranks and a device for each; `local_rank` is the index of the own one, LOCAL_RANK.
    """

    def __init__(self, device: Device, *, ranks: int, ranks_per_node: int) -> None:
        self.rank = device.rank
        self.node, self.local_rank = divmod(device.rank, ranks_per_node)
        self.local_ranks = ranks_per_node
        self.device = device
        self.stream: Stream = device.default_stream
        self.has_process_group = False
        self.has_heap = False
        self.collectives = 0
        environment = Environment(os.environ)
        nodes = ranks // ranks_per_node
        master = LOOPBACK if nodes == 1 else FIRST_NODE
        environment |= {
            "RANK": str(device.rank),
            "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks_per_node),
            "GROUP_RANK": str(self.node),
            "GROUP_WORLD_SIZE": str(nodes),
            "NODE_RANK": str(self.node),
            "MASTER_ADDR": master,
            "MASTER_PORT": "29500",
            "ASH_MASTER_ADDR": master,
            "ASH_MASTER_PORT": "8666",
        }
        self.globals = Globals(environment)

    def check_device(self, builtin: str, index: int) -> None:
        """Raise RuntimeError unless `index` is the own device: one process, one device, and no more than a node has."""
        if index == self.local_rank:
            return
        advice = "" if 0 <= index < self.local_ranks else f": no such device, node {self.node} has {self.local_ranks}"
        raise RuntimeError(
            f"{builtin}: expected {self.local_rank}, the device of rank {self.rank}, got {index}{advice}"
        )

    def follow(self) -> None:
        """Park until the current stream can do what the host enqueues now."""
        self.device.follow(self.stream)

    def drain(self) -> None:
        """Park until the current stream is idle."""
        self.device.drain(self.stream)


class Hosts:
    """The hosts of all ranks and the one that runs."""

    def __init__(self, machine: Machine, *, ranks: int, cores: CoreCount, ranks_per_node: int) -> None:
        self._machine = machine
        self._in_force: Globals | None = None
        vectors = 2 if cores.unit == "AI" else 1
        devices = [Device(machine, rank=rank, cores=cores.number, vectors_per_core=vectors) for rank in range(ranks)]
        self.hosts = [Host(device, ranks=ranks, ranks_per_node=ranks_per_node) for device in devices]
        machine.resumed = self.resume

    @property
    def current(self) -> Host:
        """The host whose code is running."""
        return self.hosts[self._machine.current.name.rank]

    def resume(self, actor: Actor) -> None:
        """Give the process its globals when a host gets control."""
        wanted = self.hosts[actor.name.rank].globals
        if wanted is self._in_force:
            return
        if self._in_force is not None:
            self._in_force.save()
        wanted.restore()
        self._in_force = wanted
