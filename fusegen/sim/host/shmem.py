"""shmem, the aclshmem host library: one symmetric heap over all ranks."""

from __future__ import annotations

from typing import Any

import torch

from fusegen.sim.engines import OpEngineType
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.host.process import FIRST_NODE, Hosts
from fusegen.sim.host.rendezvous import Rendezvous
from fusegen.sim.host.tensors import on_device

INVALID_PARAMETER = -2


class OptionAttributes:
    """InitAttr.option_attr."""

    data_op_engine_type: OpEngineType | None = None


class InitAttr:
    """What aclshmem_init needs to know."""

    def __init__(self) -> None:
        self.my_rank: int | None = None
        self.n_ranks: int | None = None
        self.local_mem_size: int | None = None
        self.ip_port: str | None = None
        self.option_attr = OptionAttributes()


class Shmem:
    """The shmem module of one machine."""

    def __init__(self, hosts: Hosts, rendezvous: Rendezvous, heap: SymmetricHeap) -> None:
        self._hosts = hosts
        self._meet = rendezvous.meet
        self._heap = heap

    def table(self) -> dict[str, Any]:
        """shmem, with both spellings of finalize."""
        return {
            "InitAttr": InitAttr,
            "OpEngineType": OpEngineType,
            "aclshmem_create_tensor": self.create_tensor,
            "aclshmem_finalize": self.finalize,
            "aclshmem_finialize": self.finalize,
            "aclshmem_free_tensor": self.free_tensor,
            "aclshmem_init": self.init,
            "set_conf_store_tls": lambda enabled, information: 0,
        }

    def init(self, attributes: InitAttr) -> int:
        """0, or an error code when an attribute is missing. RuntimeError for one that would make the ranks not meet."""
        host = self._hosts.current
        engines = attributes.option_attr.data_op_engine_type
        address = attributes.ip_port or ""
        if attributes.my_rank is None or attributes.n_ranks is None or not attributes.local_mem_size or not engines:
            return INVALID_PARAMETER
        if not address.startswith("tcp://"):
            return INVALID_PARAMETER
        for name, got, expected, meaning in (
            ("my_rank", attributes.my_rank, host.rank, "the global rank, RANK"),
            ("n_ranks", attributes.n_ranks, self._heap.ranks, "the number of all ranks, WORLD_SIZE"),
        ):
            if got != expected:
                raise RuntimeError(f"aclshmem_init: expected {expected} as {name}, {meaning}, got {got}")
        if host.local_ranks < self._heap.ranks and address.removeprefix("tcp://").startswith(("127.", "localhost")):
            raise RuntimeError(f"aclshmem_init: expected an address of node 0 as ip_port ({FIRST_NODE}), got {address}")
        self._heap.limits[host.rank] = attributes.local_mem_size
        self._heap.links.engines[host.rank] = OpEngineType(engines)
        self._meet("aclshmem_init", None, lambda payloads: payloads, size=f"of {attributes.local_mem_size} bytes")
        host.has_heap = True
        return 0

    def finalize(self) -> int:
        """Leave the heap, which all ranks must do; 0. RuntimeError before init."""
        self._require_heap("aclshmem_finalize")
        self._meet("aclshmem_finalize", None, lambda payloads: payloads)
        self._hosts.current.has_heap = False
        return 0

    def create_tensor(
        self, shape: Any, dtype: torch.dtype = torch.float32, device_id: int | None = None
    ) -> torch.Tensor:
        """A poisoned tensor; collective, of equal size on all ranks. RuntimeError on every rank when a heap is full.

        RuntimeError also for a `device_id` that is not the own device.
        """
        self._require_heap("aclshmem_create_tensor")
        if device_id is not None:
            self._hosts.current.check_device("aclshmem_create_tensor", device_id)
        extents = [int(extent) for extent in shape]

        def allocate(payloads: list[None]) -> list[Any]:
            try:
                return [on_device(tensor) for tensor in self._heap.allocate(extents, dtype)]
            except RuntimeError as error:
                return [error] * len(payloads)

        result: torch.Tensor | RuntimeError = self._meet(
            "aclshmem_create_tensor", None, allocate, size=f"of {extents} {dtype}"
        )
        if isinstance(result, RuntimeError):
            raise result
        return result

    def free_tensor(self, tensor: torch.Tensor) -> None:
        """Free this rank's part of an allocation. RuntimeError for anything but a whole tensor of create_tensor."""
        self._require_heap("aclshmem_free_tensor")
        self._hosts.current.drain()
        with torch._C.DisableTorchFunction():
            self._heap.free(tensor, rank=self._hosts.current.rank)

    def _require_heap(self, name: str) -> None:
        if not self._hosts.current.has_heap:
            raise RuntimeError(f"{name}: expected a call after aclshmem_init")
