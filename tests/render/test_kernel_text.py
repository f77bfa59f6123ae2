"""The rendered text: well-formed, formatted, the same each time, and with the steps of the guide in their order."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest

from fusegen.plan import KernelPlan
from fusegen.project import packaged_templates
from fusegen.render.environment import environment, render
from tests.plan.plans import every_combination, plan_of

ROOT = Path(__file__).parents[2]
STEPS = {"wait", "consume_token", "load", "store", "fence", "notify", "barrier_all_vec", "symm_at"}


def text_of(**changes: Any) -> str:
    """The rendered module of the base spec with some fields changed."""
    return render(plan_of(**changes), packaged_templates())


def kernel_of(text: str) -> ast.FunctionDef:
    """The kernel's syntax tree."""
    (kernel,) = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list)
    )
    return kernel


def steps(nodes: list[ast.stmt]) -> list[str]:
    """Names of the memory and synchronisation calls below `nodes`, inner before outer, in the order of the text."""
    calls: list[tuple[int, int, str]] = []
    for node in nodes:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in STEPS:
                calls.append((call.lineno, -call.col_offset, call.func.attr))
    return [name for _, _, name in sorted(calls)]


def roles(kernel: ast.FunctionDef) -> dict[str, list[str]]:
    """Steps below `if role == ...` and below its else."""
    (branch,) = (node for node in kernel.body if isinstance(node, ast.If))
    return {ast.unparse(branch.test): steps(branch.body), "else": steps(branch.orelse)}


@pytest.fixture(scope="module")
def rendered_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every legal combination, and every dtype, as files."""
    folder = tmp_path_factory.mktemp("rendered")
    for changes in every_combination():
        name = "_".join(str(value) for value in changes.values())
        (folder / f"k_{name}.py").write_text(text_of(**changes))
    for dtype in ("bfloat16", "float16", "float32"):
        (folder / f"k_{dtype}.py").write_text(text_of(dtype=dtype, description="A line about the kernel."))
    (folder / "k_no_watchdog.py").write_text(text_of(watchdog={"enabled": False}))
    return folder


@pytest.mark.parametrize("command", [["format", "--check", "--diff"], ["check"]], ids=["format", "check"])
def test_every_combination_is_as_ruff_would_write_it(rendered_folder: Path, command: list[str]) -> None:
    ruff = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(rendered_folder)]
    result = subprocess.run(ruff, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("changes", every_combination(), ids=lambda c: "-".join(str(v) for v in c.values()))
def test_rendering_twice_gives_the_same_bytes(changes: dict[str, Any]) -> None:
    first = text_of(**changes)
    environment.cache_clear()
    assert text_of(**changes) == first
    assert "fusegen" not in first.replace("Rendered by fusegen", ""), "a module must not need fusegen"


@pytest.mark.parametrize("flatten", ["none", "s", "auto"])
@pytest.mark.parametrize("buffer_num", [1, 2, 4])
def test_a_producer_has_the_guides_five_steps_and_a_consumer_six(flatten: str, buffer_num: int) -> None:
    by_role = roles(kernel_of(text_of(sync="signal", flatten=flatten, buffer_num=buffer_num)))
    assert by_role == {
        "role == 0": ["symm_at", "symm_at", "wait", "consume_token", "load", "store", "fence", "notify"],
        "else": ["wait", "consume_token", "load", "store", "fence", "notify"],
    }


@pytest.mark.parametrize(
    ("roles_choice", "buffer_num", "expected"),
    [
        ("shared", 1, ["symm_at", "load", "store", "barrier_all_vec", "load", "store", "barrier_all_vec"]),
        ("shared", 2, ["symm_at", "load", "store", "barrier_all_vec", "load", "store", "barrier_all_vec"]),
        ("interleaved", 1, ["symm_at", "load", "store", "barrier_all_vec", "load", "store", "barrier_all_vec"]),
        ("interleaved", 2, ["symm_at", "load", "store", "load", "store", "barrier_all_vec"]),
    ],
)
def test_barriers_stand_where_the_plan_has_them(roles_choice: str, buffer_num: int, expected: list[str]) -> None:
    kernel = kernel_of(text_of(sync="barrier", flatten="none", roles=roles_choice, buffer_num=buffer_num))
    assert steps(kernel.body) == expected
    in_rounds = [steps(node.body) for node in kernel.body if isinstance(node, ast.For)]
    closing = 1 if (roles_choice, buffer_num) == ("shared", 2) else 0
    assert in_rounds[0].count("barrier_all_vec") == expected.count("barrier_all_vec") - closing


def test_slot_values_count_uses_only_where_rounds_are_merged() -> None:
    assert "waitValue=2 * use)" in text_of(flatten="auto")
    assert "dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)" in text_of(flatten="auto")
    assert "waitValue=0)" in text_of(flatten="none")
    assert "dl.notify(signal_ptr + slot, rank, 0)" in text_of(flatten="none")


def test_a_slot_is_addressed_as_it_is_allocated() -> None:
    text = text_of(flatten="auto")
    assert "slot = (ring * ring_slots + rank * rank_slots + h * blocks_d + block_d) * SLOT_WORDS" in text
    assert "slot = (ring * ring_slots + source * rank_slots + h * blocks_d + block_d) * SLOT_WORDS" in text
    assert '"signal": BUFFER_NUM * ranks * H * triton.cdiv(D, TILE_D) * SLOT_WORDS,' in text


def test_the_watchdog_can_be_switched_off() -> None:
    assert "WATCHDOG_SECONDS = 12.5\n" in text_of(watchdog={"timeout_s": 12.5})
    assert "WATCHDOG_SECONDS = None\n" in text_of(watchdog={"enabled": False})


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_dtype_reaches_the_module(dtype: str) -> None:
    assert f"DTYPE = torch.{dtype}\n" in text_of(dtype=dtype)


def test_the_description_opens_the_module() -> None:
    docstring = ast.get_docstring(ast.parse(text_of(description="For the expert layer of model X.")))
    assert docstring is not None
    assert docstring.splitlines()[2] == "For the expert layer of model X."


def test_kernel_and_launch_agree_on_the_arguments() -> None:
    for changes in every_combination():
        tree = ast.parse(text_of(**changes))
        kernel = kernel_of(ast.unparse(tree))
        (call,) = (
            node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        )
        strides = sum(isinstance(argument, ast.Starred) for argument in call.args)
        positional = len(call.args) - strides + 3 * strides
        assert positional + len(call.keywords) == len(kernel.args.args)
        assert [k.arg for k in call.keywords] == [a.arg for a in kernel.args.args[positional:]]


def test_a_name_that_no_view_has_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "module.py.j2").write_text("{{ module.no_such_field }}")
    plan: KernelPlan = plan_of()
    with pytest.raises(jinja2.UndefinedError, match="no_such_field"):
        render(plan, tmp_path)
