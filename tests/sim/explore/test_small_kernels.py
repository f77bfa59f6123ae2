"""Kernels with a known number of orders, and the reduced exploration against that of all interleavings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import factorial
from typing import Any

import pytest

from fusegen.sim import Replay, run_module
from fusegen.sim.actors import Actor
from fusegen.sim.events import Atomic, Event, Notified, Read, Waited, Write
from fusegen.sim.explore.run import Exploration


def notify(slot: int, value: int, rank: str = "rank") -> str:
    return f"dl.notify(slot_ptr + {8 * slot}, {rank}, {value})\n"


def wait(slot: int, value: int, count: int = 1) -> str:
    token = f'dl.wait(slot_ptr + {8 * slot}, {count}, "sys", "acquire", waitValue={value})'
    return f"out_ptr = dl.consume_token(out_ptr, {token})\n"


LOAD = "tl.store(out_ptr + 62, tl.load(slot_ptr))\ntl.store(out_ptr + 63, 1)\n"
ADD = "tl.store(out_ptr + 62 + core, tl.atomic_add(slot_ptr, 1))\n"
BARRIER = "libshmem_device.barrier_all_vec()\n"


class EverySchedule:
    """A schedule for run after run: at every scheduling point of the simulator every actor, without any reduction."""

    late_stores = False

    def __init__(self) -> None:
        self._turns: list[tuple[int, int]] = []
        self._done = 0

    def pick(self, runnable: Sequence[Actor]) -> int:
        if self._done == len(self._turns):
            self._turns.append((0, len(runnable)))
        self._done += 1
        return self._turns[self._done - 1][0]

    def has_next(self) -> bool:
        """Go on to the next run."""
        self._done = 0
        while self._turns:
            turn, choices = self._turns.pop()
            if turn + 1 < choices:
                self._turns.append((turn + 1, choices))
                return True
        return False


class Histories:
    """Observes what happens to each slot: writes and loads in their order, and between two writes a set of others."""

    def __init__(self) -> None:
        self._of_slots: defaultdict[int, list[set[object]]] = defaultdict(list)

    def observe(self, event: Event) -> None:
        program = event.actor.name.program
        match event:
            case Notified():
                self._write(event.pointer.address(), program)
            case Write(pointer=pointer) | Atomic(pointer=pointer) if pointer.name == "slot_ptr":
                self._write(pointer.address(), program)
            case Waited():
                for address in event.wait.addresses():
                    self._look(address, program)
            case Read(pointer=pointer) if pointer.name == "slot_ptr":
                self._look(pointer.address(), program)

    def _write(self, address: int, program: object) -> None:
        self._of_slots[address] += [{program}, set()]

    def _look(self, address: int, program: object) -> None:
        if not self._of_slots[address]:
            self._of_slots[address].append(set())
        self._of_slots[address][-1].add(program)

    def frozen(self) -> object:
        return frozenset(
            (slot, tuple(map(frozenset, history))) for slot, history in self._of_slots.items() if any(history)
        )


def kinds(exploration: Exploration) -> set[str]:
    return {shown.finding.kind for shown in exploration.findings}


@pytest.mark.parametrize("writers", [2, 3])
def test_writers_of_one_slot_have_all_their_orders(small: Any, explore: Any, writers: int) -> None:
    result = explore(small(*(notify(0, value + 1) for value in range(writers))))
    assert result.complete
    assert result.orders == result.runs == factorial(writers)


def test_writers_of_different_slots_have_one_order(small: Any, explore: Any) -> None:
    result = explore(small(*(notify(slot, 1) + notify(slot, 2) for slot in range(4))))
    assert (result.runs, result.orders, result.complete, result.findings) == (1, 1, True, ())


def test_a_chain_of_signals_has_one_order(small: Any, explore: Any) -> None:
    result = explore(small(notify(0, 1), wait(0, 1) + notify(1, 1), wait(1, 1) + notify(0, 0)))
    assert (result.runs, result.orders, result.complete, result.findings) == (1, 1, True, ())


def test_a_value_that_is_overwritten_is_lost_in_one_order(small: Any, explore: Any) -> None:
    # 1, wait, 2 and 2, 1, wait end; 1, 2 does not.
    result = explore(small(notify(0, 1), notify(0, 2), wait(0, 1)))
    assert (result.complete, result.orders) == (True, 3)
    assert "Deadlock" in kinds(result)


def test_what_follows_a_barrier_can_come_in_any_order(small: Any, explore: Any) -> None:
    # Whoever comes last to the barrier does not go on first in all of them.
    result = explore(small(BARRIER + notify(0, 1), BARRIER + notify(0, 2), BARRIER))
    assert (result.complete, result.orders) == (True, 2)


def test_a_host_may_zero_after_another_rank_has_written(small: Any, explore: Any) -> None:
    # Either rank may be late, but not both.
    path = small(notify(0, 1, "1 - rank"), meet="pass")
    result = explore(path, ranks=2)
    assert (result.complete, result.orders) == (True, 3)


def test_a_wait_may_end_between_two_writes_of_a_host(small: Any, explore: Any) -> None:
    body = f"if rank == 0:\n    {wait(0, 0).replace('slot_ptr', 'dl.symm_at(slot_ptr, 1)')}"
    path = small(body, meet="slots.fill_(7)")
    result = explore(path, ranks=2)
    # Between the zeroing and the 7 of the other rank, or never.
    assert (result.complete, result.orders) == (True, 2)
    assert "Deadlock" in kinds(result)


def test_a_wait_that_has_begun_sees_what_a_host_writes(small: Any, explore: Any) -> None:
    # In the first run the 5 comes and goes while the program waits.
    body = f"if rank == 0:\n    {wait(0, 5).replace('slot_ptr', 'dl.symm_at(slot_ptr, 1)')}"
    path = small(body, meet="any(slots.fill_(value) is None for value in (7, 7, 7, 7, 5, 7) if rank)")
    result = explore(path, ranks=2)
    assert (result.complete, result.orders) == (True, 2)


def test_a_program_may_start_on_whichever_core_is_free(small: Any, explore: Any) -> None:
    # Program 2 can write before program 0 does if program 1 ends early.
    result = explore(small(notify(0, 1), "pass", notify(0, 2)), cores=2)
    assert (result.complete, result.orders) == (True, 2)


def test_a_word_turns_out_to_be_shared_after_it_was_read(small: Any, explore: Any) -> None:
    # The first run shows it, and is made again.
    load = "tl.store(out_ptr + 62, tl.load(out_ptr + 61))\n"
    result = explore(small(load, "turn = tl.atomic_add(out_ptr + 61, 0)\n"))
    assert (result.complete, result.orders, result.runs) == (True, 2, 4)


def test_a_finding_comes_with_the_schedule_that_shows_it(small: Any, explore: Any) -> None:
    path = small(notify(0, 1) + notify(0, 2), wait(0, 1))
    (shown,) = [each for each in explore(path).findings if each.finding.kind == "Deadlock"]
    again = run_module(path, ranks=1, cores=4, shape={}, schedule=Replay(shown.schedule), races=True)
    assert shown.finding in again.findings


def test_exploring_stops_at_the_first_finding_when_asked(small: Any, explore: Any) -> None:
    told: list[int] = []
    path = small(notify(0, 1), notify(0, 2), notify(0, 3))
    result = explore(path, stop_at_finding=True, progress=told.append)
    assert (result.runs, result.complete) == (1, False)
    assert result.findings
    assert told == [1]


def test_exploring_stops_at_its_limit(small: Any, explore: Any) -> None:
    result = explore(small(notify(0, 1), notify(0, 2), notify(0, 3)), limit=4)
    assert (result.runs, result.complete) == (4, False)


def test_a_doubt_without_a_finding_is_more_than_one_order(small: Any, explore: Any) -> None:
    path = small(*2 * ["turn = tl.atomic_add(out_ptr + 63, 1)\n"])
    one = run_module(path, ranks=1, cores=4, shape={}, races=True)
    assert one.findings == ()
    assert one.proof is not None
    assert one.proof.doubts == ("out_ptr: what tl.atomic_add returns depends on the schedule",)
    result = explore(path)
    assert (result.complete, result.orders, result.findings) == (True, 2, ())


PROGRAMS = {
    "writers": (notify(0, 1) + notify(1, 1), notify(1, 2) + notify(0, 2)),
    "lost": (notify(0, 1) + notify(0, 0), wait(0, 1), notify(1, 1)),
    "same value twice": (notify(0, 1) + notify(0, 0) + notify(0, 1), wait(0, 1) + notify(1, 1)),
    "two partners": (notify(0, 1), notify(0, 1), wait(0, 1)),
    "initial value": (notify(0, 1) + notify(0, 0), wait(0, 0)),
    "two slots": (notify(0, 1) + notify(0, 0), notify(1, 1) + notify(1, 0), wait(0, 1, count=2)),
    "crossed waits": (wait(0, 1) + notify(1, 1), wait(1, 1) + notify(0, 1)),
    "barrier": (notify(0, 1) + BARRIER + notify(1, 1), BARRIER + notify(1, 2)),
    "loads of a slot": (notify(0, 1) + notify(0, 2), LOAD),
    "stores to a slot": ("tl.store(slot_ptr, 1)\n", notify(0, 2), wait(0, 1)),
    "atomics whose result is used": (ADD, ADD),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_that_some_schedule_shows_is_missed(small: Any, explore: Any, name: str) -> None:
    path = small(*PROGRAMS[name])
    reduced = explore(path)
    every, histories, found, runs = EverySchedule(), set(), set(), 0
    while not runs or every.has_next():
        seen = Histories()
        result = run_module(path, ranks=1, cores=4, shape={}, schedule=every, observers=(seen.observe,), races=True)
        histories.add(seen.frozen())
        found |= {finding.kind for finding in result.findings}
        runs += 1
        assert runs < 3000
    assert reduced.complete
    assert reduced.runs < runs
    assert reduced.orders == len(histories)
    assert kinds(reduced) == found
