"""Host code: streams, events, virtual time, collectives, the symmetric heap, and what is left after a run."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from fusegen.sim import SimulationError, Unsupported, run_module

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


def test_every_rank_has_its_environment_and_its_module(run_source) -> None:
    source = """
LOG = []


def check(rank, ranks):
    for _ in range(3):
        dist.barrier()
        assert os.environ["RANK"] == os.environ["LOCAL_RANK"] == str(rank) == str(dist.get_rank())
    LOG.append(rank)
    assert os.environ["WORLD_SIZE"] == "3" and LOG == [rank] and __name__ == "small"
    return 0.0
"""
    assert_clean(run_source(source, ranks=3))


def test_what_a_process_sets_stays_in_it(run_source) -> None:
    source = """
import random


def check(rank, ranks):
    os.environ["ONLY_HERE"] = str(rank)
    if rank == 0:
        del os.environ["MASTER_PORT"]
        torch.set_default_dtype(torch.float64)
    torch.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)
    expected = [torch.rand(1).item(), random.random(), np.random.rand()]
    torch.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)
    with torch.no_grad() if rank == 0 else torch.enable_grad():
        dist.barrier()
        assert torch.is_grad_enabled() == (rank != 0)
    assert [torch.rand(1).item(), random.random(), np.random.rand()] == expected
    assert os.environ["ONLY_HERE"] == os.getenv("ONLY_HERE") == str(rank)
    assert ("MASTER_PORT" in os.environ) == (rank != 0) and ("PATH" in os.environ)
    assert torch.get_default_dtype() == (torch.float64 if rank == 0 else torch.float32)
    try:
        os.environ["NUMBER"] = 1
    except TypeError:
        return 0.0
"""
    assert_clean(run_source(source, ranks=3))
    assert "ONLY_HERE" not in os.environ
    assert torch.get_default_dtype() == torch.float32


def test_keyboard_interrupt_goes_through_and_leaves_nothing_behind(run_source) -> None:
    environment, module = os.environ, sys.modules["time"]
    with pytest.raises(KeyboardInterrupt):
        run_source(
            "def check(rank, ranks):\n    if rank == 1:\n        raise KeyboardInterrupt\n    dist.barrier()\n", ranks=2
        )
    assert os.environ is environment
    assert sys.modules["time"] is module
    assert "shmem" not in sys.modules
    assert not hasattr(torch, "npu")


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


def test_a_host_that_catches_everything_and_tries_again_is_left_behind(run_source) -> None:
    source = """
def check(rank, ranks):
    if rank == 0:
        raise ValueError("no luck")
    while True:
        try:
            dist.barrier()
        except:
            time.sleep(1)
"""
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "HostError"
    assert "no luck; meanwhile rank 1 host in barrier" in finding.message
    assert run_source("def check(rank, ranks):\n    return 0.0\n").ok


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
    ("body", "name"),
    [
        ("dist.all_reduce(torch.ones(1).npu(), async_op=True)", "torch.distributed.all_reduce with async_op"),
        (
            "thread = __import__('threading').Thread(target=time.sleep, args=(1,)); thread.start(); thread.join()",
            "threading.Thread",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_unsupported_ways_of_waiting(run_source, body: str, name: str) -> None:
    with pytest.raises(Unsupported, match=f"{name}: expected a builtin that the simulator supports"):
        run_source(f"def check(rank, ranks):\n    {body}\n    dist.barrier()\n")


def test_a_dataclass_in_a_module_with_postponed_annotations(tmp_path: Path, run_source) -> None:
    source = """
from dataclasses import dataclass


@dataclass
class Point:
    x: "int" = 0


def check(rank, ranks):
    return float(Point().x)
"""
    assert_clean(run_source(source))


def test_a_module_in_another_encoding(tmp_path: Path, signal_module: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n" + signal_module.read_bytes())
    assert run_module(path, ranks=2, cores=4, shape={"S": 10, "H": 1, "D": 8}).ok


def test_a_module_that_cannot_be_decoded(tmp_path: Path, signal_module: Path) -> None:
    path = tmp_path / "bytes.py"
    path.write_bytes(signal_module.read_bytes() + b"# \xff\n")
    (finding,) = run_module(path, ranks=2, cores=4, shape={"S": 10, "H": 1, "D": 8}).findings
    assert finding.message.startswith("ranks 0, 1 raised UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff")


def test_nothing_is_left_behind(signal_module: Path) -> None:
    modules, environment = dict(sys.modules), dict(os.environ)
    state, functions = torch.random.get_rng_state(), dict(vars(dist))
    assert run_module(signal_module, ranks=2, cores=4, shape={"S": 10, "H": 1, "D": 8}).ok
    assert {
        name for name in sys.modules if name.split(".")[0] in ("triton", "triton_dist", "torch_npu", "shmem")
    } == set()
    assert sys.modules["time"] is modules["time"]
    assert dict(os.environ) == environment
    assert vars(dist) == functions
    assert not hasattr(torch, "npu")
    assert not hasattr(torch.Tensor, "npu")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.zeros(1).device == torch.device("cpu")
    with pytest.raises(ModuleNotFoundError):
        __import__("triton_dist")


def test_nothing_is_left_behind_by_a_deadlock(signal_module: Path, without_line) -> None:
    path = without_line(signal_module, "dl.notify(signal_ptr + slot, rank,")
    assert not run_module(path, ranks=2, cores=4, shape={"S": 300, "H": 1, "D": 8}).ok
    assert not hasattr(torch, "npu")
    assert "shmem" not in sys.modules
    assert run_module(signal_module, ranks=2, cores=4, shape={"S": 300, "H": 1, "D": 8}).ok


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 0}, "ranks: expected 1 to 16, got 0"),
        ({"ranks": 17}, "ranks: expected 1 to 16, got 17"),
        ({"cores": 0}, "cores: expected at least 1, got 0"),
        ({"shape": {"S": 1, "H": 1}}, "shape: expected S, H, D, got S, H"),
        ({"schedule": "lucky"}, "schedule: expected round-robin or random, got 'lucky'"),
    ],
)
def test_arguments_are_checked(signal_module: Path, options, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        run_module(signal_module, **{"ranks": 2, "cores": 4, "shape": {"S": 1, "H": 1, "D": 1}, **options})


def test_a_changed_file_is_read_again(run_source) -> None:
    source = """
@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, VALUE)


def check(rank, ranks):
    x = torch.zeros(1).npu()
    kernel[(1,)](x)
    return x.item()
"""
    assert run_source(source.replace("VALUE", "3")).max_abs_err == 3.0
    assert run_source(source.replace("VALUE", "4")).max_abs_err == 4.0


def test_a_tolerance_that_is_no_number(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ("TOLERANCE = 0.0", "TOLERANCE = None"))
    with pytest.raises(SimulationError, match="expected TOLERANCE to be a number, got None"):
        run_module(path, ranks=2, cores=4, shape={"S": 1, "H": 1, "D": 1})


def test_what_slot_axes_raises_is_a_finding(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ('return {"ring"', 'return undefined and {"ring"'))
    (finding,) = run_module(path, ranks=2, cores=4, shape={"S": 1, "H": 1, "D": 1}).findings
    assert finding.kind == "HostError"
    assert "NameError" in finding.message


def test_a_file_that_is_no_generated_module(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("import triton\n")
    with pytest.raises(SimulationError, match=r"empty.py: expected a generated module, which defines process_group"):
        run_module(tmp_path / "empty.py", ranks=1, cores=1, shape={})


@pytest.mark.parametrize(
    "call", ["dist.send(torch.ones(1), 0)", "torch.npu.Graph()", "ash.aclshmem_malloc(1)", "triton.autotune()"]
)
def test_unsupported_host_calls_raise_by_name(run_source, call: str) -> None:
    name = {"dist": "torch.distributed", "torch": "torch", "ash": "shmem", "triton": "triton"}[call.split(".")[0]]
    expected = f"{name}.{call.split('.', 1)[1].split('(')[0]}: expected a builtin that the simulator supports"
    with pytest.raises(Unsupported, match=expected):
        run_source(f"def check(rank, ranks):\n    {call}\n")


def test_a_host_that_polls_for_ever_ends(run_source) -> None:
    source = """
def check(rank, ranks):
    while True:
        time.sleep(1)
"""
    (finding,) = run_source(source).findings
    assert finding.kind == "StepLimit"
    assert finding.message == "a host still polls after 600 s of virtual time in which nothing happened"
