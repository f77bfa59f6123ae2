"""Modules of every legal choice of every pattern: formatted, the same each time, standalone, arguments that fit."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusegen.project import packaged_templates
from fusegen.render.environment import environment, render
from tests.plan.plans import BASES, MIX, choice_id, every_choice, plan_for

ROOT = Path(__file__).parents[2]
CHOICES = [
    pytest.param(pattern, choice, id=f"{pattern}-{choice_id(choice)}")
    for pattern in BASES
    for choice in every_choice(pattern)
]
IMPORTED = {
    "argparse",
    "collections",
    "contextlib",
    "json",
    "math",
    "os",
    "pathlib",
    "shmem",
    "time",
    "torch",
    "torch_npu",
    "triton",
    "triton_dist",
}


def variants(pattern: str, choice: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a choice is rendered with besides: nothing, another order of tiles, other types."""
    found: dict[str, dict[str, Any]] = {"": {}}
    watched: dict[str, Any] = {
        "watchdog": {"timeout_s": 12.5},
        "debug": {"total_cores": True},
        "description": "A line about the kernel.",
    }
    if choice["buffer_num"] == 1:
        found["float32"] = {"dtype": "float32", **watched}
    if choice["buffer_num"] == 2 and choice["transport"] == "mte":
        swizzle: dict[str, Any] = {"gemm": {"order": "row_major"}} if pattern in MIX else {}
        if not (pattern in MIX and choice.get("reduce") == "ordered"):
            split = {**BASES[pattern]["verify"][0], "ranks": [1, 2, 4]}
            found["split"] = {"swizzle": {**swizzle, "comm": {"npu_split": 2}}, "verify": [split]}
            swizzle = {**swizzle, "comm": {"order": "sequential"}}
        found["order"] = {"swizzle": swizzle}
    if pattern in MIX and choice["buffer_num"] <= 2:
        found["bias"] = {"bias": True, "out_dtype": "float32"}
    return found


@pytest.fixture(scope="module")
def rendered_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every legal choice, with its variants, as files."""
    folder = tmp_path_factory.mktemp("rendered")
    for pattern in BASES:
        for choice in every_choice(pattern):
            for name, changes in variants(pattern, choice).items():
                path = folder / f"{pattern}_{choice_id(choice).replace('-', '_')}_{name}.py"
                path.write_text(render(plan_for(pattern, **choice, **changes), packaged_templates()))
    return folder


@pytest.mark.parametrize("command", [["format", "--check", "--diff"], ["check"]], ids=["format", "check"])
def test_every_module_is_as_ruff_would_write_it(rendered_folder: Path, command: list[str]) -> None:
    ruff = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(rendered_folder)]
    result = subprocess.run(ruff, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("pattern", BASES)
def test_rendering_twice_gives_the_same_bytes(pattern: str) -> None:
    """From plans made twice, by templates read twice."""

    def texts() -> list[str]:
        environment.cache_clear()
        return [render(plan_for(pattern, **choice), packaged_templates()) for choice in every_choice(pattern)]

    assert texts() == texts()


@pytest.mark.parametrize("pattern", BASES)
def test_rendering_does_not_depend_on_the_order_of_sets(pattern: str) -> None:
    """Other processes hash strings otherwise."""
    program = (
        "from tests.plan.plans import every_choice, plan_for\n"
        "from fusegen.project import packaged_templates\n"
        "from fusegen.render.environment import render\n"
        f"for choice in every_choice({pattern!r})[::3]:\n"
        f"    print(render(plan_for({pattern!r}, **choice), packaged_templates()))\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_a_module_needs_nothing_of_fusegen(pattern: str, choice: dict[str, Any]) -> None:
    text = render(plan_for(pattern, **choice), packaged_templates())
    assert "fusegen" not in text.replace("Rendered by fusegen", "")
    modules = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").split(".")[0])
    assert modules <= IMPORTED


@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_kernel_and_launch_agree_on_the_arguments(pattern: str, choice: dict[str, Any]) -> None:
    """Name by name: tensors, allocations, sizes, strides, constants, each where the kernel expects it."""
    plan = plan_for(pattern, **choice)
    tree = ast.parse(render(plan, packaged_templates()))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernel = functions[f"{pattern}_kernel"]
    (call,) = (
        node
        for node in ast.walk(functions["launch"])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
    )
    assert [keyword.arg for keyword in call.keywords][-1] == (
        "enable_auto_bind_sub_block" if plan.is_mix else "multibuffer"
    )
    passed: list[str] = []
    for argument in call.args:
        passed += spread(ast.unparse(argument), {tensor.name: tensor.strides for tensor in plan.tensors})
    launcher_only = {"multibuffer", "enable_auto_bind_sub_block"}
    passed += [keyword.arg for keyword in call.keywords if keyword.arg and keyword.arg not in launcher_only]
    assert passed == [parameter.arg.removesuffix("_ptr") for parameter in kernel.args.args]


def spread(argument: str, strides: dict[str, tuple[str, ...]]) -> list[str]:
    """What the kernel calls one argument of the launch."""
    argument = argument.removeprefix("workspace.")
    if argument.startswith("*"):
        name = argument.removeprefix("*").split(".")[0]
        return list(strides["c" if name == "out" else name])
    if argument.startswith("carried["):
        return [f"item_{ast.literal_eval(argument.removeprefix('carried[').removesuffix(']'))}"]
    return [{"out": "c", "phase": "launch"}.get(argument, argument)]
