"""Calls per core function, against what the module's scopes mean."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.vendor.facts import CoreFacts, LibraryCall
from fusegen.vendor.placement import meant_calls, memory_line, placement_findings

SOURCE = """\
def kernel(a_ptr, TURNED: tl.constexpr):
    with al.scope(core_mode="vector"):
        tile = tl.load(a_ptr)
        token = dl.wait(slot, 1, "sys", "acquire")
        libshmem_device.fence()
        if TURNED:
            dl.notify(slot, rank, 1)
    libshmem_device.barrier_all()
    with al.scope(core_mode="cube"):
        b = tl.load(a_ptr)
        acc = tl.dot(b, b)
        libshmem_device.fence()
"""
WAIT, FENCE, NOTIFY = "aclshmem_wait_int64", "aclshmem_fence", "aclshmem_int64_p"
BARRIER = "aclshmem_barrier_all"


def core(name: str, *calls: str) -> CoreFacts:
    found = tuple(LibraryCall(call, "") for call in calls)
    return CoreFacts("kernel", name, {}, 0, 0, {}, 0, (), found)


def messages(facts: Sequence[CoreFacts], *, turned: bool = True) -> list[tuple[str, str, int]]:
    meant = meant_calls(SOURCE, "kernel", {"TURNED": turned}, is_mix=True)
    return [(finding.kind, finding.message, finding.line) for finding in placement_findings(meant, facts)]


def test_calls_as_they_are_meant() -> None:
    cube = core("AIC", BARRIER, FENCE)
    assert messages([cube, core("AIV", WAIT, FENCE, NOTIFY, BARRIER)]) == []
    assert messages([cube, core("AIV", WAIT, FENCE, BARRIER)], turned=False) == []


def test_a_call_too_many_too_few_or_out_of_order() -> None:
    vector = core("AIV", WAIT, FENCE, NOTIFY, BARRIER)
    assert messages([core("AIC", BARRIER, FENCE, FENCE), vector]) == [
        ("WrongCore", "expected 1 calls of libshmem_device.fence on AIC, got 2", 5)
    ]
    assert messages([core("AIC", BARRIER), vector]) == [
        ("MissingCall", "expected 1 calls of libshmem_device.fence on AIC, got 0", 5)
    ]
    assert messages([core("AIC", BARRIER, FENCE), core("AIV", WAIT, NOTIFY, FENCE, BARRIER)]) == [
        ("WrongOrder", "expected libshmem_device.fence as call 2 on AIV, got dl.notify", 0)
    ]


def test_a_vector_kernel_has_one_core_type() -> None:
    meant = meant_calls(
        SOURCE.replace('core_mode="cube"', 'core_mode="vector"'), "kernel", {"TURNED": False}, is_mix=False
    )
    assert {call.core for call in meant} == {"AIV"}


def test_calls_of_a_device_function_belong_to_its_caller() -> None:
    source = SOURCE.replace("libshmem_device.fence()", "announce()") + "def announce():\n    libshmem_device.fence()\n"
    meant = meant_calls(source, "kernel", {"TURNED": False}, is_mix=True)
    assert [(call.core, call.line) for call in meant if call.function == FENCE] == [("AIV", 14), ("AIC", 14)]


def test_lines_that_fill_a_memory() -> None:
    assert [memory_line(SOURCE, "kernel", memory) for memory in ("ub", "cbuf", "cc")] == [3, 11, 11]
