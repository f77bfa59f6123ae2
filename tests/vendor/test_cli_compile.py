"""fusegen compile: which modules, what is printed, what is recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fusegen.vendor.entry import read_entry
from fusegen.vendor.record import RECORD, read_record, stale_modules
from tests.commands import fusegen_, refused
from tests.vendor.kernels import GENERATED

ROOT = GENERATED.parent


def test_planner_and_compiler_both_refuse_too_large_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    changes = ("--target", "Ascend910B3", "--set", "tile.m=256", "--set", "tile.n=512")
    result = fusegen_("compile", "allgather_gemm_mte_barrier", *changes, "--json")
    assert result.exit_code == 1, result.stderr
    (spec,) = json.loads(result.stdout)["specs"]
    assert (spec["spec"], spec["target"], spec["ok"]) == ("allgather_gemm_mte_barrier", "Ascend910B3", False)
    (finding,) = spec["findings"]
    assert finding["kind"] == "MemoryOverflow"
    assert finding["message"] == "cc overflow: expected at most 131072 bytes of L0C on Ascend910B3, got 524288"
    assert finding["source"] == "acc = tl.dot(gathered_tile, b_tile, acc)"
    assert finding["advice"] == "lower tile.n from 512 to at most 128"
    assert spec["planner"][0] == (
        "--set tile.n: expected a float32 accumulator in the 128 KiB L0C of Ascend910B3, got 256 x 512: 512 KiB "
        "(with tile.m 256, tile.n can be at most 128)"
    )


def test_the_table_has_a_row_for_each_core_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = fusegen_("compile", "reverse_all2all_mte_signal")
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "kernel target core UB L1 L0C buffers alternate events flags calls result"
    assert lines[1] == "reverse_all2all_mte_signal Ascend910B3 AIV 33% - - 4 2 2 0 10 ok"
    assert "AIV: UB 65,536 bytes; pipe flags MTE2>MTE3 2, MTE3>MTE2 4, MTE3>V 2, V>MTE2 2" in lines
    assert "not checked: hivmc, which makes the object file, is not in the wheel" in lines


def test_a_spec_is_planned_for_the_given_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = fusegen_("compile", "allgather_mte_signal", "--target", "Ascend950PR_9589", "--json")
    (spec,) = json.loads(result.stdout)["specs"]
    assert (spec["target"], spec["ok"]) == ("Ascend950PR_9589", True)
    assert "the vendor's lowering of distributed operations" in spec["not_checked"][-1]


@pytest.fixture
def small_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one spec, rendered, in a folder that is current."""
    (tmp_path / "specs").mkdir()
    shutil.copy(ROOT / "specs/reverse_all2all_mte_barrier.yaml", tmp_path / "specs")
    monkeypatch.chdir(tmp_path)
    assert fusegen_("render").exit_code == 0
    return tmp_path


def test_all_modules_are_recorded(small_project: Path) -> None:
    generated = small_project / "generated"
    (generated / RECORD).write_text(
        json.dumps({"tools": {}, "modules": {"gone": {"module_sha256": "0", "targets": {}}}}), encoding="utf-8"
    )
    assert stale_modules(generated) == ("gone", "reverse_all2all_mte_barrier")
    result = fusegen_("compile", "--all", "--record")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "wrote generated/COMPILED.json\n"
    document = json.loads((generated / RECORD).read_text(encoding="utf-8"))
    assert document["tools"] == {"triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0"}
    (entry,) = document["modules"].values()
    assert entry["targets"] == {
        "Ascend910B3": {
            "ok": True,
            "variants": 1,
            "memory": {"UB": {"peak_bytes": 65536, "share": 0.333}},
            "notes": [],
            "findings": [],
        }
    }
    assert stale_modules(generated) == ()
    assert fusegen_("check").stderr == ""


def test_check_mentions_a_stale_record(small_project: Path) -> None:
    name = "reverse_all2all_mte_barrier"
    record = {"tools": {}, "modules": {name: {"module_sha256": "0", "targets": {}}}}
    (small_project / "generated" / RECORD).write_text(json.dumps(record), encoding="utf-8")
    result = fusegen_("check")
    assert result.exit_code == 0
    assert result.stderr == (
        f"note: generated/COMPILED.json is about other texts of {name} (fusegen compile --all --record)\n"
    )


def test_an_edited_module_is_compiled_as_it_stands(small_project: Path) -> None:
    module = small_project / "generated/reverse_all2all_mte_barrier.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(
        text.replace("    core = tl.program_id(0)\n", "    core = tl.program_id(0) + none\n"), encoding="utf-8"
    )
    result = fusegen_("compile", "reverse_all2all_mte_barrier")
    assert result.exit_code == 1
    assert result.stderr == (
        "warning: generated/reverse_all2all_mte_barrier.py is compiled as it stands, but differs from what its spec "
        "renders\n"
    )
    assert "CompilationError: NameError('none is not defined') at reverse_all2all_mte_barrier.py:" in result.stdout


def test_wrong_arguments_are_refused(small_project: Path) -> None:
    assert refused("compile") == "expected SPECs or --all, got neither"
    assert refused("compile", "--all", "one") == "expected SPECs or --all, got both"
    assert refused("compile", "--all", "--record", "--set", "tile.s=32") == (
        "expected --record without --target and --set: the record is about the modules as they are"
    )
    assert refused("compile", "none.py") == "SPEC: expected a generated module, got no such file: none.py"
    module = small_project / "generated/reverse_all2all_mte_barrier.py"
    assert refused("compile", str(module), "--set", "tile.s=32") == (
        f"expected --set with a spec, got it with the finished module {module}"
    )
    assert refused("compile", str(module), "--target", "Ascend9") == (
        "target: expected a known target, got Ascend9 (did you mean Ascend910B4?)"
    )
    (module.parent / "MANIFEST.json").write_text('{"modules": {}}', encoding="utf-8")
    assert refused("compile", str(module)) == (
        f"{module}: expected an entry with its kernel in {module.parent}/MANIFEST.json, got none "
        "(fusegen render writes it)"
    )


def test_the_record_of_the_checked_in_modules_is_current() -> None:
    assert stale_modules(GENERATED) == ()
    record = read_record(GENERATED)
    for name, entry in record.items():
        target = read_entry(GENERATED / f"{name}.py").target
        assert entry["targets"][target]["ok"], name
        assert entry["targets"][target]["notes"] == [], name


def test_kernels_run_with_the_wanted_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = fusegen_("compile", "reverse_all2all_mte_barrier", "--run", "--ranks", "1", "--ranks", "3", "--json")
    assert result.exit_code == 0, result.stderr
    (spec,) = json.loads(result.stdout)["specs"]
    native = spec["native"]
    assert (native["ok"], native["build"]) == (True, [])
    assert {trial["ranks"] for trial in native["trials"]} == {1, 3}
    assert all(trial["ok"] and trial["max_abs_err"] == 0.0 for trial in native["trials"])


def test_runs_are_a_table_with_their_findings(small_project: Path) -> None:
    module = small_project / "generated/reverse_all2all_mte_barrier.py"
    text = module.read_text(encoding="utf-8")
    endless = "for spin in range(2000000000):\n            tl.store(c_ptr, tl.load(c_ptr) * 2)\n        "
    barrier = "libshmem_device.barrier_all_vec()\n        for"
    assert barrier in text
    module.write_text(text.replace(barrier, endless + barrier), encoding="utf-8")
    result = fusegen_("compile", "reverse_all2all_mte_barrier", "--run", "--ranks", "2", "--timeout", "2")
    assert result.exit_code == 1, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    place = lines.index("kernel runs build s run s largest error result")
    assert lines[place + 1].startswith("reverse_all2all_mte_barrier ")
    assert lines[place + 1].endswith(" findings")
    assert any("OutOfTime: 2 ranks of " in line and "expected an end within 2 s, got none" in line for line in lines)


def test_runs_need_points_and_a_compiler(small_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("compile", "--all", "--ranks", "2") == "expected --ranks with --run, got it alone"
    assert refused("compile", "--all", "--run", "--ranks", "7").startswith(
        "--ranks: expected numbers that a verification point has ("
    )
    (small_project / "generated/other.py").write_text("", encoding="utf-8")
    manifest = small_project / "generated/MANIFEST.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["modules"]["other"] = document["modules"]["reverse_all2all_mte_barrier"]
    manifest.write_text(json.dumps(document), encoding="utf-8")
    assert refused("compile", "generated/other.py", "--run") == (
        "--run: expected a spec with verification points for other, got no specs/other.yaml"
    )
    monkeypatch.setenv("PATH", "/nonexistent")
    assert refused("compile", "--all", "--run") == (
        "gcc is not installed: --run builds kernels with it: apt-get install gcc libc6-dev"
    )
