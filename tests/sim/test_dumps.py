"""Dumps of runs that hang: those of the simulator are those of the module's watchdog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import run_module

HEADS = {"ranks": 2, "cores": 4, "shape": {"S": 300, "H": 3, "D": 72}}
CREDIT = "dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)"
OFF = ("WATCHDOG_SECONDS = 60.0", "WATCHDOG_SECONDS = None")
NAME = "reverse_all2all_mte_signal"


@pytest.mark.parametrize("races", [False, True])
def test_the_simulator_dumps_what_the_watchdog_does(signal_module: Path, mutant, tmp_path: Path, races: bool) -> None:
    aside = ("synchronize(workspace, dump_dir=dump_dir)", 'synchronize(workspace, dump_dir=dump_dir / "watchdog")')
    result = run_module(mutant(signal_module, (CREDIT, "pass"), aside), **HEADS, dump_dir=tmp_path, races=races)
    assert [finding.kind for finding in result.findings] == ["Deadlock", "MissingReset"]
    for rank, facts in enumerate(result.dumps):
        own, watchdog = (folder / f"{NAME}.rank{rank}.json" for folder in (tmp_path, tmp_path / "watchdog"))
        assert json.loads(own.read_text()) == facts
        assert own.read_text() == watchdog.read_text()
        assert (facts["rank"], facts["launches"], facts["ended"]) == (rank, 1, 0)
        assert len(facts["slots"]["signal"]["nonzero"]) == 12
    assert len(result.dumps) == 2


def test_a_module_without_a_watchdog(signal_module: Path, mutant) -> None:
    result = run_module(mutant(signal_module, (CREDIT, "pass"), OFF), **HEADS)
    assert [facts["rank"] for facts in result.dumps] == [0, 1]
    assert {entry["value"] for entry in result.dumps[0]["slots"]["signal"]["nonzero"]} == {1}


def test_a_host_that_hangs_elsewhere(signal_module: Path, mutant) -> None:
    """Rank 1 waits for the others in `close`, when all that it launched has ended."""
    absent = ("        for a, c in runs:\n", "        for a, c in runs[: launches - rank]:\n")
    result = run_module(mutant(signal_module, absent, OFF), **HEADS, launches=2)
    assert [(facts["launches"], facts["ended"]) for facts in result.dumps] == [(2, 0), (1, 1)]


def test_a_run_that_does_not_end_while_programs_wait(signal_module: Path, mutant) -> None:
    """One producer goes round for ever; the consumers of its tiles, all on its own rank, wait."""
    ready = "dl.notify(signal_ptr + slot, target, 2 * use + 1)"
    loop = "for _ in range(10**9 * (rank + core == 0)):\n                        tl.load(a_ptr)"
    silent = (ready, f"{loop}\n                    {ready}")
    result = run_module(mutant(signal_module, silent, OFF), **HEADS, step_limit=30_000)
    assert [finding.kind for finding in result.findings] == ["StepLimit"]
    assert [facts["ended"] for facts in result.dumps] == [0, 1]


def test_runs_that_end_have_none(signal_module: Path, mutant) -> None:
    assert run_module(signal_module, **HEADS).dumps == ()
    wrong = mutant(signal_module, ("tl.store(c_ptr + c_offset, tile,", "tl.store(c_ptr + c_offset, tile + 1,"))
    result = run_module(wrong, **HEADS)
    assert [finding.kind for finding in result.findings] == ["WrongValues"]
    assert result.dumps == ()


def test_a_dump_that_raises_is_left_out(signal_module: Path, mutant) -> None:
    broken = ('"grid": workspace.cores,', '"grid": workspace.cores // (1 - workspace.rank),')
    result = run_module(mutant(signal_module, (CREDIT, "pass"), OFF, broken), **HEADS)
    assert [facts["rank"] for facts in result.dumps] == [0]
    assert result.findings[0].kind == "Deadlock"


def test_a_script_that_is_no_generated_module(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr):
    dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    flags.zero_()
    kernel[(1,)](flags)
    torch.npu.synchronize()
"""
    result = run_source(source)
    assert [finding.kind for finding in result.findings] == ["Deadlock"]
    assert result.dumps == ()
