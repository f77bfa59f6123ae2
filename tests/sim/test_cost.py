"""The cost report: counts of kernels that can be counted by hand, the same whatever the schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import run_module
from fusegen.sim.cost import Core, Cost, Work
from tests.sim.test_timing import KERNEL
from tests.sim.test_udma import EXCHANGE

GENERATED = Path(__file__).parents[2] / "generated"
MOVED = {"S": 70, "H": 2, "D": 40}
"""Blocks of 64 and 6 rows, one of D for each head: 2 * 2 * 2 tiles for each rank to push and to copy."""


def cost_of(module: Path, **options: Any) -> Cost:
    """The cost of a run without findings."""
    result = run_module(module, cost=True, **options)
    assert [str(finding) for finding in result.findings] == []
    assert result.cost is not None
    return result.cost


def of_body(run_source: Any, body: str, **options: Any) -> Cost:
    """The cost of one launch of a kernel of one program with this body."""
    text = KERNEL.replace("{grid}", "1").replace("{launches}", "1").replace("{body}", body.replace("\n", "\n    "))
    result = run_source(text, cost=True, **options)
    assert [str(finding) for finding in result.findings] == []
    return result.cost


@pytest.mark.parametrize("schedule", ["round-robin", "random", "late-stores"])
def test_tiles_moved_over_mte(schedule: str) -> None:
    cost = cost_of(GENERATED / "reverse_all2all_mte_signal.py", ranks=2, cores=2, shape=MOVED, schedule=schedule)
    tiles, nbytes = 8, 2 * 70 * 2 * 40 * 2  # ranks, rows, heads, elements of a head, bytes of an element
    assert cost.cores == {
        Core(rank, core, "AIV", None): Work(
            steps=5 * tiles,  # wait, load, store, fence, notify
            tile_operations=2 * tiles,
            mte_local_bytes=2 * nbytes if core else nbytes + nbytes // 2,  # a producer stores half on its own rank
            mte_remote_bytes=0 if core else nbytes // 2,
            notifies=tiles,
            waits=tiles,
        )
        for rank in (0, 1)
        for core in (0, 1)
    }
    assert cost.of_rank(1) == Work(80, 32, 0, 3 * nbytes + nbytes // 2, nbytes // 2, 0, 0, 16, 16)


def test_every_launch_counts() -> None:
    once, thrice = (
        cost_of(GENERATED / "reverse_all2all_mte_signal.py", ranks=2, cores=2, shape=MOVED, launches=launches)
        for launches in (1, 3)
    )
    assert thrice.total.mte_remote_bytes == 3 * once.total.mte_remote_bytes > 0


def test_a_block_transferred_over_udma(run_source) -> None:
    result = run_source(EXCHANGE, ranks=3, cores=4, cost=True)
    assert result.ok
    nbytes = 1000 * 2
    assert result.cost.of_rank(0) == Work(
        steps=2 * 2 + 2 * 3,  # to each peer a transfer and a notify; from each a wait, a load and a store
        tile_operations=2 * 2,
        mte_local_bytes=2 * 2 * nbytes,
        udma_bytes=2 * nbytes,
        notifies=2,
        waits=2,
    )
    assert result.cost.total.steps == result.steps
    assert result.cost.cores[Core(0, 1, "AIV", None)].udma_bytes == nbytes


@pytest.mark.parametrize("builtin", ["getmem", "getmem_nbi", "putmem_nbi"])
def test_every_transfer_is_udma(run_source, builtin: str) -> None:
    put = "libshmem_device.putmem(here, x_ptr, size, core)"
    order = "x_ptr, here" if builtin.startswith("getmem") else "here, x_ptr"
    text = EXCHANGE.replace(put, f"libshmem_device.{builtin}({order}, size, core)\n        libshmem_device.quiet()")
    assert run_source(text, ranks=2, cost=True).cost.total.udma_bytes == 2 * 2000


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("tl.load(x_ptr + index)", Work(steps=1, tile_operations=1, mte_local_bytes=16 * 16 * 2)),
        ("tl.load(x_ptr + index, mask=index < 21)", Work(steps=1, tile_operations=1, mte_local_bytes=21 * 2)),
        (
            "tl.store(x_ptr + index, 0.0, mask=(row < 5)[:, None] & (row < 3)[None, :])",
            Work(steps=1, tile_operations=1, mte_local_bytes=5 * 3 * 2),
        ),
        ("tl.load(x_ptr + index, mask=index < 0)", None),
        ("tl.load(x_ptr)", Work(steps=1)),
        ("tl.atomic_add(x_ptr + row, 1.0, mask=row < 9)", Work(steps=1, tile_operations=1, mte_local_bytes=18)),
        ("libshmem_device.barrier_all_vec()", Work(steps=1, barriers=1)),
        ("libshmem_device.fence()\nlibshmem_device.quiet()", Work(steps=2)),
    ],
)
def test_vector_operations(run_source, body: str, expected: Work | None) -> None:
    cost = of_body(run_source, body)
    assert cost.cores == ({Core(0, 0, "AIV", None): expected} if expected else {})


def test_a_mix_kernel(run_source) -> None:
    """A flag from the cube core to both vector cores, each of which loads a tile; all meet at the end."""
    body = """\
x = tl.load(x_ptr + index)
acc = tl.dot(x, x)
al.sync_block_set("cube", "vector", 1)
al.sync_block_wait("cube", "vector", 1)
with al.scope(core_mode="vector"):
    tl.load(x_ptr + index)
libshmem_device.barrier_all()"""
    tile = 16 * 16 * 2
    vector = Work(steps=3, tile_operations=1, mte_local_bytes=tile, barriers=1)
    assert of_body(run_source, body).cores == {
        Core(0, 0, "AIC", None): Work(3, 2, 2 * tile, tile, barriers=1),
        Core(0, 0, "AIV", 0): vector,
        Core(0, 0, "AIV", 1): vector,
    }


def test_a_fused_gemm() -> None:
    """On each of 2 ranks 2 * 2 tiles of 128 rows and 256 columns with one step of depth 256; float16 has 2 bytes."""
    cost = cost_of(GENERATED / "allgather_gemm_mte_barrier.py", ranks=2, cores=2, shape={"M": 130, "N": 70, "K": 65})
    assert cost.total.cube_operand_bytes == 2 * 4 * (128 + 256) * 256 * 2
    assert cost.total.mte_remote_bytes == 2 * 130 * 65 * 2
    assert {work.cube_operand_bytes > 0 for core, work in cost.cores.items() if core.kind == "AIC"} == {True}


def test_every_scheduling_point_is_a_step() -> None:
    result = run_module(GENERATED / "all2all_udma_signal.py", ranks=2, cores=6, shape=MOVED, cost=True)
    assert result.cost is not None
    assert result.cost.total.steps == result.steps > 0


def test_a_run_counts_only_when_it_is_asked_to() -> None:
    assert run_module(GENERATED / "reverse_all2all_mte_signal.py", ranks=1, cores=2, shape=MOVED).cost is None
