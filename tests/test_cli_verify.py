"""fusegen verify and fusegen run --replay: options, results, exit status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fusegen.sim.findings import Finding
from fusegen.sim.order.proof import Proof
from fusegen.verify import campaign
from fusegen.verify.trials import PROVING, Condition, Subject, Trial
from fusegen.verify.verdicts import ConditionVerdict, Failure, SubjectVerdict, TrialResult
from tests.commands import fusegen_, refused

PROVED = Proof(True, (), 1, 2, 3)


class Campaign:
    """Stands in for the pool: remembers what it was asked to verify; every condition has the `findings`."""

    def __init__(self) -> None:
        self.subjects: list[Subject] = []
        self.options: dict[str, Any] = {}
        self.findings: tuple[Finding, ...] = ()
        self.proof = PROVED

    def verify(
        self, subjects: Sequence[Subject], *, progress: Callable[[str, int, int], None], **options: Any
    ) -> Iterator[SubjectVerdict]:
        self.options = options
        for subject in subjects:
            self.subjects.append(subject)
            verdicts = [self._verdict(subject, place) for place in range(len(subject.conditions))]
            progress(subject.name, 1, 1)
            yield SubjectVerdict(subject, tuple(verdicts))

    def _verdict(self, subject: Subject, place: int) -> ConditionVerdict:
        verdict = ConditionVerdict(subject.conditions[place])
        trial = Trial(subject, place, PROVING, 0, races=True)
        failure = None
        if self.findings:
            failure = Failure(subject, trial.condition, PROVING, 0, True, self.findings, (1, 2))
            verdict.replay = Path("replays/file.json")
        verdict.add(TrialResult(trial, failure, self.proof, 0.0, 0.5))
        return verdict


@pytest.fixture
def pool(project: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    fake = Campaign()
    monkeypatch.setattr(campaign, "verify", fake.verify)
    return fake


def shape(s: int, h: int, d: int) -> tuple[tuple[str, int], ...]:
    return (("S", s), ("H", h), ("D", d))


def test_all_points_and_world_sizes_of_all_specs_are_verified(pool: Campaign) -> None:
    result = fusegen_("verify", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    (subject,) = pool.subjects
    assert (subject.name, subject.target) == ("starting", "Ascend910B3")
    assert subject.conditions[0] == Condition(1, 7, shape(130, 3, 72), 3)
    assert len(subject.conditions) == len(set(subject.conditions)) == 4
    assert {condition.ranks for condition in subject.conditions} >= {1, 2, 3}
    document = json.loads(result.stdout)
    assert (document["ok"], document["proved"], document["schedules"]) == (True, True, len(subject.conditions))
    (spec,) = document["specs"]
    assert spec["spec"] == "starting"
    assert spec["conditions"][0] == {
        "ranks": 1,
        "cores": 7,
        "shape": {"S": 130, "H": 3, "D": 72},
        "launches": 3,
        "ok": True,
        "proved": True,
        "proof": str(PROVED),
        "schedules": {"round-robin": 1},
        "max_abs_err": 0.0,
        "findings": [],
        "seconds": 0.5,
    }


def test_defaults(pool: Campaign) -> None:
    assert fusegen_("verify", "starting").exit_code == 0
    assert pool.options["schedules"] == 48
    assert pool.options["replay_folder"] == Path("replays")
    assert pool.options["jobs"] >= 1


def test_options_narrow_the_points_down(pool: Campaign) -> None:
    options = "--schedules 7 --jobs 3 --replay-dir there --ranks 4 --cores 6 --launches 5"
    assert fusegen_("verify", "starting", *options.split()).exit_code == 0
    assert (pool.options["schedules"], pool.options["jobs"], pool.options["replay_folder"]) == (7, 3, Path("there"))
    conditions = pool.subjects[0].conditions
    assert {(each.ranks, each.cores, each.launches) for each in conditions} == {(4, 6, 5)}
    assert len({each.sizes for each in conditions}) == len(conditions) > 1


def test_a_shape_takes_the_place_of_the_points(pool: Campaign) -> None:
    assert fusegen_("verify", "starting", "--shape", "S=1,H=2,D=3", "--cores", "4").exit_code == 0
    conditions = pool.subjects[0].conditions
    assert {(each.cores, each.sizes, each.launches) for each in conditions} == {(4, shape(1, 2, 3), 1)}
    assert [each.ranks for each in conditions][:3] == [1, 2, 3]


def test_a_finding_is_told_with_what_reproduces_it(pool: Campaign) -> None:
    pool.findings = (Finding("something is wrong"),)
    result = fusegen_("verify", "starting", "--ranks", "2", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["ok"], document["proved"]) == (False, False)
    (finding,) = document["specs"][0]["conditions"][0]["findings"]
    assert (finding["kind"], finding["message"]) == ("Finding", "something is wrong")
    assert (finding["schedule"], finding["seed"], finding["replay"]) == ("round-robin", 0, "replays/file.json")
    text = fusegen_("verify", "starting", "--ranks", "2").stdout
    assert "starting (ranks 2, cores 7, S=130, H=3, D=72, launches 3): Finding: something is wrong" in text
    assert "round-robin, seed 0: fusegen run --replay replays/file.json" in text


def test_what_is_not_proved_is_told_and_no_failure(pool: Campaign) -> None:
    pool.proof = Proof(False, ("two writes",), 1, 2, 3)
    result = fusegen_("verify", "starting", "--ranks", "2")
    assert result.exit_code == 0
    assert "ok, tested" in result.stdout
    assert "not proved: two writes" in result.stdout


def test_a_module_by_its_path_needs_its_size(pool: Campaign, tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text("", encoding="utf-8")
    assert refused("verify", str(module)) == (
        "expected --ranks, --cores and --shape for a module without a spec here, got no --ranks, --cores or --shape"
    )
    options = ["--ranks", "2", "--cores", "3", "--shape", "M=4"]
    assert fusegen_("verify", str(module), *options).exit_code == 0
    own = (Condition(2, 3, (("M", 4),), 1),)
    assert pool.subjects[0] == Subject("mine", module, None, own, tiny=own)


def test_what_the_launcher_would_refuse_is_refused(pool: Campaign) -> None:
    assert refused("verify", "starting", "--cores", "1") == (
        "cores: expected at least 2, got 1 (each role needs a core of its own: push, copy)"
    )
    assert pool.subjects == []


def test_no_specs(project: Path) -> None:
    (project / "specs/starting.yaml").unlink()
    assert refused("verify") == "expected specs in specs, got none"


def test_a_replay_takes_no_other_options(project: Path) -> None:
    assert refused("run", "starting", "--replay", "x.json", "--ranks", "2") == (
        "--replay: expected nothing else but --json, got SPEC and --ranks"
    )
    assert refused("run", "--replay", "x.json").startswith("x.json: expected a file that fusegen verify wrote")
