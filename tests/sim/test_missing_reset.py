"""A reset that is missing is a finding beside the deadlock: who waits, who has read, and which slot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import Deadlock, run_module
from fusegen.sim.findings import MissingReset, Slot

SHAPE = {"S": 300, "H": 3, "D": 72}


def test_a_reset_that_is_missing_names_who_waits_and_who_has_read(signal_module: Path, without_line) -> None:
    path = without_line(signal_module, "dl.notify(signal_ptr + slot, rank,")
    conditions = {"ranks": 1, "cores": 2, "shape": {"S": 257, "H": 1, "D": 128}}
    _, finding = run_module(path, **conditions, races=True).findings
    assert isinstance(finding, MissingReset)
    assert (str(finding.actor), str(finding.other)) == (
        "rank 0 core 0 AIV program 0",
        "rank 0 core 1 AIV program 1",
    )
    assert finding.location is not None
    assert finding.other_location is not None
    assert finding.location.source.endswith("waitValue=2 * use)")
    assert finding.other_location.source.endswith("waitValue=2 * use + 1)")
    assert (finding.tensor, finding.rank, finding.wanted, finding.actual) == ("signal_ptr", 0, 2, 1)
    assert finding.slot == Slot(0, (("ring", 0), ("source_rank", 0), ("tile", 0)))
    assert finding.guide == "1.3"
    assert finding.expected == ("a notify of 2 by rank 0 core 1 AIV program 1, which has read the slot, after a fence")
    assert "waits for signal_ptr slot 0 (ring 0, source_rank 0, tile 0) on rank 0 to become 2, and it holds 1" in str(
        finding
    )
    facts = json.loads(json.dumps(finding.to_json()))
    assert (facts["kind"], facts["slot"]["index"], facts["other"]["core"]) == ("MissingReset", 0, 1)
    assert run_module(signal_module, **conditions, races=True).findings == ()


SILENT = {
    "another source": (
        "reduce_scatter_mte_signal",
        "dl.notify(signal_ptr + slot, target, 1)",
        "rank == 0",
        {"cores": 4, "shape": {"M": 700, "N": 300}},
    ),
    "the next launch": (
        "all2all_udma_signal",
        "dl.notify(arrived_ptr + (block_s * arrived_block + rank) * SLOT_WORDS, target, launch + 1)",
        "launch == 0",
        {"cores": 6, "shape": SHAPE, "launches": 2},
    ),
}


@pytest.mark.parametrize("case", SILENT)
def test_no_reset_is_missing_where_a_producer_is_silent(signal_module: Path, mutant, case: str) -> None:
    """Readers that wait for other tiles have not come to their resets, and slots of arrivals have none."""
    kernel, notify, condition, options = SILENT[case]
    path = mutant(signal_module.with_name(f"{kernel}.py"), (notify, f"({notify}) if {condition} else None"))
    assert [finding.kind for finding in run_module(path, ranks=2, **options).findings] == ["Deadlock"]


@pytest.mark.parametrize(
    ("kernel", "credit", "options"),
    [
        (
            "reduce_scatter_mte_signal",
            "dl.notify(signal_ptr + (ring * ring_slots + source * rank_slots + block_n) * SLOT_WORDS, rank, 0)",
            {"cores": 4, "shape": {"M": 700, "N": 300}},
        ),
        (
            "allgather_udma_signal",
            "dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)",
            {"cores": 6, "shape": {"M": 600, "N": 200}},
        ),
    ],
)
def test_resets_that_are_missing_elsewhere(
    signal_module: Path, mutant, kernel: str, credit: str, options: dict
) -> None:
    module = signal_module.with_name(f"{kernel}.py")
    assert run_module(module, ranks=2, **options).ok
    deadlock, reset = run_module(mutant(module, (credit, "pass")), ranks=2, **options).findings
    assert isinstance(deadlock, Deadlock)
    assert isinstance(reset, MissingReset)
    assert "and it holds 1" in reset.message
