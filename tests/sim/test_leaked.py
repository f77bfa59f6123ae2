"""Hazard 11: one rank raises on the host. Alone it leaves the others waiting; announced first, all ranks raise."""

from __future__ import annotations

import json

import pytest

from fusegen.sim.findings import HostError, LeakedCollective

CHECKS = """
@triton.jit
def exchange(flag_ptr):
    peer = (dl.rank() + 1) % dl.num_ranks()
    dl.notify(flag_ptr, peer, 1)
    token = dl.wait(flag_ptr, 1, "sys", "acquire")


def refuse(rank):
    if rank == 1:
        raise ValueError("a: expected (4, 4), got (4, 5)")


def agree(rank, ranks):
    error = None
    try:
        refuse(rank)
    except ValueError as raised:
        error = raised
    errors = [None] * ranks
    dist.all_gather_object(errors, None if error is None else str(error))
    if error is not None:
        raise error
    for other, text in enumerate(errors):
        if text is not None:
            raise RuntimeError(f"rank {other} refused: {text}")


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64).zero_()
    dist.barrier()
    CALL
    exchange[(1,)](flags)
    WAIT
    return 0.0
"""

WAITS = {
    "dist.barrier()": "barrier",
    "torch.npu.synchronize()": "aclshmem_finalize",
    "flags.cpu()": "aclshmem_finalize",
}
"""How ranks wait for the kernel, and where rank 0, which gets its signal from rank 2, waits after it."""


def test_the_twin_is_clean(run_source) -> None:
    assert run_source(CHECKS.replace("CALL", "").replace("WAIT", "dist.barrier()"), ranks=3).ok


@pytest.mark.parametrize("wait", WAITS)
def test_others_wait_in_device_code(run_source, wait: str) -> None:
    (finding,) = run_source(CHECKS.replace("CALL", "refuse(rank)").replace("WAIT", wait), ranks=3).findings
    assert isinstance(finding, LeakedCollective)
    assert (finding.exception, finding.ranks) == ("ValueError", (1,))
    assert finding.location is not None
    assert finding.location.source == 'raise ValueError("a: expected (4, 4), got (4, 5)")'
    assert finding.message.startswith(
        f"rank 1 raised ValueError at {finding.location}: a: expected (4, 4), got (4, 5); "
    )
    assert [entry.split(" at ")[0] for entry in finding.waiting] == [
        f"rank 0 host in {WAITS[wait]}",
        "rank 2 host for its stream",
        "rank 2 program on a slot",
    ]
    assert finding.waiting[2].endswith('`token = dl.wait(flag_ptr, 1, "sys", "acquire")`')
    assert finding.message.endswith(f"meanwhile {'; '.join(finding.waiting)}")
    assert json.loads(json.dumps(finding.to_json()))["kind"] == "LeakedCollective"


def test_others_wait_in_a_collective(run_source) -> None:
    source = CHECKS.replace("CALL", "refuse(rank)\n    dist.all_reduce(flags)").replace("WAIT", "")
    (finding,) = run_source(source, ranks=3).findings
    assert isinstance(finding, LeakedCollective)
    assert finding.ranks == (1,)
    assert [entry.split(":")[0] for entry in finding.waiting] == [
        "rank 0 host in all_reduce at small.py",
        "rank 2 host in all_reduce at small.py",
    ]


@pytest.mark.parametrize("wait", WAITS)
def test_an_announced_failure(run_source, wait: str) -> None:
    findings = run_source(CHECKS.replace("CALL", "agree(rank, ranks)").replace("WAIT", wait), ranks=3).findings
    assert [type(finding) for finding in findings] == [HostError] * 2
    by_exception = {finding.exception: finding for finding in findings}
    assert by_exception["ValueError"].ranks == (1,)
    assert by_exception["RuntimeError"].ranks == (0, 2)
    assert by_exception["RuntimeError"].message.endswith(": rank 1 refused: a: expected (4, 4), got (4, 5)")
    assert by_exception["ValueError"].message.endswith(": a: expected (4, 4), got (4, 5)")


def test_ranks_that_raise_at_one_line_are_one_finding(run_source) -> None:
    source = """
def check(rank, ranks):
    raise ValueError(f"rank {rank // 2} is unlucky")
"""
    (finding,) = run_source(source, ranks=12).findings
    assert type(finding) is HostError
    assert finding.ranks == tuple(range(12))
    assert finding.message.endswith(
        ": rank 0 is unlucky; rank 2: rank 1 is unlucky; rank 4: rank 2 is unlucky; rank 6: rank 3 is unlucky "
        "and 2 more"
    )


@pytest.mark.parametrize("pause", ["", "time.sleep(3)\n        "])
def test_a_rank_that_fails_after_a_pause_is_still_the_cause(run_source, pause: str) -> None:
    """Unlike a watchdog: nothing of its own hangs, and the others wait for it."""
    call = f"if rank == 1:\n        {pause}refuse(rank)"
    (finding,) = run_source(CHECKS.replace("CALL", call).replace("WAIT", "dist.barrier()"), ranks=3).findings
    assert isinstance(finding, LeakedCollective)
    assert (finding.exception, finding.ranks) == ("ValueError", (1,))
    assert "rank 2 program on a slot at small.py" in finding.message


def test_a_rank_that_fails_between_two_launches(run_source) -> None:
    """It has polled for its first launch, so that time has passed while nothing else could move."""
    second = """exchange[(1,)](flags)
    done = torch.npu.Event()
    done.record()
    while not done.query():
        time.sleep(0.01)
    dist.barrier()
    flags.zero_()
    dist.barrier()
    time.sleep(rank)
    refuse(rank)"""
    source = CHECKS.replace("CALL", second).replace("WAIT", "torch.npu.synchronize()")
    (finding,) = run_source(source, ranks=3).findings
    assert isinstance(finding, LeakedCollective)
    assert (finding.exception, finding.ranks) == ("ValueError", (1,))
    assert "meanwhile rank 0 host in aclshmem_finalize" in finding.message
    assert "rank 2 program on a slot" in finding.message


def test_a_watchdog_is_a_consequence(run_source) -> None:
    """Rank 0 times out because its own kernel hangs: the finding is the deadlock."""
    source = CHECKS.replace(
        "    dl.notify(flag_ptr, peer, 1)\n", "    if peer:\n        dl.notify(flag_ptr, peer, 1)\n"
    )
    wait = """deadline, done = time.monotonic() + 5, torch.npu.Event()
    done.record()
    while not done.query():
        if time.monotonic() > deadline:
            raise TimeoutError("no end")
        time.sleep(0.01)"""
    (finding,) = run_source(source.replace("CALL", "").replace("WAIT", wait), ranks=3).findings
    assert finding.kind == "Deadlock"
    assert "flag_ptr slot 0 on rank 0 is still 0; nobody notified the value 1" in finding.message
