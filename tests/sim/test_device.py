"""Kernels whose programs run on several cores each, on a machine without host code."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.sim.actors import Actor
from fusegen.sim.device import Device
from fusegen.sim.findings import ActorName, CoreKind
from fusegen.sim.machine import Machine
from fusegen.sim.schedule.round_robin import RoundRobin
from fusegen.sim.signals import DeviceBarrier

MIX: tuple[CoreKind, ...] = ("AIC", "AIV", "AIV")


def run_kernel(programs: int, cores: int, body: Callable[[Machine, DeviceBarrier], None]) -> tuple[Machine, Device]:
    """Launch a mix kernel of so many programs from the host of a single rank; the run ends when it does."""
    machine = Machine(RoundRobin(), step_limit=1000, is_source=lambda file: False)
    barrier = DeviceBarrier(machine, ranks=1)
    device = Device(machine, rank=0, cores=cores)

    def host() -> None:
        stream = device.default_stream
        device.launch("mix", (programs,), lambda: body(machine, barrier), stream, actors_per_program=MIX)
        device.drain(stream)

    machine.spawn(Actor(ActorName(rank=0, kind="host")), host)
    machine.run()
    machine.close()
    return machine, device


def test_a_program_has_an_actor_for_each_core() -> None:
    names: list[str] = []
    run_kernel(2, 2, lambda machine, _: names.append(str(machine.current.name)))
    assert names == [
        f"rank 0 core {core} {kind} program {core}" for core in range(2) for kind in ("AIC", "AIV 0", "AIV 1")
    ]


def test_a_core_is_free_when_all_actors_of_its_program_have_ended() -> None:
    running: list[int] = []

    def body(machine: Machine, _: DeviceBarrier) -> None:
        name = machine.current.name
        if name.kind == "AIC":
            running.append(name.program or 0)
        for _ in range(5 * (name.sub_vec_id or 0)):
            machine.step()
        if name.sub_vec_id == 1:
            running.append(-1)

    machine, device = run_kernel(3, 1, body)
    assert running == [0, -1, 1, -1, 2, -1]
    assert device.default_stream.is_idle
    assert not machine.actors


def test_a_vector_barrier_counts_both_vector_cores_and_no_cube() -> None:
    passed: list[int] = []

    def body(machine: Machine, barrier: DeviceBarrier) -> None:
        if machine.current.name.kind == "AIV":
            barrier.wait()
            passed.append(len(barrier.arrived))

    machine, device = run_kernel(2, 2, body)
    assert passed == [0] * 4
    assert not machine.blocked()
    assert device.default_stream.is_idle


def test_a_vector_barrier_that_one_vector_core_misses_stays_shut() -> None:
    def body(machine: Machine, barrier: DeviceBarrier) -> None:
        if machine.current.name.sub_vec_id == 0:
            barrier.wait()

    machine = run_kernel(2, 2, body)[0]
    assert [str(actor.name) for actor in machine.blocked()] == [
        "rank 0 host",
        "rank 0 core 0 AIV 0 program 0",
        "rank 0 core 1 AIV 0 program 1",
    ]
