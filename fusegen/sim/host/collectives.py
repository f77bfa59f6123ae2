"""torch.distributed: collectives over process groups."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

import torch
import torch.distributed as dist

from fusegen.sim.errors import unsupported
from fusegen.sim.findings import CollectiveMismatch, Found
from fusegen.sim.host.process import Hosts
from fusegen.sim.host.process_groups import ProcessGroups
from fusegen.sim.host.rendezvous import Group, Rendezvous
from fusegen.sim.host.tensor_checks import (
    check_contiguous,
    check_list,
    check_whole,
    op_name,
    reduced,
    reduction_of,
    size_of,
)

UNSUPPORTED: Final = (
    "all_gather_coalesced",
    "all_reduce_coalesced",
    "batch_isend_irecv",
    "gather",
    "gather_object",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "scatter",
    "scatter_object_list",
    "send",
)
"""Functions of torch.distributed that would need a real process group."""


class Distributed:
    """The functions of torch.distributed on one machine. Collectives block; names of parameters are torch's."""

    def __init__(self, hosts: Hosts, rendezvous: Rendezvous) -> None:
        self._hosts = hosts
        self._groups = ProcessGroups(hosts, rendezvous)
        self._members = self._groups.members
        self._meet = rendezvous.meet

    def table(self) -> dict[str, Any]:
        """torch.distributed."""
        return {
            **{name: unsupported(f"torch.distributed.{name}") for name in UNSUPPORTED},
            **self._groups.table(),
            "all_gather": self.all_gather,
            "all_gather_into_tensor": self.all_gather_into_tensor,
            "all_gather_object": self.all_gather_object,
            "all_reduce": self.all_reduce,
            "all_to_all": self.all_to_all,
            "all_to_all_single": self.all_to_all_single,
            "barrier": self.barrier,
            "broadcast": self.broadcast,
            "broadcast_object_list": self.broadcast_object_list,
            "reduce_scatter": self.reduce_scatter,
            "reduce_scatter_tensor": self.reduce_scatter_tensor,
        }

    def barrier(self, group: Any = None, async_op: bool = False, device_ids: Any = None) -> None:
        """Meet the other ranks."""
        if members := self._members("barrier", group, async_op):
            self._meet("barrier", None, _nothing, group=members)

    def all_gather(
        self, tensor_list: list[torch.Tensor], tensor: torch.Tensor, group: Any = None, async_op: bool = False
    ) -> None:
        """tensor_list[r] = the tensor of rank r. ValueError unless every rank has an output like the tensor."""

        def combine(payloads: list[tuple[list[torch.Tensor], torch.Tensor]]) -> list[None]:
            sent = [sent.clone() for _, sent in payloads]  # an output may be a tensor that is sent
            for receivers, _ in payloads:
                for receiver, value in zip(receivers, sent, strict=True):
                    receiver.copy_(value)
            return _nothing(payloads)

        if members := self._members("all_gather", group, async_op):
            check_list("all_gather", "output", tensor_list, tensor, members.size())
            touched = {"reads": [tensor], "writes": tensor_list}
            self._meet("all_gather", (tensor_list, tensor), combine, size=size_of(tensor), **touched, group=members)

    def all_gather_into_tensor(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any = None, async_op: bool = False
    ) -> None:
        """Output = the tensors of all ranks, one after the other along axis 0, or along a new axis before it."""

        def combine(payloads: list[tuple[torch.Tensor, torch.Tensor]]) -> list[None]:
            gathered = torch.stack([sent for _, sent in payloads])
            for receiver, _ in payloads:
                receiver.copy_(gathered.view(receiver.shape))
            return _nothing(payloads)

        if members := self._members("all_gather_into_tensor", group, async_op):
            check_whole("all_gather_into_tensor", "output", output_tensor, "input", input_tensor, members.size())
            payload, size = (output_tensor, input_tensor), size_of(input_tensor)
            touched = {"reads": [input_tensor], "writes": [output_tensor]}
            self._meet("all_gather_into_tensor", payload, combine, size=size, **touched, group=members)

    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        """object_list[r] = a copy of the object of rank r."""

        def combine(payloads: list[tuple[list[Any], Any]]) -> list[None]:
            for receivers, _ in payloads:
                receivers[:] = [deepcopy(sent) for _, sent in payloads]
            return _nothing(payloads)

        if members := self._members("all_gather_object", group):
            ranks, got = members.size(), len(object_list)
            if got != ranks:
                raise ValueError(f"all_gather_object: expected {ranks} outputs, one for each rank, got {got}")
            self._meet("all_gather_object", (object_list, obj), combine, group=members)

    def all_reduce(
        self, tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> None:
        """tensor = the sum (or maximum, minimum, product) over ranks, in the order of `reduced`."""
        reduction = reduction_of("all_reduce", op)

        def combine(payloads: list[torch.Tensor]) -> list[None]:
            total = reduced(reduction, payloads)
            for tensor in payloads:
                tensor.copy_(total)
            return _nothing(payloads)

        if members := self._members("all_reduce", group, async_op):
            check_contiguous("all_reduce", tensor=tensor)
            size = f"{size_of(tensor)}, {op_name(op)}"
            touched = {"reads": [tensor], "writes": [tensor]}
            self._meet("all_reduce", tensor, combine, size=size, **touched, group=members)

    def reduce_scatter_tensor(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> None:
        """Output = part r, of equal ones along axis 0, of the sum over ranks, in the order of `reduced`."""
        reduction = reduction_of("reduce_scatter_tensor", op)

        def combine(payloads: list[tuple[torch.Tensor, torch.Tensor]]) -> list[None]:
            parts = reduced(reduction, [sent for _, sent in payloads]).flatten().chunk(len(payloads))
            for (receiver, _), part in zip(payloads, parts, strict=bool(parts[0].numel())):
                receiver.copy_(part.view(receiver.shape))
            return _nothing(payloads)

        if members := self._members("reduce_scatter_tensor", group, async_op):
            check_whole("reduce_scatter_tensor", "input", input, "output", output, members.size())
            size = f"{size_of(input)}, {op_name(op)}"
            touched = {"reads": [input], "writes": [output]}
            self._meet("reduce_scatter_tensor", (output, input), combine, size=size, **touched, group=members)

    def reduce_scatter(
        self,
        output: torch.Tensor,
        input_list: list[torch.Tensor],
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> None:
        """Output = the sum over ranks of their input_list[r], in the order of `reduced`."""
        reduction = reduction_of("reduce_scatter", op)

        def combine(payloads: list[tuple[torch.Tensor, list[torch.Tensor]]]) -> list[None]:
            totals = [reduced(reduction, list(sent)) for sent in zip(*(inputs for _, inputs in payloads), strict=True)]
            for (receiver, _), total in zip(payloads, totals, strict=True):
                receiver.copy_(total)
            return _nothing(payloads)

        if members := self._members("reduce_scatter", group, async_op):
            check_list("reduce_scatter", "input", input_list, output, members.size())
            size = f"{size_of(output)}, {op_name(op)}"
            touched = {"reads": input_list, "writes": [output]}
            self._meet("reduce_scatter", (output, input_list), combine, size=size, **touched, group=members)

    def broadcast(self, tensor: torch.Tensor, src: int, group: Any = None, async_op: bool = False) -> None:
        """tensor = that of rank `src`, one of all ranks, which is in the group."""

        def combine(payloads: list[torch.Tensor]) -> list[None]:
            for receiver in payloads:
                receiver.copy_(payloads[source])
            return _nothing(payloads)

        if members := self._members("broadcast", group, async_op):
            source = _source("broadcast", src, members)
            check_contiguous("broadcast", tensor=tensor)
            role = {"reads" if src == self._hosts.current.rank else "writes": [tensor]}
            self._meet(f"broadcast from {src}", tensor, combine, size=size_of(tensor), **role, group=members)

    def broadcast_object_list(
        self, object_list: list[Any], src: int = 0, group: Any = None, device: Any = None
    ) -> None:
        """object_list = a copy of that of rank `src`, which is as long."""

        def combine(payloads: list[list[Any]]) -> list[None]:
            sent = payloads[source]
            for receiver in payloads:
                if receiver is not sent:
                    receiver[:] = deepcopy(sent)
            return _nothing(payloads)

        if members := self._members("broadcast_object_list", group):
            source = _source("broadcast_object_list", src, members)
            size = f"of {len(object_list)} objects"
            self._meet(f"broadcast_object_list from {src}", object_list, combine, size=size, group=members)

    def all_to_all(
        self,
        output_tensor_list: list[torch.Tensor],
        input_tensor_list: list[torch.Tensor],
        group: Any = None,
        async_op: bool = False,
    ) -> None:
        """Output r = the input for this rank of rank r. The finding where these differ in shape or type."""

        def combine(payloads: list[tuple[list[torch.Tensor], list[torch.Tensor]]]) -> list[None]:
            _exchange("all_to_all", [receivers for receivers, _ in payloads], [sent for _, sent in payloads])
            return _nothing(payloads)

        if members := self._members("all_to_all", group, async_op):
            for role, tensors in (("outputs", output_tensor_list), ("inputs", input_tensor_list)):
                if len(tensors) != members.size():
                    ranks, got = members.size(), len(tensors)
                    raise ValueError(f"all_to_all: expected {ranks} {role}, one for each rank, got {got}")
            touched = {"reads": input_tensor_list, "writes": output_tensor_list}
            self._meet("all_to_all", (output_tensor_list, input_tensor_list), combine, **touched, group=members)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        group: Any = None,
        async_op: bool = False,
    ) -> None:
        """As `all_to_all`, of parts along axis 0: equal ones, or of so many rows."""

        def combine(payloads: list[tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]]) -> list[None]:
            _exchange("all_to_all_single", [parts for parts, _ in payloads], [parts for _, parts in payloads])
            return _nothing(payloads)

        if members := self._members("all_to_all_single", group, async_op):
            check_contiguous("all_to_all_single", output=output, input=input)
            is_equal = output_split_sizes is None and input_split_sizes is None
            if (is_equal and output.numel() != input.numel()) or output.dtype != input.dtype:
                expected = f"an output as large as the input, {size_of(input)}"
                raise ValueError(f"all_to_all_single: expected {expected}, got one {size_of(output)}")
            with torch._C.DisableTorchFunction():
                flat = output.view(-1, *input.shape[1:]) if is_equal and input.numel() else output
                receives = _parts("output", flat, output_split_sizes, members.size())
                sends = _parts("input", input, input_split_sizes, members.size())
            size = size_of(input) if is_equal else None
            touched = {"reads": [input], "writes": [output]}
            self._meet("all_to_all_single", (receives, sends), combine, size=size, **touched, group=members)


def _nothing(payloads: list[Any]) -> list[None]:
    return [None] * len(payloads)


def _source(name: str, src: int, members: Group) -> int:
    """Index in the group of the rank that others receive from."""
    if src not in members.ranks:
        first, last = members.ranks[0], members.ranks[-1]
        ranks = f"{first} to {last}" if len(members.ranks) == last - first + 1 else f"one of {list(members.ranks)}"
        raise ValueError(f"{name}: expected {ranks} as src, got {src}")
    return members.ranks.index(src)


def _parts(role: str, tensor: torch.Tensor, splits: Sequence[int] | None, ranks: int) -> Sequence[torch.Tensor]:
    """The rows of a tensor for each rank."""
    name, rows = "all_to_all_single", tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % ranks:
            raise ValueError(
                f"{name}: expected axis 0 to be a multiple of {ranks} ranks, got {tuple(tensor.shape)} as {role}"
            )
        splits = [rows // ranks] * ranks
    if len(splits) != ranks or sum(splits) != rows:
        raise ValueError(f"{name}: expected {ranks} {role}_split_sizes with the sum {rows}, got {list(splits)}")
    return tensor.split_with_sizes(list(splits)) if tensor.dim() else (tensor,)


def _exchange(name: str, receivers: list[Sequence[torch.Tensor]], senders: list[Sequence[torch.Tensor]]) -> None:
    """Copy the part for each rank of each sender to where it expects it."""
    sent = [[part.clone() for part in parts] for parts in senders]  # outputs may be what is sent
    for to, parts in enumerate(receivers):
        for source, receiver in enumerate(parts):
            part = sent[source][to]
            if (receiver.shape, receiver.dtype) != (part.shape, part.dtype):
                sends = f"rank {source} of the group sends a tensor {size_of(part)} to rank {to}"
                calls = (sends, f"which expects one {size_of(receiver)}")
                raise Found(CollectiveMismatch(f"{name}: {', '.join(calls)}", calls=calls))
            receiver.copy_(part)
