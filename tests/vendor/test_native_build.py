"""From the bridge's output to a shared library: what is called, for whom, and with which symbols."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from fusegen.vendor.bridge.raising import CUSTOM
from fusegen.vendor.mlir import Operation, rewrite, walk
from fusegen.vendor.native.build import argument_types, build_library, find_gcc
from fusegen.vendor.native.lowering import with_calls
from fusegen.vendor.signatures import SIGNATURES
from fusegen.vendor.tools import ToolFailed, VendorToolsMissing, find_toolchain
from tests.vendor.kernels import bridged, generated, small_module


def called(module: Operation) -> list[str]:
    return [op.properties["callee"].lstrip("@") for op in walk(module) if op.name == "func.call"]


def test_a_distributed_operation_is_a_call_after_one_with_its_line(tmp_path: Path) -> None:
    module = with_calls(bridged(small_module(tmp_path, "dl.notify(signal_ptr + N, rank, 3)")).distributed)
    assert called(module) == ["emulator_at", "aclshmem_int64_p"]
    (call,) = (op for op in walk(module) if op.properties.get("callee") == "@aclshmem_int64_p")
    assert call.operand_types == ("memref<?xi64, strided<[?], offset: ?>>", "i64", "i32")
    kernel = module.body[-1]
    assert kernel.attributes == {"llvm.emit_c_interface": ""}
    workspaces, arguments, grid = ["memref<?xi8>"] * 2, ["memref<?xf16>"] * 2 + ["memref<?xi64>"], ["i32"] * 6
    assert argument_types(module) == (*workspaces, *arguments, "i32", "i32", *grid)


def test_scopes_are_conditions_and_flags_are_calls() -> None:
    module = with_calls(bridged(generated("gemm_reduce_scatter_mte_signal")).distributed)
    calls = called(module)
    assert calls.count("emulator_is_cube") == 2
    assert (calls.count("emulator_sync_block_set"), calls.count("emulator_sync_block_wait")) == (1, 1)
    assert not any(op.name.startswith(("hivm.", "scope.")) for op in walk(module))
    conditions = [op for op in module.body[-1].body if op.name == "scf.if"]
    products = [sum(op.name == "linalg.generic" for op in walk(condition)) for condition in conditions]
    assert [bool(count) for count in products] == [True, False]


def test_the_emulator_has_every_function_of_the_table(tmp_path: Path) -> None:
    library = tmp_path / "small.so"
    build_library(bridged(small_module(tmp_path, "pass")).distributed, "kernel", library, find_toolchain())
    loaded = ctypes.PyDLL(str(library))
    for name, signature in SIGNATURES.items():
        for element in signature.elements or ("",):
            assert hasattr(loaded, f"_mlir_ciface_{name.replace('{type}', element)}")
    assert not hasattr(loaded, "_mlir_ciface_aclshmem_float_p")


def test_an_unknown_function_is_not_linked(tmp_path: Path) -> None:
    distributed = bridged(small_module(tmp_path, "libshmem_device.fence()")).distributed
    symbol = {"symbol": '"aclshmem_fense"'}
    misspelt = rewrite(
        distributed,
        lambda op: (replace(op, attributes={**op.attributes, **symbol}) if op.name == CUSTOM else op,),
    )
    with pytest.raises(ToolFailed, match="gcc ended with status 1"):
        build_library(misspelt, "kernel", tmp_path / "small.so", find_toolchain())


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(VendorToolsMissing) as refusal:
        find_gcc()
    assert str(refusal.value) == ("gcc is not installed: --run builds kernels with it: apt-get install gcc libc6-dev")
