"""Every checked-in kernel is free of races and proved, at the first verification point of its spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.cli.values import default_ranks
from fusegen.sim import run_module
from fusegen.spec import load_spec

ROOT = Path(__file__).parents[3]
SPECS = sorted(ROOT.glob("specs/*.yaml"))


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_the_first_verification_point_is_proved(spec: Path, schedule: str) -> None:
    point = load_spec(spec).spec.verify[0]
    for ranks in {default_ranks(point.ranks), max(each for each in point.ranks if each <= 3)}:
        result = run_module(
            ROOT / "generated" / f"{spec.stem}.py",
            ranks=ranks,
            cores=point.cores,
            launches=point.launches,
            shape=dict(point.shape),
            schedule=schedule,
            seed=ranks,
            races=True,
        )
        assert [str(finding) for finding in result.findings] == []
        assert result.proof is not None
        assert result.proof.proved, str(result.proof)


def test_the_check_changes_nothing() -> None:
    options = {"ranks": 2, "cores": 6, "shape": {"S": 70, "H": 2, "D": 40}, "schedule": "random", "record": True}
    module = ROOT / "generated" / "reverse_all2all_mte_signal.py"
    plain, checked = run_module(module, **options), run_module(module, **options, races=True)
    assert plain.proof is None
    assert plain.schedule == checked.schedule
    assert str(checked.proof).startswith(
        "proved for every schedule of these inputs: 32 waits on 16 slots have one poss"
    )
