"""fusegen simulate: the examples in docs/examples and what is found in them, options, output and exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fusegen.cli.simulate import split_words
from tests.commands import fusegen_, refused

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
FOUND = {
    "allgather.py": [],
    "missing_credit.py": ["Deadlock", "MissingReset"],
    "relaunch.py": ["DataRace"],
    "single_buffer.py": ["DataRace"],
}
"""The examples, and the kinds of findings in each."""


def simulated(*words: str) -> Any:
    """The JSON of a command, whose exit status says whether anything was found."""
    result = fusegen_("simulate", "--json", *words)
    document = json.loads(result.stdout)
    each = document if isinstance(document, list) else [document]
    assert result.exit_code == (0 if all(one["ok"] for one in each) else 1)
    return document


def kinds(document: dict[str, Any]) -> list[str]:
    return [finding["kind"] for finding in document["findings"]]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that prints its arguments and launches two kernels, in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = Path("script.py")
    path.write_text("""\
import os, sys, torch, torch_npu, triton, triton.language as tl


@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr + 16 * tl.program_id(0), 1.0)


print(*sys.argv)
for length in (1, 2):
    x = torch.zeros(16 * length).npu()
    kernel[(length,)](x)
    print(length, "done", x.sum().item())
sys.exit(3 if "fail" in sys.argv and os.environ["RANK"] == "1" else 0)
""")
    return path


def test_the_examples_in_one_command() -> None:
    """As README has it, with a shell that sorts the names."""
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == list(FOUND)
    documents = simulated("--ranks", "2", *(str(EXAMPLES / name) for name in FOUND))
    assert {Path(each["script"]).name: kinds(each) for each in documents} == FOUND
    assert [each["proved"] for each in documents] == [True, False, False, False]
    assert {each["cores"] for each in documents} == {40}
    credit, relaunch, single = (document["findings"][0] for document in documents[1:])
    assert credit["causes"][0]["name"] == "credit return missing"
    for race, name in ((relaunch, "relaunch.py"), (single, "single_buffer.py")):
        assert f"of landing_ptr on rank {race['rank']}" in race["message"]
        assert f"at {name}:" in race["message"]
        assert "tl.store(dl.symm_at(landing_ptr, target) + place, tile, mask=mask)` writes" in race["message"]


@pytest.mark.parametrize("ranks", ["2", "3", "8"])
@pytest.mark.parametrize("name", FOUND)
def test_an_example_on_more_ranks(name: str, ranks: str) -> None:
    found = kinds(simulated("--ranks", ranks, "--cores", "6", str(EXAMPLES / name)))
    assert sorted(set(found)) == FOUND[name]


@pytest.mark.parametrize("name", ["relaunch.py", "single_buffer.py"])
def test_a_slow_rank_shows_a_race_in_the_results(name: str) -> None:
    words = ["--ranks", "2", "--cores", "8", "--schedule", "slow-rank", "--seed", "3", str(EXAMPLES / name)]
    error, *races = simulated(*words)["findings"]
    assert error["exception"] == "AssertionError"
    assert {race["kind"] for race in races} == {"DataRace"}
    assert f"at {name}:" in error["message"]
    assert "torch.testing.assert_close(c, " in error["message"]


@pytest.mark.parametrize(
    "words",
    [
        ["allgather.py", "--rows", "33", "--columns", "130"],
        ["missing_credit.py", "--rows", "64"],
        ["relaunch.py", "--launches", "1"],
        ["relaunch.py", "--close"],
        ["relaunch.py", "--rows", "30"],
        ["single_buffer.py", "--buffers", "2"],
        ["single_buffer.py", "--rows", "16"],
    ],
)
@pytest.mark.parametrize("ranks", ["1", "2", "5"])
def test_clean_twins_of_the_examples(words: list[str], ranks: str) -> None:
    document = simulated("--ranks", ranks, "--cores", "5", str(EXAMPLES / words[0]), *words[1:])
    assert (kinds(document), document["proved"]) == ([], True)


def test_what_is_printed(script: Path) -> None:
    result = fusegen_("simulate", "--ranks", "2", "--cores", "4", "script.py", "a", "--b", "-h")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for rank in range(2):
        own = [line for line in lines if line.startswith(f"[rank {rank}]")]
        assert own == [f"[rank {rank}] {text}" for text in ("script.py a --b -h", "1 done 1.0", "2 done 2.0")]
    header, row = lines[-2:]
    assert header.split() == ["script", "ranks", "cores", "launches", "steps", "tiles", "seconds", "result"]
    assert row.split()[:5] == ["script.py", "2", "4", "vector", "2"]
    assert row.split()[-2:] == ["ok,", "proved"]


def test_a_status_that_is_not_0(script: Path) -> None:
    result = fusegen_("simulate", "--ranks", "2", "script.py", "fail")
    assert result.exit_code == 1
    assert "1 finding" in result.stdout
    message = "HostError: rank 1 exited with status 3 at script.py:14: `sys.exit(3 if"
    assert f"\nscript.py: {message}" in result.stdout


def test_json_is_all_of_stdout(script: Path) -> None:
    result = fusegen_("simulate", "--json", "--ranks", "1", "script.py")
    document = json.loads(result.stdout)
    assert "[rank 0] 2 done 2.0" in result.stderr
    assert document.pop("wall_s") > 0
    assert document == {
        "script": "script.py",
        "ranks": 1,
        "cores": 40,
        "core_unit": "vector",
        "ok": True,
        "findings": [],
        "launches": 2,
        "stopped_by_launch_limit": False,
        "proved": True,
        "proof": document["proof"],
        "steps": 3,
        "tiles": 0,
    }


def test_several_scripts_with_arguments(script: Path) -> None:
    Path("other.py").write_text("import sys\nprint('other', *sys.argv[1:])\n")
    result = fusegen_("simulate", "--ranks", "1", "script.py", "other.py", "--", "--n", "3")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["script.py:", "[rank 0] script.py --n 3"]
    assert lines[lines.index("other.py:") + 1] == "[rank 0] other --n 3"
    assert [line.split()[0] for line in lines[-2:]] == ["script.py", "other.py"]


def test_a_launch_limit(script: Path) -> None:
    words = ["simulate", "--ranks", "2", "--launch-limit", "1", "script.py"]
    result = fusegen_(*words)
    assert result.exit_code == 0
    assert "[rank 0] 1 done 1.0" in result.stdout
    assert "2 done" not in result.stdout
    assert result.stdout.endswith(
        "script.py: stopped after 1 launch (--launch-limit): nothing is known about what the script does then\n"
    )
    assert simulated(*words[1:])["stopped_by_launch_limit"] is True


def test_a_schedule_and_its_seed(script: Path) -> None:
    """Which rank prints first is up to the schedule."""
    script.write_text("print('first')\n")

    def first(*words: str) -> str:
        return fusegen_("simulate", "--ranks", "8", *words, "script.py").stdout.splitlines()[0]

    assert first() == "[rank 0] first"
    seeds = {seed: first("--schedule", "random", "--seed", str(seed)) for seed in range(4)}
    assert len(set(seeds.values())) > 1
    assert first("--schedule", "random", "--seed", "2") == seeds[2]


def test_a_run_that_does_not_check_the_order() -> None:
    document = simulated("--ranks", "2", "--cores", "4", "--no-races", str(EXAMPLES / "single_buffer.py"))
    assert (kinds(document), document["proof"], document["proved"]) == ([], None, False)


PUT = """\
import os, shmem as ash, torch, torch_npu, triton, triton.language as tl
from triton_dist.language.extra import libshmem_device


@triton.jit
def kernel(to_ptr, from_ptr, rank, ranks):
    libshmem_device.putmem(to_ptr, from_ptr, 256, (rank + 1) % ranks)


attributes = ash.InitAttr()
attributes.my_rank, attributes.n_ranks, attributes.local_mem_size = (int(os.environ["RANK"])), 2, 1 << 20
attributes.ip_port = "tcp://127.0.0.1:8666"
attributes.option_attr.data_op_engine_type = ash.OpEngineType.UDMA
assert ash.aclshmem_init(attributes) == 0
kernel[(1,)](ash.aclshmem_create_tensor([64]), torch.zeros(64).npu(), attributes.my_rank, 2)
torch.npu.synchronize()
"""


def test_a_target_has_its_engines_and_cores(script: Path) -> None:
    script.write_text(PUT)
    targets = ("Ascend910B3", "Ascend950PR_9599")
    named = {name: simulated("--ranks", "2", "--target", name, "script.py") for name in targets}
    assert kinds(named["Ascend910B3"]) == ["UdmaRule"]
    assert named["Ascend910B3"]["findings"][0]["rule"] == "target"
    assert kinds(named["Ascend950PR_9599"]) == kinds(simulated("--ranks", "2", "script.py")) == []
    assert named["Ascend950PR_9599"]["cores"] == 72


def test_ranks_on_two_nodes(script: Path) -> None:
    script.write_text("import os\nprint(os.environ['LOCAL_RANK'], os.environ['GROUP_RANK'])\n")
    result = fusegen_("simulate", "--ranks", "4", "--ranks-per-node", "2", "script.py")
    assert result.stdout.splitlines()[:4] == ["[rank 0] 0 0", "[rank 1] 1 0", "[rank 2] 0 1", "[rank 3] 1 1"]


def test_a_mix_kernel_is_launched_on_ai_cores(script: Path) -> None:
    Path("kernels.py").write_text("""\
import triton
from triton_dist.language.extra import libshmem_device


@triton.jit
def kernel():
    libshmem_device.barrier_all()
""")
    script.write_text("from kernels import kernel\nkernel[(20,)]()\n")
    document = simulated("--ranks", "2", "script.py")
    assert (document["core_unit"], document["cores"], kinds(document)) == ("AI", 20, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.py"], "SCRIPT: expected files, got no such file: missing.py"),
        (["a.py", "script.py", "b.py"], "SCRIPT: expected files, got no such file: a.py and b.py"),
        (["script"], "SCRIPT: expected a file that ends in .py, got script"),
        (["script.py", "script.py", "x"], "ARGS: expected -- before the arguments of several scripts, got x"),
        (
            ["--target", "Ascend910B", "script.py"],
            "target: expected a known target, got Ascend910B (did you mean Ascend910B4?)",
        ),
        (
            ["--ranks-per-node", "3", "script.py"],
            "--ranks-per-node: expected a divisor of 2, the number of ranks, got 3",
        ),
    ],
)
def test_what_is_refused(script: Path, words: list[str], message: str) -> None:
    assert refused("simulate", "--ranks", "2", *words) == message


def test_a_script_that_is_no_python(script: Path) -> None:
    script.write_text("import os\nwhile\n")
    message = "script.py:2: expected a script in Python, got `while` (invalid syntax)"
    assert refused("simulate", "--ranks", "2", "script.py") == message


def test_a_name_that_the_simulator_does_not_have(script: Path) -> None:
    script.write_text("import triton\ntriton.reinterpret\n")
    message = "script.py:2: triton.reinterpret: expected a builtin that the simulator supports"
    assert refused("simulate", "--ranks", "2", "script.py") == message


def test_an_option_that_does_not_exist(script: Path) -> None:
    assert re.search("No such option:? '?--rank", refused("simulate", "--rank", "2", "script.py"))


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["script.py"], []),
        (["script.py", "--", "other.py"], ["other.py"]),
        (["script.py", "x", "--", "y"], ["x", "--", "y"]),
        (["script.py", "--n", "3"], ["--n", "3"]),
    ],
)
def test_which_words_are_arguments(script: Path, words: list[str], arguments: list[str]) -> None:
    assert split_words(words) == ([script], arguments)
