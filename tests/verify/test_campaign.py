"""Modules in a pool of processes: verdicts, and the files that reproduce findings."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest

from fusegen.errors import UsageError
from fusegen.sim import ReplayMismatch, Unsupported
from fusegen.verify.campaign import explore, verify
from fusegen.verify.replay import read_replay, write_replay
from fusegen.verify.trials import PROVING, Condition, Subject
from fusegen.verify.verdicts import SubjectVerdict
from tests.verify.conftest import CLEAN, subject_at


def verified(*subjects: Subject, folder: Path, **options: Any) -> list[SubjectVerdict]:
    return list(verify(subjects, **{"schedules": 9, "jobs": 2, "replay_folder": folder} | options))


def without_times(verdict: SubjectVerdict) -> dict[str, Any]:
    document = verdict.to_json()
    return document | {
        "seconds": 0,
        "conditions": [condition | {"seconds": 0} for condition in document["conditions"]],
    }


def test_a_clean_module_is_proved_and_a_seeded_bug_is_found(clean: Subject, unfenced: Subject, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = tmp_path / "replays"
    good, bad = verified(clean, unfenced, folder=folder, progress=lambda *step: seen.append(step))

    assert (good.ok, good.proved, good.schedules) == (True, True, 9)
    assert [verdict.schedules.total() for verdict in good.conditions] == [5, 4]
    assert all(verdict.schedules[PROVING] == 1 for verdict in good.conditions)
    assert seen[:9] == [("reverse_all2all_mte_signal", done, 9) for done in range(1, 10)]

    assert (bad.ok, bad.proved, bad.schedules) == (False, False, 2)  # both conditions fail in their first run
    for verdict in bad.conditions:
        assert verdict.failed is not None
        assert {finding.kind for finding in verdict.failed.findings} == {"MissingFence"}
        assert verdict.replay is not None
        recorded = read_replay(verdict.replay)
        assert recorded.condition == verdict.condition
        again = recorded.run()
        assert again.findings == verdict.failed.findings
        assert tuple(map(str, again.findings)) == recorded.findings
    assert sorted(folder.iterdir()) == sorted(verdict.replay for verdict in bad.conditions if verdict.replay)


def test_verdicts_do_not_depend_on_the_number_of_processes(clean: Subject, unfenced: Subject, tmp_path: Path) -> None:
    one, two = (verified(clean, unfenced, folder=tmp_path, jobs=jobs) for jobs in (1, 2))
    assert list(map(without_times, one)) == list(map(without_times, two))


def test_a_replay_does_not_depend_on_what_became_of_the_module(unfenced: Subject, tmp_path: Path) -> None:
    path = tmp_path / "later.py"
    path.write_bytes(unfenced.module.read_bytes())
    (bad,) = verified(subject_at(path), folder=tmp_path / "replays")
    path.write_bytes(CLEAN.read_bytes())
    assert bad.conditions[0].replay is not None
    recorded = read_replay(bad.conditions[0].replay)
    assert tuple(map(str, recorded.run().findings)) == recorded.findings
    with pytest.raises(ReplayMismatch, match="expected"):
        recorded.model_copy(update={"picks": recorded.picks[:-1]}).run()


def test_what_the_simulator_does_not_know_ends_the_verification(tmp_path: Path) -> None:
    path = tmp_path / "unknown.py"
    path.write_text(
        CLEAN.read_text(encoding="utf-8").replace("tl.cdiv(S, TILE_S)", "tl.histogram(S)", 1), encoding="utf-8"
    )
    with pytest.raises(Unsupported, match=r"tl\.histogram|triton\.language\.histogram"):
        verified(subject_at(path), folder=tmp_path)


def test_a_module_may_have_any_name(unfenced: Subject, tmp_path: Path) -> None:
    path = tmp_path / "2nd try.v2.py"
    path.write_bytes(unfenced.module.read_bytes())
    (bad,) = verified(subject_at(path), folder=tmp_path / "replays")
    assert bad.conditions[0].replay is not None
    recorded = read_replay(bad.conditions[0].replay)
    assert recorded.kernel == "2nd try.v2"
    assert tuple(map(str, recorded.run().findings)) == recorded.findings


def test_what_no_run_proves_is_explored(tmp_path: Path) -> None:
    """A signal sent twice: a wait may be ended by either, and nothing depends on which."""
    notify = "dl.notify(arrived_ptr + (block_s * arrived_block + rank) * SLOT_WORDS, target, launch + 1)"
    text = CLEAN.with_name("all2all_udma_signal.py").read_text(encoding="utf-8")
    assert notify in text
    path = tmp_path / "twice.py"
    path.write_text(text.replace(notify, f"{notify}, {notify}"), encoding="utf-8")
    own = (Condition(2, 3, (("S", 1), ("H", 1), ("D", 1)), 1),)
    (verdict,) = verified(Subject("twice", path, None, own, tiny=own), folder=tmp_path / "replays", schedules=1)
    assert (verdict.ok, verdict.proved) == (True, False)
    (explored,) = verdict.explored
    assert (explored.condition, explored.complete, explored.failed) == (own[0], True, None)
    assert 1 < explored.orders <= explored.runs
    assert verdict.to_json()["explored"][0]["orders"] == explored.orders
    assert str(explored).startswith("explored all orders of its signals in ")


def test_a_finding_of_exploring_can_be_repeated(unfenced: Subject, tmp_path: Path) -> None:
    explored = explore(unfenced, unfenced.conditions[0])
    assert explored.failed is not None
    assert {finding.kind for finding in explored.failed.findings} == {"MissingFence"}
    recorded = read_replay(write_replay(tmp_path, explored.failed))
    assert recorded.schedule == "explored"
    assert set(explored.failed.findings) <= set(recorded.run().findings)


def test_a_folder_that_cannot_be_made_is_named(unfenced: Subject, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file/replays/.*expected a folder .* got Not a directory \(--replay-dir"):
        verified(unfenced, folder=tmp_path / "file/replays")


def test_a_module_that_ends_its_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "leaving.py"
    path.write_text(f"import os\nos.kill(os.getpid(), 9)\n{CLEAN.read_text(encoding='utf-8')}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"leaving\.py: expected it to return, got a process that ended with it"):
        verified(subject_at(path), folder=tmp_path)


def test_what_a_module_prints_goes_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "printing.py"
    text = "import os, sys\nprint('one')\nos.write(1, b'two')\nos.system('echo three')\n"
    path.write_text(text + CLEAN.read_text(encoding="utf-8"), encoding="utf-8")
    (good,) = verified(subject_at(path), folder=tmp_path, schedules=2, jobs=1)
    assert good.proved
    assert capfd.readouterr().out == ""


def test_an_interrupt_ends_the_processes_in_the_middle_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "endless.py"
    text = "import os\nwhile os.environ['WORLD_SIZE'] == '2':\n    pass\n"
    path.write_text(text + CLEAN.read_text(encoding="utf-8"), encoding="utf-8")

    def interrupted(*step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verified(subject_at(path), folder=tmp_path, progress=interrupted)
    deadline = time.monotonic() + 5
    while multiprocessing.active_children():
        assert time.monotonic() < deadline
        time.sleep(0.01)
