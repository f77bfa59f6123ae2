"""Where the hosts of all ranks, or of a group of them, meet: in the order of their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from fusegen.sim.actors import Actor, CollectiveWait
from fusegen.sim.events import HostCollective
from fusegen.sim.findings import CollectiveMismatch, Found
from fusegen.sim.host.memories import Memories
from fusegen.sim.host.process import Hosts
from fusegen.sim.machine import Machine

Combine = Callable[[list[Any]], list[Any]]


class Group:
    """torch.distributed.ProcessGroup: some ranks, ascending. A rank has its place among them as index."""

    def __init__(self, hosts: Hosts, number: int, ranks: tuple[int, ...]) -> None:
        self._hosts = hosts
        self.number = number
        self.ranks = ranks

    def rank(self) -> int:
        """Index of the current rank; -1 if it is not in the group."""
        rank = self._hosts.current.rank
        return self.ranks.index(rank) if rank in self.ranks else -1

    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return "hccl"

    @property
    def group_name(self) -> str:
        return str(self.number)

    def __str__(self) -> str:
        return f"ranks {', '.join(map(str, self.ranks))}"


@dataclass(slots=True)
class _Meeting:
    """One collective: what every rank that has come brings, and the actors that wait."""

    payloads: dict[int, Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    waiting: list[Actor] = field(default_factory=list)
    results: dict[int, Any] = field(default_factory=dict)


class Rendezvous:
    """Matches the n-th collective of every rank of a group. `world` is the group of all ranks."""

    def __init__(self, machine: Machine, hosts: Hosts, memories: Memories) -> None:
        self._machine = machine
        self._hosts = hosts
        self._memories = memories
        self._meetings: dict[tuple[int, int], _Meeting] = {}
        self._groups = 0
        self.world = self.group(range(len(hosts.hosts)))

    def group(self, ranks: Any) -> Group:
        """A new group of ranks."""
        self._groups += 1
        return Group(self._hosts, self._groups - 1, tuple(ranks))

    def meet(
        self,
        name: str,
        payload: Any,
        combine: Combine,
        *,
        size: object = None,
        reads: Any = (),
        writes: Any = (),
        group: Group | None = None,
    ) -> Any:
        """Park until every rank of the group, by default all ranks, has come.

        The last one computes a result for each rank of the group from all payloads, in the order of ranks. `size` must
        be equal on all of them. `reads` and `writes` are the tensors of this rank that it reads and writes.
        """
        group = group or self.world
        host = self._hosts.current
        host.drain()
        for tensor in reads:
            self._memories.touch(tensor, is_write=False)
        key = group.number, host.meetings[group.number]
        meeting = self._meetings.setdefault(key, _Meeting())
        meeting.payloads[host.rank] = payload
        meeting.names[host.rank] = name if size is None else f"{name} {size}"
        self._check_alike(meeting, group, host.meetings[group.number])
        is_last = len(meeting.payloads) == group.size()
        if is_last:
            del self._meetings[key]
            self._complete(meeting, name, combine)
        else:
            meeting.waiting.append(self._machine.current)
            self._machine.park(CollectiveWait(name if group is self.world else f"{name} of {group}"))
        for tensor in writes:
            self._memories.touch(tensor, is_write=True)
        if is_last:
            self._machine.give_way()
        host.meetings[group.number] += 1
        return meeting.results[host.rank]

    def _check_alike(self, meeting: _Meeting, group: Group, number: int) -> None:
        """Raise the finding when ranks have come to one meeting for different things."""
        if len(set(meeting.names.values())) == 1:
            return
        calls = tuple(f"rank {rank}: {name}" for rank, name in sorted(meeting.names.items()))
        who = "ranks" if group is self.world else str(group)
        message = f"collective {number} differs between {who}: {', '.join(calls)}"
        raise Found(CollectiveMismatch(message, calls=calls))

    def _complete(self, meeting: _Meeting, name: str, combine: Combine) -> None:
        """Compute the results, and wake who waits for them."""
        ranks = sorted(meeting.payloads)
        with torch._C.DisableTorchFunction():
            meeting.results = dict(zip(ranks, combine([meeting.payloads[rank] for rank in ranks]), strict=True))
        self._machine.complete_operation()
        if self._machine.events.observers:
            actors = (*meeting.waiting, self._machine.current)
            self._machine.events.tell(HostCollective(*self._machine.events.here(), name, actors))
        for actor in meeting.waiting:
            self._machine.wake(actor)
