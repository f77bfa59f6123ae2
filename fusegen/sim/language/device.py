"""Device builtins that touch the machine: programs, memory, signals, barriers.

Three tables say what is supported: `triton_language`, `distributed_language` and `shmem_device`. Every memory
operation and every synchronisation starts with a scheduling point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.actors import Token
from fusegen.sim.errors import Unsupported
from fusegen.sim.events import Fenced, TokenConsumed
from fusegen.sim.findings import Found, NotSymmetric
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.language.atomics import Atomics
from fusegen.sim.language.block_pointers import BlockPointer, advance, make_block_ptr, padding
from fusegen.sim.language.cann import MixLanguage
from fusegen.sim.language.functions import FUNCTIONS
from fusegen.sim.machine import Machine
from fusegen.sim.memory import AccessPort, Memory, Pointer
from fusegen.sim.signals import DeviceBarrier, Signals
from fusegen.sim.store_buffers import LateAccessPort
from fusegen.sim.tiles import dense
from fusegen.sim.udma import Builtin, Transfer, Transfers

SLOT_DTYPES = (dtypes.int64, dtypes.uint64, dtypes.int32)


class DeviceLanguage:
    """The builtins, bound to one machine.

    `tiles` counts stores of tiles; `on_tiles` is told about it now and then. `hand_over` is what the split of a mix
    kernel calls where AIC and AIVs exchange a tile. With `late_stores` a store is visible to other actors only when it
    must be (see `store_buffers`).
    """

    def __init__(
        self,
        machine: Machine,
        heap: SymmetricHeap,
        *,
        on_tiles: Callable[[int], None] | None,
        late_stores: bool = False,
        tiles_per_call: int = 256,
    ) -> None:
        self._machine = machine
        self._step = machine.step
        self._heap = heap
        self._events = machine.events
        self._port = LateAccessPort(machine, self._changed) if late_stores else AccessPort(machine.events)
        self.signals = Signals(machine, self._port)
        self._atomics = Atomics(self._port, self._stepped, self.signals.stored)
        self.barrier = DeviceBarrier(machine, ranks=heap.ranks)
        self.transfers = Transfers(machine, heap.links)
        self._mix = MixLanguage(machine, self.barrier)
        self.hand_over = self._mix.exchange.hand_over
        self.tiles = 0
        self._on_tiles = on_tiles
        self._tiles_per_call = tiles_per_call

    def triton_language(self) -> dict[str, Any]:
        """triton.language."""
        return {
            **FUNCTIONS,
            "advance": advance,
            "atomic_add": self._atomics.atomic_add,
            "atomic_and": self._atomics.atomic_and,
            "atomic_cas": self._atomics.atomic_cas,
            "atomic_max": self._atomics.atomic_max,
            "atomic_min": self._atomics.atomic_min,
            "atomic_or": self._atomics.atomic_or,
            "atomic_xchg": self._atomics.atomic_xchg,
            "atomic_xor": self._atomics.atomic_xor,
            "debug_barrier": self._step,
            "device_assert": self.device_assert,
            "device_print": self.device_print,
            "make_block_ptr": make_block_ptr,
            "load": self.load,
            "num_programs": self.num_programs,
            "program_id": self.program_id,
            "store": self.store,
            "dot": self._mix.dot,
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
            "barrier_all": self._mix.barrier_all,
            "barrier_all_vec": self.barrier_all_vec,
            "fence": self.fence,
            "getmem": self.getmem,
            "getmem_nbi": self.getmem_nbi,
            "my_pe": self.rank,
            "n_pes": self.num_ranks,
            "putmem": self.putmem,
            "putmem_nbi": self.putmem_nbi,
            "quiet": self.quiet,
            "signal_op": self.signal_op,
            "signal_wait_until": self.signal_wait_until,
        }

    def cann_extension(self) -> dict[str, Any]:
        """triton.language.extra.cann.extension."""
        return self._mix.cann_extension()

    def program_id(self, axis: int) -> int:
        """tl.program_id: coordinate of the program in the grid."""
        return self._machine.current.position[axis]

    def num_programs(self, axis: int) -> int:
        """tl.num_programs: extent of the grid."""
        kernel = self._machine.current.kernel
        if kernel is None:
            raise TypeError("tl.num_programs: expected a call inside a kernel")
        return kernel.grid[axis]

    def load(
        self,
        pointer: Pointer | BlockPointer,
        mask: Any = None,
        other: Any = None,
        boundary_check: Any = (),
        padding_option: str = "",
        **_: Any,
    ) -> Any:
        """tl.load; cache and eviction hints change no result."""
        self._step()
        if type(pointer) is BlockPointer:
            if mask is not None or other is not None:
                raise ValueError("tl.load: expected boundary_check and padding_option for a block pointer, got a mask")
            pointer, mask = pointer.elements(boundary_check)
            other = padding(padding_option, pointer)
        elif (mask is None and other is not None) or boundary_check or padding_option:
            raise ValueError("tl.load: expected other with a mask only, and boundary_check for block pointers only")
        return self._port.load(self._mapped(pointer, "tl.load"), mask, other)

    def store(
        self, pointer: Pointer | BlockPointer, value: Any, mask: Any = None, boundary_check: Any = (), **_: Any
    ) -> None:
        """tl.store; wakes whoever waits on this memory."""
        self._step()
        if type(pointer) is BlockPointer:
            if mask is not None:
                raise ValueError("tl.store: expected boundary_check for a block pointer, got a mask")
            _check_block_value(pointer, value)
            pointer, mask = pointer.elements(boundary_check)
        elif boundary_check:
            raise ValueError("tl.store: expected boundary_check for block pointers only")
        pointer = self._mapped(pointer, "tl.store")
        self._port.store(pointer, value, mask)
        if not isinstance(pointer.offset, int):
            self.tiles += 1
            if self._on_tiles is not None and self.tiles % self._tiles_per_call == 0:
                self._on_tiles(self.tiles)
        self._changed(pointer.memory)

    def _changed(self, memory: Memory) -> None:
        """After a plain store to a memory: tell the signals in it."""
        if memory.waiters or memory.records:
            self.signals.stored(memory)

    def _stepped(self, pointer: Any, builtin: str) -> Pointer:
        """A pointer as `_mapped`, after a scheduling point."""
        self._step()
        return self._mapped(pointer, builtin)

    def device_assert(self, condition: Any, message: str = "", mask: Any = None) -> None:
        """tl.device_assert: AssertionError unless the condition holds on every lane that the mask includes."""
        lanes = dense(condition).data | (~dense(mask).data if mask is not None else np.False_)
        if not lanes.all():
            raise AssertionError(f"tl.device_assert: {message}")

    def device_print(self, prefix: str, *values: Any, hex: bool = False) -> None:
        """tl.device_print: a line for each value, with the coordinates of the program."""
        x, y, z = self._machine.current.position
        texts = [_printed(value, hex) for value in values] or [""]
        for text in texts:
            print(f"({x}, {y}, {z}) {prefix} {text}".rstrip())

    def rank(self, *_: Any) -> int:
        """dl.rank and libshmem_device.my_pe."""
        return self._machine.current.name.rank

    def num_ranks(self, *_: Any) -> int:
        """dl.num_ranks and libshmem_device.n_pes."""
        return self._heap.ranks

    def symm_at(self, pointer: Pointer, rank: int) -> Pointer:
        """dl.symm_at: the same symmetric address on `rank`."""
        return self._heap.on_peer(self._own(_pointer(pointer, "dl.symm_at"), "dl.symm_at"), rank)

    def wait(self, pointer: Pointer, count: int, scope: str, semantic: str, waitValue: int = 1) -> Token:
        """dl.wait: until each of `count` slots, 64 bytes apart, equals waitValue."""
        if scope not in ("gpu", "sys") or semantic != "acquire":
            raise ValueError(f"dl.wait: expected scope gpu or sys and semantic acquire, got {scope!r} and {semantic!r}")
        if count < 1:
            raise ValueError(f"dl.wait: expected at least 1 slot, got {count}")
        self._step()
        slots = self._mapped(_slot_pointer(pointer, "dl.wait"), "dl.wait")
        wait = self.signals.wait(slots, int(count), int(waitValue))
        return Token(self._machine.current, wait)

    def consume_token(self, value: Any, token: Token) -> Any:
        """dl.consume_token: the value; a pointer carries the token from now on."""
        if not isinstance(token, Token):
            raise TypeError(f"dl.consume_token: expected a token of dl.wait, got {type(token).__name__}")
        consumed = value.after(token) if isinstance(value, Pointer | BlockPointer) else value
        if self._events.observers:
            self._events.tell(TokenConsumed(*self._events.here(), token, consumed))
        return consumed

    def notify(
        self, pointer: Pointer, rank: int, signal: int = 1, sig_op: str = "set", comm_scope: str = "inter_node"
    ) -> None:
        """dl.notify: set the slot on `rank`."""
        if sig_op != "set":
            raise ValueError(
                f"dl.notify: expected sig_op 'set', got {sig_op!r}: the vendor's lowering stores whatever it is"
            )
        self._step()
        self.signals.notify(self._slot_on_peer(pointer, rank, "dl.notify"), int(signal))

    def signal_op(self, pointer: Pointer, value: int, operation: str, rank: int) -> None:
        """libshmem_device.signal_op with ACLSHMEM_SIGNAL_SET."""
        if operation != "set":
            raise ValueError(f"libshmem_device.signal_op: expected ACLSHMEM_SIGNAL_SET, got {operation!r}")
        self._step()
        self.signals.notify(self._slot_on_peer(pointer, rank, "signal_op"), int(value))

    def signal_wait_until(self, pointer: Pointer, comparison: str, value: int) -> int:
        """libshmem_device.signal_wait_until with ACLSHMEM_CMP_EQ."""
        if comparison != "eq":
            raise Unsupported(f"libshmem_device.signal_wait_until {comparison!r}")
        self._step()
        slot = self._mapped(_slot_pointer(pointer, "signal_wait_until"), "signal_wait_until")
        self.signals.wait(slot, 1, int(value), has_token=False)
        return value

    def fence(self) -> None:
        """libshmem_device.fence: completes the actor's earlier loads and stores."""
        self._step()
        self._machine.completing("fence")
        if self._events.observers:
            self._events.tell(Fenced(*self._events.here(), "fence"))

    def quiet(self) -> None:
        """libshmem_device.quiet: completes the actor's non-blocking putmem and getmem, too."""
        self._step()
        self._machine.completing("quiet")
        if self._events.observers:
            self._events.tell(Fenced(*self._events.here(), "quiet"))

    def barrier_all_vec(self) -> None:
        """libshmem_device.barrier_all_vec: all vector cores of this launch on all ranks. An AIC passes it by."""
        if self._machine.current.name.kind == "AIC":
            return
        self._step()
        self.barrier.wait()

    def putmem(self, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """Copy `size` bytes from a local address to a symmetric address on `rank`; complete on return."""
        self._transfer("putmem", destination, source, size, rank)

    def getmem(self, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """Copy `size` bytes from a symmetric address on `rank` to a local address; complete on return."""
        self._transfer("getmem", destination, source, size, rank)

    def putmem_nbi(self, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """putmem that is complete only after `quiet`: copied at once, or with late stores no sooner."""
        self._transfer("putmem_nbi", destination, source, size, rank)

    def getmem_nbi(self, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """getmem that is complete only after `quiet`: copied at once, or with late stores no sooner."""
        self._transfer("getmem_nbi", destination, source, size, rank)

    def _transfer(self, builtin: Builtin, destination: Pointer, source: Pointer, size: int, rank: int) -> None:
        """Copy between ranks, which the rules of UDMA must allow."""
        self._step()
        actor = self._machine.current
        if actor.kernel is None:
            raise TypeError(f"{builtin}: expected a call inside a kernel")
        to, source = _pointer(destination, builtin), _pointer(source, builtin)
        self.transfers.check(Transfer(builtin, actor, actor.kernel.key, int(rank), to, source, int(size)))
        if builtin.startswith("putmem"):
            to = self._heap.on_peer(to, rank)
        else:
            source = self._heap.on_peer(source, rank)
        self._port.copy(to, source, int(size), completion="quiet" if builtin.endswith("_nbi") else "return")
        self.signals.stored(to.memory)

    def _mapped(self, value: Any, builtin: str) -> Pointer:
        """A pointer that the actor's rank can load and store through."""
        pointer: Pointer = value if type(value) is Pointer else _pointer(value, builtin)
        rank, peer = self._machine.current.name.rank, pointer.memory.rank
        if rank != peer:
            self._heap.links.check_mapped(pointer.name, rank=rank, peer=peer)
        return pointer

    def _own(self, pointer: Pointer, builtin: str) -> Pointer:
        """A pointer of the actor's rank, which a builtin translates to another one: once, and not again."""
        rank, mapped = self._machine.current.name.rank, pointer.memory.rank
        if rank != mapped:
            expected = f"expected an address on rank {rank} itself, which {builtin} translates"
            message = f"{pointer.name}: {expected}, got one that dl.symm_at has mapped to rank {mapped}"
            raise Found(NotSymmetric(message, tensor=pointer.name))
        return pointer

    def _slot_on_peer(self, pointer: Pointer, rank: int, builtin: str) -> Pointer:
        """The slot on another rank that a notify of the current actor sets."""
        peer = self._heap.on_peer(self._own(_slot_pointer(pointer, builtin), builtin), rank)
        self._heap.links.check_notify(pointer.name, rank=self._machine.current.name.rank, peer=peer.memory.rank)
        return peer


def _pointer(value: Any, builtin: str) -> Pointer:
    if not isinstance(value, Pointer):
        raise TypeError(f"{builtin}: expected a pointer, got {type(value).__name__}")
    return value


def _printed(value: Any, hexadecimal: bool) -> str:
    data = dense(value).data
    if hexadecimal:
        return np.array2string(data, formatter={"int": lambda number: f"0x{number:02x}"}, threshold=data.size)
    return np.array2string(data, threshold=data.size)


def _check_block_value(pointer: BlockPointer, value: Any) -> None:
    """TypeError or ValueError for a value that a block does not hold as it is: Triton converts none here."""
    tile = dense(value)
    if tile.dtype is not pointer.base.element:
        raise TypeError(f"tl.store: expected a value of {pointer.base.element} for the block, got {tile.dtype}")
    if tile.shape not in ((), pointer.block_shape):
        raise ValueError(f"tl.store: expected a value of {list(pointer.block_shape)}, got {list(tile.shape)}")


def _slot_pointer(value: Any, builtin: str) -> Pointer:
    pointer = _pointer(value, builtin)
    if pointer.element not in SLOT_DTYPES:
        raise TypeError(f"{builtin}: expected a pointer to int64, uint64 or int32, got {pointer.element}")
    return pointer
