"""The rendered text of kernels: the steps of the guide in their order, and what the spec says."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import jinja2
import pytest

from fusegen.plan import KernelPlan
from fusegen.project import packaged_templates
from fusegen.render.environment import render
from tests.plan.plans import plan_for, plan_of

STEPS = {
    "wait",
    "consume_token",
    "load",
    "store",
    "atomic_add",
    "fence",
    "notify",
    "barrier_all_vec",
    "symm_at",
    "putmem",
}


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


PUSH = ["symm_at", "symm_at", "wait", "consume_token", "load", "store", "fence", "notify"]


@pytest.mark.parametrize("pattern", ["all2all", "allgather", "reduce_scatter", "allreduce"])
def test_the_steps_of_every_vector_kernel(pattern: str) -> None:
    changes: list[tuple[dict[str, Any], list[str]]] = [({}, ["wait", "consume_token", "load", "store"])]
    if pattern.endswith(("scatter", "reduce")):
        changes.append(({"reduce": "atomic"}, ["wait", "consume_token", "load", "atomic_add"]))
    for change, consumed in changes:
        by_role = roles(kernel_of(render(plan_for(pattern, **change), packaged_templates())))
        assert by_role == {"role == 0": PUSH, "else": [*consumed, "fence", "notify"]}


def test_a_batch_has_one_fence_and_a_second_loop() -> None:
    kernel = kernel_of(text_of(announce="batched"))
    assert roles(kernel) == {"role == 0": PUSH, "else": ["wait", "consume_token", "load", "store", "fence", "notify"]}
    loops = [ast.unparse(node).splitlines()[0] for node in ast.walk(kernel) if isinstance(node, ast.For)]
    assert loops.count("for work in range(role_core, block_work, role_cores):") == 4
    around_fence = [node for node in ast.walk(kernel) if isinstance(node, ast.For) and "fence" in steps([*node.body])]
    assert [ast.unparse(node.target) for node in around_fence] == ["block_s", "block_s"]


@pytest.mark.parametrize(
    ("pattern", "senders"),
    [
        ("reverse_all2all", ["putmem", "notify"]),
        ("allgather", ["putmem", "notify"]),
        ("all2all", ["wait", "consume_token", "putmem", "notify"]),
    ],
)
def test_the_steps_of_a_transfer(pattern: str, senders: list[str]) -> None:
    """putmem returns when the block has arrived: there is no fence behind it."""
    kernel = kernel_of(render(plan_for(pattern, transport="udma"), packaged_templates()))
    (branch,) = (n for n in ast.walk(kernel) if isinstance(n, ast.If) and ast.unparse(n.test) == "role_core < senders")
    assert steps(branch.body) == senders


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


def test_a_name_that_no_view_has_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "module.py.j2").write_text("{{ module.no_such_field }}")
    plan: KernelPlan = plan_of()
    with pytest.raises(jinja2.UndefinedError, match="no_such_field"):
        render(plan, tmp_path)
