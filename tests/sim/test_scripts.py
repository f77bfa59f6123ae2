"""Scripts on every rank: what a process sees, what it prints, what it imports, and how it may end."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from fusegen.sim.errors import SimulationError, Unsupported
from fusegen.sim.script import script_core_unit, simulate_script
from tests.sim.scripts import assert_clean, run_script


def test_a_process_is_as_torchrun_starts_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    import os, sys
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    print(*(os.environ[name] for name in names))
    print(__name__, __file__ == sys.argv[0], *sys.argv[1:], sys.path[0] == os.path.dirname(__file__), __annotations__)
    assert sys.modules["__main__"].__dict__ is globals()
    x: int = 0
    """
    before = sys.argv, list(sys.argv), list(sys.path), sys.modules["__main__"], sys.stdout
    assert_clean(run_script(tmp_path, text, "--n", "3", prelude="", ranks=4, ranks_per_node=2))
    assert (sys.argv, list(sys.argv), list(sys.path), sys.modules["__main__"], sys.stdout) == before
    printed = capsys.readouterr().out.splitlines()
    nodes = "192.0.2.1 29500"
    assert printed[::2] == [f"[rank {rank}] {rank} {rank % 2} 4 2 {nodes}" for rank in range(4)]
    assert printed[1::2] == [f"[rank {rank}] __main__ True --n 3 True {{}}" for rank in range(4)]


def test_each_rank_changes_only_its_own_process(tmp_path: Path) -> None:
    text = """
    sys.argv.append(str(RANK))
    sys.path.append(f"/nowhere/{RANK}")
    os.environ["MINE"] = str(RANK)
    sys.modules["__main__"].mine = RANK
    dist.barrier()
    assert sys.argv[1:] == [str(RANK)] and sys.path[-1] == f"/nowhere/{RANK}"
    assert os.environ["MINE"] == str(RANK) and sys.modules["__main__"].mine == mine == RANK
    """
    assert_clean(run_script(tmp_path, text, ranks=3))


def test_lines_of_ranks_do_not_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    print("first", end=" ")
    dist.barrier()
    print("half\\nsecond")
    print("to stderr", file=sys.stderr)
    print("unfinished", end="", flush=True)
    """
    assert_clean(run_script(tmp_path, text))
    printed = capsys.readouterr()
    assert sorted(printed.out.splitlines()) == sorted(
        f"[rank {rank}] {line}" for rank in range(2) for line in ("first half", "second", "unfinished")
    )
    assert sorted(printed.err.splitlines()) == ["[rank 0] to stderr", "[rank 1] to stderr"]


def test_modules_beside_the_script_are_simulated_on_each_rank(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/__init__.py").write_text("from . import state\n")
    (tmp_path / "parts/state.py").write_text("import torch.distributed as dist\ncount = 0\n")
    (tmp_path / "kernels.py").write_text(
        "import os, triton, triton.language as tl\nfrom parts import state\n"
        "state.count += 1 + int(os.environ['RANK'])\n"
        "@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr + 2, 1.0)\n"
    )
    text = """
    from kernels import kernel
    import parts.state
    dist.barrier()
    assert parts.state.count == 1 + RANK and sys.modules["parts.state"] is parts.state
    kernel[(1,)](torch.zeros(1 + 2 * RANK).npu())
    """
    (finding,) = run_script(tmp_path, text).findings
    assert finding.message.startswith(
        "rank 0 core 0 AIV program 0 at kernels.py:6: `tl.store(x_ptr + 2, 1.0)`: x_ptr: "
    )
    assert finding.kind == "OutOfBounds"
    assert not {"kernels", "parts", "parts.state"} & set(sys.modules)
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_changed_module_is_read_again(tmp_path: Path) -> None:
    for value in (1, 2):
        (tmp_path / "constants.py").write_text(f"VALUE = {value}\n")
        assert_clean(run_script(tmp_path, f"import constants\nassert constants.VALUE == {value}\n", prelude=""))


def test_installed_packages_are_shared(tmp_path: Path) -> None:
    assert_clean(run_script(tmp_path, "import numpy, json.tool\n", prelude=""))
    assert "numpy" in sys.modules


@pytest.mark.parametrize(
    "name", ["triton.ops", "triton_dist.utils", "torch_npu.contrib", "triton_dist.language.extra.ascend.other"]
)
def test_an_unknown_module_raises_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unsupported, match=rf"^script.py:1: {name}: expected a builtin"):
        run_script(tmp_path, f"import {name}\n", prelude="")


@pytest.mark.parametrize("name", ["triton.reinterpret", "torch.npu.mem_get_info", "torch_npu.npu_fusion_attention"])
def test_an_unknown_name_raises_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unsupported, match=f"{name}: expected a builtin"):
        run_script(tmp_path, f"{name}()\n")


def test_a_failed_comparison_is_a_finding_with_its_ranks(tmp_path: Path) -> None:
    text = """
    dist.barrier()
    expected = torch.tensor([1.0, 3.0 if RANK == 1 else 2.0])
    torch.testing.assert_close(torch.tensor([1.0, 2.0]), expected)
    """
    (finding,) = run_script(tmp_path, text, ranks=3).findings
    assert (finding.kind, finding.ranks, finding.exception) == ("HostError", (1,), "AssertionError")
    assert finding.message.startswith(
        "rank 1 raised AssertionError at script.py:19: `torch.testing.assert_close(torch.tensor([1.0, 2.0]), expected)`"
    )
    assert "Greatest absolute difference: 1.0" in finding.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sys.exit(3)", "ranks 0, 1 exited with status 3 at script.py:16: `sys.exit(3)`"),
        ("sys.exit(RANK)", "rank 1 exited with status 1 at script.py:16: `sys.exit(RANK)`"),
        ("sys.exit('no luck')", "ranks 0, 1 exited with status no luck at script.py:16: `sys.exit('no luck')`"),
        ("1 / 0", "ranks 0, 1 raised ZeroDivisionError at script.py:16: `1 / 0`: division by zero"),
    ],
)
def test_how_a_script_may_fail(tmp_path: Path, text: str, message: str) -> None:
    (finding,) = run_script(tmp_path, text).findings
    assert (finding.kind, finding.message) == ("HostError", message)


def test_a_script_may_exit_with_status_0(tmp_path: Path) -> None:
    assert_clean(run_script(tmp_path, "sys.exit(0)\n"))


def test_what_a_script_does_at_its_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    import atexit
    atexit.register(print, "last", RANK)
    @atexit.register
    def first():
        dist.barrier()
        print("first")
    sys.exit(RANK)
    """
    (finding,) = run_script(tmp_path, text).findings
    assert finding.ranks == (1,)
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "rank 0" in line] == ["[rank 0] first", "[rank 0] last 0"]
    assert [line for line in printed if "rank 1" in line] == ["[rank 1] first", "[rank 1] last 1"]


def test_an_error_leaves_out_what_a_script_does_at_its_exit(tmp_path: Path) -> None:
    (finding,) = run_script(tmp_path, "import atexit\natexit.register(dist.barrier)\nassert RANK\n").findings
    assert (finding.kind, finding.ranks) == ("LeakedCollective", (0,))


def test_the_hard_exit_ends_one_process(tmp_path: Path) -> None:
    assert_clean(run_script(tmp_path, "os._exit(0)\n"))
    (finding,) = run_script(tmp_path, "os._exit(4 * RANK)\n").findings
    assert finding.message.startswith("rank 1 exited with status 4 at script.py:16")


def test_each_rank_has_its_own_loggers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    import logging
    logging.root.handlers.clear()
    logging.basicConfig(level=logging.INFO if RANK else logging.WARNING, format=f"R{RANK} %(message)s")
    log = logging.getLogger("own")
    log.setLevel(logging.NOTSET)
    dist.barrier()
    log.info("quiet")
    log.warning("loud")
    """
    before = list(logging.root.handlers), logging.root.level
    assert_clean(run_script(tmp_path, text))
    assert (logging.root.handlers, logging.root.level) == before
    assert "own" not in logging.root.manager.loggerDict
    lines = sorted(capsys.readouterr().err.splitlines())
    assert lines == ["[rank 0] R0 loud", "[rank 1] R1 loud", "[rank 1] R1 quiet"]


def test_a_rank_that_raises_while_others_wait(tmp_path: Path) -> None:
    (finding,) = run_script(tmp_path, "assert RANK\ndist.barrier()\n").findings
    assert finding.kind == "LeakedCollective"
    assert finding.message == (
        "rank 0 raised AssertionError at script.py:16: `assert RANK`; "
        "meanwhile rank 1 host in barrier at script.py:17: `dist.barrier()`"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"import os\ndef f(:\n", r"script.py:2: expected a script in Python, got `def f\(:` \(invalid syntax\)"),
        (b"x = '\xff'\n", "script.py(:1)?: expected a script in Python, got .*"),
        (b"a\0b", "script.py: expected a script in Python, got .*null bytes.*"),
        (None, "script.py: expected the file of a script, got no such file"),
    ],
)
def test_a_file_that_is_no_script(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "script.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SimulationError, match=message):
        simulate_script(path, ranks=2, cores=2)


def test_a_module_beside_the_script_that_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def f(:\n")
    (finding,) = run_script(tmp_path, "import wrong\n", prelude="").findings
    assert finding.message == (
        "ranks 0, 1 raised SyntaxError at script.py:1: `import wrong`: invalid syntax (wrong.py, line 1)"
    )


def test_what_cores_count_follows_the_imports(tmp_path: Path) -> None:
    script, kernels = tmp_path / "script.py", tmp_path / "parts/kernels.py"
    kernels.parent.mkdir()
    script.write_text("from parts import kernels\n")
    kernels.write_text("import triton\n@triton.jit\ndef kernel(): pass\n")
    assert script_core_unit(script) == "vector"
    kernels.write_text("import triton, triton.language as tl\n@triton.jit\ndef kernel(a):\n    tl.dot(a, a)\n")
    assert script_core_unit(script) == "AI"
