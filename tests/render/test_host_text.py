"""The host half of modules of every pattern: well-formed, formatted, and as the plan says."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fusegen.plan.ir import Launch, LaunchKind, PlanDefect
from tests.render.host_plans import TOYS, Toy

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", [["format", "--check", "--diff"], ["check"]], ids=["format", "check"])
def test_every_host_half_is_as_ruff_would_write_it(tmp_path: Path, command: list[str]) -> None:
    for name, toy in TOYS.items():
        (tmp_path / f"{name}.py").write_text(toy.text())
        mix = Toy(replace(toy.plan, launch=Launch(LaunchKind.MIX, roles=2), watchdog_seconds=None), toy.body)
        (tmp_path / f"{name}_mix.py").write_text(mix.text())
    ruff = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    result = subprocess.run(ruff, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def function(text: str, name: str) -> ast.FunctionDef:
    """A function of a module."""
    (found,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name)
    return found


@pytest.mark.parametrize("name", TOYS)
def test_arguments_are_as_many_as_parameters(name: str) -> None:
    toy = TOYS[name]
    launch = function(toy.text(), "launch")
    (call,) = (node for node in ast.walk(launch) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript))
    output = toy.plan.tensors[-1].name
    axes = {"out" if tensor.name == output else tensor.name: len(tensor.axes) for tensor in toy.plan.tensors}
    passed: list[str] = []
    for argument in call.args:
        words = ast.unparse(argument)
        if words.startswith("*"):
            name = words.removeprefix("*").removesuffix(".stride()")
            passed += [output if name == "out" else name] * axes[name]
        else:
            passed.append(output if words == "out" else words.removeprefix("workspace."))
    passed += [f"{keyword.arg}" for keyword in call.keywords if keyword.arg != "multibuffer"]
    expected = []
    for parameter in toy.parameters():
        parameter = parameter.removesuffix("_ptr").removesuffix(": tl.constexpr")
        parameter = "phase" if parameter == "launch" else parameter
        stride = parameter.startswith("stride_")
        expected.append(parameter.removeprefix("stride_")[:-1] if stride else parameter)
    assert passed == expected


def test_documentation_of_the_launcher_is_in_columns() -> None:
    documentation = ast.get_docstring(function(TOYS["gemm_reduce_scatter_bias"].text(), "launch")) or ""
    assert documentation.splitlines()[2:8] == [
        "a     [M, K], any strides, copied unless rows are contiguous",
        "b     [K, N], any strides, copied unless rows are contiguous",
        "bias  [N], any strides, copied unless contiguous",
        "c     [own rows, N], any strides, copied unless rows are contiguous"
        "; where to write, a new tensor if not given",
        "",
        "A shape with a zero in it launches nothing: `c` has `bias` in every row.",
    ]


def test_whole_blocks_need_contiguous_tensors() -> None:
    text = TOYS["allgather_gemm"].text()
    assert "    a = a.contiguous()  # Whole blocks of it move by UDMA.\n" in text
    assert "a  [M, K], any strides, copied unless contiguous" in text
    assert "*a.stride()" not in text
    assert "*b.stride()" in text


def test_engines_and_nodes() -> None:
    udma, mte = TOYS["allgather_gemm"].text(), TOYS["allgather"].text()
    assert "data_op_engine_type = ash.OpEngineType.MTE | ash.OpEngineType.UDMA\n" in udma
    assert "data_op_engine_type = ash.OpEngineType.MTE\n" in mte


def test_the_output_has_a_dtype_of_its_own_only_where_it_differs() -> None:
    assert "OUT_DTYPE" not in TOYS["gemm_allreduce"].text()
    text = TOYS["gemm_allreduce_bias"].text()
    assert "DTYPE = torch.float16\nOUT_DTYPE = torch.float32\n" in text
    assert 'expected, dtype = shapes[name], OUT_DTYPE if name == "c" else DTYPE\n' in text


def test_an_input_of_another_dtype_is_a_defect() -> None:
    a, *others = TOYS["allgather_gemm"].plan.tensors
    plan = replace(TOYS["allgather_gemm"].plan, tensors=(replace(a, dtype="float32"), *others))
    with pytest.raises(PlanDefect, match="inputs: expected float16, got"):
        Toy(plan, "").text()


def test_kinds_of_cores() -> None:
    toy = TOYS["gemm_allreduce"]
    mix = Toy(replace(toy.plan, launch=Launch(LaunchKind.MIX, roles=1)), toy.body).text()
    assert "return NPUUtils().get_aivector_core_num()\n" in toy.text()
    assert '"vector_cores": available_cores(),' in toy.text()
    assert "return NPUUtils().get_aicore_num()\n" in mix
    assert '"""AI cores of this device: a program of the kernel runs on each."""' in mix
    assert '"ai_cores": available_cores(),' in mix
    assert 'raise ValueError(f"cores: expected 1 to {available} AI cores, got {cores}")' in mix


def test_what_the_output_holds_before_the_kernel() -> None:
    comment = "    # The kernel adds to c with atomics: what c holds before is part of the result.\n"
    with_bias = TOYS["gemm_allreduce_bias"].text()
    assert f"{comment}    out.copy_(bias.expand(out.shape))\n" in with_bias
    assert "    if 0 in workspace.shape:\n        return c.copy_(bias.expand(c.shape))\n" in with_bias
    assert f"{comment}    out.zero_()\n" in TOYS["gemm_allreduce"].text()
    assert "atomics" not in TOYS["gemm_reduce_scatter"].text()
    assert "        return c.zero_()\n" in TOYS["gemm_reduce_scatter"].text()
    assert "        return c.copy_(bias.expand(c.shape))\n" in TOYS["gemm_allreduce_kernel_bias"].text()


def test_modules_without_signals_have_no_slots() -> None:
    assert "def slot_axes" not in TOYS["allreduce"].text()
    assert "def slot_axes(M: int, N: int, *, ranks: int, cores: int)" in TOYS["allgather"].text()


def scope(toy: Toy, environment: dict[str, str], *names: str) -> dict[str, Any]:
    """Functions of a module that need nothing but their environment and math."""
    text = toy.text()
    values: dict[str, Any] = {"os": SimpleNamespace(environ=environment)}
    values["triton"] = SimpleNamespace(cdiv=lambda left, right: -(-left // right))
    for name in names:
        exec(ast.unparse(function(text, name)), values)
    return values


def test_shapes_of_ranks_are_those_of_torch_chunk() -> None:
    shapes: Callable[..., dict[str, tuple[int, ...]]] = scope(TOYS["reduce_scatter"], {}, "tensor_shapes")[
        "tensor_shapes"
    ]
    for ranks, rows in ((1, [7]), (2, [4, 3]), (3, [3, 3, 1]), (5, [2, 2, 2, 1, 0]), (8, [1, 1, 1, 1, 1, 1, 1, 0])):
        assert [shapes(7, 5, rank=rank, ranks=ranks)["c"] for rank in range(ranks)] == [(r, 5) for r in rows]


def test_symmetric_memory_may_depend_on_cores() -> None:
    elements = scope(TOYS["allreduce"], {}, "symmetric_elements")["symmetric_elements"]
    assert elements(7, 5, ranks=2, cores=3) == {"peer": 2 * 7 * 5 + 3}


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.7"}


def test_places_of_torchrun() -> None:
    assert scope(TOYS["allreduce"], TORCHRUN, "_torchrun")["_torchrun"]() == (3, 4, 1, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANK", None),
        ("RANK", "4"),
        ("RANK", "-1"),
        ("LOCAL_RANK", "2"),
        ("LOCAL_RANK", "x"),
        ("WORLD_SIZE", ""),
        ("WORLD_SIZE", "0"),
        ("LOCAL_WORLD_SIZE", "5"),
    ],
)
def test_a_start_without_torchrun(name: str, value: str | None) -> None:
    environment = {key: text for key, text in {**TORCHRUN, name: value}.items() if text is not None}
    with pytest.raises(RuntimeError, match=f"expected the numbers that torchrun sets, got .*'{name}': '{value or ''}'"):
        scope(TOYS["allreduce"], environment, "_torchrun")["_torchrun"]()


@pytest.mark.parametrize(
    ("toy", "ranks", "changes", "expected"),
    [
        ("allreduce", 2, {}, "tcp://10.0.0.7:8666"),
        ("allreduce", 2, {"ASH_MASTER_ADDR": "10.0.0.8", "ASH_MASTER_PORT": "99"}, "tcp://10.0.0.8:99"),
        ("allreduce", 2, {"MASTER_ADDR": "localhost"}, "tcp://localhost:8666"),
        ("allgather_gemm", 4, {"MASTER_ADDR": "127.0.0.1", "ASH_MASTER_ADDR": "10.0.0.8"}, "tcp://10.0.0.8:8666"),
    ],
)
def test_where_ranks_meet(toy: str, ranks: int, changes: dict[str, str], expected: str) -> None:
    address = scope(TOYS[toy], {**TORCHRUN, **changes}, "_heap_address")["_heap_address"]
    assert address(ranks=ranks, local_ranks=2) == expected


@pytest.mark.parametrize(
    ("toy", "changes", "message"),
    [
        ("allreduce", {}, "4 ranks, 2 on this node: expected one node, since MTE does not cross nodes: use a kernel"),
        ("allgather_gemm", {"MASTER_ADDR": "127.0.1.1"}, "all nodes reach, got 127.0.1.1: set ASH_MASTER_ADDR to"),
        ("allgather_gemm", {"ASH_MASTER_ADDR": "localhost"}, "got localhost: set ASH_MASTER_ADDR to the address of"),
        ("allgather_gemm", {"MASTER_ADDR": "::1"}, "got ::1: set ASH_MASTER_ADDR"),
        ("allgather_gemm", {"MASTER_ADDR": ""}, "MASTER_ADDR: expected an address, got nothing: start with torchrun"),
        ("allgather_gemm", {"ASH_MASTER_PORT": "http"}, "ASH_MASTER_PORT: expected a port, got 'http'"),
        ("allgather_gemm", {"ASH_MASTER_PORT": "65536"}, "ASH_MASTER_PORT: expected a port, got '65536'"),
    ],
)
def test_where_ranks_cannot_meet(toy: str, changes: dict[str, str], message: str) -> None:
    address = scope(TOYS[toy], {**TORCHRUN, **changes}, "_heap_address")["_heap_address"]
    with pytest.raises(RuntimeError, match=message):
        address(ranks=4, local_ranks=2)
