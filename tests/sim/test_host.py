"""Host code: streams, events, virtual time, collectives, the symmetric heap, and what is left after a run."""

from __future__ import annotations

import time

import pytest

from fusegen.sim import Unsupported

KERNELS = """
@triton.jit
def wait_for(flag_ptr, value):
    dl.wait(flag_ptr, 1, "gpu", "acquire", waitValue=value)


@triton.jit
def give(flag_ptr, value):
    dl.notify(flag_ptr, dl.rank(), value)


@triton.jit
def add_one(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


def flags(rank):
    slots = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    slots.zero_()
    dist.barrier()
    return slots

"""


def assert_clean(result) -> None:
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0


def test_launches_are_asynchronous_and_ordered_on_a_stream(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    slots, x = flags(rank), torch.zeros(1, dtype=torch.int32).npu()
    wait_for[(1,)](slots, 7)
    add_one[(1,)](x)
    event = torch.npu.Event()
    event.record()
    assert not event.query()
    assert tuple(x.shape) == (1,) and x.data_ptr() and x.dtype == torch.int32
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        assert x.item() == 0
        assert slots.cpu().tolist() == [0] * 8
        give[(1,)](slots, 7)
    side.synchronize()
    assert torch.npu.current_stream().query() is False or x.item() == 1
    event.synchronize()
    assert event.query()
    return float(x.item() - 1)
"""
    )
    assert_clean(run_source(source))


def test_torch_waits_for_the_current_stream(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    x = torch.zeros(1, dtype=torch.int32, device="npu")
    for _ in range(5):
        add_one[(1,)](x)
    copy = x.clone()
    add_one[(1,)](x)
    x.mul_(10)
    add_one[(1,)](x)
    return difference(torch.cat([copy, x]), [5, 61])
"""
    )
    assert_clean(run_source(source))


def test_host_tensors_do_not_wait(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    slots = flags(rank)
    host = slots.cpu()
    wait_for[(1,)](slots, 7)
    assert (host + 1).sum().item() == 8
    with torch.npu.stream(torch.npu.Stream()):
        give[(1,)](slots, 7)
    torch.npu.synchronize()
    assert host.tolist() == [0] * 8
    return 0.0
"""
    )
    assert_clean(run_source(source))


def test_streams_wait_for_each_other(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    slots, x = flags(rank), torch.ones(1, dtype=torch.int32).npu()
    side, event = torch.npu.Stream(), torch.npu.Event()
    wait_for[(1,)](slots, 7)
    event.record()
    with torch.npu.stream(side):
        side.wait_event(event)
        add_one[(1,)](x)
    third = torch.npu.Stream()
    third.wait_stream(side)
    time.sleep(1)
    with torch.npu.stream(torch.npu.Stream()):
        assert x.item() == 1
        give[(1,)](slots, 7)
    third.synchronize()
    return difference(x, [2])
"""
    )
    assert_clean(run_source(source))


def test_devices_are_kept_apart(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    x = torch.ones(3)
    y = x.to("npu:0")
    y.add_(1)
    assert x.tolist() == [1, 1, 1] and y.cpu().tolist() == [2, 2, 2]
    assert y.device.type == "npu" and y.device.index == rank and x.device.type == "cpu" and y.is_npu
    z = torch.empty_like(y, device=y.device)
    assert z.is_npu and not y.to("cpu").is_npu and not y.cpu().is_npu and torch.zeros(2, device="npu").is_npu
    x.copy_(y)
    assert x.tolist() == [2, 2, 2] and not x.is_npu
    add_one[(1,)](x)
"""
    )
    (finding,) = run_source(source).findings
    assert "kernel argument x_ptr: expected a tensor on the device, got one in host memory" in finding.message


def test_time_is_virtual(run_source) -> None:
    source = """
def check(rank, ranks):
    started, wall = time.monotonic(), time.time()
    time.sleep(5 + rank)
    assert time.monotonic() - started == 5 + rank and time.perf_counter() == time.monotonic()
    assert round(time.time() - wall) == 5 + rank
    dist.barrier()
    assert 6 < time.monotonic() - started < 6.001
    return 0.0
"""
    started = time.perf_counter()
    assert_clean(run_source(source, ranks=2))
    assert time.perf_counter() - started < 2


def test_polling_without_sleep_and_without_limit_ends(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    wait_for[(1,)](flags(rank), 7)
    event = torch.npu.Event()
    event.record()
    while not event.query():
        pass
"""
    )
    (finding,) = run_source(source).findings
    assert finding.kind == "Deadlock"
    assert [cause.name for cause in finding.causes] == ["producer did not notify"]


def test_collectives(run_source) -> None:
    source = """
def check(rank, ranks):
    x = torch.tensor([rank, 10 * rank]).npu()
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x)
    assert [part.tolist() for part in parts] == [[r, 10 * r] for r in range(ranks)]
    whole = torch.empty(2 * ranks, dtype=x.dtype, device="npu")
    dist.all_gather_into_tensor(whole, x)
    assert whole.view(ranks, 2).tolist() == [[r, 10 * r] for r in range(ranks)]
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(ranks)]
    total = x.clone()
    dist.all_reduce(total)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    assert total.tolist() == [3, 30] and x.tolist() == [2, 20]
    y = torch.full((2,), rank).npu()
    dist.broadcast(y, src=1)
    assert y.tolist() == [1, 1]
    sent, received = torch.arange(ranks).npu() + 10 * rank, torch.empty(ranks, dtype=torch.int64).npu()
    dist.all_to_all_single(received, sent)
    assert received.tolist() == [10 * r + rank for r in range(ranks)]
    assert dist.is_initialized() and NPUUtils().get_aicore_num() == 2 and NPUUtils().get_aivector_core_num() == 4
    return 0.0
"""
    assert_clean(run_source(source, ranks=3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "dist.barrier() if rank else dist.all_reduce(torch.ones(1).npu())",
            "rank 0: all_reduce of (1,) torch.float32",
        ),
        ("dist.all_reduce(torch.ones(1 + rank).npu())", "rank 1: all_reduce of (2,) torch.float32"),
        (
            "ash.aclshmem_create_tensor([8 + rank], dtype=torch.int32)",
            "rank 1: aclshmem_create_tensor of [9] torch.int32",
        ),
    ],
)
def test_collective_mismatch(run_source, call: str, message: str) -> None:
    (finding,) = run_source(f"def check(rank, ranks):\n    {call}\n", ranks=2).findings
    assert finding.kind == "CollectiveMismatch"
    assert message in finding.message
    assert finding.location is not None
    assert finding.location.source == call


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "ash.aclshmem_create_tensor([1 << 20], dtype=torch.int32)",
            "RuntimeError .*expected at most 1048576 bytes .* got 4194304",
        ),
        ("ash.aclshmem_free_tensor(torch.zeros(1))", "RuntimeError .*expected a tensor of aclshmem_create_tensor"),
        ("dist.destroy_process_group(); dist.barrier()", "ValueError .*Default process group has not been initialized"),
        (
            "ash.aclshmem_finalize(); ash.aclshmem_create_tensor([1])",
            "RuntimeError .*expected a call after aclshmem_init",
        ),
        ("torch.npu.set_device(9)", "RuntimeError .*expected 0, the device of rank 0, got 9"),
        ("print(undefined)", "NameError .*name 'undefined' is not defined"),
    ],
)
def test_host_errors(run_source, body: str, message: str) -> None:
    (finding,) = run_source(f"def check(rank, ranks):\n    {body}\n").findings
    assert finding.kind == "HostError"
    assert __import__("re").search(f"rank 0 raised {message}", finding.message)


def test_init_reports_missing_attributes(run_source) -> None:
    source = """
def check(rank, ranks):
    attributes = ash.InitAttr()
    return abs(ash.aclshmem_init(attributes) + 2)
"""
    assert_clean(run_source(source))


def test_heap_memory_is_poisoned_and_reusable(run_source) -> None:
    source = """
def check(rank, ranks):
    for _ in range(20):
        x = ash.aclshmem_create_tensor([100_000], dtype=torch.float32)
        y = ash.aclshmem_create_tensor([8], dtype=torch.int64)
        assert x.isnan().all() and hex(y[3].item()) == "0x5a5a5a5a5a5a5a5a"
        ash.aclshmem_free_tensor(x)
        ash.aclshmem_free_tensor(y)
    return 0.0
"""
    assert_clean(run_source(source, ranks=2))


def test_freed_heap_memory_is_given_back(run_source) -> None:
    source = """
import weakref


def check(rank, ranks):
    tensor = ash.aclshmem_create_tensor([100_000], dtype=torch.float32)
    memory = weakref.ref(tensor._memory)
    ash.aclshmem_free_tensor(tensor)
    dist.barrier()
    assert memory() is not None
    del tensor
    dist.barrier()
    return float(memory() is not None)
"""
    assert_clean(run_source(source, ranks=2))


def test_use_after_free_by_all_ranks(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    tensor = ash.aclshmem_create_tensor([8], dtype=torch.int64)
    ash.aclshmem_free_tensor(tensor)
    dist.barrier()
    add_one[(1,)](tensor)
    torch.npu.synchronize()
"""
    )
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "UseAfterFree"


@pytest.mark.parametrize(
    "poll",
    [
        "while not torch.npu.current_stream().query(): pass",
        "while time.monotonic() < 0.5: pass",
        "while time.time() < started + 0.5: pass",
    ],
)
def test_polling_hosts_get_on(run_source, poll: str) -> None:
    source = (
        KERNELS
        + f"""
def check(rank, ranks):
    x, started = torch.zeros(1, dtype=torch.int32).npu(), time.time()
    add_one[(1,)](x)
    {poll}
    return float(x.item() - 1)
"""
    )
    assert_clean(run_source(source, ranks=2))


def test_what_is_measured_took_some_time(run_source) -> None:
    source = (
        KERNELS
        + """
def check(rank, ranks):
    started, marks = time.perf_counter(), [torch.npu.Event(enable_timing=True) for _ in range(2)]
    dist.barrier()
    assert 1 / (time.perf_counter() - started) > 0
    marks[0].record()
    add_one[(1,)](torch.zeros(1, dtype=torch.int32).npu())
    marks[1].record()
    torch.npu.synchronize()
    assert 1 / marks[0].elapsed_time(marks[1]) > 0
    return 0.0
"""
    )
    assert_clean(run_source(source, ranks=2))


def test_streams_events_and_devices_as_torch_npu_takes_them(run_source) -> None:
    source = """
def check(rank, ranks):
    assert torch.npu.current_stream() == torch.npu.default_stream() != torch.npu.Stream()
    assert torch.npu.Event(True).query() and torch.npu.current_stream().record_event().query()
    for device in (torch.device("npu", rank), torch.device(type="npu", index=rank), torch.device(f"npu:{rank}")):
        assert torch.ones(4, device=device).device == device and device.index == rank
    assert torch.device("cpu").type == "cpu" and torch.device("cpu", 0).index == 0
    empty = [ash.aclshmem_create_tensor([0], dtype=torch.float32) for _ in range(2)]
    for tensor in empty:
        assert tensor.shape == (0,)
        ash.aclshmem_free_tensor(tensor)
    return 0.0
"""
    assert_clean(run_source(source, ranks=2))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("torch.npu.set_device(1 - rank)", "expected 0, the device of rank 0, got 1"),
        (
            "ash.aclshmem_free_tensor(ash.aclshmem_create_tensor([4])[1:])",
            "expected a tensor of aclshmem_create_tensor",
        ),
        ("add_one[(1.5,)](torch.zeros(1).npu())", "add_one: expected integers as the grid, got (1.5,)"),
    ],
)
def test_wrong_arguments_of_host_calls(run_source, body: str, message: str) -> None:
    (finding,) = run_source(KERNELS + f"def check(rank, ranks):\n    {body}\n", ranks=2).findings
    assert finding.kind == "HostError"
    assert message in finding.message


@pytest.mark.parametrize(
    "call", ["dist.send(torch.ones(1), 0)", "torch.npu.Graph()", "ash.aclshmem_malloc(1)", "triton.reinterpret()"]
)
def test_unsupported_host_calls_raise_by_name(run_source, call: str) -> None:
    name = {"dist": "torch.distributed", "torch": "torch", "ash": "shmem", "triton": "triton"}[call.split(".")[0]]
    expected = f"{name}.{call.split('.', 1)[1].split('(')[0]}: expected a builtin that the simulator supports"
    with pytest.raises(Unsupported, match=expected):
        run_source(f"def check(rank, ranks):\n    {call}\n")
