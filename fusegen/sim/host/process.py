"""The host process of each rank: its environment, its device, its current stream."""

from __future__ import annotations

import logging
import os
import random
import sys
from collections import Counter, UserDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from fusegen.sim.actors import Actor, LaunchLimitReached
from fusegen.sim.device import Device, Stream
from fusegen.sim.host.imports import Imports
from fusegen.sim.host.output import RankLines
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
    """What host code can set for its whole process.

    Its modules, arguments, search path, output and loggers, random states, and torch's gradient mode and default dtype.
    Made of what is in force now; `environment` is its os.environ, and `imports` knows which modules are its own.
    """

    _stdout: Any
    _stderr: Any

    def __init__(self, environment: Any, imports: Imports) -> None:
        self.environment = environment
        self._imports = imports
        self.save()

    def separate(self) -> None:
        """Have arguments, a search path and loggers that no other process changes."""
        self._arguments, self._path = list(sys.argv), list(sys.path)
        self._log_handlers, self._loggers = list(logging.root.handlers), dict(logging.root.manager.loggerDict)

    def print_to(self, stdout: RankLines, stderr: RankLines) -> None:
        """Have output of its own."""
        self._stdout, self._stderr = stdout, stderr

    def save(self) -> None:
        """Keep what is in force."""
        self._modules = {name: sys.modules[name] for name in self._imports.names if name in sys.modules}
        self._arguments, self._path = sys.argv, sys.path
        self._log_handlers, self._log_level = logging.root.handlers, logging.root.level
        self._loggers = logging.root.manager.loggerDict
        self._stdout, self._stderr = sys.stdout, sys.stderr
        with torch._C.DisableTorchFunction():
            self._torch_random = torch.get_rng_state()
        self._random = random.getstate()
        self._numpy_random = np.random.get_state()
        self._gradients = torch.is_grad_enabled()
        self._dtype = torch.get_default_dtype()

    def restore(self) -> None:
        """Put in force what was kept."""
        os.environ = self.environment  # noqa: B003  the object is what differs between processes
        for name in self._imports.names:
            sys.modules.pop(name, None)
        sys.modules.update(self._modules)
        sys.argv, sys.path = self._arguments, self._path
        logging.root.handlers, logging.root.manager.loggerDict = self._log_handlers, self._loggers
        if logging.root.level != self._log_level:
            logging.root.setLevel(self._log_level)
        sys.stdout, sys.stderr = self._stdout, self._stderr
        with torch._C.DisableTorchFunction():
            torch.set_rng_state(self._torch_random)
        random.setstate(self._random)
        np.random.set_state(self._numpy_random)
        torch.set_grad_enabled(self._gradients)
        torch.set_default_dtype(self._dtype)


class Host:
    """What one rank's process has that the others do not see.

    A node has `local_ranks` ranks and a device for each; `local_rank` is the index of the own one, LOCAL_RANK.
    `meetings` counts the collectives that it has been in, by the number of their group. `at_exit` is called, the last
    one first, when the process ends without an error.
    """

    def __init__(self, device: Device, imports: Imports, *, ranks: int, ranks_per_node: int) -> None:
        self.rank = device.rank
        self.node, self.local_rank = divmod(device.rank, ranks_per_node)
        self.local_ranks = ranks_per_node
        self.device = device
        self.stream: Stream = device.default_stream
        self.has_process_group = False
        self.has_heap = False
        self.meetings: Counter[int] = Counter()
        self.at_exit: list[Callable[[], Any]] = []
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
        self.globals = Globals(environment, imports)
        self.globals.separate()

    def run(self, start: Callable[[int], None]) -> None:
        """Run the process from its start to its end; an error leaves out `at_exit`, which would hide it in a hang."""
        ended = None
        try:
            start(self.rank)
        except SystemExit as status:
            ended = status
        while self.at_exit:
            self.at_exit.pop()()
        if ended is not None:
            raise ended

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
    """The hosts of all ranks and the one that runs. A host that wants more than `launch_limit` launches is stopped."""

    def __init__(
        self,
        machine: Machine,
        *,
        ranks: int,
        cores: CoreCount,
        ranks_per_node: int,
        launch_limit: int | None = None,
    ) -> None:
        self._machine = machine
        self._launch_limit = launch_limit
        self.imports = Imports()
        self.stopped: list[Host] = []
        self._in_force: Globals | None = None
        vectors = 2 if cores.unit == "AI" else 1
        devices = [Device(machine, rank=rank, cores=cores.number, vectors_per_core=vectors) for rank in range(ranks)]
        self.hosts = [Host(device, self.imports, ranks=ranks, ranks_per_node=ranks_per_node) for device in devices]
        machine.resumed = self.resume

    @property
    def current(self) -> Host:
        """The host whose code is running."""
        return self.hosts[self._machine.current.name.rank]

    def check_launch(self) -> None:
        """Before a launch: stop the current host for good if it has had as many as it may, when they have ended."""
        host = self.current
        if self._launch_limit is None or host.device.launched < self._launch_limit:
            return
        for stream in host.device.streams():
            host.device.drain(stream)
        self.stopped.append(host)
        self._machine.park(LaunchLimitReached())

    def resume(self, actor: Actor) -> None:
        """Give the process its globals when a host gets control."""
        wanted = self.hosts[actor.name.rank].globals
        if wanted is self._in_force:
            return
        if self._in_force is not None:
            self._in_force.save()
        wanted.restore()
        self._in_force = wanted
