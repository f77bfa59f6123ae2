"""Device builtins that touch the machine: programs, memory, signals, barriers.

Three tables say what is supported: `triton_language`, `distributed_language` and `shmem_device`. Every memory
operation and every synchronisation starts with a scheduling point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.errors import Unsupported
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.language.functions import FUNCTIONS
from fusegen.sim.machine import Machine
from fusegen.sim.memory import AccessPort, Pointer
from fusegen.sim.signals import DeviceBarrier, Signals
from fusegen.sim.tiles import dense

MIX_ADVICE = "it makes the kernel a mix kernel of AIC and AIV programs, which is not simulated yet"
SLOT_DTYPES = (dtypes.int64, dtypes.uint64, dtypes.int32)


class DeviceLanguage:
    """The builtins, bound to one machine.

    `port` is where observers of memory accesses attach. `tiles` counts stores of tiles; `on_tiles` is told about it now
    and then.
    """

    def __init__(
        self,
        machine: Machine,
        heap: SymmetricHeap,
        *,
        on_tiles: Callable[[int], None] | None,
        tiles_per_call: int = 256,
    ) -> None:
        self._machine = machine
        self._step = machine.step
        self._heap = heap
        self.port = AccessPort(lambda: machine.current)
        self._signals = Signals(machine, self.port)
        self.barrier = DeviceBarrier(machine, ranks=heap.ranks)
        self.tiles = 0
        self._on_tiles = on_tiles
        self._tiles_per_call = tiles_per_call

    def triton_language(self) -> dict[str, Any]:
        """triton.language."""
        return {
            **FUNCTIONS,
            "atomic_add": self.atomic_add,
            "debug_barrier": self._step,
            "device_assert": self.device_assert,
            "load": self.load,
            "num_programs": self.num_programs,
            "program_id": self.program_id,
            "store": self.store,
            "dot": _mix_only("tl.dot"),
        }

    def distributed_language(self) -> dict[str, Any]:
        """triton_dist.language."""
        return {
            "consume_token": self.consume_token,
            "notify": self.notify,
            "num_ranks": self.num_ranks,
            "rank": self.rank,
            "symm_at": self.symm_at,
            "wait": self.wait,
        }

    def shmem_device(self) -> dict[str, Any]:
        """triton_dist.language.extra.libshmem_device."""
        return {
            "ACLSHMEM_CMP_EQ": "eq",
            "ACLSHMEM_SIGNAL_SET": "set",
            "barrier_all": _mix_only("libshmem_device.barrier_all"),
            "barrier_all_vec": self.barrier_all_vec,
            "fence": self._step,
            "getmem": self.getmem,
            "getmem_nbi": self.getmem,
            "my_pe": self.rank,
            "n_pes": self.num_ranks,
            "putmem": self.putmem,
            "putmem_nbi": self.putmem,
            "quiet": self._step,
            "signal_op": self.signal_op,
            "signal_wait_until": self.signal_wait_until,
        }

    def cann_extension(self) -> dict[str, Any]:
        """triton.language.extra.cann.extension, for vector kernels."""
        return {"sub_vec_id": lambda: 0, "sub_vec_num": lambda: 2}

    def program_id(self, axis: int) -> int:
        return self._machine.current.position[axis]

    def num_programs(self, axis: int) -> int:
        kernel = self._machine.current.kernel
        if kernel is None:
            raise TypeError("tl.num_programs: expected a call inside a kernel")
        return kernel.grid[axis]

    def load(self, pointer: Pointer, mask: Any = None, other: Any = None, **_: Any) -> Any:
        """tl.load; cache and eviction hints change no result."""
        self._step()
        return self.port.load(_pointer(pointer, "tl.load"), mask, other)

    def store(self, pointer: Pointer, value: Any, mask: Any = None, **_: Any) -> None:
        """tl.store; wakes whoever waits on this memory."""
        self._step()
        self.port.store(_pointer(pointer, "tl.store"), value, mask)
        if not isinstance(pointer.offset, int):
            self.tiles += 1
            if self._on_tiles is not None and self.tiles % self._tiles_per_call == 0:
                self._on_tiles(self.tiles)
        if pointer.memory.waiters:
            self._signals.wake(pointer.memory)

    def atomic_add(self, pointer: Pointer, value: Any, mask: Any = None, **_: Any) -> Any:
        """tl.atomic_add; returns the values before. Lanes of one tile that meet at an address all count."""
        self._step()
        before = self.port.load(_pointer(pointer, "tl.atomic_add"), mask, 0)
        if isinstance(pointer.offset, int):
            self.port.store(pointer, before + value, mask)
        else:
            self.port.accumulate(pointer, value, mask)
        self._signals.wake(pointer.memory)
        return before

    def device_assert(self, condition: Any, message: str = "", mask: Any = None) -> None:
        lanes = dense(condition).data | (~dense(mask).data if mask is not None else np.False_)
        if not lanes.all():
            raise AssertionError(f"tl.device_assert: {message}")

    def rank(self, *_: Any) -> int:
        return self._machine.current.name.rank

    def num_ranks(self, *_: Any) -> int:
        return self._heap.ranks

    def symm_at(self, pointer: Pointer, rank: int) -> Pointer:
        return self._heap.on_peer(_pointer(pointer, "dl.symm_at"), rank)

    def wait(self, pointer: Pointer, count: int, scope: str, semantic: str, waitValue: int = 1) -> Token:
        """dl.wait: until each of `count` slots, 64 bytes apart, equals waitValue."""
        if scope not in ("gpu", "sys") or semantic != "acquire":
            raise ValueError(f"dl.wait: expected scope gpu or sys and semantic acquire, got {scope!r} and {semantic!r}")
        self._step()
        self._signals.wait(_slot_pointer(pointer, "dl.wait"), int(count), int(waitValue))
        return Token()

    def consume_token(self, value: Any, token: Token) -> Any:
        if not isinstance(token, Token):
            raise TypeError(f"dl.consume_token: expected a token of dl.wait, got {type(token).__name__}")
        return value

    def notify(
        self, pointer: Pointer, rank: int, signal: int = 1, sig_op: str = "set", comm_scope: str = "inter_node"
    ) -> None:
        """dl.notify: set the slot on `rank`."""
        if sig_op != "set":
            raise ValueError(
                f"dl.notify: expected sig_op 'set', got {sig_op!r}: the vendor's lowering stores whatever it is"
            )
        self._step()
        peer = self._heap.on_peer(_slot_pointer(pointer, "dl.notify"), rank)
        self._signals.notify(peer, int(signal))

    def signal_op(self, pointer: Pointer, value: int, operation: str, rank: int) -> None:
        """libshmem_device.signal_op with ACLSHMEM_SIGNAL_SET."""
        if operation != "set":
            raise ValueError(f"libshmem_device.signal_op: expected ACLSHMEM_SIGNAL_SET, got {operation!r}")
        self._step()
        self._signals.notify(self._heap.on_peer(_slot_pointer(pointer, "signal_op"), rank), int(value))

    def signal_wait_until(self, pointer: Pointer, comparison: str, value: int) -> int:
        """libshmem_device.signal_wait_until with ACLSHMEM_CMP_EQ."""
        if comparison != "eq":
            raise Unsupported(f"libshmem_device.signal_wait_until {comparison!r}")
        self._step()
        self._signals.wait(_slot_pointer(pointer, "signal_wait_until"), 1, int(value))
        return value

    def barrier_all_vec(self) -> None:
        self._step()
        self.barrier.wait()

    def putmem(self, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """Copy `size` bytes from a local address to a symmetric address on `rank`; complete on return."""
        self._step()
        self.port.copy(self._heap.on_peer(destination, rank), source, int(size))
        self._signals.wake(self._heap.on_peer(destination, rank).memory)

    def getmem(self, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """Copy `size` bytes from a symmetric address on `rank` to a local address; complete on return."""
        self._step()
        self.port.copy(destination, self._heap.on_peer(source, rank), int(size))
        self._signals.wake(destination.memory)


class Token:
    """What dl.wait returns and dl.consume_token takes."""

    __slots__ = ()


def _pointer(value: Any, builtin: str) -> Pointer:
    if not isinstance(value, Pointer):
        raise TypeError(f"{builtin}: expected a pointer, got {type(value).__name__}")
    return value


def _slot_pointer(value: Any, builtin: str) -> Pointer:
    pointer = _pointer(value, builtin)
    if pointer.element not in SLOT_DTYPES:
        raise TypeError(f"{builtin}: expected a pointer to int64, uint64 or int32, got {pointer.element}")
    return pointer


def _mix_only(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(name, MIX_ADVICE)

    return refuse
