"""What the compiler's messages and its final IR are read as."""

from __future__ import annotations

from pathlib import Path

from fusegen.targets import target
from fusegen.vendor.compiler import CompilerVerdict, Overflow, compile_linalg
from fusegen.vendor.facts import core_facts
from fusegen.vendor.mlir import Operation, parse_module, rewrite
from fusegen.vendor.tools import find_toolchain
from tests.vendor.kernels import FIRST_LINE, TARGET_910B, TARGET_950, bridged, generated, small_module

EXCHANGE = """
offsets = tl.arange(0, SIZE)
token = dl.wait(signal_ptr, 1, "sys", "acquire", waitValue=N)
mine = dl.consume_token(b_ptr, token)
tl.store(a_ptr + offsets, tl.load(mine + offsets))
"""


def verdict_of(module: Operation, device: str) -> CompilerVerdict:
    return compile_linalg(module, target(device), {}, find_toolchain())


def test_a_kernel_that_compiles_has_a_final_form(tmp_path: Path) -> None:
    verdict = verdict_of(bridged(small_module(tmp_path, EXCHANGE)).lowered, TARGET_910B)
    assert (verdict.overflow, verdict.errors, verdict.notes, verdict.lost_double_buffering) == (None, (), (), "")
    assert verdict.final is not None
    (core,) = core_facts(verdict.final)
    assert [(call.symbol, call.fault) for call in core.calls] == [
        ("aclshmem_wait_int64", ""),
        ("aclshmem_consume_token_half_ptr_1d", ""),
    ]


def test_a_misspelt_function_passes_the_compiler_and_not_the_table(tmp_path: Path) -> None:
    def misspelt(op: Operation) -> tuple[Operation]:
        text = str(op).replace("aclshmem_wait_int64", "aclshmem_wiat_int64")
        return (parse_module('"builtin.module"() ({\n' + text + "\n}) : () -> ()").body[0],)

    module = bridged(small_module(tmp_path, EXCHANGE)).lowered
    changed = rewrite(module, lambda op: misspelt(op) if op.name == "hivm.hir.custom" else (op,))
    verdict = verdict_of(changed, TARGET_910B)
    assert verdict.final is not None
    (core,) = core_facts(verdict.final)
    assert [call.fault for call in core.calls] == [
        "aclshmem_wiat_int64: expected a public function of the shared-memory library, got an unknown name",
        "",
    ]


def test_an_overflow_has_sizes_in_bytes(tmp_path: Path) -> None:
    body = "offsets = tl.arange(0, SIZE)\ntl.store(a_ptr + offsets, tl.load(b_ptr + offsets))"
    verdict = verdict_of(bridged(small_module(tmp_path, body, size=131072)).lowered, TARGET_910B)
    assert (verdict.final, verdict.overflow) == (None, Overflow("ub", 262144, 196608))


def test_an_error_has_its_line(tmp_path: Path) -> None:
    body = "offsets = tl.arange(0, SIZE)\ntl.store(a_ptr + offsets, tl.load(b_ptr + offsets))"
    module = bridged(small_module(tmp_path, body)).lowered

    def with_broken(op: Operation) -> tuple[Operation, ...]:
        return (Operation("memref.dim", location=op.location), op) if op.name == "memref.alloc" else (op,)

    verdict = verdict_of(rewrite(module, with_broken), TARGET_910B)
    assert verdict.final is None
    assert verdict.errors == ((FIRST_LINE + 1, "'memref.dim' op requires one result"),)


def test_the_compiler_for_950_refuses_distributed_operations_that_return(tmp_path: Path) -> None:
    """The reason for the bridge's last step."""
    both = bridged(small_module(tmp_path, EXCHANGE, target_name=TARGET_950))
    refused = (FIRST_LINE + 2, "'hivm.hir.custom' op Unsupported user for root alloc op.")
    assert refused in verdict_of(both.distributed, TARGET_950).errors
    assert verdict_of(both.lowered, TARGET_950).final is not None


def test_a_crash_is_an_error_with_the_status() -> None:
    module = bridged(generated("allgather_mte_signal", target_name=TARGET_950)).distributed
    ((line, message),) = verdict_of(module, TARGET_950).errors
    assert line == 0
    assert message.startswith("bishengir-compile-a5 ended with status -6: bishengir-compile-a5: ")
