"""Calls are checked against the public functions of the shared-memory library."""

from __future__ import annotations

import pytest

from fusegen.vendor.signatures import base_symbol, signature_fault

SLOT = "memref<?xi64, strided<[?], offset: ?>, #hivm.address_space<gm>>"
TILE = "memref<?xf16>"


@pytest.mark.parametrize(
    ("symbol", "operands", "results"),
    [
        ("aclshmem_wait_int64", [SLOT, "i64", "i64"], ["i32"]),
        ("aclshmem_int64_p", [SLOT, "i64", "i32"], []),
        ("aclshmem_ptr_half", [TILE, "i32"], [TILE]),
        ("aclshmem_ptr_half", [TILE, "i32"], ["i64"]),
        ("aclshmem_half_putmem", [TILE, TILE, "i32", "i32"], []),
        ("aclshmemx_barrier_all_vec", [], []),
    ],
)
def test_public_calls_are_right(symbol: str, operands: list[str], results: list[str]) -> None:
    assert signature_fault(symbol, operands, results) == ""


@pytest.mark.parametrize(
    ("symbol", "operands", "results", "fault"),
    [
        (
            "aclshmem_wiat_int64",
            [SLOT, "i64", "i64"],
            ["i32"],
            "aclshmem_wiat_int64: expected a public function of the shared-memory library, got an unknown name",
        ),
        (
            "aclshmem_wait_half",
            [TILE, "i64", "f16"],
            ["i32"],
            "aclshmem_wait_half: expected a public function of the shared-memory library, got an unknown name",
        ),
        (
            "aclshmem_wait_int64",
            ["memref<?xi32>", "i64", "i64"],
            ["i32"],
            "aclshmem_wait_int64: expected operands (pointer to i64, i64, i64), got (pointer to i32, i64, i64)",
        ),
        (
            "aclshmem_wait_int64",
            [SLOT, "i64"],
            ["i32"],
            "aclshmem_wait_int64: expected operands (pointer to i64, i64, i64), got (pointer to i64, i64)",
        ),
        (
            "aclshmem_ptr_half",
            [TILE, "i32"],
            ["memref<?xf32>"],
            "aclshmem_ptr_half: expected the result (pointer to f16), got (pointer to f32)",
        ),
        ("aclshmem_fence", [], ["i32"], "aclshmem_fence: expected the result (), got (i32)"),
    ],
)
def test_other_calls_are_told(symbol: str, operands: list[str], results: list[str], fault: str) -> None:
    assert signature_fault(symbol, operands, results) == fault


def test_a_callee_has_a_base_symbol() -> None:
    assert base_symbol("@_mlir_ciface_aclshmem_fence.vector") == "aclshmem_fence"
    assert base_symbol("@aclshmem_int64_p.cube") == "aclshmem_int64_p"
