"""The steps of the bridge, each on the kernel in which it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.targets import target
from fusegen.vendor.bridge.lowering import lower_markers, marker_of
from fusegen.vendor.bridge.raising import raise_markers
from fusegen.vendor.bridge.refusals import UsedBeforeDefinition
from fusegen.vendor.bridge.scopes import scope_regions
from fusegen.vendor.front import front
from fusegen.vendor.markers import Marker, marker
from fusegen.vendor.mlir import Operation, parse_module, walk
from fusegen.vendor.tools import find_toolchain
from tests.vendor.kernels import FIRST_LINE, TARGET_910B, TARGET_950, bridged, generated, small_module

EXCHANGE = """
offsets = tl.arange(0, SIZE)
remote = dl.symm_at(a_ptr, rank)
token = dl.wait(signal_ptr + 8 * rank, 3, "sys", "acquire", waitValue=N)
mine = dl.consume_token(b_ptr, token)
tl.store(remote + offsets, tl.load(mine + offsets))
libshmem_device.fence()
dl.notify(signal_ptr + 16, rank, 7)
"""


def lowered_ttir(folder: Path, body: str) -> Operation:
    subject = small_module(folder, body)
    (verdict,) = front(subject.module, subject.entry, subject.target)
    assert verdict.ttir is not None
    lowered = lower_markers(parse_module(find_toolchain().read_ttir(verdict.ttir)))
    assert lowered.stand_ins == 2
    return lowered.module


def named(module: Operation, name: str) -> list[Operation]:
    return [op for op in walk(module) if op.name == name]


def test_markers_are_text_and_back() -> None:
    each = Marker("aclshmem_wait_int64", {"scope": "2", "semantic": "2"})
    assert each.text == "aclshmem_wait_int64|scope=2|semantic=2"
    assert marker(each.text) == each


def test_lowering_gives_addresses_as_numbers_and_pointers_as_arguments(tmp_path: Path) -> None:
    module = lowered_ttir(tmp_path, EXCHANGE)
    (kernel,) = module.body
    assert [name for name, _ in kernel.regions[0].blocks[0].arguments][-2:] == ["%stand_in0", "%stand_in1"]
    assert kernel.properties["function_type"].endswith("i32, i32, !tt.ptr<f16>, !tt.ptr<f16>) -> ()")
    calls = {found.symbol: op for op in walk(module) if (found := marker_of(op)) is not None}
    assert list(calls) == [
        "aclshmem_ptr_half",
        "aclshmem_wait_int64",
        "aclshmem_consume_token_half_ptr_1d",
        "aclshmem_fence",
        "aclshmem_int64_p",
    ]
    assert calls["aclshmem_ptr_half"].operand_types == ("i64", "i32")
    assert calls["aclshmem_wait_int64"].operand_types == ("i64", "i64", "i64")
    assert calls["aclshmem_ptr_half"].result_types == ("i32",)
    assert calls["aclshmem_wait_int64"].line == FIRST_LINE + 2
    assert named(module, "tt.ptr_to_int")[0].operands == ("%arg0",)
    used = {operand for op in named(module, "tt.splat") for operand in op.operands}
    assert {"%stand_in0", "%stand_in1"} <= used


def test_raising_makes_custom_operations_of_the_memory_that_addresses_came_from(tmp_path: Path) -> None:
    module = bridged(small_module(tmp_path, EXCHANGE)).distributed
    custom = {op.text("name"): op for op in named(module, "hivm.hir.custom")}
    pointer = custom["dist.aclshmem_ptr_half"]
    assert pointer.operand_types == ("memref<?xf16>", "i32")
    assert pointer.result_types == ("memref<?xf16>",)
    assert pointer.attributes["gm_addr_args_indices"] == "array<i32: 0>"
    assert pointer.attributes["hivm.tcore_type"] == "#hivm.tcore_type<VECTOR>"
    wait = custom["dist.aclshmem_wait_int64"]
    assert wait.operand_types == ("memref<1xi64, strided<[1], offset: ?>>", "i64", "i64")
    assert (wait.attributes["scope"], wait.attributes["semantic"]) == ("2 : i32", "2 : i32")
    assert "no_side_effect" in custom["dist.aclshmem_consume_token_half_ptr_1d"].properties
    assert custom["dist.aclshmem_fence"].operands == ()
    assert custom["dist.aclshmem_fence"].attributes["pure"] == "false"
    notify = custom["dist.aclshmem_int64_p"]
    assert (notify.result_types, notify.attributes["sigOp"]) == ((), "1 : i32")
    loads = {op.operands[0] for op in named(module, "memref.reinterpret_cast")}
    assert {pointer.result, custom["dist.aclshmem_consume_token_half_ptr_1d"].result} <= loads
    assert named(module, "memref.extract_aligned_pointer_as_index") == []
    assert module.attributes["hacc.target"] == f'#hacc.target<"{TARGET_910B}">'


EARLY = """\
"builtin.module"() ({{
  "func.func"() <{{function_type = ({types}) -> (), sym_name = "f"}}> ({{
  ^bb0({arguments}):
{body}
    "func.return"() : () -> ()
  }}) {{mix_mode = "aiv"}} : () -> ()
}}) : () -> ()"""
CAST = '    %0 = "memref.reinterpret_cast"(%arg2) : (memref<?xf16>) -> memref<4xf16> loc("k.py":9:1)'
INDEX = '    %1 = "memref.extract_aligned_pointer_as_index"(%arg0) : (memref<?xf16>) -> index'
ADDRESS = '    %2 = "arith.index_cast"(%1) : (index) -> i64'
CALL = (
    '    %3 = "tt.extern_elementwise"(%2, %arg1) <{libname = "fusegen_marker", '
    'symbol = "aclshmem_ptr_half|argument=0"}> : (i64, i32) -> i32'
)
USE = '    "test.use"(%0) : (memref<4xf16>) -> ()'


def early(*body: str) -> Operation:
    kinds = ["memref<?xf16>", "i32", "memref<?xf16>", *["i32"] * 6]
    arguments = ", ".join(f"%arg{index}: {kind}" for index, kind in enumerate(kinds))
    text = EARLY.format(types=", ".join(kinds), arguments=arguments, body="\n".join(body))
    return raise_markers(parse_module(text), 1, target(TARGET_910B))


def test_an_address_in_front_of_its_pointer_is_refused() -> None:
    with pytest.raises(UsedBeforeDefinition, match="line 9: an address is computed before the pointer is returned"):
        early(CAST, INDEX, ADDRESS, CALL, USE)
    assert named(early(INDEX, ADDRESS, CALL, CAST, USE), "memref.reinterpret_cast")[0].operands == ("%returned0",)


def test_scopes_become_regions_of_a_core_type_and_flags_have_pipes() -> None:
    module = bridged(generated("gemm_reduce_scatter_mte_signal")).distributed
    scopes = named(module, "scope.scope")
    cores = [scope.attributes["hivm.tcore_type"] for scope in scopes]
    assert cores == ["#hivm.tcore_type<CUBE>", "#hivm.tcore_type<VECTOR>"]
    assert [len(named(scope, "linalg.matmul")) for scope in scopes] == [1, 0]
    (sent,) = named(scopes[0], "hivm.hir.sync_block_set")
    (awaited,) = named(scopes[1], "hivm.hir.sync_block_wait")
    for flag in (sent, awaited):
        assert flag.properties["tpipe"] == "#hivm.pipe<PIPE_FIX>"
        assert flag.properties["pipe"] == "#hivm.pipe<PIPE_S>"
        assert flag.properties["static_flag_id"] == "8 : i64"
    assert (sent.properties["tcore_type"], awaited.properties["tcore_type"]) == tuple(cores)


def test_a_definition_that_is_used_after_a_scope_moves_in_front_of_it() -> None:
    begin, end = (
        f'"tt.extern_elementwise"() <{{libname = "fusegen_marker", symbol = "{symbol}"}}> : () -> i32'
        for symbol in ("scope_begin|core=CUBE", "scope_end")
    )
    constant = '"arith.constant"() <{value = 1 : i32}> : () -> i32'
    lines = [f"%0 = {begin}", f"%1 = {constant}", '%2 = "arith.addi"(%1, %1) : (i32, i32) -> i32', f"%3 = {end}"]
    lines += ['"test.use"(%2) : (i32) -> ()']
    module = parse_module("\n".join(['"builtin.module"() ({', *lines, "}) : () -> ()"]))
    assert [op.name for op in scope_regions(module).body] == ["arith.constant", "arith.addi", "scope.scope", "test.use"]


def test_for_950_operations_that_return_become_calls(tmp_path: Path) -> None:
    both = bridged(small_module(tmp_path, EXCHANGE, target_name=TARGET_950))
    module = both.lowered
    assert len(named(both.distributed, "func.call")) == 0
    assert [op.properties["callee"] for op in named(module, "func.call")] == [
        "@aclshmem_ptr_half",
        "@aclshmem_wait_int64",
        "@aclshmem_consume_token_half_ptr_1d",
    ]
    assert [op.text("name") for op in named(module, "hivm.hir.custom")] == [
        "dist.aclshmem_fence",
        "dist.aclshmem_int64_p",
    ]
    assert [op.result_types for op in named(module, "hivm.hir.pointer_cast")] == [("memref<?xf16>",)] * 2
    declared = {op.text("sym_name"): op for op in module.body}
    assert declared["aclshmem_ptr_half"].properties["function_type"] == (
        "(memref<?xf16, strided<[?], offset: ?>>, i32) -> i64"
    )
    assert declared["aclshmem_ptr_half"].attributes["hivm.func_core_type"] == "#hivm.func_core_type<AIV>"


def test_for_950_a_barrier_is_written_for_each_core_type() -> None:
    module = bridged(generated("allgather_gemm_udma_barrier")).lowered
    barriers = [op for op in named(module, "hivm.hir.custom") if op.text("name") == "dist.aclshmem_barrier_all"]
    cores = [op.attributes["hivm.tcore_type"] for op in barriers]
    assert cores == ["#hivm.tcore_type<CUBE>", "#hivm.tcore_type<VECTOR>"] * 2
    (put,) = [op for op in named(module, "hivm.hir.custom") if op.text("name") == "dist.aclshmem_half_putmem"]
    assert put.attributes["hivm.tcore_type"] == "#hivm.tcore_type<VECTOR>"


def test_for_910b_the_compiler_gets_what_the_public_passes_make(tmp_path: Path) -> None:
    both = bridged(small_module(tmp_path, EXCHANGE))
    assert both.lowered == both.distributed
