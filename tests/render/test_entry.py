"""What the manifest says about kernels agrees with the modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fusegen.pipeline import build
from fusegen.project import find_project
from fusegen.render.entry import kernel_entry
from fusegen.spec import load_spec
from fusegen.vendor.entry import parse_entry

ROOT = Path(__file__).parents[2]
PROJECT = find_project(ROOT)
SPECS = [pytest.param(path, id=path.stem) for path in PROJECT.spec_paths()]


def kernel_and_launch(text: str, name: str) -> tuple[ast.FunctionDef, ast.Call]:
    """The definition of the kernel, and its launch."""
    tree = ast.parse(text)
    (kernel,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    (call,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(f"{name}[")
    )
    return kernel, call


@pytest.mark.parametrize("spec", SPECS)
def test_an_entry_describes_the_kernel(spec: Path) -> None:
    built = build(load_spec(spec), PROJECT)
    entry = parse_entry(kernel_entry(built.plan))
    kernel, call = kernel_and_launch(built.text, entry.name)
    constants = [each.arg for each in kernel.args.args if each.annotation is not None]
    assert [each.arg for each in kernel.args.args if each.annotation is None] == list(entry.parameters)
    for variant in entry.variants:
        assert set(entry.constants_of(variant)) - set(entry.parameters) == set(constants)
        assert not set(entry.signature_of(variant)) & set(entry.constants_of(variant))
    given = {word.arg: word.value for word in call.keywords}
    options = {word: ast.literal_eval(value) for word, value in given.items() if word not in constants}
    assert options == dict(entry.options)
    assert (entry.kind == "mix") == built.plan.is_mix
    assert all(tile.constant in entry.constants for tiles in entry.tiles.values() for tile in tiles)


def test_types_and_layouts() -> None:
    spec = load_spec(ROOT / "specs/allgather_gemm_udma_signal.yaml", ("bias=true", "debug.total_cores=true"))
    entry = parse_entry(kernel_entry(build(spec, PROJECT).plan))
    pointers = {name: kind for name, kind in entry.parameters.items() if name.endswith("_ptr")}
    assert pointers == {
        "a_ptr": "*fp16",
        "b_ptr": "*fp16",
        "bias_ptr": "*fp32",
        "c_ptr": "*fp32",
        "gathered_ptr": "*fp16",
        "arrived_ptr": "*i64",
        "total_cores_ptr": "*i32",
    }
    assert [dict(variant) for variant in entry.variants] == [
        {"B_TURNED": False, "stride_bn": 1},
        {"B_TURNED": True, "stride_bk": 1},
    ]
    assert [tile.field for tile in entry.tiles["cc"]] == ["tile.n", "tile.m"]
    assert [tile.field for tile in entry.tiles["cbuf"]] == ["tile.k", "tile.n", "tile.m"]
