"""torch.distributed: the hosts of all ranks meet, in the order of their calls."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.distributed as dist

from fusegen.sim.actors import Actor, CollectiveWait
from fusegen.sim.errors import Unsupported
from fusegen.sim.events import HostCollective
from fusegen.sim.findings import CollectiveMismatch, Found
from fusegen.sim.host.memories import Memories
from fusegen.sim.host.process import Host, Hosts
from fusegen.sim.machine import Machine

Combine = Callable[[list[Any]], list[Any]]


@dataclass(slots=True)
class _Meeting:
    """One collective: what every rank that has come brings, and the actors that wait."""

    payloads: dict[int, Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    waiting: list[Actor] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)


class Rendezvous:
    """Matches the n-th collective of every rank."""

    def __init__(self, machine: Machine, hosts: Hosts, memories: Memories) -> None:
        self._machine = machine
        self._hosts = hosts
        self._memories = memories
        self._meetings: dict[int, _Meeting] = {}

    def meet(
        self, name: str, payload: Any, combine: Combine, *, size: object = None, reads: Any = (), writes: Any = ()
    ) -> Any:
        """Park until every rank has come; the last one computes a result for each rank from all payloads by rank.

        `size` must be equal on all ranks. `reads` and `writes` are the tensors of this rank that it reads and writes.
        """
        host = self._hosts.current
        host.drain()
        for tensor in reads:
            self._memories.touch(tensor, is_write=False)
        meeting = self._meetings.setdefault(host.collectives, _Meeting())
        call = name if size is None else f"{name} {size}"
        meeting.payloads[host.rank] = payload
        meeting.names[host.rank] = call
        if len(set(meeting.names.values())) > 1:
            calls = tuple(f"rank {rank}: {name}" for rank, name in sorted(meeting.names.items()))
            message = f"collective {host.collectives} differs between ranks: {', '.join(calls)}"
            raise Found(CollectiveMismatch(message, calls=calls))
        if len(meeting.payloads) < len(self._hosts.hosts):
            meeting.waiting.append(self._machine.current)
            self._machine.park(CollectiveWait(name))
            self._wrote(writes)
        else:
            with torch._C.DisableTorchFunction():
                meeting.results = combine([meeting.payloads[rank] for rank in sorted(meeting.payloads)])
            del self._meetings[host.collectives]
            self._machine.complete_operation()
            if self._machine.events.observers:
                actors = (*meeting.waiting, self._machine.current)
                self._machine.events.tell(HostCollective(*self._machine.events.here(), name, actors))
            for actor in meeting.waiting:
                self._machine.wake(actor)
            self._wrote(writes)
            self._machine.give_way()
        host.collectives += 1
        return meeting.results[host.rank]

    def _wrote(self, tensors: Any) -> None:
        for tensor in tensors:
            self._memories.touch(tensor, is_write=True)


UNSUPPORTED: Final = (
    "all_gather_coalesced",
    "all_reduce_coalesced",
    "all_to_all",
    "batch_isend_irecv",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "irecv",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "scatter",
    "scatter_object_list",
    "send",
)
"""Functions of torch.distributed that would need a real process group."""


class Distributed:
    """The functions of torch.distributed on one machine. Collectives over the group of all ranks only, and blocking."""

    def __init__(self, hosts: Hosts, rendezvous: Rendezvous) -> None:
        self._hosts = hosts
        self._meet = rendezvous.meet
        self._ranks = len(hosts.hosts)

    def table(self) -> dict[str, Any]:
        """torch.distributed."""
        return {
            **{name: _unsupported(f"torch.distributed.{name}") for name in UNSUPPORTED},
            "all_gather": self.all_gather,
            "all_gather_into_tensor": self.all_gather_into_tensor,
            "all_gather_object": self.all_gather_object,
            "all_reduce": self.all_reduce,
            "all_to_all_single": self.all_to_all_single,
            "barrier": self.barrier,
            "broadcast": self.broadcast,
            "destroy_process_group": self.destroy_process_group,
            "get_backend": lambda *_: "hccl",
            "get_rank": self.get_rank,
            "get_world_size": self.get_world_size,
            "reduce_scatter": self.reduce_scatter,
            "reduce_scatter_tensor": self.reduce_scatter_tensor,
            "init_process_group": self.init_process_group,
            "is_available": lambda: True,
            "is_initialized": lambda: self._hosts.current.has_process_group,
        }

    def init_process_group(
        self, backend: str | None = None, *_: Any, rank: int = -1, world_size: int = -1, **__: Any
    ) -> None:
        """Join the group of all ranks, which all ranks must do. ValueError for a rank or size that is not the own."""
        host = self._hosts.current
        for name, got, expected in (("rank", rank, host.rank), ("world_size", world_size, self._ranks)):
            if got not in (-1, expected):
                raise ValueError(f"init_process_group: expected {name} {expected}, got {got}")
        self._meet("init_process_group", None, self._nothing)
        host.has_process_group = True

    def destroy_process_group(self, *_: Any) -> None:
        """Leave the group of all ranks."""
        self._group("destroy_process_group").has_process_group = False

    def get_rank(self, group: Any = None) -> int:
        """The own rank."""
        return self._group("get_rank", group).rank

    def get_world_size(self, group: Any = None) -> int:
        """Number of ranks."""
        self._group("get_world_size", group)
        return self._ranks

    def barrier(self, group: Any = None, async_op: bool = False, device_ids: Any = None) -> None:
        """Meet the other ranks."""
        self._group("barrier", group, async_op)
        self._meet("barrier", None, self._nothing)

    def all_gather(
        self, outputs: list[torch.Tensor], tensor: torch.Tensor, group: Any = None, async_op: bool = False
    ) -> None:
        """outputs[r] = the tensor of rank r. ValueError unless there is an output like the tensor for every rank."""

        def combine(payloads: list[tuple[list[torch.Tensor], torch.Tensor]]) -> list[None]:
            sent = [sent.clone() for _, sent in payloads]  # an output may be a tensor that is sent
            for receivers, _ in payloads:
                for receiver, value in zip(receivers, sent, strict=True):
                    receiver.copy_(value)
            return self._nothing(payloads)

        self._group("all_gather", group, async_op)
        self._check_list("all_gather", "output", outputs, tensor)
        self._meet("all_gather", (outputs, tensor), combine, size=_size(tensor), reads=[tensor], writes=outputs)

    def all_gather_into_tensor(
        self, output: torch.Tensor, tensor: torch.Tensor, group: Any = None, async_op: bool = False
    ) -> None:
        """output = the tensors of all ranks, one after the other along axis 0, or along a new axis before it."""

        def combine(payloads: list[tuple[torch.Tensor, torch.Tensor]]) -> list[None]:
            gathered = torch.stack([sent for _, sent in payloads])
            for receiver, _ in payloads:
                receiver.copy_(gathered.view(receiver.shape))
            return self._nothing(payloads)

        self._group("all_gather_into_tensor", group, async_op)
        _check_whole("all_gather_into_tensor", "output", output, "input", tensor, self._ranks)
        touched = {"reads": [tensor], "writes": [output]}
        self._meet("all_gather_into_tensor", (output, tensor), combine, size=_size(tensor), **touched)

    def all_gather_object(self, outputs: list[Any], value: Any, group: Any = None) -> None:
        """outputs[r] = a copy of the value of rank r."""

        def combine(payloads: list[tuple[list[Any], Any]]) -> list[None]:
            for receivers, _ in payloads:
                receivers[:] = [deepcopy(sent) for _, sent in payloads]
            return self._nothing(payloads)

        self._group("all_gather_object", group)
        if len(outputs) != self._ranks:
            raise ValueError(
                f"all_gather_object: expected {self._ranks} outputs, one for each rank, got {len(outputs)}"
            )
        self._meet("all_gather_object", (outputs, value), combine)

    def all_reduce(
        self, tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> None:
        """tensor = the sum (or maximum, minimum, product) over ranks, in the order of `_reduced`."""
        reduction = _reduction("all_reduce", op)

        def combine(payloads: list[torch.Tensor]) -> list[None]:
            total = _reduced(reduction, payloads)
            for tensor in payloads:
                tensor.copy_(total)
            return self._nothing(payloads)

        self._group("all_reduce", group, async_op)
        _check_contiguous("all_reduce", tensor=tensor)
        size = f"{_size(tensor)}, {_op_name(op)}"
        self._meet("all_reduce", tensor, combine, size=size, reads=[tensor], writes=[tensor])

    def reduce_scatter_tensor(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> None:
        """output = part r, of `ranks` equal ones along axis 0, of the sum over ranks, in the order of `_reduced`."""
        reduction = _reduction("reduce_scatter_tensor", op)

        def combine(payloads: list[tuple[torch.Tensor, torch.Tensor]]) -> list[None]:
            parts = _reduced(reduction, [sent for _, sent in payloads]).flatten().chunk(self._ranks)
            for (receiver, _), part in zip(payloads, parts, strict=bool(parts[0].numel())):
                receiver.copy_(part.view(receiver.shape))
            return self._nothing(payloads)

        self._group("reduce_scatter_tensor", group, async_op)
        _check_whole("reduce_scatter_tensor", "input", tensor, "output", output, self._ranks)
        size = f"{_size(tensor)}, {_op_name(op)}"
        self._meet("reduce_scatter_tensor", (output, tensor), combine, size=size, reads=[tensor], writes=[output])

    def reduce_scatter(
        self,
        output: torch.Tensor,
        inputs: list[torch.Tensor],
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> None:
        """output = the sum over ranks of their inputs[r], in the order of `_reduced`."""
        reduction = _reduction("reduce_scatter", op)

        def combine(payloads: list[tuple[torch.Tensor, list[torch.Tensor]]]) -> list[None]:
            totals = [_reduced(reduction, [sent[rank] for _, sent in payloads]) for rank in range(self._ranks)]
            for (receiver, _), total in zip(payloads, totals, strict=True):
                receiver.copy_(total)
            return self._nothing(payloads)

        self._group("reduce_scatter", group, async_op)
        self._check_list("reduce_scatter", "input", inputs, output)
        size = f"{_size(output)}, {_op_name(op)}"
        self._meet("reduce_scatter", (output, inputs), combine, size=size, reads=inputs, writes=[output])

    def broadcast(self, tensor: torch.Tensor, src: int, group: Any = None, async_op: bool = False) -> None:
        """tensor = that of rank `src`."""

        def combine(payloads: list[torch.Tensor]) -> list[None]:
            for receiver in payloads:
                receiver.copy_(payloads[src])
            return self._nothing(payloads)

        self._group("broadcast", group, async_op)
        if not 0 <= src < self._ranks:
            raise ValueError(f"broadcast: expected 0 to {self._ranks - 1} as src, got {src}")
        _check_contiguous("broadcast", tensor=tensor)
        role = "reads" if src == self._hosts.current.rank else "writes"
        self._meet(f"broadcast from {src}", tensor, combine, size=_size(tensor), **{role: [tensor]})

    def all_to_all_single(
        self, output: torch.Tensor, tensor: torch.Tensor, *splits: Any, group: Any = None, async_op: bool = False
    ) -> None:
        """Equal splits only: `ranks` parts along axis 0."""
        if any(split is not None for split in splits):
            raise Unsupported("torch.distributed.all_to_all_single with unequal splits")

        def combine(payloads: list[tuple[torch.Tensor, torch.Tensor]]) -> list[None]:
            parts = [sent.flatten().view(self._ranks, -1) for _, sent in payloads if sent.numel()]
            for rank, (receiver, _) in enumerate(payloads):
                if parts:
                    receiver.copy_(torch.cat([part[rank] for part in parts]).view(receiver.shape))
            return self._nothing(payloads)

        self._group("all_to_all_single", group, async_op)
        _check_contiguous("all_to_all_single", output=output, input=tensor)
        if output.numel() != tensor.numel() or output.dtype != tensor.dtype:
            expected = f"an output as large as the input, {_size(tensor)}"
            raise ValueError(f"all_to_all_single: expected {expected}, got one {_size(output)}")
        if tensor.dim() and tensor.shape[0] % self._ranks:
            got = tuple(tensor.shape)
            raise ValueError(f"all_to_all_single: expected axis 0 to be a multiple of {self._ranks} ranks, got {got}")
        self._meet("all_to_all_single", (output, tensor), combine, size=_size(tensor), reads=[tensor], writes=[output])

    def _group(self, name: str, group: Any = None, async_op: bool = False) -> Host:
        """The current host, which must have joined the group of all ranks."""
        if group is not None:
            raise Unsupported(f"torch.distributed.{name} with a group")
        if async_op:
            raise Unsupported(f"torch.distributed.{name} with async_op")
        host = self._hosts.current
        if not host.has_process_group:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        return host

    def _check_list(self, name: str, role: str, tensors: list[torch.Tensor], like: torch.Tensor) -> None:
        """One tensor for each rank, all of one shape and type; `like` is the one that the other end has for them."""
        if len(tensors) != self._ranks:
            raise ValueError(f"{name}: expected {self._ranks} {role}s, one for each rank, got {len(tensors)}")
        for index, tensor in enumerate(tensors):
            if (tensor.shape, tensor.dtype) != (like.shape, like.dtype):
                raise ValueError(f"{name}: expected a tensor {_size(like)} as {role} {index}, got one {_size(tensor)}")
        _check_contiguous(name, tensor=like)

    def _nothing(self, payloads: list[Any]) -> list[None]:
        return [None] * self._ranks


_REDUCTIONS: Final[dict[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.PRODUCT: torch.mul,
}


def _reduction(name: str, op: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    if op not in _REDUCTIONS:
        raise Unsupported(f"torch.distributed.{name} with {op}")
    return _REDUCTIONS[op]


def _op_name(op: Any) -> str:
    return str(op).rpartition(".")[2]


def _reduced(
    reduction: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], tensors: list[torch.Tensor]
) -> torch.Tensor:
    """((rank 0 + rank 1) + rank 2) + ...: every step is rounded to the type of the tensors."""
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total = reduction(total, tensor)
    return total


def _check_contiguous(name: str, **tensors: torch.Tensor) -> None:
    for role, tensor in tensors.items():
        if not tensor.is_contiguous():
            strides = tensor.stride()
            raise ValueError(f"{name}: expected a contiguous tensor as {role}, got strides {strides}")


def _check_whole(name: str, role: str, whole: torch.Tensor, part_role: str, part: torch.Tensor, ranks: int) -> None:
    """`whole` has room for one `part` of each rank, along axis 0 or along an axis before it."""
    _check_contiguous(name, **{role: whole, part_role: part})
    shape = tuple(part.shape)
    rows, *rest = shape or (1,)
    allowed = ((ranks * rows, *rest), (ranks, *shape))
    if tuple(whole.shape) not in allowed or whole.dtype != part.dtype:
        raise ValueError(
            f"{name}: expected {allowed[0]} {part.dtype} as {role} for {ranks} ranks with {shape} as {part_role}, "
            f"got {tuple(whole.shape)} {whole.dtype}"
        )


def _size(tensor: torch.Tensor) -> str:
    return f"of {tuple(tensor.shape)} {tensor.dtype}"


def _unsupported(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(name)

    return refuse
