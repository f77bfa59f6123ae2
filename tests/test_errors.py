"""The shape of every message."""

from __future__ import annotations

import pytest

from fusegen.errors import (
    Fault,
    FusegenError,
    MissingExtraError,
    PlanError,
    ProjectError,
    SpecError,
    UsageError,
    listed,
    nearest,
)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("tile.d", "a power of two", "100"), "tile.d: expected a power of two, got 100"),
        (Fault("tile.d", "a power of two", "100", "try 128"), "tile.d: expected a power of two, got 100 (try 128)"),
        (Fault("", "a spec file", "no such file", file="a.yaml"), "a.yaml: expected a spec file, got no such file"),
        (Fault("sync", "barrier", "x", file="a.yaml", line=3), "a.yaml:3: sync: expected barrier, got x"),
        (Fault("", "valid YAML", "x", file="a.yaml", line=3, column=7), "a.yaml:3:7: expected valid YAML, got x"),
        (Fault("sync", "barrier", "x", line=3), "sync: expected barrier, got x"),
    ],
)
def test_fault_names_place_subject_expected_got_and_advice(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_located_adds_the_place_and_keeps_the_rest() -> None:
    fault = Fault("tile.d", "a power of two", "100", "try 128")
    assert str(fault.located("a.yaml", 12)) == "a.yaml:12: tile.d: expected a power of two, got 100 (try 128)"
    assert fault.file == ""


@pytest.mark.parametrize("error", [SpecError, PlanError])
def test_errors_with_faults_print_each_on_its_line(error: type[SpecError] | type[PlanError]) -> None:
    raised = error(iter([Fault("a", "1", "2"), Fault("b", "3", "4")]))
    assert str(raised) == "a: expected 1, got 2\nb: expected 3, got 4"
    assert [fault.field for fault in raised.faults] == ["a", "b"]
    assert raised.exit_status == 2


@pytest.mark.parametrize("error", [SpecError, PlanError, ProjectError, UsageError, MissingExtraError])
def test_one_tree(error: type[Exception]) -> None:
    assert issubclass(error, FusegenError)


def test_missing_extra_says_what_to_install() -> None:
    assert str(MissingExtraError(extra="sim", module="torch")) == (
        "torch is not installed: this command needs the extra sim: "
        "pip install 'fusegen[sim]', or in a checkout pip install '.[sim]'"
    )


def test_listed() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "and")] == ["a", "a or b", "a, b and c"]


def test_nearest_ignores_case_and_keeps_silent_when_nothing_is_near() -> None:
    assert nearest("ascend910b33", ["Ascend910B3", "Ascend910B4"]) == "did you mean Ascend910B3?"
    assert nearest("xyz", ["Ascend910B3"]) == ""
