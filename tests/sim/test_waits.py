"""dl.wait on several slots, and slots that are written once and never reset, with many waiters."""

from __future__ import annotations

import pytest

from fusegen.sim.findings import Deadlock

GATHER = """
@triton.jit
def kernel(flag_ptr, value_ptr, y_ptr, ranks, value, COUNT: tl.constexpr):
    rank = dl.rank()
    program = tl.program_id(0)
    if program < ranks:
        tl.store(dl.symm_at(value_ptr, program) + rank, rank + 1)
        libshmem_device.fence()
        NOTIFY
    token = dl.wait(flag_ptr, COUNT, "sys", "acquire", waitValue=value)
    values = dl.consume_token(value_ptr, token)
    total = tl.load(values)
    for source in range(1, ranks):
        total += tl.load(values + source)
    tl.store(y_ptr + program, total)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([ranks * 8], dtype=torch.int64).zero_()
    values = ash.aclshmem_create_tensor([ranks], dtype=torch.int32).zero_()
    dist.barrier()
    y = torch.zeros(ranks + 2, dtype=torch.int32, device="npu")
    for launch in range(LAUNCHES):
        kernel[(ranks + 2,)](flags, values, y, ranks, launch + 1, COUNT=ranks)
    return difference(y, [ranks * (ranks + 1) // 2] * (ranks + 2))
"""
"""Every program waits for one slot of every rank; nobody resets a slot, the next launch waits for the next value."""

NOTIFY = "dl.notify(flag_ptr + rank * 8, program, value)"


def gather(run_source, notify: str = NOTIFY, *, ranks: int = 4, launches: int = 1, **options):
    source = GATHER.replace("NOTIFY", notify).replace("LAUNCHES", str(launches))
    return run_source(source, ranks=ranks, cores=ranks + 2, **options)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_wait_for_a_slot_of_every_rank(run_source, ranks: int, seed: int) -> None:
    result = gather(run_source, ranks=ranks, schedule="random", schedule_seed=seed)
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0


def test_the_slot_that_is_not_there_yet_is_named(run_source) -> None:
    (finding,) = gather(run_source, f"if rank != 2:\n            {NOTIFY}").findings
    assert isinstance(finding, Deadlock)
    assert [cause.name for cause in finding.causes] == ["producer did not notify"]
    assert "flag_ptr slot 2 on rank 0 is still 0; nobody notified the value 1" in finding.message
    assert {str(blocked.slot) for blocked in finding.blocked} == {"slot 2"}
    assert {(blocked.wanted, blocked.actual) for blocked in finding.blocked} == {(1, 0)}
    assert "rank 0 core 0 AIV program 0 waits for flag_ptr slot 2 on rank 0 to become 1, it is 0 at small.py:" in (
        finding.message
    )
    assert finding.blocked_count == 4 * (4 + 2 + 1)


def test_all_slots_must_have_the_value_of_this_launch(run_source) -> None:
    (finding,) = gather(run_source, f"if rank != 3 or value == 1:\n            {NOTIFY}", launches=2).findings
    assert isinstance(finding, Deadlock)
    assert {str(blocked.slot) for blocked in finding.blocked} == {"slot 3"}
    assert {(blocked.wanted, blocked.actual) for blocked in finding.blocked} == {(2, 1)}


@pytest.mark.parametrize(
    ("count", "message"), [("0", "at least 1 slot, got 0"), ("ranks - 4", "at least 1 slot, got 0")]
)
def test_a_wait_for_no_slot(run_source, count: str, message: str) -> None:
    source = (
        GATHER.replace("NOTIFY", NOTIFY).replace("LAUNCHES", "1").replace("flag_ptr, COUNT,", f"flag_ptr, {count},")
    )
    (finding,) = run_source(source, ranks=4, cores=6).findings
    assert finding.kind == "KernelError"
    assert f"dl.wait: expected {message}" in finding.message


def test_a_wait_beyond_the_slots(run_source) -> None:
    source = GATHER.replace("NOTIFY", NOTIFY).replace("LAUNCHES", "1").replace("COUNT, ", "COUNT + 1, ", 1)
    (finding,) = run_source(source, ranks=4, cores=6).findings
    assert finding.kind == "OutOfBounds"
    assert "flag_ptr: elements 0 to 32 (slot 0) on rank" in finding.message


def test_blocks_that_land_once_with_many_waiters(run_source) -> None:
    """PLATFORM 6: S block by S block, putmem of the whole block, then a notify; nothing is reset or reused."""
    source = """
ROWS, BLOCKS, WIDTH = 8, 3, 16


@triton.jit
def kernel(landing_ptr, flag_ptr, a_ptr, c_ptr, ranks, cores, ROWS: tl.constexpr, BLOCKS: tl.constexpr,
           WIDTH: tl.constexpr):
    rank = dl.rank()
    core = tl.program_id(0)
    logical = core // 2
    block = ROWS * WIDTH
    if core % 2 == 0:
        if logical < ranks and logical != rank:
            for s in range(BLOCKS):
                here = landing_ptr + (rank * BLOCKS + s) * block
                libshmem_device.putmem(here, a_ptr + (logical * BLOCKS + s) * block, block * 2, logical)
                dl.notify(flag_ptr + (s * ranks + rank) * 8, logical, 1)
    else:
        index = tl.arange(0, WIDTH)
        for work in range(logical, BLOCKS * ranks * ROWS, cores // 2):
            row = work % ROWS
            source = work // ROWS % ranks
            s = work // ROWS // ranks
            at = ((source * BLOCKS + s) * ROWS + row) * WIDTH
            if source == rank:
                tile = tl.load(a_ptr + at + index)
            else:
                token = dl.wait(flag_ptr + (s * ranks + source) * 8, 1, "sys", "acquire")
                tile = tl.load(dl.consume_token(landing_ptr, token) + at + index)
            tl.store(c_ptr + at + index, tile)


def check(rank, ranks):
    elements = BLOCKS * ROWS * WIDTH
    landing = ash.aclshmem_create_tensor([ranks, elements], dtype=torch.bfloat16)
    flags = ash.aclshmem_create_tensor([BLOCKS * ranks * 8], dtype=torch.int64).zero_()
    dist.barrier()
    a = torch.randn((ranks, elements), generator=torch.Generator().manual_seed(rank)).bfloat16().npu()
    c = torch.full((ranks, elements), float("nan"), dtype=torch.bfloat16, device="npu")
    cores = NPUUtils().get_aivector_core_num()
    kernel[(cores,)](landing, flags, a, c, ranks, cores, ROWS=ROWS, BLOCKS=BLOCKS, WIDTH=WIDTH)
    expected = torch.empty_like(a)
    dist.all_to_all_single(expected, a)
    return difference(c, expected.cpu())
"""
    for ranks, seed in ((1, 0), (2, 1), (4, 2)):
        result = run_source(source, ranks=ranks, cores=2 * ranks + 4, schedule="random", seed=seed)
        assert [str(finding) for finding in result.findings] == []
        assert result.max_abs_err == 0.0
