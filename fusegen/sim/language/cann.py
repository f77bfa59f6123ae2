"""Builtins of mix kernels: tl.dot, barrier_all, and triton.language.extra.cann.extension."""

from __future__ import annotations

import math
from typing import Any, Final

from fusegen.sim import dtypes
from fusegen.sim.actors import CoreType
from fusegen.sim.errors import Unsupported
from fusegen.sim.events import Multiplied
from fusegen.sim.flags import EVENTS, BlockExchange, FlagKey
from fusegen.sim.language.cube import dot
from fusegen.sim.machine import Machine
from fusegen.sim.signals import DeviceBarrier

_CORE_TYPES: Final[dict[Any, CoreType]] = {"cube": "cube", "vector": "vector"}


class MixLanguage:
    """The builtins, bound to one machine. `exchange` has what the cores of one AI core tell each other."""

    def __init__(self, machine: Machine, barrier: DeviceBarrier) -> None:
        self._machine = machine
        self._events = machine.events
        self._barrier = barrier
        self.exchange = BlockExchange(machine)

    def cann_extension(self) -> dict[str, Any]:
        """triton.language.extra.cann.extension."""
        return {
            "scope": self.scope,
            "sub_vec_id": self.sub_vec_id,
            "sub_vec_num": self.sub_vec_num,
            "sync_block_set": self.sync_block_set,
            "sync_block_wait": self.sync_block_wait,
        }

    def dot(
        self,
        a: Any,
        b: Any,
        acc: Any = None,
        input_precision: Any = None,
        allow_tf32: Any = None,
        max_num_imprecise_acc: Any = None,
        out_dtype: Any = dtypes.float32,
    ) -> Any:
        """tl.dot; the options about precision change no result here: float32 is multiplied as it is."""
        result = dot(a, b, acc, out_dtype, input_precision)
        if self._events.observers:
            *batch, rows, columns = result.shape
            sizes = math.prod(batch) * rows, columns, a.shape[-1]
            self._events.tell(Multiplied(*self._events.here(), *sizes, a.dtype.itemsize))
        return result

    def barrier_all(self) -> None:
        """libshmem_device.barrier_all: all AICs and AIVs of this launch on all ranks."""
        self._machine.step()
        self._barrier.wait(cubes=True)

    def scope(self, *_: Any, **__: Any) -> Any:
        """al.scope, which the split of the kernel has taken out wherever it is a statement."""
        raise Unsupported("al.scope outside of a with statement")

    def sub_vec_id(self) -> int:
        """Index of the vector core inside its AI core; 0 in a vector kernel and on the AIC."""
        return self._machine.current.name.sub_vec_id or 0

    def sub_vec_num(self) -> int:
        """Vector cores of an AI core."""
        return 2

    def sync_block_set(
        self, sender: str, receiver: str, event_id: int, sender_pipe: Any = None, receiver_pipe: Any = None
    ) -> None:
        """al.sync_block_set: raise a flag for the other core type; skipped on a core that is not the sender."""
        key = _flag(sender, receiver, event_id, "al.sync_block_set")
        if self._is(key.sender):
            self._machine.step()
            self.exchange.set_flag(key)

    def sync_block_wait(
        self, sender: str, receiver: str, event_id: int, sender_pipe: Any = None, receiver_pipe: Any = None
    ) -> None:
        """al.sync_block_wait: until the flag is raised; skipped on a core that is not the receiver."""
        key = _flag(sender, receiver, event_id, "al.sync_block_wait")
        if self._is(key.receiver):
            self._machine.step()
            self.exchange.wait_flag(key)

    def _is(self, core: CoreType) -> bool:
        """The current actor is of this core type."""
        return (self._machine.current.name.kind == "AIC") == (core == "cube")


def _flag(sender: str, receiver: str, event: Any, builtin: str) -> FlagKey:
    """The flag of a call; raises ValueError for one that the hardware does not have."""
    if {sender, receiver} != {"cube", "vector"}:
        raise ValueError(
            f"{builtin}: expected 'cube' and 'vector' as sender and receiver, got {sender!r} and {receiver!r}"
        )
    if not isinstance(event, int) or not 0 <= event < EVENTS:
        raise ValueError(f"{builtin}: expected an event from 0 to {EVENTS - 1}, got {event}")
    return FlagKey(int(event), _CORE_TYPES[sender], _CORE_TYPES[receiver])
