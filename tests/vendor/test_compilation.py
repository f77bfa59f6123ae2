"""What the compiler's verdict becomes: facts of core functions, findings with a line and advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fusegen.targets import target
from fusegen.vendor.compilation import Subject, not_checked
from tests.vendor.kernels import (
    FIRST_LINE,
    TARGET_910B,
    TARGET_950,
    compiled,
    edited,
    findings,
    generated,
    small_module,
)

COPY = """
offsets = tl.arange(0, SIZE)
for step in range(N):
    tile = tl.load(a_ptr + step * SIZE + offsets)
    tl.store(b_ptr + step * SIZE + offsets, tile)
"""


def test_facts_of_a_vector_kernel() -> None:
    (variant,) = compiled(generated("reverse_all2all_mte_signal")).variants
    (core,) = variant.cores
    assert core.to_json(target(TARGET_910B)) == {
        "function": "reverse_all2all_kernel",
        "core": "AIV",
        "memory": {"UB": {"peak_bytes": 65536, "of_bytes": 196608, "share": 0.333}},
        "buffers": 4,
        "multi_buffered": 2,
        "pipe_flags": {"MTE2>MTE3": 2, "MTE3>MTE2": 4, "MTE3>V": 2, "V>MTE2": 2},
        "events": 2,
        "block_syncs": [],
        "calls": [
            "aclshmem_ptr_int64",
            "aclshmem_ptr_bfloat16",
            "aclshmem_wait_int64",
            "aclshmem_consume_token_bfloat16_ptr_1d",
            "aclshmem_fence",
            "aclshmem_int64_p",
            "aclshmem_wait_int64",
            "aclshmem_consume_token_bfloat16_ptr_1d",
            "aclshmem_fence",
            "aclshmem_int64_p",
        ],
    }
    assert variant.findings == ()


def test_facts_of_a_mix_kernel() -> None:
    cube, vector = compiled(generated("gemm_reduce_scatter_mte_signal")).variants[0].cores
    assert (cube.core, dict(cube.peak), cube.multi_buffered) == ("AIC", {"cbuf": 393216, "cc": 131072}, 2)
    assert (vector.core, dict(vector.peak)) == ("AIV", {"ub": 32768})
    assert [(sync.action, sync.pipes, sync.flag) for sync in cube.block_syncs] == [("set", "FIX>S", "8")]
    assert [(sync.action, sync.pipes, sync.flag) for sync in vector.block_syncs] == [("wait", "FIX>S", "8")]
    assert [call.symbol for call in cube.calls] == ["aclshmem_wait_int64", "aclshmem_consume_token_half_ptr_1d"]
    assert cube.share("cc", target(TARGET_910B)) == 1.0


def test_facts_of_a_950_kernel() -> None:
    cube, vector = compiled(generated("allgather_gemm_udma_barrier")).variants[0].cores
    assert (dict(cube.peak), cube.multi_buffered) == ({"cbuf": 393216, "cc": 262144}, 3)
    assert [call.symbol for call in vector.calls] == ["aclshmem_half_putmem", *["aclshmem_barrier_all"] * 2]
    assert vector.share("ub", target(TARGET_950)) == pytest.approx(16384 / 253952)


def test_every_layout_is_compiled() -> None:
    result = compiled(generated("allgather_gemm_mte_signal", variants=2))
    assert [dict(variant.variant) for variant in result.variants] == [
        {"B_TURNED": False, "stride_bn": 1},
        {"B_TURNED": True, "stride_bk": 1},
    ]
    assert result.ok


def test_too_large_a_tile_is_a_finding_with_the_value_that_fits(tmp_path: Path) -> None:
    assert findings(small_module(tmp_path, COPY, size=131072)) == [
        "MemoryOverflow: ub overflow: expected at most 196608 bytes of UB on Ascend910B3, got 262144 "
        f"at small.py:{FIRST_LINE + 2}: `tile = tl.load(a_ptr + step * SIZE + offsets)` "
        "(lower tile.m from 131072 to at most 65536)"
    ]


def test_lost_double_buffering_is_a_finding(tmp_path: Path) -> None:
    subject = small_module(tmp_path, COPY, size=65536)
    assert findings(subject) == [
        "LostDoubleBuffering: expected double buffers in the UB of Ascend910B3, got single ones: the compiler has "
        "given up loading ahead to make the kernel fit "
        f"at small.py:{FIRST_LINE + 2}: `tile = tl.load(a_ptr + step * SIZE + offsets)` (halve tile.m)"
    ]
    (variant,) = compiled(subject).variants
    assert any("enable-auto-multi-buffer to false" in note for note in variant.notes)
    assert variant.cores[0].multi_buffered == 0


def test_double_buffering_may_be_lost_in_l1() -> None:
    subject = generated("allgather_gemm_mte_barrier")
    constants = {**subject.entry.constants, "BLOCK_N": 128, "BLOCK_K": 512}
    subject = replace(subject, entry=subject.entry.model_copy(update={"constants": constants}))
    (finding,) = compiled(subject).findings
    assert finding.message.startswith("expected double buffers in the L1 of Ascend910B3, got single ones")
    assert (finding.source, finding.advice) == ("acc = tl.dot(gathered_tile, b_tile, acc)", "halve tile.k")


def test_a_tile_that_fits_is_double_buffered(tmp_path: Path) -> None:
    (variant,) = compiled(small_module(tmp_path, COPY, size=32768)).variants
    assert (variant.findings, variant.notes, variant.cores[0].multi_buffered) == ((), (), 1)


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        (
            "tile = tl.load(a_ptr + tl.arange(0, SIZE))\ntl.store(b_ptr + tl.arange(0, 2 * SIZE), tile)",
            1,
            "Cannot broadcast, the expanded size of the tensor (128) must match the existing size (64) at "
            "non-singleton dimension 0: [64], [128]",
        ),
        ("dl.wait(N, 1, 'sys', 'acquire', waitValue=1)", 0, "dl.wait: expected a pointer to one element, got int32"),
        ("dl.notify(signal_ptr, rank, 1, sig_op='add')", 0, "expected one of set, got add"),
        (
            "dl.wait(signal_ptr, 1, 'all', 'acquire')",
            0,
            "expected one of cta, gpu, sys, intra_node, inter_node, got all",
        ),
    ],
)
def test_type_errors_have_the_line_of_the_module(tmp_path: Path, body: str, line: int, message: str) -> None:
    subject = small_module(tmp_path, body)
    source = body.splitlines()[line]
    assert findings(subject) == [f"CompilationError: {message} at small.py:{FIRST_LINE + line}: `{source}`"]


def test_errors_of_the_adapter_are_findings(tmp_path: Path) -> None:
    body = "seen = tl.atomic_cas(signal_ptr, 0, 1)\ntl.store(signal_ptr, seen)"
    (finding,) = compiled(small_module(tmp_path, body)).findings
    assert (finding.kind, finding.line) == ("AdapterError", FIRST_LINE)
    assert finding.message.startswith("triton-adapter-opt ended with status 1: failed to legalize")


def test_a_crash_of_the_adapter_is_a_finding(tmp_path: Path) -> None:
    call = 'tl.inline_asm_elementwise("mov $0, $1;", "=r,r", [N], dtype=tl.int32, is_pure=True, pack=1)'
    (finding,) = compiled(small_module(tmp_path, f"tl.store(a_ptr + {call}, tl.load(b_ptr))")).findings
    assert finding.message.startswith("triton-adapter-opt ended with status -6: ")


def unscoped(name: str, folder: Path, *, target_name: str | None = None) -> Subject:
    """A generated mix kernel whose scopes are gone: every core type executes everything."""
    scopes = [(f'with al.scope(core_mode="{mode}"):', "if True:") for mode in ("cube", "vector")]
    return edited(generated(name, target_name=target_name), folder, *scopes)


@pytest.mark.parametrize("device", [TARGET_910B, TARGET_950])
def test_calls_of_an_unscoped_signal_kernel_run_on_the_wrong_core(device: str, tmp_path: Path) -> None:
    found = compiled(unscoped("gemm_reduce_scatter_mte_signal", tmp_path, target_name=device)).findings
    assert {finding.kind for finding in found} == {"WrongCore"}
    fences = [finding for finding in found if "fence" in finding.message]
    assert [finding.source for finding in fences] == ["libshmem_device.fence()"] * 2
    assert fences[0].message == "expected one core type to execute libshmem_device.fence, got AIC and AIV"
    assert fences[0].advice == "put it into an al.scope"
    assert any("dl.notify" in finding.message for finding in found)


@pytest.mark.parametrize("device", [TARGET_910B, TARGET_950])
def test_calls_in_scopes_run_where_they_should(device: str) -> None:
    assert findings(generated("gemm_reduce_scatter_mte_signal", target_name=device)) == []


def test_what_is_not_checked_for_950_is_said() -> None:
    reasons = not_checked(target(TARGET_950))
    assert len(reasons) == len(not_checked(target(TARGET_910B))) + 1
    assert "the vendor's lowering of distributed operations" in reasons[-1]
    document = compiled(generated("allgather_udma_signal")).to_json()
    assert document["not_checked"] == list(reasons)
    assert (document["spec"], document["target"], document["ok"]) == ("allgather_udma_signal", TARGET_950, True)
