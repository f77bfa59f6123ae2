"""Virtual time: operations take what they cost, and whoever waits goes on when the other is done."""

from __future__ import annotations

from typing import Any

import pytest

from fusegen.sim.timing import Clocks, Costs

KERNEL = """
@triton.jit
def kernel(x_ptr, flag_ptr, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)
    index = row[:, None] * SIZE + row[None, :]
    core = tl.program_id(0)
    {body}


def check(rank, ranks):
    x = torch.zeros(16, 16).half().npu()
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    flags.zero_()
    dist.barrier()
    for _ in range({launches}):
        kernel[({grid},)](x, flags, SIZE=16)
    torch.npu.synchronize()
    return 0.0
"""
COSTS = Costs(access=10, per_byte=0, per_product=1 / 4096, signal=3, barrier=7)
LOAD = "tl.load(x_ptr + index)"
DOT = f"tl.dot({LOAD}, {LOAD})"


def makespan(run_source: Any, body: str, *, grid: int = 1, launches: int = 1, **options: Any) -> float:
    clocks = Clocks(COSTS)
    text = KERNEL.replace("{grid}", str(grid)).replace("{launches}", str(launches))
    text = text.replace("{body}", body.strip().replace("\n", "\n    "))
    result = run_source(text, observers=[clocks.observe], **options)
    assert [str(finding) for finding in result.findings] == []
    return clocks.makespan - START


START = 28.0
"""The hosts meet four times before the launch: init, heap, tensor, barrier."""


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        (f"{LOAD}\n{LOAD}", {}, 20),
        (f"{LOAD}\nlibshmem_device.fence()", {}, 13),
        (LOAD, {"grid": 4}, 10),
        (LOAD, {"grid": 5}, 20),
        (LOAD, {"launches": 3}, 30),
        (f"if core == 0:\n    {LOAD}\nlibshmem_device.barrier_all_vec()\n{LOAD}", {"grid": 4}, 27),
        (
            f"if core == 0:\n    {LOAD}\n    dl.notify(flag_ptr, 0, 1)\nelse:\n"
            f'    dl.wait(flag_ptr, 1, "sys", "acquire")\n    {LOAD}',
            {"grid": 2},
            23,
        ),
    ],
)
def test_vector_kernels(run_source, body: str, options: dict[str, int], expected: float, schedule: str) -> None:
    assert makespan(run_source, body, schedule=schedule, **options) == expected


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"acc = {DOT}", 21),
        (f'acc = {DOT}\nwith al.scope(core_mode="vector"):\n    {LOAD}\n    {LOAD}\n    {LOAD}', 30),
        (f"acc = {DOT}\ntl.store(x_ptr + index, acc)", 31),
        (f"acc = {DOT}\ntl.store(x_ptr + index, acc * 2)", 34),
        (
            f'acc = {DOT}\nal.sync_block_set("cube", "vector", 1)\nal.sync_block_wait("cube", "vector", 1)\n'
            f'with al.scope(core_mode="vector"):\n    {LOAD}',
            34,
        ),
        (f"acc = {DOT}\nlibshmem_device.barrier_all()\nacc = {DOT}", 49),
    ],
)
def test_the_cores_of_an_ai_core_have_clocks_of_their_own(
    run_source, body: str, expected: float, schedule: str
) -> None:
    assert makespan(run_source, body, schedule=schedule, cores=1) == expected
