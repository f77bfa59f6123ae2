"""The published sweep: its shapes, one small run that is clean and two that are not, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import sweep_reverse_all2all
from benchmarks.sweep_reverse_all2all import MODULE, QUICK, SWEEP, Row, Shape, main, sweep, swept

SMALL = Shape(70, 2)


def edited(folder: Path, old: str, new: str) -> Path:
    text = MODULE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    module = folder / MODULE.name
    module.write_text(text.replace(old, new), encoding="utf-8")
    return module


def test_the_shapes() -> None:
    assert len(set(SWEEP)) == 216
    assert {shape.S for shape in SWEEP} == {*range(2040, 2049), *range(4088, 4097), *range(8184, 8193)}
    assert {shape.H for shape in SWEEP} == {8, 12, 24, 28, 32, 40, 48, 56}
    assert set(QUICK) < set(SWEEP)
    assert {SWEEP[0], SWEEP[-1]} < set(QUICK)


def test_a_clean_run() -> None:
    row = swept(SMALL)
    assert (row.clean, row.exact, row.proved, row.findings) == (True, True, True, ())
    assert (row.S, row.H, row.D, row.tiles) == (70, 2, 128, 2 * 2 * 2 * 2 * 2)


def test_wrong_values_are_not_exact(tmp_path: Path) -> None:
    row = swept(SMALL, edited(tmp_path, "tl.store(c_ptr + c_offset, tile, mask=mask)", "tl.store(c_ptr, 1.0)"))
    assert (row.clean, row.exact) == (False, False)


def test_a_missing_fence_is_not_clean_though_the_values_are_right(tmp_path: Path) -> None:
    old = "libshmem_device.fence()\n                    dl.notify(signal_ptr + slot, target"
    row = swept(SMALL, edited(tmp_path, old, old.replace("libshmem_device.fence()", "pass")))
    assert (row.clean, row.exact, row.proved) == (False, True, False)
    assert row.findings[0].startswith("MissingFence: ")


def test_processes_share_the_runs() -> None:
    done: list[None] = []
    rows = sweep((SMALL, Shape(64, 1)), lambda: done.append(None))
    assert [(row.S, row.H, row.clean, row.exact) for row in rows] == [(70, 2, True, True), (64, 1, True, True)]
    assert len(done) == 2


@pytest.mark.parametrize(("clean", "exact", "status"), [(True, True, 0), (False, True, 1), (True, False, 1)])
def test_the_report(monkeypatch: pytest.MonkeyPatch, clean: bool, exact: bool, status: int) -> None:
    asked: list[int] = []

    def ran(shapes: Sequence[Shape], progress: Callable[[], None]) -> list[Row]:
        asked.append(len(shapes))
        good = [Row(shape.S, shape.H, 128, True, True, True, (), 1, 0.5) for shape in shapes[1:]]
        return [Row(7, 8, 128, clean, exact, False, () if clean else ("a race",), 1, 0.5), *good]

    monkeypatch.setattr(sweep_reverse_all2all, "sweep", ran)
    result = CliRunner().invoke(main, ["--quick", "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["shapes"], document["proved"]) == (status, 6, 5)
    assert (document["clean"], document["exact"]) == (5 + clean, 5 + exact)
    assert document["rows"][0]["S"] == 7
    assert document["seconds"] >= 0
    text = CliRunner().invoke(main, [])
    assert (text.exit_code, asked) == (status, [6, 216])
    assert text.stdout.splitlines()[-1].startswith(f"216 shapes: {215 + clean} clean, {215 + exact} exact, 215 proved")
    assert ("a race" in text.stdout) is not clean
