"""The memories behind device tensors, and what host operations do to them."""

from __future__ import annotations

from weakref import WeakValueDictionary

import torch

from fusegen.sim.affine import Affine
from fusegen.sim.events import EventPort, HostTouched
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.host.process import Hosts
from fusegen.sim.memory import Memory


class Memories:
    """Symmetric memory, and that of the plain tensors with which kernels were launched that have not been forgotten."""

    def __init__(self, hosts: Hosts, heap: SymmetricHeap, events: EventPort) -> None:
        self._hosts = hosts
        self._heap = heap
        self._events = events
        self._plain: WeakValueDictionary[tuple[int, int], Memory] = WeakValueDictionary()

    def of_argument(self, name: str, tensor: torch.Tensor) -> Memory:
        """The memory of a tensor that the current host passes to a kernel as `name`."""
        memory = self._of(tensor)
        if memory is None:
            rank = self._hosts.current.rank
            memory = Memory(tensor, rank=rank)
            self._plain[rank, tensor.untyped_storage().data_ptr()] = memory
        for peer in memory.peers or (memory,):
            peer.name = name
        return memory

    def symmetric(self, tensor: torch.Tensor) -> Memory | None:
        """The symmetric memory that a tensor lies in; None for a plain tensor."""
        with torch._C.DisableTorchFunction():
            return self._heap.memory_of(tensor.untyped_storage().data_ptr())

    def touch(self, tensor: torch.Tensor, *, is_write: bool) -> None:
        """Tell the observers that the current host reads or writes a tensor, after all that its stream had to do."""
        if not self._events.observers:
            return
        with torch._C.DisableTorchFunction():
            memory = self._of(tensor)
            if memory is None or not tensor.numel():
                return
            lanes = Affine(int(tensor.storage_offset()), tuple(tensor.stride()), tuple(tensor.shape), True)
            actor, line = self._events.here()
            stream = self._hosts.current.stream
            self._events.tell(HostTouched(actor, line, memory, lanes, tensor.element_size(), is_write, stream))

    def _of(self, tensor: torch.Tensor) -> Memory | None:
        address = tensor.untyped_storage().data_ptr()
        return self._heap.memory_of(address) or self._plain.get((self._hosts.current.rank, address))
