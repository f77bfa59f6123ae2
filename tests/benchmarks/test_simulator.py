"""The comparison with Triton's interpreter: the same kernel runs on both, and what goes wrong there is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import simulator
from benchmarks.simulator import MODULE, Round, main, measured, report, simulated
from benchmarks.triton_interpreter import InterpreterProcess

SMALL = {"S": 130, "H": 2, "D": 40}


@pytest.fixture(scope="module")
def interpreter() -> Iterator[InterpreterProcess]:
    with InterpreterProcess() as process:
        yield process


def edited(folder: Path, old: str, new: str) -> Path:
    text = MODULE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    module = folder / MODULE.name
    module.write_text(text.replace(old, new), encoding="utf-8")
    return module


def test_the_interpreter_runs_the_kernel_and_is_right(interpreter: InterpreterProcess) -> None:
    """130 rows are three blocks, so that credits of the ring are waited for."""
    assert 0 < interpreter.seconds(MODULE, ranks=3, cores=5, shape=SMALL) < 60


def test_the_interpreter_says_who_waits_for_ever(interpreter: InterpreterProcess, tmp_path: Path) -> None:
    module = edited(tmp_path, "dl.notify(signal_ptr + slot, target, 2 * use + 1)", "pass")
    with pytest.raises(RuntimeError, match=r"expected all programs to end, got \d+ that wait for ever"):
        interpreter.seconds(module, ranks=2, cores=4, shape=SMALL)
    assert interpreter.seconds(MODULE, ranks=2, cores=4, shape=SMALL) > 0


def test_the_interpreter_must_be_right(interpreter: InterpreterProcess, tmp_path: Path) -> None:
    module = edited(
        tmp_path, "tl.store(c_ptr + c_offset, tile, mask=mask)", "tl.store(c_ptr + c_offset, tile + tile, mask=mask)"
    )
    with pytest.raises(RuntimeError, match="expected exact values, got others"):
        interpreter.seconds(module, ranks=2, cores=4, shape=SMALL)


def test_all_programs_of_the_simulator_are_timed() -> None:
    seconds, tiles = simulated(races=True, shape=SMALL, cores=4)
    assert 0 < seconds < 60
    assert tiles == 2 * 2 * 2 * 3 * 2  # roles, ranks, targets, blocks, heads


def test_a_run_with_findings_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match=r"expected no findings and exact values, got .*HostError"):
        simulated(races=False, shape=SMALL, cores=1)


def test_rounds_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "simulated", lambda *, races, shape, cores: (4.0 if races else 2.0, 48))
    monkeypatch.setattr(InterpreterProcess, "seconds", lambda *_, **__: 30.0)
    assert measured(repeats=2, shape=SMALL, cores=4) == [Round(30.0, 2.0, 4.0, 48)] * 2


@pytest.mark.parametrize(("unchecked", "checked", "status"), [(1.0, 2.5, 0), (1.3, 2.5, 1), (1.0, 3.1, 1)])
def test_the_report(monkeypatch: pytest.MonkeyPatch, unchecked: float, checked: float, status: int) -> None:
    rounds = [Round(30.0, unchecked, checked, 1000), Round(60.0, unchecked, checked, 1000), Round(30.0, 9.0, 9.0, 1000)]
    monkeypatch.setattr(simulator, "measured", lambda *, repeats: rounds)
    result = CliRunner().invoke(main, ["--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == status
    assert document["speedup_unchecked"] == pytest.approx(30 / unchecked)
    assert document["speedup_checked_range"] == pytest.approx([30 / 9, 60 / checked])
    assert document["us_per_tile_task"] == pytest.approx(
        {"interpreter": 30_000, "unchecked": unchecked * 1000, "checked": checked * 1000}
    )
    assert document == report(rounds)
    text = CliRunner().invoke(main, ["--repeats", "1"])
    assert text.exit_code == status
    assert text.stdout.startswith(f"unchecked   {30 / unchecked:.1f} times as fast (3.3 to ")
