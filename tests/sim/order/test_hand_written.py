"""Kernels written by hand: the right ones pass and are proved, each bug is found and named, in any schedule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fusegen.sim.order.kinds import DataRace, UnconsumedToken, UninitialisedRead
from tests.sim.order.hand_written import HOST, KERNELS, Kernel
from tests.sim.order.hand_written_bugs import BUGS, HARMLESS, Bug

Run = Callable[[Kernel, str], Any]


@pytest.fixture(params=["round-robin", "random"])
def run(run_source: Any, request: pytest.FixtureRequest) -> Run:
    """`run(kernel, text)`: run a text of a kernel, and check its order."""
    return lambda kernel, text: run_source(HOST + text, schedule=request.param, seed=1, **kernel.options)


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def assert_right(kernel: Kernel, result: Any) -> None:
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0
    assert result.proof.proved == kernel.is_proved, str(result.proof)


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_passes(run: Run, name: str) -> None:
    assert_right(KERNELS[name], run(KERNELS[name], KERNELS[name].text))


@pytest.mark.parametrize(("name", "edit"), HARMLESS, ids=[name for name, _ in HARMLESS])
def test_what_only_looks_wrong_passes(run: Run, name: str, edit: tuple[str, str]) -> None:
    assert_right(KERNELS[name], run(KERNELS[name], edited(KERNELS[name].text, edit)))


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_bug_is_found_and_named(run: Run, bug: Bug) -> None:
    kernel = KERNELS[bug.kernel]
    result = run(kernel, edited(kernel.text, *bug.edits))
    found = [(finding.kind, finding.message) for finding in result.findings]
    assert any(kind in bug.kinds and bug.text in message for kind, message in found), found
    assert not result.proof.proved
    for finding in result.findings:
        if isinstance(finding, DataRace):
            assert_complete(finding)


def assert_complete(finding: DataRace) -> None:
    """Text and JSON name both actors, their lines, the place in memory, what is missing and where to read of it."""
    document = json.loads(json.dumps(finding.to_json()))
    assert document["kind"] == finding.kind
    is_single = isinstance(finding, UninitialisedRead) or (isinstance(finding, UnconsumedToken) and not finding.other)
    actors = [(finding.actor, finding.location)]
    actors += [] if is_single else [(finding.other, finding.other_location)]
    for actor, location in actors:
        assert actor is not None
        assert location is not None
        assert str(actor) in finding.message
        assert str(location) in finding.message
    assert finding.tensor in finding.message
    assert f"on rank {finding.rank}" in finding.message
    assert 0 <= finding.first <= finding.last
    assert 1 <= finding.count <= finding.last - finding.first + 1
    assert finding.message.endswith(f"; expected {finding.expected} (guide {finding.guide})")
    if finding.slot is not None:
        assert f"{finding.slot_tensor} {finding.slot} on rank {finding.slot_rank}" in finding.message
