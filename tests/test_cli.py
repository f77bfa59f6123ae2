"""The commands: what they print, where, and the exit status. A stand-in takes the place of the simulator."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fusegen import __version__, doctor
from fusegen.cli import main
from fusegen.spec.model import PATTERNS
from fusegen.spec.schema import schema_text
from fusegen.spec.starter import starter
from tests.commands import fusegen_, refused
from tests.spec.texts import PATTERN_LIST

ROOT = Path(__file__).parents[1]
STARTUP_LIMIT_S = 0.6
"""Twice of what is promised, for busy machines; the best of three counts."""


def test_version() -> None:
    assert fusegen_("--version").output == f"fusegen, version {__version__}\n"


def test_start_up_is_quick() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "fusegen", "--help"], check=True, capture_output=True, cwd=ROOT)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < STARTUP_LIMIT_S


def test_start_up_imports_nothing_heavy() -> None:
    heavy = {"pydantic", "yaml", "jinja2", "rich", "numpy", "torch", "greenlet"}
    code = "import sys, fusegen.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert heavy.isdisjoint(done.stdout.split())


def test_list(project: Path) -> None:
    result = fusegen_("list", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {
            "name": "starting",
            "pattern": "reverse_all2all",
            "dtype": "bfloat16",
            "target": "Ascend910B3",
            "transport": "mte",
            "sync": "signal",
            "buffer_num": 2,
            "module": "missing",
        }
    ]
    (project / "generated").mkdir()
    (project / "generated/starting.py").touch()
    assert fusegen_("list").stdout.splitlines()[1].split() == [
        "starting",
        "reverse_all2all",
        "bfloat16",
        "Ascend910B3",
        "mte",
        "signal",
        "2",
        "edited",
        "by",
        "hand",
    ]
    fusegen_("render")
    assert json.loads(fusegen_("list", "--json").stdout)[0]["module"] == "current"


def test_list_shows_specs_that_cannot_be_planned(project: Path) -> None:
    fusegen_("render")
    text = starter("reverse_all2all").replace("s: 64", "s: 1024")
    (project / "specs/wide.yaml").write_text(text, encoding="utf-8")
    (project / "generated/wide.py").touch()
    rows = json.loads(fusegen_("list", "--json").stdout)
    assert [(row["name"], row["module"]) for row in rows] == [("starting", "current"), ("wide", "cannot be planned")]
    assert refused("explain", "wide").startswith("specs/wide.yaml:")


def test_list_without_specs(project: Path) -> None:
    shutil.rmtree(project / "specs")
    assert refused("list") == ("specs: expected a folder of specs, got none (fusegen new PATTERN writes a first spec)")
    (project / "specs").mkdir()
    assert fusegen_("list").stdout == "no specs in specs: fusegen new PATTERN writes a first one\n"


def test_a_faulty_spec_ends_with_all_its_faults_on_stderr(project: Path) -> None:
    text = starter("reverse_all2all").replace("dtype: bfloat16", "dtype: x").replace("buffer_num: 2", "buffer_num: 9")
    (project / "specs/starting.yaml").write_text(text, encoding="utf-8")
    assert refused("list", "--json").splitlines() == [
        "specs/starting.yaml:15: dtype: expected bfloat16, float16 or float32, got x",
        "specs/starting.yaml:36: buffer_num: expected a whole number between 1 and 4, got 9 "
        "(2 overlaps moving and consuming; more cost memory)",
    ]


def test_new_writes_a_spec_and_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = fusegen_("new", "reverse_all2all", "--name", "mine")
    assert (result.exit_code, result.stdout) == (0, "wrote specs/mine.yaml\nwrote specs/fusegen.schema.json\n")
    assert (tmp_path / "specs/mine.yaml").read_text(encoding="utf-8") == starter("reverse_all2all")
    assert (tmp_path / "specs/fusegen.schema.json").read_text(encoding="utf-8") == schema_text()
    assert fusegen_("new", "reverse_all2all").stdout == "wrote specs/reverse_all2all.yaml\n"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_new_knows_every_pattern(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fusegen_("new", pattern).stdout == f"wrote specs/{pattern}.yaml\nwrote specs/fusegen.schema.json\n"
    (row,) = json.loads(fusegen_("list", "--json").stdout)
    assert (row["name"], row["pattern"]) == (pattern, pattern)


def test_new_overwrites_only_by_force(project: Path) -> None:
    path = project / "specs/starting.yaml"
    path.write_text("mine", encoding="utf-8")
    assert refused("new", "reverse_all2all", "--name", "starting") == (
        "specs/starting.yaml: expected a new file, got an existing one (--name chooses another, --force overwrites it)"
    )
    assert path.read_text(encoding="utf-8") == "mine"
    assert fusegen_("new", "reverse_all2all", "--name", "starting", "--force").exit_code == 0
    assert path.read_text(encoding="utf-8") == starter("reverse_all2all")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reverse_all"], f"PATTERN: expected {PATTERN_LIST}, got reverse_all (did you mean reverse_all2all?)"),
        (["gemm"], f"PATTERN: expected {PATTERN_LIST}, got gemm"),
        (
            ["reverse_all2all", "--name", "a-b"],
            "name: expected a lower-case Python identifier as the name of the file, got a-b "
            "(the generated module has the same name, and Python must be able to import it)",
        ),
    ],
)
def test_new_refuses(project: Path, arguments: list[str], message: str) -> None:
    assert refused("new", *arguments) == message


def test_schema(tmp_path: Path) -> None:
    assert fusegen_("schema").stdout == schema_text()
    assert fusegen_("schema", "-o", str(tmp_path / "s.json")).stdout == ""
    assert (tmp_path / "s.json").read_text(encoding="utf-8") == schema_text()
    assert refused("schema", "-o", f"{tmp_path}/none/s.json") == (
        f"-o: expected a file that can be written, got {tmp_path}/none/s.json: No such file or directory"
    )


def test_doctor(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = fusegen_("doctor", "--json")
    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (0, True)
    text = fusegen_("doctor").stdout
    assert "sim: run kernels on the CPU machine" in text
    assert "  to install: pip install 'fusegen[npu]', or in a checkout pip install '.[npu]'" in text
    monkeypatch.setattr(doctor, "CORE", ("no-such-package",))
    assert fusegen_("doctor").exit_code == 1


def test_folders_by_option(project: Path) -> None:
    (project / "specs").rename(project / "mine")
    assert json.loads(fusegen_("list", "--specs", "mine", "--json").stdout)[0]["name"] == "starting"


def test_an_interrupt_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fusegen.spec.schema.schema_text", interrupted)
    monkeypatch.setattr(sys, "argv", ["fusegen", "schema"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


def test_a_wrong_option_has_status_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fusegen", "list", "--colour"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "No such option" in capsys.readouterr().err


def test_new_and_schema_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = json.loads(fusegen_("new", "reverse_all2all", "--name", "exchange", "--json").stdout)
    assert written == {"written": ["specs/exchange.yaml", "specs/fusegen.schema.json"]}
    assert json.loads(fusegen_("schema", "--json").stdout) == json.loads(schema_text())
