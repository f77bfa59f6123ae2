"""Fused kernels written by hand: the right ones are proved, each bug is found and named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.order.hand_written import HOST
from tests.sim.order.hand_written_bugs import Bug
from tests.sim.order.hand_written_fused import FUSED
from tests.sim.order.hand_written_fused_bugs import FUSED_BUGS, FUSED_HARMLESS
from tests.sim.order.test_hand_written import assert_right, edited


@pytest.mark.parametrize("schedule", ["round-robin", "random", "late-stores"])
@pytest.mark.parametrize("name", FUSED)
def test_a_right_kernel_is_proved(run_source: Any, name: str, schedule: str) -> None:
    kernel = FUSED[name]
    assert_right(kernel, run_source(HOST + kernel.text, schedule=schedule, seed=1, **kernel.options))


@pytest.mark.parametrize(("name", "old", "new"), FUSED_HARMLESS, ids=[name for name, _, _ in FUSED_HARMLESS])
def test_what_only_looks_wrong_is_proved(run_source: Any, name: str, old: str, new: str) -> None:
    kernel = FUSED[name]
    assert_right(kernel, run_source(HOST + edited(kernel.text, (old, new)), **kernel.options))


@pytest.mark.parametrize("bug", FUSED_BUGS, ids=str)
def test_a_bug_is_found_and_named(run_source: Any, bug: Bug) -> None:
    kernel = FUSED[bug.kernel]
    result = run_source(HOST + edited(kernel.text, *bug.edits), **kernel.options)
    found = [(finding.kind, finding.message) for finding in result.findings]
    assert any(kind in bug.kinds and bug.text in message for kind, message in found), found
    assert not result.proof.proved
