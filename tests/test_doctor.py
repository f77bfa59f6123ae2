"""fusegen doctor tells what is installed, from the same list as pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from fusegen import doctor
from fusegen.errors import MissingExtraError
from fusegen.project import find_project
from tests.commands import fusegen_

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> tuple[str, ...]:
    return tuple(re.match(r"[\w.-]+", requirement).group() for requirement in requirements)  # type: ignore[union-attr]


def test_packages_are_those_of_pyproject() -> None:
    assert names(PYPROJECT["dependencies"]) == doctor.CORE
    declared = {name: names(packages) for name, packages in PYPROJECT["optional-dependencies"].items() if packages}
    assert {name: extra.packages for name, extra in doctor.EXTRAS.items()} == declared


def test_this_installation(tmp_path: Path) -> None:
    diagnosis = doctor.diagnose(find_project(tmp_path))
    assert diagnosis.ok
    document = diagnosis.to_json()
    assert document["ok"] is True
    assert document["python"]["ok"] is True
    assert document["extras"]["sim"]["installed"] is True
    assert document["extras"]["npu"]["install"] == "pip install 'fusegen[npu]', or in a checkout pip install '.[npu]'"
    assert document["project"]["specs"] == {"path": f"{tmp_path}/specs", "exists": False}
    assert document["project"]["templates"]["exists"] is True


def test_missing_packages_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CORE", ("click", "no-such-package"))
    diagnosis = doctor.diagnose(find_project(tmp_path))
    assert diagnosis.core["no-such-package"] is None
    assert not diagnosis.ok


def test_gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.match(r"\d+\.", doctor.diagnose(find_project(tmp_path)).gcc or "")
    assert re.search(r"^gcc \d+\.", fusegen_("doctor").stdout, re.MULTILINE)
    monkeypatch.setenv("PATH", str(tmp_path))
    document = doctor.diagnose(find_project(tmp_path)).to_json()
    assert document["ok"] is True
    assert document["gcc"]["version"] is None
    assert "gcc missing: fusegen compile --run" in fusegen_("doctor").stdout
    assert "to install: apt-get install gcc libc6-dev" in fusegen_("doctor").stdout


def test_require_sim(monkeypatch: pytest.MonkeyPatch) -> None:
    doctor.require_sim()
    monkeypatch.setattr(doctor, "find_spec", lambda module: None if module == "torch" else object())
    with pytest.raises(MissingExtraError) as caught:
        doctor.require_sim()
    assert (
        str(caught.value) == "torch is not installed: this command needs the extra sim: "
        "pip install 'fusegen[sim]', or in a checkout pip install '.[sim]'"
    )
