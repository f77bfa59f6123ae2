"""Guide 1.5, whole blocks: many small transfers where one would do, and what separates blocks."""

from __future__ import annotations

from typing import Any

import pytest

from fusegen.sim import RunResult
from fusegen.sim.findings import ActorName
from tests.sim.checks import assert_complete

TILES = """
@triton.jit
def kernel(landing_ptr, flag_ptr, x_ptr, size, tiles):
    peer = 1 - dl.rank()
    for tile in range(tiles):
        at = tile * (size // 2)
        libshmem_device.putmem(landing_ptr + at, x_ptr + at, size, peer)
    dl.notify(flag_ptr, peer, 1)


def check(rank, ranks):
    size, tiles = SIZE
    landing = ash.aclshmem_create_tensor([tiles * size], dtype=torch.float16, device_id=rank)
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank).zero_()
    dist.barrier()
    kernel[(1,)](landing, flags, torch.zeros(tiles * size, dtype=torch.float16).npu(), size, tiles)
    torch.npu.synchronize()
    return 0.0
"""


def tiles(run_source: Any, *edits: tuple[str, str], size: int = 4096, count: int = 3) -> RunResult:
    source = TILES.replace("SIZE", f"{size}, {count}")
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return run_source(source, ranks=2)


@pytest.mark.parametrize(("size", "count"), [(4096, 2), (4096, 3), (16384, 2), (2, 5)])
def test_putmem_per_tile(run_source, size: int, count: int) -> None:
    result = tiles(run_source, size=size, count=count)
    assert result.max_abs_err == 0.0
    (finding,) = result.findings
    assert_complete(finding, rule="whole block")
    assert finding.location.source == "libshmem_device.putmem(landing_ptr + at, x_ptr + at, size, peer)"
    assert (
        f"putmem per tile where a block would do: expected one putmem of {size * count} bytes with rank 1, got {count} "
        f"adjacent ones of at most {size} bytes without a notify, wait or barrier in between; 1 more like it (guide"
    ) in finding.message
    assert finding.actor == ActorName(rank=0, kind="AIV", core=0, program=0)


NOTIFY = ("    dl.notify(flag_ptr, peer, 1)\n", "        dl.notify(flag_ptr, peer, 1)\n")
BARRIER = ("    dl.notify(flag_ptr, peer, 1)\n", "        libshmem_device.barrier_all_vec()\n")
WAIT = (
    "        libshmem_device.putmem",
    "        dl.wait(flag_ptr, 1, 'sys', 'acquire', waitValue=0)\n        libshmem_device.putmem",
)
SILENT = ("    dl.notify(flag_ptr, peer, 1)\n", "")
FENCE = ("    dl.notify(flag_ptr, peer, 1)\n", "        libshmem_device.fence()\n")


@pytest.mark.parametrize(
    "edits",
    [
        (NOTIFY,),
        (BARRIER,),
        (WAIT, SILENT),
        (("landing_ptr + at", "landing_ptr + at * 2"),),
        (("x_ptr + at", "x_ptr"),),
        (("for tile in range(tiles)", "for tile in range(1)"),),
    ],
    ids=["notify", "barrier", "wait", "strided destination", "same source", "one"],
)
def test_separate_small_blocks_are_no_finding(run_source, edits: tuple[tuple[str, str], ...]) -> None:
    assert tiles(run_source, *edits, count=2).findings == ()


def test_large_adjacent_blocks_are_no_finding(run_source) -> None:
    assert tiles(run_source, size=16386).findings == ()


def test_a_fence_does_not_make_another_block(run_source) -> None:
    (finding,) = tiles(run_source, FENCE).findings
    assert_complete(finding, rule="whole block")
