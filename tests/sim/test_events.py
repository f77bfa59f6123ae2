"""Observers: what they are told about one producer tile of the real kernel, and about every other kind of event."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from fusegen.sim import run_module
from fusegen.sim.affine import Affine
from fusegen.sim.events import (
    Atomic,
    BarrierPassed,
    Drained,
    Event,
    Fenced,
    FlagSet,
    FlagWaited,
    HostCollective,
    Launched,
    Multiplied,
    Notified,
    ProgramEnded,
    ProgramStarted,
    Read,
    StreamJoined,
    TileReceived,
    TileSent,
    TokenConsumed,
    Waited,
    Write,
)

SHAPE = {"S": 70, "H": 2, "D": 40}


def source_of(event: Event) -> str:
    """The text of the line of an event."""
    assert event.line is not None
    return Path(event.line.code.co_filename).read_text().splitlines()[event.line.line - 1].strip()


@pytest.fixture
def events(signal_module: Path) -> list[Event]:
    """All events of the signal kernel on 2 ranks of 2 cores, 2 S blocks of 64 and 6 rows."""
    told: list[Event] = []
    assert run_module(signal_module, ranks=2, cores=2, shape=SHAPE, observers=[told.append]).ok
    return told


def of_program(events: list[Event], *, rank: int, program: int) -> list[Event]:
    return [event for event in events if (event.actor.name.rank, event.actor.name.program) == (rank, program)]


def test_a_producer_tile(events: list[Event]) -> None:
    started, *tile = of_program(events, rank=1, program=0)[:7]
    assert isinstance(started, ProgramStarted)
    assert started.line is None
    waited, consumed, read, write, fenced, notified = tile
    assert isinstance(waited, Waited)
    assert (waited.wait.memory.rank, waited.wait.address, waited.wait.count, waited.wait.value) == (1, 2 * 64, 1, 0)
    assert isinstance(consumed, TokenConsumed)
    assert consumed.token.actor is waited.actor
    assert consumed.token.wait is waited.wait
    assert isinstance(read, Read)
    assert (read.tensor, read.pointer.tokens) == ("a_ptr", ())
    assert isinstance(write, Write)
    assert (write.tensor, write.pointer.memory.rank, write.pointer.tokens) == ("peer_ptr", 1, (consumed.token,))
    assert isinstance(fenced, Fenced)
    assert fenced.builtin == "fence"
    assert isinstance(notified, Notified)
    assert (notified.pointer.memory.rank, notified.pointer.address(), notified.value) == (1, 2 * 64, 1)
    starts = ("token = dl.wait(", "peer = dl.consume_token(", "tile = tl.load(", "tl.store(peer", "libshmem_device.f")
    for event, start in zip(tile, (*starts, "dl.notify(signal_ptr + slot, target"), strict=True):
        assert source_of(event).startswith(start)


def test_a_consumer_reads_through_its_token(events: list[Event]) -> None:
    kinds = [type(event).__name__ for event in of_program(events, rank=0, program=1)]
    tile = ["Waited", "TokenConsumed", "Read", "Write", "Fenced", "Notified"]
    assert kinds == ["ProgramStarted", *tile * 8, "ProgramEnded"]
    consumed, read = of_program(events, rank=0, program=1)[2:4]
    assert isinstance(consumed, TokenConsumed)
    assert isinstance(read, Read)
    assert read.pointer.tokens == (consumed.token,)


def test_the_box_of_a_masked_tile_store(events: list[Event]) -> None:
    """The second S block has 6 of 64 rows, and D = 40 of 128 columns: C[64:70, 0, 0:40] in [70, 4, 40]."""
    stores = [event for event in of_program(events, rank=0, program=1) if isinstance(event, Write)]
    boxes = [store.lanes for store in stores if isinstance(store.lanes, Affine) and store.lanes.shape == (6, 40)]
    assert len(boxes) == 4
    assert {box.base for box in boxes} == {64 * 160 + head * 40 for head in range(4)}
    assert {box.coefs for box in boxes} == {(160, 1)}
    assert {store.tensor for store in stores} == {"c_ptr"}
    assert {source_of(store) for store in stores} == {"tl.store(c_ptr + c_offset, tile, mask=mask)"}
    assert not any(store.completion != "fence" for store in stores)


def test_the_events_of_a_host(events: list[Event]) -> None:
    told = [event for event in events if event.actor.name.kind == "host"]
    first, *_ = [event for event in told if isinstance(event, HostCollective)]
    assert first.name == "init_process_group"
    assert sorted(actor.name.rank for actor in first.actors) == [0, 1]
    (launched,) = [event for event in told if isinstance(event, Launched) and event.actor.name.rank == 0]
    assert launched.kernel.key == ("reverse_all2all_kernel", 1)
    assert source_of(launched).startswith(("reverse_all2all_kernel[", ")"))
    drained = [event for event in told if isinstance(event, Drained) and event.actor.name.rank == 0]
    assert drained
    started = events.index(launched)
    assert all(events.index(event) > started for event in of_program(events, rank=0, program=0))


def test_every_other_event(run_source) -> None:
    source = """
@triton.jit
def kernel(heap_ptr, x_ptr):
    tl.atomic_add(x_ptr, 1)
    tl.atomic_add(x_ptr + tl.arange(0, 4), 1, mask=tl.arange(0, 4) < 2)
    libshmem_device.barrier_all_vec()
    if tl.program_id(0) == 0:
        libshmem_device.putmem(heap_ptr, x_ptr, 8, 1 - dl.rank())
        libshmem_device.getmem_nbi(x_ptr, heap_ptr, 8, 1 - dl.rank())
        libshmem_device.quiet()


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    kernel[(2,)](heap, torch.zeros(4, dtype=torch.int64).npu())
    torch.npu.synchronize()
    return 0.0
"""
    told: list[Event] = []
    assert run_source(source, ranks=2, observers=[told.append]).ok
    (passed,) = [event for event in told if isinstance(event, BarrierPassed)]
    assert {(actor.name.rank, actor.name.program) for actor in passed.actors} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert passed.actor in passed.actors
    atomics = [event for event in of_program(told, rank=0, program=0) if isinstance(event, Atomic)]
    single, pair = [event.lanes for event in atomics]
    assert list(single) == [0]
    assert isinstance(pair, Affine)
    assert (pair.base, pair.coefs, pair.shape) == (0, (1,), (2,))
    copies = [event for event in of_program(told, rank=0, program=0) if isinstance(event, Read | Write)]
    assert [(type(event), event.tensor, event.completion) for event in copies] == [
        (Read, "x_ptr", "return"),
        (Write, "heap_ptr", "return"),
        (Read, "heap_ptr", "quiet"),
        (Write, "x_ptr", "quiet"),
    ]
    assert [event.builtin for event in told if isinstance(event, Fenced)] == ["quiet"] * 2
    assert sum(isinstance(event, ProgramEnded) for event in told) == 4


def test_tokens_stay_with_the_pointer(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr, y_ptr):
    first = dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=0)
    second = dl.wait(flag_ptr + 8, 1, "sys", "acquire", waitValue=0)
    y = dl.consume_token(dl.consume_token(y_ptr, first), second)
    tl.store(dl.symm_at(y, 0) + 1, 1)
    tl.store((y + tl.arange(0, 4))[:, None] + tl.arange(0, 2)[None, :], 1)
    tl.store(y.to(tl.pointer_type(tl.int32)), 1)
    tl.store(y + tl.load(y + tl.arange(0, 4)), 1)
    libshmem_device.putmem(y, y_ptr, 8, 1 - dl.rank())
    tl.store(y_ptr, 1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([16], dtype=torch.int64, device_id=rank)
    y = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    flags.zero_()
    kernel[(1,)](flags, y)
    torch.npu.synchronize()
    return 0.0
"""
    told: list[Event] = []
    assert run_source(source, ranks=2, observers=[told.append]).ok
    told = of_program(told, rank=0, program=0)
    tokens = tuple(event.token for event in told if isinstance(event, TokenConsumed))
    assert len(set(tokens)) == 2
    writes = [event.pointer.tokens for event in told if isinstance(event, Write)]
    assert writes == [tokens] * 5 + [()]


def test_every_kind_of_event_is_told(events: list[Event]) -> None:
    """The rest of the union is in test_every_other_event, and in test_mix."""
    others = {Atomic, BarrierPassed, Multiplied, FlagSet, FlagWaited, TileSent, TileReceived, StreamJoined}
    assert {type(event) for event in events} | others == set(get_args(Event))


def test_observers_change_nothing(signal_module: Path) -> None:
    options = {"ranks": 2, "cores": 6, "shape": SHAPE, "schedule": "random", "seed": 3, "record": True}
    observed = run_module(signal_module, **options, observers=[lambda event: None])
    assert observed.schedule == run_module(signal_module, **options).schedule


def test_flags_of_one_line_are_different_events(run_source) -> None:
    source = """
@triton.jit
def kernel(x_ptr):
    for step in range(3):
        al.sync_block_set("cube", "vector", 1)
        al.sync_block_wait("cube", "vector", 1)


def check(rank, ranks):
    kernel[(1,)](torch.zeros(4).npu())
    torch.npu.synchronize()
    return 0.0
"""
    told: list[Event] = []
    assert run_source(source, cores=1, observers=[told.append]).ok
    sets = [event for event in told if isinstance(event, FlagSet)]
    assert len(set(sets)) == 3
    for vector in (0, 1):
        taken = [event for event in told if isinstance(event, FlagWaited) and event.actor.name.sub_vec_id == vector]
        assert [event.sets for event in taken] == [(each,) for each in sets]
