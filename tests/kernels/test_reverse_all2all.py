"""The kernel of one movement pattern in depth: schedules, tiles, strides, what the launcher refuses, and hand edits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fusegen.project import packaged_templates
from fusegen.render.environment import render
from fusegen.sim import RunResult, run_module
from tests.plan.plans import plan_of

SMALL_TILE = {"s": 16, "d": 16}
"""Small tiles give small shapes many blocks, so that rings come round and tails are everywhere."""


def run_of(folder: Path, changes: dict[str, Any], **conditions: Any) -> RunResult:
    """Render the base spec with some fields changed, and run it."""
    module = folder / "kernel.py"
    module.write_text(render(plan_of(**changes), packaged_templates()))
    return run_module(module, **conditions)


def assert_exact(result: RunResult) -> None:
    """No findings, and every element moved bit for bit."""
    assert result.findings == ()
    assert result.max_abs_err == 0.0
    assert result.ok


@pytest.mark.parametrize("flatten", ["none", "s", "auto"])
@pytest.mark.parametrize("buffer_num", [1, 2, 3, 4])
def test_signals_under_many_schedules(tmp_path: Path, flatten: str, buffer_num: int) -> None:
    changes = {"flatten": flatten, "buffer_num": buffer_num, "tile": SMALL_TILE}
    for seed in range(8):
        shape = {"S": 150, "H": 1, "D": 16}
        result = run_of(tmp_path, changes, ranks=3, cores=30, shape=shape, launches=2, seed=seed, schedule="random")
        assert_exact(result)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("tile", [{"s": 16, "d": 256}, {"s": 64, "d": 128}, {"s": 128, "d": 16}])
@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_every_dtype_and_several_tiles(tmp_path: Path, dtype: str, tile: dict[str, int], sync: str) -> None:
    shape = {"S": 130, "H": 2, "D": 129}
    assert_exact(
        run_of(tmp_path, {"dtype": dtype, "tile": tile, "sync": sync}, ranks=3, cores=5, shape=shape, launches=2)
    )


@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_strided_input_and_output(tmp_path: Path, sync: str) -> None:
    """Every second element of A's rows, and a C whose axes are swapped: the ring must not take over such strides."""
    text = render(plan_of(sync=sync, tile=SMALL_TILE), packaged_templates())
    old = "return tensor.transpose(-1, -2) if turned and len(shape) > 1 else tensor"
    spread = 'torch.empty((shape[2], shape[1], 2 * shape[0]), dtype=dtype, device="npu")[:, :, bool(gap) :: 2]'
    new = f"return {spread}.permute(2, 1, 0)"
    assert old in text
    module = tmp_path / "kernel.py"
    module.write_text(text.replace(old, new))
    assert_exact(run_module(module, ranks=3, cores=6, shape={"S": 35, "H": 2, "D": 20}, launches=2))


@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_peer_memory_with_the_users_strides_gives_wrong_values(tmp_path: Path, sync: str) -> None:
    """Hazard 5 of docs/platform.md: the second launch of every self-check has strides of its own."""
    text = render(plan_of(sync=sync, tile=SMALL_TILE), packaged_templates())
    assert "rows[:, None] * peer_row" in text
    module = tmp_path / "kernel.py"
    module.write_text(text.replace("rows[:, None] * peer_row", "rows[:, None] * stride_as"))
    conditions = {"ranks": 2, "cores": 4, "shape": {"S": 35, "H": 2, "D": 20}}
    assert_exact(run_module(module, launches=1, **conditions))  # type: ignore[arg-type]
    assert not run_module(module, launches=2, **conditions).ok  # type: ignore[arg-type]


FAR = """
class _Far:
    shape, dtype, device = (8, 2, 8), DTYPE, "npu"

    def stride(self):
        return (2**29, 8, 1)


"""
"""A tensor whose elements lie far apart, without the memory that a real one would take."""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("launch(a, workspace, c=c)", "launch(a[1:], workspace, c=c)", r"a: expected torch\.bfloat16 \(8, 2, 8\), got"),
        ("launch(a, workspace, c=c)", "launch(a.float(), workspace, c=c)", r"got torch\.float32 \(8, 2, 8\)"),
        (
            "launch(a, workspace, c=c)",
            "launch(a, workspace, c=c[:1].expand(4, 4, 8))",
            r"c: expected a place of its own for each element, got strides \(0, ",
        ),
        (
            "launch(a, workspace, c=c)",
            "launch(a, workspace, c=a.view(4, 4, 8))",
            "c: expected memory of its own, got some of a",
        ),
        (
            "launch(a, workspace, c=c)",
            "launch(_Far(), workspace, c=c)",
            r"a: expected its elements within 2\*\*31 of the first one",
        ),
        (
            "with Workspace(S, H, D) as workspace:",
            "with Workspace(-1, H, D) as workspace:",
            r"shape: expected S, H, D from 0 to below 2\*\*30, got \(-1, 2, 8\)",
        ),
        (
            "with Workspace(S, H, D) as workspace:",
            "with Workspace(2**20, 2**10, 2) as workspace:",
            r"a: expected fewer than 2\*\*31 elements for 32-bit offsets, got 4294967296",
        ),
    ],
)
def test_the_launcher_refuses(tmp_path: Path, old: str, new: str, message: str) -> None:
    module = edited(tmp_path, old, new)
    module.write_text(module.read_text().replace("def self_check", f"{FAR}def self_check", 1))
    (finding,) = run_module(module, ranks=2, cores=4, shape={"S": 4, "H": 2, "D": 8}).findings
    assert finding.kind == "HostError"
    assert re.search(message, finding.message)


@pytest.mark.parametrize("shape", [{"S": 0, "H": 2, "D": 8}, {"S": 4, "H": 0, "D": 8}, {"S": 4, "H": 2, "D": 0}])
@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_a_shape_with_a_zero_is_a_no_op(tmp_path: Path, sync: str, shape: dict[str, int]) -> None:
    result = run_of(tmp_path, {"sync": sync}, ranks=2, cores=4, shape=shape, launches=2)
    assert_exact(result)
    assert result.tiles == 0


def test_a_single_core_is_enough_where_roles_are_shared(tmp_path: Path) -> None:
    changes = {"sync": "barrier", "roles": "shared", "tile": SMALL_TILE}
    assert_exact(run_of(tmp_path, changes, ranks=3, cores=1, shape={"S": 35, "H": 2, "D": 20}, launches=2))


@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_a_single_core_is_refused_where_roles_need_two(tmp_path: Path, sync: str) -> None:
    changes = {"sync": sync, "roles": "interleaved"}
    result = run_of(tmp_path, changes, ranks=2, cores=1, shape={"S": 4, "H": 2, "D": 8})
    (finding,) = result.findings
    assert not result.ok
    assert "ValueError" in finding.message
    assert "cores: expected 2 to 1 vector cores, got 1" in finding.message


def edited(folder: Path, old: str, new: str, **changes: Any) -> Path:
    """The rendered module with a piece of text replaced, as a careless hand would."""
    text = render(plan_of(**{"tile": SMALL_TILE, **changes}), packaged_templates())
    assert old in text
    module = folder / "kernel.py"
    module.write_text(text.replace(old, new))
    return module


def test_without_credit_return_the_deadlock_names_the_credit(tmp_path: Path) -> None:
    for flatten, credit in (("none", "0"), ("auto", "(use + 1) % uses * 2")):
        module = edited(tmp_path, f"dl.notify(signal_ptr + slot, rank, {credit})", "pass", flatten=flatten)
        deadlock, reset = run_module(module, ranks=2, cores=4, shape={"S": 64, "H": 2, "D": 16}).findings
        assert (deadlock.kind, reset.kind) == ("Deadlock", "MissingReset")
        assert "credit return missing" in deadlock.message


def test_a_missing_credit_shows_in_the_second_launch_where_no_ring_slot_is_reused_in_the_first(tmp_path: Path) -> None:
    module = edited(tmp_path, "dl.notify(signal_ptr + slot, rank, 0)", "pass", flatten="none")
    assert_exact(run_module(module, ranks=2, cores=4, shape={"S": 16, "H": 2, "D": 16}, launches=1))
    deadlock, reset = run_module(module, ranks=2, cores=4, shape={"S": 16, "H": 2, "D": 16}, launches=2).findings
    assert (deadlock.kind, reset.kind) == ("Deadlock", "MissingReset")
    assert "credit return missing" in deadlock.message


@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_a_grid_beyond_the_cores_names_residency(tmp_path: Path, sync: str) -> None:
    module = edited(tmp_path, "[(cores,)]", "[(2 * cores,)]", sync=sync, flatten="auto")
    (finding,) = run_module(module, ranks=2, cores=8, shape={"S": 257, "H": 3, "D": 130}).findings
    assert finding.kind == "Deadlock"
    assert (
        "likely cause: residency: rank 0 launched 16 programs of reverse_all2all_kernel on 8 cores" in finding.message
    )


def test_free_and_ready_alone_are_not_enough_where_rounds_are_merged(tmp_path: Path) -> None:
    """The reason for numbered uses: with plain 0 and 1, some schedule deadlocks or gives wrong values."""
    module = edited(tmp_path, "2 * use + 1)", "1)")
    text = module.read_text().replace("waitValue=2 * use)", "waitValue=0)").replace("(use + 1) % uses * 2)", "0)")
    assert "* use" not in text
    module.write_text(text)
    shape = {"S": 160, "H": 1, "D": 16}
    results = [run_module(module, ranks=2, cores=40, shape=shape, seed=seed, schedule="random") for seed in range(10)]
    assert sum(not result.ok for result in results) >= 8
