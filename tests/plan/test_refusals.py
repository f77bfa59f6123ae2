"""Specs that are well formed and cannot work: memory of the device, 32-bit offsets, orders that miss a rank."""

from __future__ import annotations

from typing import Any

import pytest

from fusegen.errors import PlanError
from fusegen.plan import make_plan
from fusegen.plan.passes.budget import memory_faults, sum_bytes
from tests.plan.plans import A2, A5, BASES, plan_for, plan_of, spec_for


def faults(pattern: str, **changes: Any) -> list[str]:
    """Why the planner refuses."""
    with pytest.raises(PlanError) as caught:
        plan_for(pattern, **changes)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("dtype", "target", "tile", "message"),
    [
        (
            "bfloat16",
            A2,
            {"s": 512, "d": 128},
            "tile.s: expected two bfloat16 tiles in the 192 KiB unified buffer of Ascend910B3, "
            "got 512 x 128 twice: 256 KiB (with tile.d 128, tile.s can be at most 256)",
        ),
        (
            "float32",
            A2,
            {"s": 256, "d": 128},
            "tile.s: expected two float32 tiles in the 192 KiB unified buffer of Ascend910B3, "
            "got 256 x 128 twice: 256 KiB (with tile.d 128, tile.s can be at most 128)",
        ),
        (
            "float32",
            A5,
            {"s": 1024, "d": 1024},
            "tile.s: expected two float32 tiles in the 248 KiB unified buffer of Ascend950PR_9589, "
            "got 1024 x 1024 twice: 8192 KiB (with tile.d 1024, tile.s can be at most 16)",
        ),
    ],
)
def test_tiles_that_do_not_fit_twice(dtype: str, target: str, tile: dict[str, int], message: str) -> None:
    assert faults("reverse_all2all", dtype=dtype, target=target, tile=tile) == [message]


def test_the_advised_tile_is_accepted() -> None:
    assert dict(plan_of(dtype="float32", tile={"s": 128, "d": 128}).constants)["TILE_S"] == 128


@pytest.mark.parametrize(
    ("reduce", "message"),
    [
        (
            "ordered",
            "tile.m: expected the float32 sum and the tiles to add in the 192 KiB unified buffer of Ascend910B3, "
            "got 64 x 256, 24 bytes each: 384 KiB (with tile.n 256, tile.m can be at most 32)",
        ),
        ("atomic", None),
    ],
)
def test_an_ordered_sum_needs_more_than_its_tiles(reduce: str, message: str | None) -> None:
    changes = {"reduce": reduce, "tile": {"m": 64, "n": 256}}
    if message is None:
        plan_for("allreduce", **changes)
    else:
        assert faults("allreduce", **changes) == [message]
        plan_for("allreduce", reduce=reduce, tile={"m": 32, "n": 256})


def gemm_tile(m: int, n: int, k: int) -> dict[str, Any]:
    """Tiles of a multiplication whose communication tiles fit."""
    return {"tile": {"m": m, "n": n, "k": k}, "comm_tile": {"rows": 8, "columns": 16}}


@pytest.mark.parametrize(
    ("dtype", "target", "tile", "messages"),
    [
        (
            "bfloat16",
            A2,
            (128, 512, 64),
            [
                "tile.n: expected a float32 accumulator in the 128 KiB L0C of Ascend910B3, got 128 x 512: 256 KiB "
                "(with tile.m 128, tile.n can be at most 256)"
            ],
        ),
        ("bfloat16", A2, (128, 256, 256), []),
        # The compiler for the 950 family keeps the accumulator twice: twice the memory holds the same tile.
        ("bfloat16", A5, (128, 256, 256), []),
        (
            "bfloat16",
            A5,
            (128, 512, 64),
            [
                "tile.n: expected two float32 accumulators in the 256 KiB L0C of Ascend950PR_9589, "
                "got 128 x 512: 512 KiB (with tile.m 128, tile.n can be at most 256)"
            ],
        ),
        (
            "float32",
            A2,
            (128, 256, 256),
            [
                "tile.k: expected two float32 tiles each of A and B in the 512 KiB L1 of Ascend910B3, "
                "got 128 x 256 and 256 x 256 twice: 768 KiB (with tile.m 128 and tile.n 256, tile.k can be at most 128)"
            ],
        ),
        ("float32", A2, (128, 256, 128), []),
        (
            "float32",
            A2,
            (1024, 1024, 16),
            [
                "tile.n: expected a float32 accumulator in the 128 KiB L0C of Ascend910B3, got 1024 x 1024: 4096 KiB "
                "(with tile.m 1024, tile.n can be at most 32)"
            ],
        ),
        (
            "bfloat16",
            A2,
            (512, 64, 1024),
            [
                "tile.k: expected two bfloat16 tiles each of A and B in the 512 KiB L1 of Ascend910B3, "
                "got 512 x 1024 and 1024 x 64 twice: 2304 KiB "
                "(with tile.m 512 and tile.n 64, tile.k can be at most 128)"
            ],
        ),
        (
            "float32",
            A5,
            (1024, 64, 64),
            [
                "tile.n: expected two float32 accumulators in the 256 KiB L0C of Ascend950PR_9589, "
                "got 1024 x 64: 512 KiB (with tile.m 1024, tile.n can be at most 32)",
                "tile.k: expected two float32 tiles each of A and B in the 512 KiB L1 of Ascend950PR_9589, "
                "got 1024 x 64 and 64 x 64 twice: 544 KiB "
                "(with tile.m 1024 and tile.n 64, tile.k can be at most 32)",
            ],
        ),
    ],
)
def test_tiles_of_a_multiplication(dtype: str, target: str, tile: tuple[int, int, int], messages: list[str]) -> None:
    changes: dict[str, Any] = {"dtype": dtype, "target": target, **gemm_tile(*tile)}
    for pattern in ("allgather_gemm", "gemm_allreduce"):
        if messages:
            assert faults(pattern, **changes) == messages
        else:
            assert plan_for(pattern, **changes).target.name == target


def test_communication_tiles_of_an_ordered_sum() -> None:
    changes = {"tile": {"m": 128, "n": 256, "k": 64}, "comm_tile": {"rows": 64, "columns": 256}}
    assert faults("gemm_allreduce", **changes) == [
        "comm_tile.rows: expected the float32 sum and the tiles to add in the 192 KiB unified buffer of Ascend910B3, "
        "got 64 x 256, 16 bytes each: 256 KiB (with comm_tile.columns 256, comm_tile.rows can be at most 32)"
    ]
    changes["comm_tile"]["rows"] = 32
    plan_for("gemm_allreduce", **changes)


def test_regions_beyond_32_bit_offsets_come_all_at_once() -> None:
    points = [
        {"ranks": [1, 2], "cores": 8, "shape": {"S": 2**16, "H": 2**8, "D": 2**6}},
        {"ranks": [2], "cores": 8, "shape": {"S": 1, "H": 2**16, "D": 2**8}},
    ]
    with pytest.raises(PlanError) as caught:
        plan_of(verify=points)
    assert [(fault.field, fault.expected, fault.got) for fault in caught.value.faults] == [
        ("verify[0].shape, 2 ranks", "fewer than 2**31 elements in a, for 32-bit offsets", str(2**31)),
        ("verify[0].shape, 2 ranks", "fewer than 2**31 elements in c, for 32-bit offsets", str(2**31)),
        ("verify[1].shape, 2 ranks", "fewer than 2**31 elements in peer, for 32-bit offsets", str(2**32)),
    ]


@pytest.mark.parametrize(
    ("pattern", "changes", "shape", "regions"),
    [
        ("allgather", {"transport": "udma"}, {"M": 2**16, "N": 2**15 - 1}, ["c", "landing"]),
        ("all2all", {"transport": "udma"}, {"S": 2**15, "H": 2**8, "D": 2**8}, ["a", "c", "packed", "landing"]),
        ("allgather_gemm", {}, {"M": 2**18, "N": 2**12, "K": 1}, ["c"]),
        ("allgather_gemm", {}, {"M": 1, "N": 1, "K": 2**24}, ["gathered"]),
        ("gemm_reduce_scatter", {}, {"M": 1, "N": 2**24, "K": 1}, ["partial"]),
        ("gemm_allreduce", {}, {"M": 2**16, "N": 1, "K": 2**15}, ["a"]),
        ("allreduce", {}, {"M": 2**16, "N": 2**15}, ["a", "c"]),
    ],
)
def test_the_regions_that_are_too_large(
    pattern: str, changes: dict[str, Any], shape: dict[str, int], regions: list[str]
) -> None:
    found = faults(pattern, **changes, verify=[{"ranks": [2], "cores": 3, "shape": shape}])
    assert [fault.split(" elements in ")[1].split(",")[0] for fault in found] == regions
    assert all(fault.startswith("verify[0].shape, 2 ranks: expected fewer than 2**31 elements") for fault in found)


@pytest.mark.parametrize("pattern", [pattern for pattern in BASES if pattern != "allgather_gemm"])
def test_a_split_that_misses_ranks(pattern: str) -> None:
    reduce = {"reduce": "atomic"} if pattern.startswith("gemm") else {}
    verify = [{**BASES[pattern]["verify"][0], "ranks": [7, 4]}, {**BASES[pattern]["verify"][0], "ranks": [5, 2]}]
    advice = "divisors of the rank count always work"
    field = "swizzle.comm.npu_split: expected a split that visits each of"
    assert faults(pattern, **reduce, swizzle={"comm": {"npu_split": 2}}, verify=verify) == [
        f"{field} 5 ranks once, got 2, which never visits 1 and 3 (nearest allowed splits: 1 or 3; {advice})",
        f"{field} 7 ranks once, got 2, which never visits 1, 2, 4 and 5 (nearest allowed splits: 1 or 4; {advice})",
    ]
    assert faults(pattern, **reduce, swizzle={"comm": {"npu_split": 3}}, verify=verify)[0] == (
        f"{field} 2 ranks once, got 3 (nearest allowed split: 2; {advice})"
    )


def test_faults_of_several_kinds_come_together() -> None:
    changes = {
        "tile": {"m": 1024, "n": 1024},
        "swizzle": {"comm": {"npu_split": 5}},
        "verify": [{"ranks": [2], "cores": 4, "shape": {"M": 2**20, "N": 2**12}}],
    }
    fields = [fault.split(":")[0] for fault in faults("allgather", **changes)]
    assert fields == ["tile.m", "swizzle.comm.npu_split", *["verify[0].shape, 2 ranks"] * 2]


@pytest.mark.parametrize(
    ("pattern", "target", "dtype", "bias", "size"),
    [
        ("reduce_scatter", "Ascend910B3", "float16", None, 24),
        ("reduce_scatter", "Ascend910B3", "float32", None, 24),
        ("reduce_scatter", "Ascend950PR_9589", "float16", None, 12),
        ("reduce_scatter", "Ascend950PR_9589", "float32", None, 24),
        ("gemm_reduce_scatter", "Ascend910B3", "float16", False, 16),
        ("gemm_reduce_scatter", "Ascend910B3", "float16", True, 12),
        ("gemm_reduce_scatter", "Ascend910B3", "float32", False, 12),
        ("gemm_reduce_scatter", "Ascend950PR_9589", "float16", False, 12),
    ],
)
def test_an_ordered_sum_takes_what_the_compiler_takes(
    pattern: str, target: str, dtype: str, bias: bool | None, size: int
) -> None:
    changes = {} if bias is None else {"bias": bias, "tile": {"m": 64, "n": 64, "k": 64}}
    plan = plan_for(pattern, target=target, **changes)
    assert sum_bytes(plan, dtype, has_start=bool(bias)) == size


def test_memory_can_be_left_to_the_compiler() -> None:
    spec = spec_for("allgather_gemm", tile={"m": 256, "n": 512, "k": 256})
    plan = make_plan("kernel", spec, memory_check=False)
    with pytest.raises(PlanError) as caught:
        make_plan("kernel", spec)
    assert tuple(memory_faults(plan)) == caught.value.faults
    assert [fault.field for fault in caught.value.faults] == ["tile.n", "tile.k"]


def test_other_faults_stay_without_the_memory_check() -> None:
    spec = spec_for("allgather_gemm", tile={"m": 256, "n": 512, "k": 256}, swizzle={"comm": {"npu_split": 3}})
    with pytest.raises(PlanError) as caught:
        make_plan("kernel", spec, memory_check=False)
    assert {fault.field for fault in caught.value.faults} == {"swizzle.comm.npu_split"}
