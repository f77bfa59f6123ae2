"""The symmetric heap: memory of the same size at the same offset on every rank."""

from __future__ import annotations

from math import prod
from typing import Final
from weakref import WeakValueDictionary

import torch

from fusegen.sim.engines import Links
from fusegen.sim.findings import Found, InvalidPeer, NotSymmetric
from fusegen.sim.memory import Memory, Pointer, use_after_free

ALIGNMENT: Final = 512
POISON_BYTE: Final = 0x5A
"""Integers are filled with it; floats with NaN, so that a value that nobody wrote shows."""


class SymmetricHeap:
    """Allocations of all ranks. `limits` are the bytes each rank reserved, by rank; `links` connect the ranks."""

    def __init__(self, *, ranks: int, links: Links) -> None:
        self.ranks = ranks
        self.links = links
        self.limits: dict[int, int] = {}
        self._used = [0] * ranks
        self._allocations = 0
        self._memories: dict[int, Memory] = {}
        self._freed: WeakValueDictionary[int, Memory] = WeakValueDictionary()

    def allocate(self, shape: list[int], dtype: torch.dtype) -> list[torch.Tensor]:
        """One poisoned tensor a rank; raises RuntimeError when a rank's heap is full."""
        size = -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
        for rank in range(self.ranks):
            if self._used[rank] + size > self.limits[rank]:
                free = self.limits[rank] - self._used[rank]
                raise RuntimeError(
                    f"aclshmem_create_tensor: expected at most {free} bytes (local_mem_size), got {size}"
                )
        with torch._C.DisableTorchFunction():
            tensors = [_poisoned(shape, dtype) for _ in range(self.ranks)]
        memories = tuple(Memory(tensor, rank=rank) for rank, tensor in enumerate(tensors))
        self._allocations += 1
        for rank, memory in enumerate(memories):
            memory.peers = memories
            memory.allocation = self._allocations
            self._used[rank] += size
            self._memories[memory.owner.data_ptr()] = memory
            tensors[rank]._memory = memory  # type: ignore[attr-defined]  # so that a freed one is known while in use
        return tensors

    def free(self, tensor: torch.Tensor, *, rank: int) -> None:
        """Free this rank's part; raises RuntimeError for a tensor that is not (or no longer) allocated."""
        memory = self.memory_of(tensor.untyped_storage().data_ptr())
        if memory is None or memory.freed or tensor.storage_offset():
            raise RuntimeError(
                "aclshmem_free_tensor: expected a tensor of aclshmem_create_tensor that is not freed yet"
            )
        memory.freed = True
        self._used[rank] -= -(-memory.bytes.size // ALIGNMENT) * ALIGNMENT
        peers = memory.peers or ()
        if all(peer.freed for peer in peers):
            for peer in peers:
                address = peer.owner.data_ptr()
                self._freed[address] = self._memories.pop(address)
                peer.peers = ()  # a ring of references would keep the memory until Python looks for rings

    def memory_of(self, address: int) -> Memory | None:
        """The symmetric memory whose storage starts at a host address."""
        return self._memories.get(address) or self._freed.get(address)

    def on_peer(self, pointer: Pointer, peer: int) -> Pointer:
        """The same symmetric address on another rank."""
        memory = pointer.memory
        if not memory.peers:
            if memory.freed:
                raise use_after_free(pointer)
            message = f"{pointer.name}: expected a pointer into the symmetric heap, got one to an ordinary tensor"
            raise Found(NotSymmetric(message, tensor=pointer.name))
        if not 0 <= peer < self.ranks:
            message = f"{pointer.name}: expected a rank from 0 to {self.ranks - 1}, got {peer}"
            raise Found(InvalidPeer(message, peer=int(peer), ranks=self.ranks))
        return pointer.at(memory.peers[peer])


def _poisoned(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    elements = torch.empty(max(prod(shape), 1), dtype=dtype)  # an empty tensor has an address of its own, too
    if dtype.is_floating_point:
        elements.fill_(float("nan"))
    else:
        elements.view(torch.uint8).fill_(POISON_BYTE)
    return elements[: prod(shape)].view(shape)
