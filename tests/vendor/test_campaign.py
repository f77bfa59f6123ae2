"""Modules are compiled by several processes; the results come in the order of the modules."""

from __future__ import annotations

from fusegen.vendor.campaign import compile_all
from tests.vendor.kernels import TARGET_950, generated


def test_results_come_in_order_and_progress_is_told() -> None:
    subjects = [
        generated("allgather_mte_signal", target_name=TARGET_950),  # the slower one
        generated("reverse_all2all_mte_barrier"),
    ]
    told: list[tuple[str, int, int]] = []
    compiled = list(compile_all(subjects, jobs=2, progress=lambda *step: told.append(step)))
    assert [each.subject for each in compiled] == subjects
    assert all(each.ok for each in compiled)
    assert told == [("allgather_mte_signal", 1, 2), ("reverse_all2all_mte_barrier", 2, 2)]
