"""Modules to verify: one that is clean, and the same without its fences."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.verify.trials import Condition, Subject

ROOT = Path(__file__).parents[2]
CLEAN = ROOT / "generated/reverse_all2all_mte_signal.py"
CONDITIONS = (
    Condition(1, 3, (("S", 5), ("H", 1), ("D", 16)), 2),
    Condition(2, 5, (("S", 130), ("H", 2), ("D", 72)), 2),
)


def subject_at(path: Path) -> Subject:
    """A subject with two conditions."""
    return Subject(path.stem, path, "Ascend910B3", CONDITIONS)


@pytest.fixture(scope="session")
def clean() -> Subject:
    """A module in which nothing is wrong."""
    return subject_at(CLEAN)


@pytest.fixture(scope="session")
def unfenced(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A module without fences: values come out right under most schedules."""
    path = tmp_path_factory.mktemp("modules") / "unfenced.py"
    path.write_text(CLEAN.read_text(encoding="utf-8").replace("libshmem_device.fence()", "pass"), encoding="utf-8")
    return subject_at(path)
