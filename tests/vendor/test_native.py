"""Lowered kernels on this machine: right where they should be, and a finding for each way in which they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fusegen.errors import UsageError
from fusegen.vendor.findings import Finding
from fusegen.vendor.native.trials import Trial, TrialVerdict, run_natively, trials_of
from tests.vendor.kernels import (
    FIRST_LINE,
    GENERATED,
    SMALL_TILES,
    TARGET_910B,
    TARGET_950,
    edited,
    generated,
    rendered,
    small_module,
)

NAMES = sorted(path.stem for path in GENERATED.glob("*.py"))
SMALL = Trial(2, 3, {"M": 130, "N": 40}, 1)
"""Of allreduce_mte_signal: three rounds in two buffers, tails of both axes."""
ANNOUNCE = "dl.notify(signal_ptr + slot, target, 2 * use + 1)"
LOAD = "tile = tl.load(peer + peer_offset, mask=mask, other=0.0)"


def points(name: str) -> list[Any]:
    spec = yaml.safe_load((GENERATED.parent / "specs" / f"{name}.yaml").read_text(encoding="utf-8"))
    return [(each["ranks"], each["cores"], each["shape"], each.get("launches", 3)) for each in spec["verify"]]


def outcome(name: str, folder: Path, *edits: tuple[str, str], seconds: float = 20) -> TrialVerdict:
    """What the small trial of an edited kernel says, and nothing else went wrong."""
    verdict = run_natively(edited(generated(name), folder, *edits), [SMALL], seconds=seconds)
    assert verdict.build == ()
    (trial_verdict,) = verdict.trials
    return trial_verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_generated_kernel_computes_its_reference(name: str) -> None:
    first = {ranks: point for point in reversed(points(name)) for ranks in point[0] if point[3] > 1}
    default = points(name)[0]
    trials = [Trial(ranks, *first.get(ranks, default)[1:3], 3) for ranks in (1, 2, 3, 4)]
    verdict = run_natively(generated(name, variants=4), trials)
    assert verdict.findings == ()
    assert all(trial.max_abs_err is not None and trial.max_abs_err <= 0.016 for trial in verdict.trials)


@pytest.mark.parametrize(
    ("dtype", "device", "largest"), [("bfloat16", TARGET_950, 0.016), ("float32", TARGET_910B, 1e-6)]
)
def test_other_dtypes(dtype: str, device: str, largest: float, tmp_path: Path) -> None:
    changes = (f"dtype={dtype}", f"target={device}", *SMALL_TILES)
    subject = rendered("gemm_reduce_scatter_mte_signal", tmp_path, *changes)
    entry = subject.entry.model_copy(update={"variants": subject.entry.variants[:1]})
    (trial,) = run_natively(replace(subject, entry=entry), [Trial(3, 5, {"M": 70, "N": 40, "K": 24}, 2)]).trials
    assert trial.findings == ()
    assert trial.max_abs_err is not None
    assert 0 < trial.max_abs_err < largest


@pytest.mark.parametrize("name", ["allreduce_mte_signal", "reverse_all2all_udma_signal"])
def test_the_smallest_input(name: str) -> None:
    (point,) = (each for each in points(name) if set(each[2].values()) == {1})
    assert run_natively(generated(name), [Trial(4, *point[1:])]).findings == ()


def test_a_matrix_of_one_column_needs_no_variant_of_its_own() -> None:
    subject = generated("gemm_allreduce_mte_barrier", variants=4)
    assert [len(each) for each in subject.entry.variants] == [4] * 4
    assert run_natively(subject, [Trial(2, 1, {"M": 1, "N": 1, "K": 1}, 3)]).findings == ()


def test_a_launch_that_no_variant_fits_is_found() -> None:
    verdict = run_natively(generated("allgather_gemm_mte_signal"), [Trial(1, 3, {"M": 40, "N": 24, "K": 16}, 3)])
    (finding,) = verdict.findings
    assert finding.kind == "KernelError"
    assert "ValueError: expected constants of one of the variants in the manifest, got {'B_TURNED': True" in (
        finding.message
    )


def test_a_run_that_hangs_names_slots_and_lines(tmp_path: Path) -> None:
    verdict = outcome("allreduce_mte_signal", tmp_path, (ANNOUNCE, "pass"))
    (finding,) = verdict.findings
    module = (tmp_path / "allreduce_mte_signal.py").read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(module, 1) if "dl.wait(signal_ptr + slot" in text)
    assert finding.kind == "Deadlock"
    head, cause, *waits = finding.message.splitlines()
    assert head == "2 ranks of 3 cores, M 130, N 40, 1 launches: 6 actors wait and none can go on"
    assert "signal_ptr slot 0 (ring 0, source_rank 0, tile 0) on rank 0 is still 0" in cause
    assert waits[1] == (
        "rank 0 core 1 AIV program 1 waits for signal_ptr slot 0 (ring 0, source_rank 0, tile 0) on rank 0 to become "
        f"1, it is 0 at allreduce_mte_signal.py:{line}: "
        '`token = dl.wait(signal_ptr + slot, 1, "sys", "acquire", waitValue=2 * use + 1)`'
    )
    assert len(waits) == 6


def test_slots_of_a_run_that_hangs(tmp_path: Path) -> None:
    verdict = outcome("allreduce_mte_signal", tmp_path, ("(use + 1) % uses * 2,", "(use + 1) % uses * 2 + 4,"))
    assert verdict.max_abs_err is None
    first, second = verdict.slots
    assert (first["rank"], second["rank"], first["launches"]) == (0, 1, 1)
    slots = first["slots"]["signal"]
    assert slots["axes"] == {"ring": 2, "source_rank": 2, "tile": 1}
    assert {"slot": 0, "value": 6, "ring": 0, "source_rank": 0, "tile": 0} in slots["nonzero"]


def test_wrong_values_name_the_first_one_of_each_rank(tmp_path: Path) -> None:
    verdict = outcome(
        "allreduce_mte_signal", tmp_path, ("total += tile.to(tl.float32)", "total -= tile.to(tl.float32)")
    )
    (finding,) = verdict.findings
    assert finding.kind == "WrongValues"
    head, *ranks = finding.message.splitlines()
    assert head.startswith("2 ranks of 3 cores, M 130, N 40, 1 launches: ranks 0, 1 of 2: expected an error of at most")
    assert sorted(ranks) == [
        "rank 0 launch 0: 5164 of 5200 elements are wrong, first c[0, 0] is 1.875, expected -1.875",
        "rank 1 launch 0: 5164 of 5200 elements are wrong, first c[0, 0] is 1.875, expected -1.875",
    ]


def test_a_crash_is_a_finding_and_other_trials_go_on(tmp_path: Path) -> None:
    far = (LOAD, "tile = tl.load(peer + peer_offset + ranks // 2 * 1000000000, mask=mask, other=0.0)")
    subject = edited(generated("allreduce_mte_signal"), tmp_path, far)
    alone = replace(SMALL, ranks=1)
    crashed, fine = run_natively(subject, [SMALL, alone]).trials
    (finding,) = crashed.findings
    assert (finding.kind, finding.source) == (
        "Crash",
        'token = dl.wait(signal_ptr + slot, 1, "sys", "acquire", waitValue=2 * use + 1)',
    )
    assert finding.message == (
        "2 ranks of 3 cores, M 130, N 40, 1 launches: the process ended with SIGSEGV: "
        "rank 0 core 1 AIV program 1 ran on from here"
    )
    assert (fine.trial, fine.findings) == (alone, ())


def test_a_run_out_of_time_is_a_finding(tmp_path: Path) -> None:
    endless = "for spin in range(2000000000):\n                    total = total * 1.5"
    loop = (LOAD, f"{endless}\n                {LOAD}")
    (finding,) = outcome("allreduce_mte_signal", tmp_path, loop, seconds=4).findings
    assert finding.kind == "OutOfTime"
    assert "expected an end within 4 s, got none: rank " in finding.message
    assert finding.source.startswith("token = dl.wait(signal_ptr")


def test_a_kernel_that_is_not_bridged_is_not_run(tmp_path: Path) -> None:
    body = "pointer = a_ptr\nif N > 3:\n    pointer = b_ptr\ntl.store(pointer, rank)"
    verdict = run_natively(small_module(tmp_path, body), [SMALL])
    (finding,) = verdict.build
    assert (finding.kind, finding.line) == ("NotBridged", FIRST_LINE + 1)
    assert (verdict.trials, verdict.ok) == ((), False)


def test_a_kernel_without_a_self_check_is_not_run(tmp_path: Path) -> None:
    (trial,) = run_natively(small_module(tmp_path, "tl.store(a_ptr, tl.load(b_ptr))"), [SMALL]).trials
    (finding,) = trial.findings
    assert finding.kind == "SimulationError"
    assert "expected a generated module, which defines process_group" in finding.message


def test_verdicts_as_plain_data() -> None:
    finding = Finding("Deadlock", "nobody goes on", 3, "dl.wait()")
    document = TrialVerdict(SMALL, float("inf"), (finding,)).to_json()
    assert document == {
        "ranks": 2,
        "cores": 3,
        "shape": {"M": 130, "N": 40},
        "launches": 1,
        "schedule": "random",
        "seed": 0,
        "ok": False,
        "max_abs_err": None,
        "findings": [finding.to_json()],
        "slots": [],
    }


def test_trials_are_the_points_with_the_wanted_ranks() -> None:
    offered = [((1, 2, 3), 3, {"M": 130}, 3), ((4, 8), 9, {"M": 130}, 3), ((2,), 20, {"M": 896}, 1)]
    assert [(trial.ranks, trial.cores, trial.schedule) for trial in trials_of(offered)] == [
        (2, 3, "random"),
        (4, 9, "slow-rank"),
        (2, 20, "slow-core"),
    ]
    assert [(trial.ranks, trial.cores) for trial in trials_of(offered, (1, 8))] == [(1, 3), (8, 9)]
    assert [trial.ranks for trial in trials_of([((3, 5), 1, {"M": 1}, 1)])] == [3, 5]
    with pytest.raises(UsageError) as refusal:
        trials_of(offered, (16,))
    assert str(refusal.value) == ("--ranks: expected numbers that a verification point has (1, 2, 3, 4, 8), got [16]")


def test_what_the_machine_notices_has_the_line_of_the_module(tmp_path: Path) -> None:
    shifted = ANNOUNCE.replace("signal_ptr + slot", "signal_ptr + slot + 1")
    (finding,) = outcome("allreduce_mte_signal", tmp_path, (ANNOUNCE, shifted)).findings
    assert (finding.kind, finding.source) == ("MisalignedSlot", shifted)
    assert "signal_ptr: word 9 does not start a 64-byte slot: it is word 1 of slot 1 (ring 0, " in finding.message


def test_a_copy_between_ranks_is_checked(tmp_path: Path) -> None:
    far = ("block_bytes,\n", "block_bytes + 2**27,\n")
    trial = Trial(2, 7, {"M": 130, "N": 40}, 1)
    (verdict,) = run_natively(edited(generated("allgather_udma_signal"), tmp_path, far), [trial]).trials
    (finding,) = verdict.findings
    assert finding.kind == "OutOfBounds"
    assert finding.source.startswith("libshmem_device.putmem(")
