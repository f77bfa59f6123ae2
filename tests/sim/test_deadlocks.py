"""Deadlocks: each seeded bug is reported with the blocked actors and with the cause by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import Deadlock, run_module

SHAPE = {"S": 300, "H": 3, "D": 72}
ANNOUNCE = "dl.notify(signal_ptr + slot, target, 2 * use + 1)"


def deadlock_of(path: Path, **options) -> Deadlock:
    result = run_module(path, **{"ranks": 2, "cores": 4, "shape": SHAPE, **options})
    finding, *others = result.findings
    assert isinstance(finding, Deadlock), finding
    assert (result.ok, result.max_abs_err) == (False, None)
    credit_missing = bool(finding.causes) and finding.causes[0].name == "credit return missing"
    assert [each.kind for each in others] == (["MissingReset"] if credit_missing else [])
    return finding


def cause_names(finding: Deadlock) -> list[str]:
    return [cause.name for cause in finding.causes]


def test_credit_return_removed(signal_module: Path, without_line) -> None:
    finding = deadlock_of(without_line(signal_module, "dl.notify(signal_ptr + slot, rank,"))
    first = finding.causes[0]
    assert (first.name, first.guide) == ("credit return missing", "1.3, 2.1")
    assert "signal_ptr slot 0 (ring 0, source_rank 0, tile 0) on rank 0 still holds 1" in first.explanation
    assert "rank 0 core 1 AIV program 1 has waited for" in first.explanation
    assert "nobody set the slot to 2, for which rank 0 core 0 AIV program 0 waits" in first.explanation
    assert "likely cause: credit return missing" in finding.message
    assert finding.blocked_count == 8
    waiter = finding.blocked[0]
    assert str(waiter.actor) == "rank 0 core 0 AIV program 0"
    assert (waiter.wanted, waiter.actual) == (2, 1)
    assert waiter.location is not None
    assert waiter.location.source.startswith("token = dl.wait(")
    assert waiter.location.source.endswith("waitValue=2 * use)")
    assert json.loads(json.dumps(finding.to_json()))["causes"][0]["name"] == "credit return missing"


def test_without_ring_reuse_the_credit_is_missed_by_the_next_launch(signal_module: Path, without_line) -> None:
    """Guide 2.1: small shapes pass, the second launch hangs."""
    path = without_line(signal_module, "dl.notify(signal_ptr + slot, rank,")
    assert run_module(path, ranks=2, cores=4, shape={"S": 128, "H": 1, "D": 8}).ok
    finding = deadlock_of(path, shape={"S": 128, "H": 1, "D": 8}, launches=2)
    assert cause_names(finding)[0] == "credit return missing"
    assert "nobody set the slot to 0" in finding.message


def test_grid_beyond_the_cores(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ("[(cores,)]", "[(2 * cores,)]"))
    finding = deadlock_of(path, cores=40, shape={"S": 2045, "H": 12, "D": 128})
    first = finding.causes[0]
    assert (first.name, first.guide) == ("residency", "2.1")
    assert (
        "launched 80 programs of reverse_all2all_kernel on 40 cores: programs 40 to 79 start only when"
        in finding.message
    )


def test_grid_beyond_the_cores_with_barriers(barrier_module: Path, mutant) -> None:
    finding = deadlock_of(mutant(barrier_module, ("[(cores,)]", "[(cores + 1,)]")))
    assert cause_names(finding) == ["residency", "barrier count mismatch"]
    assert (
        "launched 5 programs of reverse_all2all_kernel on 4 cores: program 4 starts only when others end"
        in finding.message
    )
    assert "arrived: rank 0: 4 of 5, rank 1: 4 of 5; not there: rank 0 programs 4 to 4, not started" in finding.message


def test_grid_beyond_the_cores_that_gets_through_is_found_too(signal_module: Path, mutant) -> None:
    """Round-robin pairs of one batch serve each other here; that the run ends is luck."""
    path = mutant(signal_module, ("[(cores,)]", "[(2 * cores,)]"))
    result = run_module(path, ranks=2, cores=4, shape=SHAPE)
    (finding,) = result.findings
    assert not result.ok
    assert cause_names(finding) == ["residency"]
    assert "a launch of reverse_all2all_kernel that only its timing let through" in finding.message
    assert (
        "8 programs of reverse_all2all_kernel were launched on 4 cores, and they wait for each other" in finding.message
    )


def test_slots_not_zeroed(signal_module: Path, without_line) -> None:
    finding = deadlock_of(without_line(signal_module, "self.signal.fill_(0)"))
    assert cause_names(finding) == ["host zeroing missing"]
    assert "on rank 0 holds 0x5a5a5a5a5a5a5a5a, the content of fresh symmetric memory" in finding.message


def test_notify_one_slot_further_for_some_tiles(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, (ANNOUNCE, ANNOUNCE.replace("+ slot,", "+ slot + (h == 1) * SLOT_WORDS,")))
    finding = deadlock_of(path)
    assert cause_names(finding) == ["producer did not notify", "announcement without waiter"]
    silent = finding.causes[0].explanation
    assert "signal_ptr slot 1 (ring 0, source_rank 0, tile 1) on rank 0 is still 0" in silent
    assert "slot 2 (ring 0, source_rank 0, tile 2) on rank 0" in silent
    assert "the slot address differs between notify and wait" in silent


def test_notify_loop_narrower_than_store_loop(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, (ANNOUNCE, "if h < 2:\n                        " + ANNOUNCE))
    finding = deadlock_of(path)
    assert cause_names(finding)[0] == "producer did not notify"
    assert "tile 2) on rank 0 is still 0; nobody notified the value 1 that" in finding.message


def test_credit_with_the_wrong_value(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ("(use + 1) % uses * 2)", "(use + 1) // uses * 2)"))
    finding = deadlock_of(path)
    assert cause_names(finding)[0] == "credit of another value"
    assert "holds 0, the credit that rank 0 core 1 AIV program 1 returned at reverse_all2all_mte_sig" in finding.message
    assert "but rank 0 core 0 AIV program 0 waits for 2" in finding.message


def test_credit_returned_twice(signal_module: Path, mutant) -> None:
    credit = "dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)"
    path = mutant(signal_module, (credit, f"{credit}\n                    {credit}"))
    conditions = {"ranks": 2, "cores": 8, "shape": {"S": 257, "H": 3, "D": 130}, "launches": 2, "schedule": "random"}
    findings = [finding for seed in (1, 2, 3) for finding in run_module(path, seed=seed, **conditions).findings]
    deadlocks = [finding for finding in findings if isinstance(finding, Deadlock)]
    assert deadlocks
    for finding in deadlocks:
        assert cause_names(finding)[0] == "signal erased"
        assert "the slot has more than one resetter, or is reset at the wrong time" in finding.message
    assert all(run_module(signal_module, seed=seed, **conditions).ok for seed in (1, 2, 3))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "on rank 0 holds 0x7, which no program has written: the host must zero the slots"),
        (1, "a wait took 1 in signal_ptr slot"),
    ],
)
def test_slots_that_start_with_another_value(signal_module: Path, mutant, value: int, text: str) -> None:
    finding = deadlock_of(mutant(signal_module, ("self.signal.fill_(0)", f"self.signal.fill_({value})")))
    assert cause_names(finding)[0] == "host zeroing missing"
    assert text in finding.message


def test_credit_for_the_next_slot(signal_module: Path, mutant) -> None:
    path = mutant(
        signal_module,
        ("dl.notify(signal_ptr + slot, rank,", "dl.notify(signal_ptr + slot + (h == 0) * SLOT_WORDS, rank,"),
    )
    finding = deadlock_of(path, ranks=1, cores=2)
    assert cause_names(finding)[0] == "credit return missing"
    assert "signal_ptr slot 0 (ring 0, source_rank 0, tile 0) on rank 0 still holds 1" in finding.message


def test_consumer_that_does_not_wait(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr):
    if tl.program_id(0) == 0:
        for use in range(2):
            dl.wait(flag_ptr, 1, "gpu", "acquire", waitValue=0)
            dl.notify(flag_ptr, 0, 1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    flags.zero_()
    kernel[(2,)](flags)
    torch.npu.synchronize()
"""
    (finding,) = run_source(source).findings
    assert cause_names(finding) == ["announcement without waiter"]
    assert "flag_ptr slot 0 on rank 0 holds 1, written by rank 0 core 0 AIV program 0 at small.py" in finding.message
    assert "no wait has seen it, so no credit comes back" in finding.message
    assert [blocked.waits_for for blocked in finding.blocked] == [
        "flag_ptr slot 0 on rank 0 to become 0, it is 1",
        "the kernels on its stream",
    ]


def test_a_host_that_sleeps_while_the_others_wait(run_source) -> None:
    source = """
def check(rank, ranks):
    while rank == 0:
        time.sleep(10)
    dist.barrier()
"""
    (finding,) = run_source(source, ranks=2).findings
    assert cause_names(finding) == ["a rank does not take part"]
    assert "rank 0 host sleeps or polls at small.py:" in finding.message


TWO_STREAMS = """
@triton.jit
def kernel(flag_ptr, y_ptr, rounds, first):
    for _ in range(rounds):
        libshmem_device.barrier_all_vec()
    tl.store(y_ptr + tl.program_id(0), rounds)


@triton.jit
def other(flag_ptr, y_ptr, rounds, first):
    for _ in range(rounds):
        libshmem_device.barrier_all_vec()
    tl.store(y_ptr + 2 + tl.program_id(0), rounds)


def check(rank, ranks):
    y = torch.zeros(4, dtype=torch.int32).npu()
    streams = [torch.npu.Stream(), torch.npu.Stream()]
    for stream, launched, rounds in zip(streams, (kernel, other), (3, 5)):
        with torch.npu.stream(stream):
            launched[(2,)](y, y, rounds, 0)
    torch.npu.synchronize()
    return difference(y, [3, 3, 5, 5])
"""


@pytest.mark.parametrize("seed", range(8))
def test_barriers_of_kernels_on_two_streams_are_kept_apart(run_source, seed: int) -> None:
    result = run_source(TWO_STREAMS, ranks=2, cores=4, schedule="random", seed=seed)
    assert [str(finding) for finding in result.findings] == []


def test_a_barrier_in_the_wrong_one_of_two_kernels(run_source) -> None:
    source = TWO_STREAMS.replace("(3, 5)", "(3, 5 + rank)")
    (finding,) = run_source(source, ranks=2, cores=4).findings
    assert cause_names(finding) == ["barrier count mismatch"]
    assert "arrived: rank 0: 0 of ?, rank 1: 2 of 2; not there: rank 0 runs no kernel" in finding.message


def test_a_slot_on_a_rank_that_never_launched_has_its_name(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr, peer):
    dl.wait(dl.symm_at(flag_ptr, peer), 1, "sys", "acquire", waitValue=1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    flags.zero_()
    if rank == 0:
        kernel[(1,)](flags, 1)
    torch.npu.synchronize()
"""
    (finding,) = run_source(source, ranks=2).findings
    assert "flag_ptr slot 0 on rank 1 to become 1, it is 0" in finding.message


def test_only_the_declared_memory_is_decoded(signal_module: Path, mutant) -> None:
    """A flag in other symmetric memory has an index, and no coordinates of the workspace's slots."""
    path = mutant(
        signal_module,
        ("    core = tl.program_id(0)\n", '    core = tl.program_id(0)\n    dl.wait(c_ptr, 1, "sys", "acquire")\n'),
        ("        a,\n        out,\n", "        a,\n        workspace.flags,\n"),
        (
            "        self.signal.fill_(0)\n",
            "        self.signal.fill_(0)\n"
            "        self.flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=device)\n"
            "        self.flags.fill_(0)\n",
        ),
    )
    finding = deadlock_of(path)
    assert "c_ptr slot 0 on rank 0 to become 1, it is 0" in finding.message
    assert finding.blocked[0].slot is not None
    assert finding.blocked[0].slot.position == ()


def test_barrier_skipped_by_one_core(barrier_module: Path, mutant) -> None:
    lines = barrier_module.read_text().splitlines()
    first = next(line for line in lines if "barrier_all_vec()" in line and line.startswith("        "))
    guarded = f"        if core != 2:\n    {first}"
    finding = deadlock_of(mutant(barrier_module, (first + "\n        for", guarded + "\n        for")))
    assert cause_names(finding) == ["barrier count mismatch"]
    assert "arrived: rank 0: 3 of 4, rank 1: 3 of 4" in finding.message
    assert "not there: rank 0 core 2 AIV program 2 has ended; rank 1 core 2 AIV program 2 has ended" in finding.message


def test_rank_that_launches_less(run_source) -> None:
    source = """
@triton.jit
def kernel():
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    for _ in range(2 - rank):
        kernel[(2,)]()
    torch.npu.synchronize()
    dist.barrier()
"""
    (finding,) = run_source(source, ranks=2).findings
    assert isinstance(finding, Deadlock)
    assert cause_names(finding) == ["a rank does not take part", "barrier count mismatch"]
    assert "rank 1 runs no kernel" in finding.message
    assert "rank 1 launched 1 kernels where others launched 2 (rank 1 host waits at small.py:" in finding.message


def test_hosts_in_a_collective_that_one_left(run_source) -> None:
    source = """
def check(rank, ranks):
    if rank == 0:
        return 0.0
    dist.all_gather_object([None] * ranks, rank)
"""
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "CollectiveMismatch"
    assert "rank 0: aclshmem_finalize, rank 1: all_gather_object" in finding.message


@pytest.mark.parametrize("ranks", [2, 3])
def test_plain_zero_and_one_slot_values(signal_module: Path, mutant, ranks: int) -> None:
    """Uses of a slot by different cores need different values: with 0 and 1 a later producer takes an earlier zero."""
    path = mutant(
        signal_module,
        ("waitValue=2 * use)", "waitValue=0)"),
        ("target, 2 * use + 1)", "target, 1)"),
        ("waitValue=2 * use + 1)", "waitValue=1)"),
        ("(use + 1) % uses * 2)", "0)"),
    )
    options = {"ranks": ranks, "cores": 40, "shape": {"S": 1000, "H": 1, "D": 64}, "schedule": "random"}
    for seed in range(6):
        assert run_module(signal_module, **options, seed=seed).ok
        assert not run_module(path, **options, seed=seed).ok


def test_watchdog_writes_its_dump(signal_module: Path, without_line, tmp_path: Path) -> None:
    path = without_line(signal_module, "dl.notify(signal_ptr + slot, rank,")
    finding = deadlock_of(path, dump_dir=tmp_path / "dumps")
    assert finding.kind == "Deadlock"
    for rank in range(2):
        facts = json.loads((tmp_path / "dumps" / f"reverse_all2all_mte_signal.rank{rank}.json").read_text())
        assert (facts["rank"], facts["ranks"], facts["launches"]) == (rank, 2, 1)
        assert facts["shape"] == SHAPE
        assert (facts["grid"], facts["vector_cores"]) == (4, 4)
        slots = facts["slots"]["signal"]
        assert slots["axes"] == {"ring": 2, "source_rank": 2, "tile": 3}
        assert [slot["slot"] for slot in slots["nonzero"]] == list(range(12))
        assert {slot["value"] for slot in slots["nonzero"]} == {1}
        assert slots["nonzero"][5] == {"slot": 5, "value": 1, "ring": 0, "source_rank": 1, "tile": 2}


def test_many_actors_are_grouped(signal_module: Path, without_line) -> None:
    path = without_line(signal_module, "dl.notify(signal_ptr + slot, rank,")
    finding = deadlock_of(path, cores=40, shape={"S": 2045, "H": 12, "D": 128})
    assert len(finding.blocked) == 8
    assert finding.blocked_count == 80
    assert "and 72 more: " in finding.message
    assert len(finding.message.splitlines()) < 20
