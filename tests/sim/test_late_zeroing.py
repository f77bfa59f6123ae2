"""Hosts that write slots while programs use them: who waits goes on, and what is lost is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.sim import Deadlock, run_module


def cause_names(finding: Deadlock) -> list[str]:
    return [cause.name for cause in finding.causes]


BARRIER_AFTER_ZEROING = "        torch.npu.synchronize()\n        dist.barrier()\n\n    def close"


@pytest.mark.parametrize("seed", range(6))
def test_without_the_rank_barrier_after_zeroing_fresh_memory_still_holds_producers_back(
    signal_module: Path, mutant, seed: int
) -> None:
    """A rank that zeroes late satisfies waits of others without telling them: they must go on, and values are right."""
    path = mutant(signal_module, (BARRIER_AFTER_ZEROING, BARRIER_AFTER_ZEROING.replace("        dist.barrier()\n", "")))
    shape = {"S": 300, "H": 3, "D": 72}
    result = run_module(path, ranks=2, cores=9, shape=shape, launches=2, schedule="random", seed=seed)
    assert [str(finding) for finding in result.findings] == []
    assert result.ok


def test_slots_zeroed_between_launches(signal_module: Path, mutant) -> None:
    """A rank that launches again has finished; the others may have notified its slots for the next launch already."""
    launches = ("    workspace.launches += 1\n", "    workspace.signal.fill_(0)\n    workspace.launches += 1\n")
    path = mutant(signal_module, launches)
    options = {"ranks": 2, "cores": 5, "shape": {"S": 330, "H": 2, "D": 130}, "launches": 2, "schedule": "random"}
    results = [run_module(path, **options, seed=seed) for seed in range(8)]
    assert all(run_module(signal_module, **options, seed=seed).ok for seed in range(8))
    causes = [finding.causes[0] for result in results for finding in result.findings]
    assert {cause.name for cause in causes} == {"zeroed after a notify"}
    assert "the host zeroed the slot after it was notified: ranks must meet in a barrier after" in causes[0].explanation


@pytest.mark.parametrize("is_safe", [True, False])
def test_notify_that_a_late_zeroing_wipes_out(run_source, is_safe: bool) -> None:
    source = f"""
@triton.jit
def kernel(flag_ptr, rank):
    if rank == 0:
        dl.notify(flag_ptr, 1, 1)
    else:
        dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    time.sleep(rank)
    flags.zero_()
    {"dist.barrier()" if is_safe else "pass"}
    kernel[(1,)](flags, rank)
    torch.npu.synchronize()
    return 0.0
"""
    findings = run_source(source, ranks=2).findings
    if is_safe:
        assert findings == ()
        return
    (finding,) = findings
    assert cause_names(finding) == ["zeroed after a notify"]
    assert (
        "flag_ptr slot 0 on rank 1 is 0, although rank 0 core 0 AIV program 0 notified 1 at small.py:"
        in finding.message
    )
    assert (
        "the host zeroed the slot after it was notified: ranks must meet in a barrier after zeroing (guide 2.1)"
        in finding.message
    )


def test_a_host_store_wakes_the_waiters(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr):
    dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=0)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    with torch.npu.stream(torch.npu.Stream()):
        kernel[(1,)](flags)
    time.sleep(0.1)
    flags.fill_(0)
    torch.npu.synchronize()
    return 0.0
"""
    assert run_source(source, ranks=2).ok


def test_a_plain_store_of_a_program_is_no_host_store(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr):
    dl.notify(flag_ptr, 0, 1)
    tl.store(flag_ptr, 2)
    dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    flags.zero_()
    kernel[(1,)](flags)
    torch.npu.synchronize()
"""
    (finding,) = run_source(source).findings
    assert cause_names(finding) == ["producer did not notify"]
