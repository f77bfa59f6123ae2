"""fusegen run: sizes, options, results and exit status. A stand-in takes the place of the simulator."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fusegen.sim
from fusegen import doctor
from fusegen.cli.run import _tiles
from fusegen.cli.values import Size
from fusegen.sim.cost import UNITS, Core, Cost, Work
from fusegen.sim.order.proof import Proof
from tests.commands import fusegen_, refused
from tests.plan.plans import plan_from

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class FakeFinding:
    """What run needs of a finding."""

    message: str

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Deadlock", "message": self.message}

    def __str__(self) -> str:
        return f"Deadlock: {self.message}"


@dataclass(frozen=True)
class FakeResult:
    """What run needs of a result."""

    ok: bool = True
    max_abs_err: float | None = 0.0
    findings: tuple[FakeFinding, ...] = ()
    steps: int = 1234
    tiles: int = 56
    wall_s: float = 0.25
    proof: Proof | None = None
    dumps: tuple[dict[str, Any], ...] = ()
    cost: Cost | None = None


class Machine:
    """Stands in for the simulator: remembers what it was asked to run, and returns `result`."""

    def __init__(self) -> None:
        self.result = FakeResult()
        self.calls: list[dict[str, Any]] = []
        self.text = ""

    def run_module(self, path: Path, **options: Any) -> FakeResult:
        self.calls.append({"path": path, **options})
        self.text = path.read_text(encoding="utf-8")
        return self.result


@pytest.fixture
def machine(project: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine()
    monkeypatch.setattr(fusegen.sim, "run_module", fake.run_module, raising=False)
    return fake


def test_run_takes_what_is_left_out_from_the_first_verification_point(machine: Machine) -> None:
    result = fusegen_("run", "starting", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "spec": "starting",
        "ranks": 2,
        "cores": 7,
        "shape": {"S": 130, "H": 3, "D": 72},
        "launches": 3,
        "ok": True,
        "max_abs_err": 0.0,
        "findings": [],
        "proved": False,
        "proof": None,
        "dumps": [],
        "steps": 1234,
        "tiles": 56,
        "wall_s": 0.25,
        "cost": None,
    }
    (call,) = machine.calls
    assert (call["seed"], call["schedule"], call["progress"], call["races"]) == (0, "round-robin", None, True)


@pytest.mark.parametrize(
    ("proof", "proved", "text", "shown"),
    [
        (Proof(True, (), 4, 6, 5), True, "proved for every schedule of these inputs: 5 waits on 4 slots", "ok, proved"),
        (Proof(False, ("why",), 4, 6, 5), False, "not proved: why", "not proved: why"),
        (None, False, None, "ok"),
    ],
)
def test_run_says_whether_it_proves_every_schedule(
    machine: Machine, proof: Proof | None, proved: bool, text: str | None, shown: str
) -> None:
    machine.result = FakeResult(proof=proof)
    document = json.loads(fusegen_("run", "starting", "--json").stdout)
    assert document["proved"] is proved
    assert document["proof"] is text or document["proof"].startswith(text)
    assert shown in fusegen_("run", "starting").stdout


def test_run_without_the_check_of_races(machine: Machine) -> None:
    assert fusegen_("run", "starting", "--no-races").exit_code == 0
    assert machine.calls[0]["races"] is False


def test_run_counts_the_cost_for_json_only(machine: Machine) -> None:
    machine.result = FakeResult(cost=Cost({Core(1, 3, "AIV", None): Work(steps=5, waits=2)}))
    document = json.loads(fusegen_("run", "starting", "--json").stdout)["cost"]
    assert [document[key]["steps"] for key in ("total", "units")] == [5, UNITS["steps"]]
    (core,) = document["by_core"]
    assert (core["rank"], core["core"], core["kind"], core["signals"]) == (1, 3, "AIV", {"notifies": 0, "waits": 2})
    fusegen_("run", "starting")
    assert [call["cost"] for call in machine.calls] == [True, False]


def test_run_options(machine: Machine) -> None:
    options = "--ranks 3 --cores 5 --shape D=1,S=2,H=3 --launches 1 --seed 7 --schedule random --schedule-seed 9 --json"
    options += " --ranks-per-node 1"
    assert fusegen_("run", "specs/starting.yaml", *options.split()).exit_code == 0
    (call,) = machine.calls
    assert (call["ranks"], call["cores"], call["launches"]) == (3, 5, 1)
    assert list(call["shape"].items()) == [("S", 2), ("H", 3), ("D", 1)]
    assert (call["seed"], call["schedule"], call["schedule_seed"]) == (7, "random", 9)
    assert (call["ranks_per_node"], call["target"]) == (1, "Ascend910B3")


def test_run_with_a_shape_uses_the_target_and_launches_once(machine: Machine) -> None:
    assert fusegen_("run", "starting", "--shape", "S=2,H=3,D=4").exit_code == 0
    (call,) = machine.calls
    assert (call["ranks"], call["cores"], call["launches"]) == (2, 40, 1)


def test_a_note_about_more_ai_cores_than_the_target_has(project: Path, machine: Machine) -> None:
    kernel = "@triton.jit\ndef kernel():\n    libshmem_device.barrier_all()\n"
    (project / "generated").mkdir()
    (project / "generated/starting.py").write_text(kernel, encoding="utf-8")
    options = ["--cores", "21", "--shape", "S=2,H=3,D=4"]
    assert "note: Ascend910B3 has 20 AI cores, not 21" in fusegen_("run", "starting", *options).stderr


def test_run_renders_elsewhere_where_there_is_no_module(project: Path, machine: Machine) -> None:
    assert fusegen_("run", "starting").exit_code == 0
    path = machine.calls[0]["path"]
    assert path.name == "starting.py"
    assert not path.exists()
    assert not (project / "generated").exists()
    assert "TILE_D" in machine.text


def test_run_runs_the_generated_module_as_it_stands(project: Path, machine: Machine) -> None:
    assert fusegen_("render").exit_code == 0
    module = project / "generated/starting.py"
    assert fusegen_("run", "starting").stderr == ""
    assert machine.calls[-1]["path"] == module
    module.write_text(module.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    assert fusegen_("run", "starting").stderr == (
        "warning: generated/starting.py runs as it stands, but differs from what its spec renders\n"
    )
    assert machine.text.endswith("# mine\n")
    assert fusegen_("run", "starting", "--set", "tile.d=64").stderr == ""
    assert machine.calls[-1]["path"] != module


def test_run_a_module_by_its_path(project: Path, machine: Machine) -> None:
    (project / "starting.py").write_text("# anything\n", encoding="utf-8")
    result = fusegen_("run", "starting.py", "--json")
    assert (json.loads(result.stdout)["spec"], json.loads(result.stdout)["cores"]) == ("starting", 7)
    (project / "other.py").write_text("# anything\n", encoding="utf-8")
    options = ["--ranks", "2", "--cores", "1", "--shape", "X=3", "--json"]
    assert json.loads(fusegen_("run", "other.py", *options).stdout)["spec"] == "other"
    assert refused("run", "other.py", "--ranks", "2") == (
        "expected --ranks, --cores and --shape for a module without a spec here, got no --cores or --shape"
    )


def test_run_reports_findings_in_full_and_exits_1(machine: Machine) -> None:
    machine.result = FakeResult(ok=False, max_abs_err=None, findings=(FakeFinding("slot 3 [never] free"),))
    result = fusegen_("run", "starting")
    assert result.exit_code == 1
    assert "1 finding" in result.stdout
    assert result.stdout.endswith("\nstarting: Deadlock: slot 3 [never] free\n")
    document = json.loads(fusegen_("run", "starting", "--json").stdout)
    assert (document["ok"], document["max_abs_err"]) == (False, None)
    assert document["findings"] == [{"kind": "Deadlock", "message": "slot 3 [never] free"}]


def test_run_with_wrong_values_exits_1(machine: Machine) -> None:
    machine.result = FakeResult(ok=False, max_abs_err=float("nan"))
    result = fusegen_("run", "starting")
    assert (result.exit_code, "wrong values" in result.stdout) == (1, True)
    assert json.loads(fusegen_("run", "starting", "--json").stdout)["max_abs_err"] is None


def test_run_all_prints_a_row_for_each_spec(project: Path, machine: Machine) -> None:
    shutil.copy(project / "specs/starting.yaml", project / "specs/again.yaml")
    lines = fusegen_("run", "--all").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["kernel", "again", "starting"]
    assert [each["spec"] for each in json.loads(fusegen_("run", "--all", "--json").stdout)] == ["again", "starting"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a SPEC or --all, got neither of them"),
        (["starting", "--all"], "expected a SPEC or --all, got both of them"),
        (["--all", "--set", "tile.d=64"], "expected --shape and --set with a single SPEC, got one of them with --all"),
        (["started"], "expected a spec in specs, or a path to a .yaml file, got started (did you mean starting?)"),
        (["none.yaml"], "none.yaml: expected a spec file, got no such file"),
        (["none.py"], "SPEC: expected a generated module, got no such file: none.py"),
        (["starting", "--shape", "S=1,H=2"], "--shape: expected S, H and D, got no D"),
        (["starting", "--shape", "S=1,H=2,D=3,Q=4"], "--shape: expected a known key, got Q (keys: S, H, D)"),
        (["starting", "--shape", "s=1,H=2,D=3"], "--shape: expected a known key, got s (did you mean S?)"),
        (["starting", "--shape", "S=1,S=2"], "--shape: expected each key once, got S again"),
        (["starting", "--shape", "S=-1"], "--shape: expected KEY=NUMBER,..., got S=-1 (for example S=130,H=3)"),
        (["starting", "--shape", ""], "--shape: expected KEY=NUMBER,..., got nothing (for example S=130,H=3)"),
        (
            ["starting", "--ranks", "4", "--ranks-per-node", "3"],
            "--ranks-per-node: expected a divisor of 4, the number of ranks, got 3",
        ),
        (
            ["starting", "--cores", "1"],
            "--cores: expected at least 2, because of roles: interleaved, got 1 "
            "(even cores produce and odd cores consume, so one core alone has no partner)",
        ),
        (
            ["starting", "--set", "buffer_num=9"],
            "--set buffer_num: expected a whole number between 1 and 4, got 9 "
            "(2 overlaps moving and consuming; more cost memory)",
        ),
    ],
)
def test_run_refuses(machine: Machine, arguments: list[str], message: str) -> None:
    assert refused("run", *arguments) == message
    assert machine.calls == []


@pytest.mark.parametrize(
    "option", ["--ranks=0", "--ranks=17", "--cores=0", "--launches=0", "--seed=-1", "--schedule=x"]
)
def test_run_checks_its_numbers(machine: Machine, option: str) -> None:
    assert f"Invalid value for '{option.split('=')[0]}'" in refused("run", "starting", option)


def test_run_says_what_to_install(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    present: Callable[[str], object] = {"greenlet": 1, "ml_dtypes": 1, "numpy": 1, "torch": None}.get
    monkeypatch.setattr(doctor, "find_spec", present)
    assert refused("run", "starting", "--json") == (
        "torch is not installed: this command needs the extra sim: "
        "pip install 'fusegen[sim]', or in a checkout pip install '.[sim]'"
    )


@pytest.mark.parametrize(
    ("arguments", "tiles"),
    [
        ("reverse_all2all_mte_signal --ranks 2 --cores 40 --shape S=2045,H=12,D=128", 3072),
        ("reverse_all2all_mte_barrier --ranks 5 --cores 7 --shape S=130,H=3,D=72 --launches 3", 1350),
        ("reverse_all2all_mte_signal --ranks 1 --cores 2 --shape S=1,H=1,D=1", 2),
    ],
)
def test_run_on_the_real_machine(monkeypatch: pytest.MonkeyPatch, arguments: str, tiles: int) -> None:
    monkeypatch.chdir(ROOT)
    result = fusegen_("run", *arguments.split(), "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"], document["findings"], document["tiles"]) == (0, True, [], tiles)


def test_run_on_two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    arguments = "reverse_all2all_mte_signal --ranks 4 --cores 8 --shape S=64,H=1,D=8 --ranks-per-node"
    assert fusegen_("run", *arguments.split(), "4").exit_code == 0
    result = fusegen_("run", *arguments.split(), "2", "--json")
    (finding,) = json.loads(result.stdout)["findings"]
    assert (result.exit_code, finding["kind"]) == (1, "HostError")
    assert "since MTE does not cross nodes" in finding["message"]


def test_run_all_without_specs_is_no_success(project: Path, machine: Machine) -> None:
    (project / "specs/starting.yaml").unlink()
    assert refused("run", "--all") == "--all: expected specs in specs, got none"


def test_run_refuses_what_the_launcher_would_refuse_before_it_allocates(machine: Machine) -> None:
    message = refused("run", "starting", "--ranks", "2", "--shape", "S=2200000,H=8,D=128")
    assert message.startswith("shape: expected fewer than 2**31 elements in a, for 32-bit offsets, got 4505600000")


def test_run_on_more_cores_than_the_target_has_says_so(machine: Machine) -> None:
    result = fusegen_("run", "starting", "--cores", "41")
    assert result.exit_code == 0
    assert result.stderr == "note: Ascend910B3 has 40 vector cores, not 41\n"


def test_a_finding_is_printed_as_it_is(machine: Machine) -> None:
    """A line number between colons, or brackets, mean something to rich."""
    machine.result = FakeResult(ok=False, findings=(FakeFinding("stuck at x.py:100: `a[0]` [bold]"),))
    assert "Deadlock: stuck at x.py:100: `a[0]` [bold]" in fusegen_("run", "starting").stdout


@pytest.mark.parametrize(
    ("name", "cores", "shape", "tiles"),
    [
        ("reverse_all2all_mte_signal", 7, {"S": 130, "H": 3, "D": 72}, 216),
        # Blocks that are transferred, and tiles that are added atomically, are not stored.
        ("reverse_all2all_udma_signal", 7, {"S": 130, "H": 3, "D": 72}, 162),
        ("gemm_allreduce_mte_barrier", 3, {"M": 140, "N": 264, "K": 72}, 24),
    ],
)
def test_the_tiles_that_a_run_stores_are_known(name: str, cores: int, shape: dict[str, int], tiles: int) -> None:
    assert _tiles(plan_from(name), Size(2, cores, shape, 3)) == tiles
    assert _tiles(None, Size(2, cores, shape, 3)) is None


def test_what_a_module_prints_is_not_in_the_document(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def printing(module: Path, **_: Any) -> FakeResult:
        os.write(1, b"from a process of the module")
        return FakeResult()

    monkeypatch.setattr(fusegen.sim, "run_module", printing)
    json.loads(fusegen_("run", "starting", "--json").stdout)
    assert capfd.readouterr() == ("", "from a process of the module")
