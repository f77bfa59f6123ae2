"""Strategies pick a valid place, reproducibly; what a run did can be done again; hosts and programs that poll end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.sim import Replay, ReplayMismatch, run_module
from fusegen.sim.actors import Actor
from fusegen.sim.errors import SimulationError
from fusegen.sim.findings import ActorName
from fusegen.sim.schedule import SCHEDULE_NAMES, ScheduleName, schedule_named
from fusegen.sim.schedule.replay import Recorded
from tests.sim.checks import assert_exact

SHAPE = {"S": 200, "H": 2, "D": 40}


def actors(count: int) -> list[Actor]:
    """Runnable programs, numbered from 10."""
    result = [Actor(ActorName(rank=0, kind="AIV", core=i, program=i)) for i in range(count)]
    for number, actor in enumerate(result, 10):
        actor.number = number
    return result


@pytest.mark.parametrize("name", SCHEDULE_NAMES)
@given(seed=st.integers(0, 1000), queues=st.lists(st.integers(1, 50), max_size=30))
def test_a_strategy_is_reproducible_and_in_range(name: ScheduleName, seed: int, queues: list[int]) -> None:
    first, second = (schedule_named(name, seed=seed) for _ in range(2))
    picks = [first.pick(actors(runnable)) for runnable in queues]
    assert picks == [second.pick(actors(runnable)) for runnable in queues]
    assert all(0 <= pick < runnable for pick, runnable in zip(picks, queues, strict=True))


def test_only_one_strategy_delays_stores() -> None:
    assert [name for name in SCHEDULE_NAMES if schedule_named(name, seed=0).late_stores] == ["late-stores"]


def test_random_reaches_everybody() -> None:
    schedule = schedule_named("random", seed=1)
    assert {schedule.pick(actors(4)) for _ in range(100)} == {0, 1, 2, 3}


def test_round_robin_takes_the_first() -> None:
    assert [schedule_named("round-robin", seed=9).pick(actors(runnable)) for runnable in (1, 5, 9)] == [0, 0, 0]


def test_unknown_schedule() -> None:
    names = "round-robin, random, pct, slow-rank, slow-core, starving, late-stores"
    with pytest.raises(SimulationError, match=f"schedule: expected one of {names}, got 'lucky'"):
        schedule_named("lucky", seed=0)


def test_replay_picks_the_recorded_actors() -> None:
    recorded = Recorded(schedule_named("random", seed=3))
    queues = [actors(count) for count in (3, 5, 1, 4)]
    places = [recorded.pick(queue) for queue in queues]
    assert recorded.picks == [queue[place].number for queue, place in zip(queues, places, strict=True)]
    replay = Replay(recorded.picks)
    assert [replay.pick(queue) for queue in queues] == places
    replay.check_complete()


def test_replay_is_strict() -> None:
    replay = Replay([11, 12])
    assert replay.pick(actors(2)) == 1
    with pytest.raises(ReplayMismatch) as caught:
        replay.pick(actors(2))
    names = "actor 10 (rank 0 core 0 AIV program 0) or actor 11 (rank 0 core 1 AIV program 1)"
    assert str(caught.value) == f"schedule: expected actor 12 at pick 1, got {names}"
    with pytest.raises(ReplayMismatch, match="schedule: expected actor 12 at pick 1, got the end of the run"):
        replay.check_complete()
    with pytest.raises(ReplayMismatch, match="schedule: expected the run to end after 0 picks, got actor 10 "):
        Replay([]).pick(actors(1))


@pytest.mark.parametrize("launches", [1, 2])
@pytest.mark.parametrize("name", SCHEDULE_NAMES)
def test_a_recorded_run_replays_exactly(signal_module: Path, name: ScheduleName, launches: int) -> None:
    options = {"ranks": 2, "cores": 6, "shape": SHAPE, "launches": launches}
    first = run_module(signal_module, **options, schedule=name, schedule_seed=5, record=True)
    assert first.schedule is not None
    assert first.late_stores == (name == "late-stores")
    assert len(first.schedule) > first.steps // 2
    replay = Replay(first.schedule, late_stores=first.late_stores)
    again = run_module(signal_module, **options, schedule=replay, record=True)
    assert (again.steps, again.tiles, again.schedule) == (first.steps, first.tiles, first.schedule)
    assert again.late_stores == first.late_stores
    other = run_module(signal_module, **options, schedule=name, schedule_seed=6, record=True)
    assert (other.schedule == first.schedule) == (name == "round-robin")


def test_a_finding_replays_exactly(barrier_module: Path, mutant) -> None:
    path = mutant(barrier_module, ("BUFFER_NUM = 2\n", "BUFFER_NUM = 1\n"))
    options = {"ranks": 2, "cores": 6, "shape": {"S": 500, "H": 2, "D": 64}}
    runs = [run_module(path, **options, schedule="random", schedule_seed=seed, record=True) for seed in range(8)]
    wrong = next(run for run in runs if run.findings)
    assert wrong.schedule is not None
    assert run_module(path, **options, schedule=Replay(wrong.schedule)).findings == wrong.findings


def test_a_schedule_of_another_run_does_not_replay(signal_module: Path) -> None:
    schedule = run_module(signal_module, ranks=2, cores=6, shape=SHAPE, record=True).schedule
    assert schedule is not None
    with pytest.raises(ReplayMismatch, match="schedule: expected "):
        run_module(signal_module, ranks=2, cores=5, shape=SHAPE, schedule=Replay(schedule))
    with pytest.raises(ReplayMismatch, match="got the end of the run"):
        run_module(signal_module, ranks=2, cores=6, shape=SHAPE, schedule=Replay([*schedule, 0]))


def test_a_schedule_is_recorded_only_when_asked_for(signal_module: Path) -> None:
    assert run_module(signal_module, ranks=1, cores=2, shape=SHAPE).schedule is None


def test_input_and_schedule_have_seeds_of_their_own(run_source) -> None:
    source = """
@triton.jit
def kernel(y_ptr):
    place = tl.atomic_add(y_ptr + 8, 1)
    tl.store(y_ptr + place, tl.program_id(0))


def self_check(*, launches, seed, dump_dir):
    y = torch.zeros(9, dtype=torch.int64).npu()
    kernel[(8,)](y)
    order = sum(8**place * program for place, program in enumerate(y[:8].tolist()))
    return float(order * 100 + seed)
"""

    def order_and_seed(seed: int, schedule_seed: int | None) -> tuple[float, float]:
        options = {"schedule": "random", "seed": seed, "schedule_seed": schedule_seed}
        error = run_source(source, cores=8, **options).max_abs_err
        return divmod(error, 100)

    first, second = order_and_seed(1, 5), order_and_seed(2, 5)
    assert (first[0], first[1], second[1]) == (second[0], 1, 2)
    assert order_and_seed(1, 6)[0] != first[0]
    assert order_and_seed(5, None)[0] == first[0]


POLLING_HOST = """
@triton.jit
def kernel(flag_ptr, WORK: tl.constexpr):
    core = tl.program_id(0)
    for _ in range(WORK):
        libshmem_device.fence()
    if core == 0:
        tl.store(flag_ptr, 1)


def check(rank, ranks):
    flag = torch.zeros(8, dtype=torch.int64).npu()
    if rank == 0:
        stream = torch.npu.Stream()
        with torch.npu.stream(stream):
            kernel[(3,)](flag, WORK=20)
        started = time.monotonic()
        while not stream.query() and time.monotonic() - started < 60:
            time.sleep(0.01)
        assert flag[0].item() == 1
    dist.barrier()
    return 0.0
"""

POLLING_PROGRAM = """
@triton.jit
def kernel(flag_ptr, y_ptr):
    if tl.program_id(0) < 2:
        while tl.{poll} == 0:
            pass
        tl.store(y_ptr + tl.program_id(0), 1)
    else:
        tl.store(flag_ptr, 1)
        libshmem_device.fence()


def check(rank, ranks):
    y = torch.zeros(10, dtype=torch.int64).npu()
    kernel[(3,)](y[2:], y)
    return difference(y[:2], [1, 1])
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCHEDULE_NAMES)
def test_a_host_that_polls_ends(run_source, name: ScheduleName, seed: int) -> None:
    assert_exact(run_source(POLLING_HOST, ranks=2, schedule=name, seed=seed))


@pytest.mark.parametrize("poll", ["load(flag_ptr)", "atomic_add(flag_ptr, 0)"])
@pytest.mark.parametrize("name", SCHEDULE_NAMES)
def test_programs_that_poll_end(run_source, name: ScheduleName, poll: str) -> None:
    for seed in range(3):
        source = POLLING_PROGRAM.replace("{poll}", poll)
        assert_exact(run_source(source, ranks=2, schedule=name, seed=seed, step_limit=1_000_000))


def test_a_late_store_without_a_fence_is_not_late_for_ever(run_source) -> None:
    source = POLLING_PROGRAM.replace("{poll}", "load(flag_ptr)").replace(
        "        libshmem_device.fence()\n",
        '        dl.wait(y_ptr, 1, "sys", "acquire", waitValue=1)\n',
    )
    assert_exact(run_source(source, schedule="late-stores", step_limit=1_000_000))
