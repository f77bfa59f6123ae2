"""Whole mix kernels that communicate: values, what misplaced signals do, and the overlap of cube and vector cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fusegen.sim.events import Event, Multiplied, Write
from fusegen.sim.timing import Clocks, Costs
from tests.sim import mix_kernels
from tests.sim.checks import assert_exact

SCHEDULES = [{"schedule": "round-robin"}, *({"schedule": "random", "seed": seed} for seed in range(4))]


@pytest.mark.parametrize("order", SCHEDULES, ids=str)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_allgather_gemm_with_barriers(run_source, order: dict[str, Any], ranks: int) -> None:
    assert_exact(run_source(mix_kernels.allgather_gemm(launches=2), ranks=ranks, cores=3, **order))


@pytest.mark.parametrize("shape", ["1, 1, 1", "16, 16, 16", "17, 33, 65", "100, 20, 36"])
@pytest.mark.parametrize("tiles", ["16, 16, 16, 8, 32, 1, 2", "32, 16, 32, 4, 16, 2, 2"])
def test_allgather_gemm_of_other_sizes(run_source, shape: str, tiles: str) -> None:
    assert_exact(run_source(mix_kernels.allgather_gemm(shape=shape, tiles=tiles), ranks=2, cores=2))


RING_OF_ONE = "16, 16, 16, 8, 32, 1, 1"
BARRIER = "libshmem_device.barrier_all()"


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_of_one_needs_a_second_barrier(run_source, seed: int) -> None:
    order = {"ranks": 2, "cores": 3, "schedule": "random", "seed": seed}
    (finding,) = run_source(mix_kernels.allgather_gemm(tiles=RING_OF_ONE), **order).findings
    assert finding.kind == "WrongValues"
    assert_exact(run_source(mix_kernels.allgather_gemm(tiles=RING_OF_ONE, second_barrier=BARRIER), **order))


@pytest.mark.parametrize("order", SCHEDULES, ids=str)
@pytest.mark.parametrize("phases", [mix_kernels.in_two_scopes, mix_kernels.in_scopes_of_a_round])
@pytest.mark.parametrize("ranks", [1, 3])
def test_gemm_reduce_with_signals_in_scopes(
    run_source, order: dict[str, Any], phases: Callable[[], str], ranks: int
) -> None:
    source = mix_kernels.gemm_reduce(phases(), shape="72, 40, 48")
    assert_exact(run_source(source, ranks=ranks, cores=3, **order))


@pytest.mark.parametrize("phases", [mix_kernels.without_scopes, mix_kernels.credits_outside_of_scopes])
def test_signals_outside_of_scopes_are_found(run_source, phases: Callable[[], str]) -> None:
    """The scoped twins are in test_gemm_reduce_with_signals_in_scopes. All of these seeds show it; one would do."""
    source = mix_kernels.gemm_reduce(phases(), shape="72, 40, 48")
    for seed in range(1, 4):
        result = run_source(source, ranks=2, cores=3, schedule="random", seed=seed)
        (finding,) = result.findings
        assert finding.kind == "Deadlock"
        assert "the AIC and the AIVs both notify at small.py:" in finding.message


EARLY = """
@triton.jit
def kernel(a_ptr, c_ptr, partial_ptr, ready_ptr, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)
    index = row[:, None] * SIZE + row[None, :]
    {cube}
    acc = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    {cube_in}for _ in range(8):
    {cube_in}    acc = tl.dot(tl.load(a_ptr + index), tl.load(a_ptr + index), acc)
    {cube_in}tl.store(partial_ptr + index, acc)
    {told}
    {vector}
    {vector_in}{awaited}
    {vector_in}libshmem_device.fence()
    {vector_in}dl.notify(ready_ptr, 1 - dl.rank(), 1)
    {vector_in}token = dl.wait(ready_ptr, 1, "sys", "acquire", waitValue=1)
    {vector_in}remote = dl.symm_at(dl.consume_token(partial_ptr, token), 1 - dl.rank())
    {vector_in}tl.store(c_ptr + index, tl.load(remote + index))


def check(rank, ranks):
    partial = ash.aclshmem_create_tensor([16, 16], dtype=torch.float32, device_id=rank)
    ready = ash.aclshmem_create_tensor([8], dtype=torch.int64, device_id=rank)
    ready.zero_()
    dist.barrier()
    a = torch.eye(16, dtype=torch.float16).npu()
    c = torch.zeros(16, 16).npu()
    kernel[(1,)](a, c, partial, ready, SIZE=16)
    torch.npu.synchronize()
    dist.barrier()
    return difference(c, 8 * torch.eye(16))
"""


def early(*, scoped: bool) -> str:
    """A dot result that the other rank reads after a notify."""
    values = {"cube": "", "cube_in": "", "told": "", "vector": "", "vector_in": "", "awaited": ""}
    if scoped:
        values = {
            "cube": 'with al.scope(core_mode="cube"):',
            "cube_in": "    ",
            "told": '    al.sync_block_set("cube", "vector", 0)',
            "vector": 'with al.scope(core_mode="vector"):',
            "vector_in": "    ",
            "awaited": 'al.sync_block_wait("cube", "vector", 0)',
        }
    text = EARLY.replace("    acc = tl.zeros", "    {cube_in}acc = tl.zeros")
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.mark.parametrize("order", SCHEDULES, ids=str)
def test_a_notify_behind_a_dot_does_not_wait_for_the_cube(run_source, order: dict[str, Any]) -> None:
    (finding,) = run_source(early(scoped=False), ranks=2, cores=1, **order).findings
    assert finding.kind == "WrongValues"
    assert_exact(run_source(early(scoped=True), ranks=2, cores=1, **order))


def overlap_events(run_source: Any, **options: Any) -> tuple[list[Event], Clocks]:
    """Events and clocks of a run in which both phases of a round take about as long: 22 and 27 loads and stores."""
    told: list[Event] = []
    clocks = Clocks(Costs(access=100, per_byte=0, per_product=0))
    source = mix_kernels.allgather_gemm(shape="96, 64, 64", **options)
    assert_exact(run_source(source, ranks=2, cores=3, observers=[told.append, clocks.observe]))
    return told, clocks


def test_a_second_buffer_lets_vector_and_cube_cores_overlap(run_source) -> None:
    double, fast = overlap_events(run_source, tiles="16, 16, 16, 2, 16, 1, 2")
    single, slow = overlap_events(run_source, tiles="16, 16, 16, 2, 16, 1, 1", second_barrier=BARRIER)
    assert fast.makespan < 0.7 * slow.makespan

    def order_of_round(events: list[Event]) -> tuple[int, int]:
        """When a vector core first stores in round 1, and when a cube last multiplies in round 0."""
        first = [event for event in events if isinstance(event, Write) and event.tensor == "gathered_ptr"]
        products = [event for event in events if isinstance(event, Multiplied)]
        pushes, dots = len(first) // 6, len(products) // 6  # 6 rounds of 16 rows
        return events.index(first[pushes]), events.index(products[dots - 1])

    push, dot = order_of_round(double)
    assert push < dot
    push, dot = order_of_round(single)
    assert push > dot


def test_virtual_time_does_not_depend_on_the_schedule(run_source) -> None:
    times = set()
    for seed in range(3):
        clocks = Clocks()
        options = {"observers": [clocks.observe], "schedule": "random", "seed": seed}
        assert_exact(run_source(mix_kernels.gemm_reduce(), ranks=2, cores=3, **options))
        times.add(clocks.makespan)
    assert len(times) == 1
