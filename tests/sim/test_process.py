"""The process of each rank: what it has of its own, how a module is loaded, and what is left after a run."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from fusegen.sim import SimulationError, Unsupported, run_module


def assert_clean(result) -> None:
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0


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
    assert finding.kind == "LeakedCollective"
    assert "no luck; meanwhile rank 1 host in barrier" in finding.message
    assert run_source("def check(rank, ranks):\n    return 0.0\n").ok


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
        ({"schedule": "lucky"}, "schedule: expected one of round-robin, random, pct, .*, late-stores, got 'lucky'"),
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
    path = mutant(signal_module, ('"ring": BUFFER_NUM,', '"ring": undefined,'))
    (finding,) = run_module(path, ranks=2, cores=4, shape={"S": 1, "H": 1, "D": 1}).findings
    assert finding.kind == "HostError"
    assert "NameError" in finding.message


def test_a_file_that_is_no_generated_module(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("import triton\n")
    with pytest.raises(SimulationError, match=r"empty.py: expected a generated module, which defines process_group"):
        run_module(tmp_path / "empty.py", ranks=1, cores=1, shape={})


def test_a_host_that_polls_for_ever_ends(run_source) -> None:
    source = """
def check(rank, ranks):
    while True:
        time.sleep(1)
"""
    (finding,) = run_source(source).findings
    assert finding.kind == "StepLimit"
    assert finding.message == "a host still polls after 600 s of virtual time in which nothing happened"


def test_a_run_leaves_the_garbage_collector_as_it_was(run_source) -> None:
    before = gc.get_threshold()
    result = run_source(
        "import gc\n\n\ndef check(rank, ranks):\n    return 0.0 if gc.get_threshold()[0] == 100_000 else 1.0\n"
    )
    assert result.ok
    assert gc.get_threshold() == before
