"""Process groups of torch.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import torch.distributed as dist

from fusegen.sim.errors import Unsupported
from fusegen.sim.host.process import Hosts
from fusegen.sim.host.rendezvous import Group, Rendezvous

NOT_A_MEMBER: Final = dist.GroupMember.NON_GROUP_MEMBER
"""What `new_group` gives to a rank that is not in the group; torch ignores its collectives, and so do these."""


class ProcessGroups:
    """The groups of one machine; `world` is that of all ranks."""

    def __init__(self, hosts: Hosts, rendezvous: Rendezvous) -> None:
        self._hosts = hosts
        self._rendezvous = rendezvous
        self._meet = rendezvous.meet
        self._world = rendezvous.world

    def table(self) -> dict[str, Any]:
        """What torch.distributed has about groups."""
        names = SimpleNamespace(WORLD=self._world, NON_GROUP_MEMBER=NOT_A_MEMBER)
        return {
            "GroupMember": names,
            "destroy_process_group": self.destroy_process_group,
            "get_backend": lambda *_: "hccl",
            "get_global_rank": self.get_global_rank,
            "get_group_rank": self.get_group_rank,
            "get_process_group_ranks": self.get_process_group_ranks,
            "get_rank": self.get_rank,
            "get_world_size": self.get_world_size,
            "group": names,
            "init_process_group": self.init_process_group,
            "is_available": lambda: True,
            "is_initialized": lambda: self._hosts.current.has_process_group,
            "new_group": self.new_group,
        }

    def init_process_group(
        self, backend: str | None = None, *_: Any, rank: int = -1, world_size: int = -1, **__: Any
    ) -> None:
        """Join the group of all ranks, which all ranks must do. ValueError for a rank or size that is not the own."""
        host = self._hosts.current
        for name, got, expected in (("rank", rank, host.rank), ("world_size", world_size, self._world.size())):
            if got not in (-1, expected):
                raise ValueError(f"init_process_group: expected {name} {expected}, got {got}")
        self._meet("init_process_group", None, lambda payloads: payloads)
        host.has_process_group = True

    def destroy_process_group(self, group: Any = None) -> None:
        """Leave a group; that of all ranks ends the use of all."""
        self._require_process_group()
        if group is None or group is self._world:
            self._hosts.current.has_process_group = False

    def new_group(
        self, ranks: Sequence[int] | None = None, *_: Any, use_local_synchronization: bool = False, **__: Any
    ) -> Any:
        """A group of some ranks, by default all; all ranks must call it. ValueError for ranks that do not exist."""
        self._require_process_group()
        if use_local_synchronization:
            raise Unsupported("torch.distributed.new_group with use_local_synchronization")
        members = sorted(self._world.ranks if ranks is None else ranks)
        if not members or len(set(members)) < len(members) or not set(members) <= set(self._world.ranks):
            last = self._world.size() - 1
            raise ValueError(f"new_group: expected different ranks from 0 to {last}, got {list(ranks or ())}")

        def combine(payloads: list[None]) -> list[Any]:
            group = self._rendezvous.group(members)
            return [group if rank in members else NOT_A_MEMBER for rank in range(len(payloads))]

        return self._meet("new_group", None, combine, size=f"of ranks {members}")

    def get_rank(self, group: Any = None) -> int:
        """The own rank in a group, by default that of all ranks; -1 outside of it."""
        members = self.members("get_rank", group)
        return -1 if members is None else members.rank()

    def get_world_size(self, group: Any = None) -> int:
        """Number of ranks of a group; -1 outside of it."""
        members = self.members("get_world_size", group)
        return -1 if members is None else members.size()

    def get_process_group_ranks(self, group: Any = None) -> list[int]:
        """The ranks of a group, in its order."""
        members = self.members("get_process_group_ranks", group)
        return [] if members is None else list(members.ranks)

    def get_global_rank(self, group: Any, group_rank: int) -> int:
        """The rank among all that has a rank in a group."""
        ranks = self.get_process_group_ranks(group)
        if not 0 <= group_rank < len(ranks):
            raise ValueError(f"get_global_rank: expected a rank of the group, 0 to {len(ranks) - 1}, got {group_rank}")
        return ranks[group_rank]

    def get_group_rank(self, group: Any, global_rank: int) -> int:
        """The rank in a group of a rank among all."""
        ranks = self.get_process_group_ranks(group)
        if global_rank not in ranks:
            raise ValueError(f"get_group_rank: expected a rank of the group, one of {ranks}, got {global_rank}")
        return ranks.index(global_rank)

    def members(self, name: str, group: Any, async_op: bool = False) -> Group | None:
        """The group that a collective is over, by default that of all ranks; None where the current rank is outside."""
        if async_op:
            raise Unsupported(f"torch.distributed.{name} with async_op")
        self._require_process_group()
        if group is None:
            return self._world
        if group is NOT_A_MEMBER:
            return None
        if not isinstance(group, Group):
            raise TypeError(f"{name}: expected a process group, got {type(group).__name__}")
        return group if self._hosts.current.rank in group.ranks else None

    def _require_process_group(self) -> None:
        if not self._hosts.current.has_process_group:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
