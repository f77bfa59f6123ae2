"""Small kernels with one bug each, and their twins without it."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest

from fusegen.sim.findings import ActorName, Slot
from fusegen.sim.order.kinds import DataRace, MissingFence, SlotConflict, UninitialisedRead

MODULE = """
@triton.jit
def kernel(data_ptr, flag_ptr, out_ptr, words_ptr, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)
    rank = dl.rank()
    core = tl.program_id(0)
{body}


def check(rank, ranks):
    data = ash.aclshmem_create_tensor([64], dtype=torch.float32, device_id=rank)
    flags = ash.aclshmem_create_tensor([64], dtype=torch.int64, device_id=rank)
    out = torch.zeros(64).npu()
    words = torch.zeros(64, dtype=torch.int32).npu()
{host}
    for launch in range({launches}):
        kernel[({grid},)](data, flags, out, words, SIZE=16)
    torch.npu.synchronize()
    return 0.0
"""

ZEROED = "flags.zero_()\ntorch.npu.synchronize()\ndist.barrier()"
SEND = "tl.store(data_ptr + row, 1.0)\nlibshmem_device.fence()\ndl.notify(flag_ptr, rank, 1)"
TAKE = (
    'data = dl.consume_token(data_ptr, dl.wait(flag_ptr, 1, "sys", "acquire"))\n'
    "tl.store(out_ptr + row, tl.load(data + row))"
)


def two(first: str, second: str) -> str:
    """One text for core 0, one for core 1."""
    return f"if core == 0:\n{indent(first, '    ')}\nelse:\n{indent(second, '    ')}"


@pytest.fixture
def checked(run_source: Any) -> Any:
    """`checked(body, host=, grid=, ...)`: run the module with these texts, and check races."""

    def run(body: str, *, host: str = ZEROED, grid: int = 2, launches: int = 1, **options: Any) -> Any:
        text = MODULE.replace("{grid}", str(grid)).replace("{launches}", str(launches))
        text = text.replace("{body}", indent(body, "    ")).replace("{host}", indent(host, "    "))
        return run_source(text, races=True, **options)

    return run


def assert_proved(result: Any) -> None:
    assert [str(finding) for finding in result.findings] == []
    assert result.proof.proved, str(result.proof)


def only(result: Any) -> Any:
    (finding,) = result.findings
    assert not result.ok
    assert not result.proof.proved
    return finding


def test_a_signal_orders_a_store_and_a_load(checked) -> None:
    result = checked(two(SEND, TAKE))
    assert_proved(result)
    assert (result.proof.slots, result.proof.writes, result.proof.waits) == (1, 1, 1)


def test_what_a_finding_says(checked) -> None:
    finding = only(checked(two(SEND.replace("libshmem_device.fence()\n", ""), TAKE)))
    assert type(finding) is MissingFence
    assert finding.actor == ActorName(rank=0, kind="AIV", core=1, program=1)
    assert finding.other == ActorName(rank=0, kind="AIV", core=0, program=0)
    assert finding.location is not None
    assert finding.location.source == "tl.store(out_ptr + row, tl.load(data + row))"
    assert finding.other_location is not None
    assert finding.other_location.source == "tl.store(data_ptr + row, 1.0)"
    where = (finding.tensor, finding.rank, finding.first, finding.last, finding.count, finding.element_bytes)
    assert where == ("data_ptr", 0, 0, 15, 16, 4)
    assert (finding.slot, finding.slot_tensor, finding.slot_rank) == (Slot(0), "flag_ptr", 0)
    assert finding.expected.startswith("libshmem_device.fence() between the two, before the notify at small.py:")
    assert finding.guide == "1.3"
    document = finding.to_json()
    assert (document["kind"], document["other"]["core"], document["tensor"]) == ("MissingFence", 0, "data_ptr")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (two(SEND, "tl.store(data_ptr + row, 2.0)"), "DataRace", "writes, and nothing orders the two"),
        (two("tl.store(data_ptr + row, 1.0)", "tl.store(data_ptr + 15 + row, 2.0)"), "DataRace", "element 15 of data_"),
        (two(SEND, "tl.atomic_add(data_ptr + row, 2.0)"), "DataRace", "adds to"),
        (two("tl.atomic_add(data_ptr + row, 1.0)", "tl.atomic_add(data_ptr + 8 + row, 1.0)"), None, ""),
        (two("tl.store(data_ptr + row, 1.0)", "tl.store(data_ptr + 16 + row, 2.0)"), None, ""),
        # The box of one core lies between the rows of the other.
        (
            two(
                "tl.store(data_ptr + row[:, None] % 4 * 16 + tl.arange(0, 8)[None, :], 1.0, mask=(row < 4)[:, None])",
                "tl.store(data_ptr + row[:, None] % 4 * 16 + 8 + tl.arange(0, 8)[None, :], 1.0, mask=row[:, None] < 4)",
            ),
            None,
            "",
        ),
        (
            two(SEND, TAKE.replace("data + row", "data + row + 8")),
            "UninitialisedRead",
            "elements 16 to 23 of data_",
        ),
        (
            two(SEND, TAKE.replace("data + row", "data + row + 8, mask=row < 8, other=0.0")),
            None,
            "",
        ),
        (
            two(SEND, TAKE + "\nlibshmem_device.fence()\ndl.notify(flag_ptr, rank, 0)\ndl.notify(flag_ptr, rank, 5)"),
            None,
            "",
        ),
        (
            two("tl.store(words_ptr, 1)", "tl.store(words_ptr + 1, 2)"),
            "SlotConflict",
            "the 64-byte line 0 of words_ptr",
        ),
        (two("tl.store(words_ptr, 1)", "tl.store(words_ptr + 16, 2)"), None, ""),
        (
            two("tl.store(words_ptr, 1)", "pass") + "\nlibshmem_device.barrier_all_vec()\n"
            "if core == 1:\n    tl.store(words_ptr + 1, 2)",
            None,
            "",
        ),
        (two("tl.store(words_ptr, 1)", "tl.store(words_ptr, 2)"), "DataRace", "element 0 of words_ptr"),
        (two(SEND, SEND.replace("data_ptr + row", "data_ptr + 16 + row")), "LostWakeup", "one may erase the other"),
        (two(SEND, 'dl.wait(flag_ptr, 1, "sys", "acquire")'), "UnconsumedToken", "the compiler deletes such a wait"),
        (
            two(
                SEND,
                'token = dl.wait(flag_ptr, 1, "sys", "acquire")\nfor i in range(core - 1):\n    '
                "tl.load(dl.consume_token(data_ptr, token) + row)",
            ),
            None,
            "",
        ),
        (
            two(SEND, "if tl.load(flag_ptr) == 1:\n    tl.store(out_ptr + row, 1.0)"),
            "DataRace",
            "of flag_ptr on rank 0",
        ),
    ],
)
def test_two_cores(checked, body: str, kind: str | None, text: str) -> None:
    for schedule in ("round-robin", "random"):
        result = checked(body, schedule=schedule)
        if kind is None:
            assert_proved(result)
        else:
            finding = only(result)
            assert (type(finding).__name__, text in finding.message) == (kind, True), str(finding)


def test_a_relayed_signal_carries_what_the_first_one_announced(checked) -> None:
    relay = 'flag = dl.consume_token(flag_ptr, dl.wait(flag_ptr, 1, "sys", "acquire"))\ndl.notify(flag + 8, rank, 1)'
    take = TAKE.replace("dl.wait(flag_ptr", "dl.wait(flag_ptr + 8")
    body = f"if core == 2:\n{indent(take, '    ')}\nelse:\n{indent(two(SEND, relay), '    ')}"
    assert_proved(checked(body, grid=3))


def test_a_fence_takes_over_what_a_token_brought(checked) -> None:
    wait = 'dl.consume_token(out_ptr, dl.wait(flag_ptr, 1, "sys", "acquire"))\n'
    assert_proved(checked(two(SEND, wait + "libshmem_device.fence()\ntl.load(data_ptr + row)")))
    finding = only(checked(two(SEND, wait + "tl.load(data_ptr + row)")))
    assert type(finding).__name__ == "UnconsumedToken"


def test_signal_wait_until_needs_no_token(checked) -> None:
    take = "libshmem_device.signal_wait_until(flag_ptr, libshmem_device.ACLSHMEM_CMP_EQ, 1)\ntl.load(data_ptr + row)"
    assert_proved(checked(two(SEND, take)))


def test_atomics_whose_result_is_used_are_not_proved(checked) -> None:
    result = checked("ticket = tl.atomic_add(words_ptr, 1)\ntl.store(out_ptr + ticket * 16 + row, 1.0)")
    assert result.ok
    assert not result.proof.proved
    assert str(result.proof) == "not proved: words_ptr: what tl.atomic_add returns depends on the schedule"


def test_slots_that_a_store_writes_are_not_proved(checked) -> None:
    body = two("tl.store(flag_ptr, 1)", 'dl.consume_token(data_ptr, dl.wait(flag_ptr, 1, "sys", "acquire"))')
    result = checked(body, schedule="random", seed=1)
    assert result.ok
    assert str(result.proof).startswith(
        "not proved: rank 0 core 0 AIV program 0 writes flag_ptr, which has slots, by a st"
    )


@pytest.mark.parametrize("barrier", ["dist.barrier()", "pass"])
def test_zeroing_that_is_not_over(checked, barrier: str) -> None:
    """Ranks signal each other; the zeroing of a rank must come before the signals of the others."""
    body = SEND.replace("rank, 1)", "1 - rank, 1)") + f"\n{TAKE}"
    result = checked(body, grid=1, ranks=2, host=f"time.sleep(1 - rank)\nflags.zero_()\n{barrier}")
    if barrier != "pass":
        assert_proved(result)
        return
    kinds = {type(finding).__name__ for finding in result.findings}
    assert "LostWakeup" in kinds, kinds


def test_a_host_reads_and_writes_symmetric_memory_after_its_own_kernels_only(checked) -> None:
    """The data that rank 1 reads from rank 0 is overwritten by the host of rank 0."""
    body = "if rank == 1:\n    tl.load(dl.symm_at(data_ptr, 0) + row)"
    host = f"data.fill_(1.0)\n{ZEROED}\nkernel[(1,)](data, flags, out, words, SIZE=16)\n"
    assert_proved(checked(body, grid=1, ranks=2, host=host + "dist.barrier()\ndata.fill_(2.0)\ndist.barrier()"))
    finding = only(checked(body, grid=1, ranks=2, host=host + "data.fill_(2.0)\ndist.barrier()"))
    assert type(finding) is DataRace
    assert {finding.actor.kind, finding.other.kind} == {"host", "AIV"}


STREAMS = """
@triton.jit
def write(x_ptr, SIZE: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, SIZE), 1.0)


def check(rank, ranks):
    x = torch.zeros(16).npu()
    first, second = torch.npu.Stream(), torch.npu.Stream()
    torch.npu.synchronize()
    with torch.npu.stream(first):
        write[(1,)](x, SIZE=16)
    {between}
    with torch.npu.stream(second):
        write[(1,)](x, SIZE=16)
    torch.npu.synchronize()
    return 0.0
"""


@pytest.mark.parametrize(
    ("between", "is_ordered"),
    [("pass", False), ("second.wait_stream(first)", True), ("first.synchronize()", True)],
)
def test_streams(run_source, between: str, is_ordered: bool) -> None:
    result = run_source(STREAMS.replace("{between}", between), races=True)
    assert [type(finding) for finding in result.findings] == ([] if is_ordered else [DataRace])


def test_a_finding_on_a_slot_names_it(checked) -> None:
    finding = only(checked(two(SEND, 'dl.wait(flag_ptr, 1, "sys", "acquire")')))
    assert finding.slot == Slot(0)


def test_kinds_of_lines_and_fresh_memory(checked) -> None:
    conflict = only(checked(two("tl.store(words_ptr, 1)", "tl.store(words_ptr + 1, 2)")))
    assert type(conflict) is SlotConflict
    assert conflict.expected == "a line of its own for each of them: 8 int64 words for a slot"
    fresh = only(checked("tl.load(data_ptr + row)", grid=1))
    assert type(fresh) is UninitialisedRead
    assert "reads elements 0 to 15 of data_ptr on rank 0, which nobody has written" in fresh.message


class Last:
    """A schedule in which one core of rank 0 goes only when nobody else can."""

    late_stores = False

    def __init__(self, core: int) -> None:
        self._core = core

    def pick(self, runnable: Any) -> int:
        """The first one that is not the slow core."""
        others = [place for place, actor in enumerate(runnable) if actor.name.core != self._core]
        return others[0] if others else 0


PRODUCE = (
    'data = dl.consume_token(data_ptr, dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=0))\n'
    "tl.store(data + core * 16 + row, 1.0)\nlibshmem_device.fence()\ndl.notify(flag_ptr + 8 + core * 8, rank, 1)"
)
CONSUME = (
    'data = dl.consume_token(data_ptr, dl.wait(flag_ptr + 8, {producers}, "sys", "acquire"))\n'
    "tl.load(data + row)\nlibshmem_device.fence()\ndl.notify(flag_ptr, rank, 1)"
)


@pytest.mark.parametrize(("producers", "is_safe"), [(1, False), (2, True)])
def test_a_credit_that_some_producer_may_miss(checked, producers: int, is_safe: bool) -> None:
    """Two producers wait for one credit. A consumer that has waited for one of them may spend it before the other."""
    consume = CONSUME.replace("{producers}", str(producers))
    body = f"if core == 2:\n{indent(consume, '    ')}\nelse:\n{indent(PRODUCE, '    ')}"
    result = checked(body, grid=3)
    slow = [checked(body, grid=3, schedule=Last(core)) for core in range(3)]
    if is_safe:
        for each in (result, *slow):
            assert_proved(each)
        return
    finding = only(result)
    assert type(finding).__name__ == "LostWakeup"
    assert "core 2 AIV program 2 writes 1" in finding.message
    assert "core 1 AIV program 1 waits for 0" in finding.message
    assert [type(found).__name__ for found in slow[1].findings] == ["Deadlock", "LostWakeup"]


MIX = """
@triton.jit
def kernel(x_ptr, y_ptr, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)
    index = row[:, None] * SIZE + row[None, :]
    x = tl.load(x_ptr + index)
    acc = tl.dot(x, x)
    {body}


def check(rank, ranks):
    y = torch.zeros(256).npu()
    kernel[(1,)](torch.ones(16, 16).half().npu(), y, SIZE=16)
    torch.npu.synchronize()
    return 0.0
"""


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize(
    ("body", "is_ordered"),
    [
        # Each AIV loads, changes and stores its part of the tile.
        ("old = tl.load(y_ptr + index) + 1\n    tl.store(y_ptr + index, tl.where(acc > 9e5, acc, old))", True),
        # The AIC stores, and an AIV loads, with nothing between.
        ("tl.store(y_ptr + index, acc)\n    tl.store(x_ptr + index, tl.load(y_ptr + index) + 1)", False),
    ],
)
def test_the_cores_of_an_ai_core(run_source, body: str, is_ordered: bool, schedule: str) -> None:
    result = run_source(MIX.replace("{body}", body), cores=1, races=True, schedule=schedule)
    if is_ordered:
        assert_proved(result)
        return
    assert {type(finding) for finding in result.findings} == {DataRace}
    assert "expected al.sync_block_set by one and al.sync_block_wait by the other" in result.findings[0].message


def test_the_range_of_a_strided_overlap(checked) -> None:
    """Rows of 16 elements: one core stores columns 0 to 7 of four of them, the other one columns 4 to 11."""
    box = "(row % 4)[:, None] * 16 + tl.arange(0, 8)[None, :]"
    finding = only(checked(two(f"tl.store(data_ptr + {box}, 1.0)", f"tl.store(data_ptr + 4 + {box}, 2.0)")))
    assert (finding.first, finding.last, finding.count, finding.element_bytes) == (4, 55, 16, 4)
    assert "16 of elements 4 to 55 of data_ptr on rank 0: " in finding.message


def test_a_range_counts_elements_of_the_tensor_whatever_the_access(checked) -> None:
    """putmem counts bytes, the tensor has four of them in an element."""
    put = "if rank == 0:\n    libshmem_device.putmem(data_ptr + 2, out_ptr, 8 * 4, 1)"
    finding = only(checked(f"{put}\nelse:\n    tl.store(data_ptr + 8 + row, 1.0)", grid=1, ranks=2))
    assert (finding.first, finding.last, finding.count, finding.element_bytes) == (8, 9, 2, 4)


@pytest.mark.parametrize("quiet", ["libshmem_device.quiet()", "libshmem_device.fence()"])
def test_a_core_that_does_not_wait_for_its_own_copy(checked, quiet: str) -> None:
    get = f"libshmem_device.getmem_nbi(out_ptr, data_ptr, 64, 1 - rank)\n{quiet}\ntl.load(out_ptr + row)"
    result = checked(get, grid=1, ranks=2, host=f"data.fill_(1.0)\n{ZEROED}")
    if "quiet" in quiet:
        assert_proved(result)
        return
    finding = only(result)
    assert type(finding) is MissingFence
    assert (finding.expected, finding.guide) == ("libshmem_device.quiet() between the two", "1.5")
