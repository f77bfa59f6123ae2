"""shmem, the aclshmem host library: one symmetric heap over all ranks."""

from __future__ import annotations

from enum import IntFlag
from typing import Any

import torch

from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.host.collectives import Rendezvous
from fusegen.sim.host.process import Hosts
from fusegen.sim.host.tensors import on_device

INVALID_PARAMETER = -2


class OpEngineType(IntFlag):
    """Data-movement engines, a bit mask."""

    MTE = 1
    SDMA = 2
    ROCE = 4
    UDMA = 8


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
        """0, or an error code when an attribute is missing or is not this rank's."""
        host = self._hosts.current
        expected = (host.rank, self._heap.ranks)
        engine = attributes.option_attr.data_op_engine_type
        if (attributes.my_rank, attributes.n_ranks) != expected or not attributes.local_mem_size or not engine:
            return INVALID_PARAMETER
        if not (attributes.ip_port or "").startswith("tcp://"):
            return INVALID_PARAMETER
        self._heap.limits[host.rank] = attributes.local_mem_size
        self._meet("aclshmem_init", None, lambda payloads: payloads, size=f"of {attributes.local_mem_size} bytes")
        host.has_heap = True
        return 0

    def finalize(self) -> int:
        """Leave the heap, which all ranks must do; 0. RuntimeError before init."""
        self._require_heap("aclshmem_finalize")
        self._meet("aclshmem_finalize", None, lambda payloads: payloads)
        self._hosts.current.has_heap = False
        return 0

    def create_tensor(self, shape: Any, dtype: torch.dtype = torch.float32, device_id: int = 0) -> torch.Tensor:
        """A poisoned tensor; collective, of equal size on all ranks. RuntimeError on every rank when a heap is full."""
        self._require_heap("aclshmem_create_tensor")
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
