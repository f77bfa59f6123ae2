"""explain, render and check on a project of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.spec.starter import starter
from tests.commands import fusegen_

WIDE = "reverse_all2all"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the starting spec under two names, not rendered; the current directory is its root."""
    (tmp_path / "specs").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"specs/{name}.yaml").write_text(starter(WIDE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_render_writes_all_then_nothing(project: Path) -> None:
    first = fusegen_("render")
    assert first.exit_code == 0
    assert first.stdout == "wrote generated/one.py\nwrote generated/two.py\nwrote generated/MANIFEST.json\n"
    assert fusegen_("render").stdout == "2 unchanged\n"


def test_render_one_by_name_or_path(project: Path) -> None:
    assert fusegen_("render", "one").stdout == "wrote generated/one.py\nwrote generated/MANIFEST.json\n"
    assert fusegen_("render", "specs/two.yaml").stdout == "wrote generated/two.py\nwrote generated/MANIFEST.json\n"
    assert fusegen_("check").exit_code == 0


def test_render_refuses_a_spec_from_elsewhere(project: Path) -> None:
    (project / "other.yaml").write_text(starter(WIDE))
    result = fusegen_("render", "other.yaml")
    assert (result.exit_code, result.stderr) == (2, "SPEC: expected a spec in specs, got other.yaml\n")


def test_render_as_json(project: Path) -> None:
    report = json.loads(fusegen_("render", "--json").stdout)
    assert report["written"] == ["one.py", "two.py", "MANIFEST.json"]
    assert report["orphans"] == []


def test_render_says_when_it_overwrites_an_edit_and_names_orphans(project: Path) -> None:
    fusegen_("render")
    (project / "generated/one.py").write_text("edited\n")
    (project / "generated/three.py").write_text("")
    result = fusegen_("render")
    assert result.stdout == "wrote generated/one.py (an edit by hand was overwritten)\n1 unchanged\n"
    assert result.stderr == "generated/three.py has no spec: delete it, or restore its spec\n"


def test_a_fault_stops_the_rendering_of_every_spec(project: Path) -> None:
    spec = project / "specs/two.yaml"
    spec.write_text(spec.read_text().replace("buffer_num: 2", "buffer_num: 5"))
    result = fusegen_("render")
    assert result.exit_code == 2
    assert "buffer_num: expected a whole number between 1 and 4, got 5" in result.stderr
    assert result.stderr.startswith("specs/two.yaml:")
    assert not (project / "generated").exists()


def test_check_of_a_current_folder(project: Path) -> None:
    fusegen_("render")
    result = fusegen_("check")
    assert (result.exit_code, result.stdout) == (0, "generated: every file is what its spec renders\n")
    assert json.loads(fusegen_("check", "--json").stdout) == {"ok": True, "differences": []}


def test_check_prints_diffs_and_reasons(project: Path) -> None:
    fusegen_("render")
    module = project / "generated/one.py"
    module.write_text(module.read_text().replace("BUFFER_NUM = 2", "BUFFER_NUM = 3"))
    (project / "generated/two.py").unlink()
    (project / "generated/three.py").write_text("X = 1\n")
    result = fusegen_("check")
    assert result.exit_code == 1
    assert "-BUFFER_NUM = 3\n+BUFFER_NUM = 2\n" in result.stdout
    assert "--- generated/three.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-X = 1\n" in result.stdout
    assert result.stdout.splitlines()[-3:] == [
        "generated/one.py: edited by hand: move the change to the spec; fusegen render discards it",
        "generated/three.py: orphan: no spec has this name: delete the file, or restore its spec",
        "generated/two.py: missing: run fusegen render",
    ]
    differences = json.loads(fusegen_("check", "--json").stdout)["differences"]
    assert [(d["file"], d["problem"]) for d in differences] == [
        ("one.py", "edited by hand"),
        ("three.py", "orphan"),
        ("two.py", "missing"),
    ]


def test_check_after_the_spec_has_changed(project: Path) -> None:
    fusegen_("render")
    spec = project / "specs/two.yaml"
    spec.write_text(spec.read_text().replace("buffer_num: 2", "buffer_num: 4"))
    result = fusegen_("check")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        "generated/two.py: stale: run fusegen render",
        "generated/MANIFEST.json: stale: run fusegen render",
    ]


def test_explain_as_json_has_the_guides_numbers(project: Path) -> None:
    result = fusegen_("explain", "one", "--ranks", "2", "--role-cores", "36", "--shape", "S=64,H=12,D=128", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    occupancy = document["occupancy"]
    assert {key: occupancy[key] for key in ("total_tasks", "role_cores", "active_cores", "idle_cores", "full")} == {
        "total_tasks": 24,
        "role_cores": 36,
        "active_cores": 24,
        "idle_cores": 12,
        "full": False,
    }
    assert occupancy["utilization"] == pytest.approx(2 / 3)
    assert document["buffers"][0]["bytes"] == 2 * 64 * 2 * 12 * 128 * 2
    (slots,) = document["slots"]
    assert (slots["name"], slots["count"], slots["bytes"]) == ("signal", 48, 48 * 64)
    assert document["launch"]["grid"] == 72
    assert {d["rule"] for d in document["decisions"]} >= {"work flattening", "roles", "credit return", "slot values"}


def test_explain_for_people(project: Path) -> None:
    output = fusegen_("explain", "one", "--ranks", "2", "--cores", "72", "--shape", "S=64,H=12,D=128").stdout
    assert "one: 2 ranks, 72 cores, S=64, H=12, D=128" in output
    assert "24 of 36 cores of a role work (67%), 12 idle" in output
    assert "ring 2 x source_rank 2 x tile 12" in output
    assert "credit return    copy returns every slot" in output


def test_explain_takes_what_is_left_out_from_the_spec_and_the_target(project: Path) -> None:
    document = json.loads(fusegen_("explain", "one", "--json").stdout)
    assert document["cores"] == 40
    assert document["ranks"] > 1
    assert set(document["shape"]) == {"S", "H", "D"}


@pytest.mark.parametrize(
    ("pattern", "cores", "slots"),
    [
        ("allreduce", 40, ["signal"]),
        ("allgather_gemm", 20, ["ready", "credit"]),
        ("gemm_reduce_scatter", 20, ["ready", "credit"]),
        ("gemm_allreduce", 20, ["ready", "credit"]),
    ],
)
def test_explain_shows_every_group_of_slots(project: Path, pattern: str, cores: int, slots: list[str]) -> None:
    fusegen_("new", pattern)
    document = json.loads(fusegen_("explain", pattern, "--json").stdout)
    assert document["cores"] == cores
    assert [group["name"] for group in document["slots"]] == slots
    assert {edge["cover"].split(",")[0] for edge in document["edges"]} == {f"slot of {name}" for name in slots}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cores", "4", "--role-cores", "2"], "expected --cores or --role-cores, got both of them"),
        (["--cores", "1"], "cores: expected at least 2, got 1 (each role needs a core of its own: push, copy)"),
        (["--shape", "S=1,H=1"], "--shape: expected S, H and D, got no D"),
        (
            ["--set", "tile.s=1024"],
            "--set tile.s: expected two bfloat16 tiles in the 192 KiB unified buffer of Ascend910B3, "
            "got 1024 x 128 twice: 512 KiB (with tile.d 128, tile.s can be at most 256)",
        ),
        (
            ["--ranks", "16", "--shape", "S=65536,H=16,D=128"],
            "shape: expected fewer than 2**31 elements in a, for 32-bit offsets, got 2147483648 "
            "(lower a dimension or split the call)\n"
            "shape: expected fewer than 2**31 elements in c, for 32-bit offsets, got 2147483648 "
            "(lower a dimension or split the call)",
        ),
    ],
)
def test_explain_refuses(project: Path, arguments: list[str], message: str) -> None:
    result = fusegen_("explain", "one", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message + "\n")
