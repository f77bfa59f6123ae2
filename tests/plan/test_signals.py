"""Signals, walked number by number: every read behind its writer's signal, every write behind its readers' credit."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fusegen.plan import KernelPlan
from fusegen.plan.evaluate import Conditions
from fusegen.plan.expr import Const, Sym, evaluate
from fusegen.plan.ir import Purpose, SignalCover
from fusegen.plan.stages import Access, Announce, Kind, Level, Local, Peer, Stage, Wait
from fusegen.plan.tasks import reads_sources
from tests.plan.orders import SPLIT, cases, plan_with, walks
from tests.plan.plans import plan_for
from tests.plan.walking import Values, Walk, box, slot_number


def signal_cases() -> list[Any]:
    return [case for case in cases() if case.values[1]["sync"] == "signal"]


@pytest.mark.parametrize(("pattern", "choice", "swizzle"), signal_cases())
def test_every_read_stands_behind_the_signal_of_its_writer(
    pattern: str, choice: dict[str, Any], swizzle: dict[str, Any]
) -> None:
    """What a tile reads was written in the same round, and one of the slots that it waits for announces each write."""
    ranks = (1, 2, 4) if swizzle is SPLIT else (1, 2, 3)
    plan = plan_with(pattern, choice, swizzle, ranks)
    most = {"S": 200, "H": 3, "D": 200, "M": 70, "N": 70, "K": 40}

    @settings(max_examples=2, deadline=None, database=None, derandomize=True)
    @given(walks(plan, ranks, most))
    def reads(walk: Walk) -> None:
        check_signals(plan, walk.conditions)

    reads()


def check_signals(plan: KernelPlan, conditions: Conditions) -> None:
    """Assert that every read of a buffer with signals waits for its writers."""
    everybody = [Walk(plan, conditions, rank) for rank in range(conditions.ranks)]
    for edge in plan.edges:
        if isinstance(edge.cover, SignalCover) and plan.slot_group(edge.cover.slots).purpose is not Purpose.CREDIT:
            announced = Announced(plan, edge.buffer, edge.cover.slots)
            for stage in plan.stages:
                announced.write(stage, everybody)
            for stage in plan.stages:
                announced.read(stage, everybody)


def with_stage(plan: KernelPlan, stage: Stage) -> KernelPlan:
    """The plan with its stage of that name replaced."""
    return replace(plan, stages=tuple(stage if each.name == stage.name else each for each in plan.stages))


def test_a_read_behind_the_wrong_slot_is_noticed() -> None:
    plan, conditions = plan_for("allgather", flatten="none"), Conditions(2, 3, {"M": 40, "N": 70})
    check_signals(plan, conditions)
    copy = plan.stage("copy")
    (wait,) = copy.waits
    wrong = replace(copy, waits=(replace(wait, first=(*wait.first[:2], Const(0))),))
    with pytest.raises(AssertionError, match="copy does not wait for what it reads"):
        check_signals(with_stage(plan, wrong), conditions)


def test_a_slot_that_stands_for_two_tiles_is_noticed() -> None:
    plan, conditions = plan_for("allgather", flatten="none"), Conditions(2, 3, {"M": 40, "N": 70})
    push = plan.stage("push")
    (announce,) = push.announces
    wrong = replace(push, announces=(replace(announce, first=(*announce.first[:2], Const(0))),))
    with pytest.raises(AssertionError, match="push: several writes of a round share a slot of signal"):
        check_signals(with_stage(plan, wrong), conditions)


def test_a_read_of_what_nobody_writes_is_noticed() -> None:
    plan, conditions = plan_for("allgather", flatten="none"), Conditions(2, 3, {"M": 40, "N": 70})
    push = plan.stage("push")
    (write,) = push.writes
    wrong = replace(
        push, writes=(replace(write, coordinates=(*write.coordinates[:2], Const(0), write.coordinates[3])),)
    )
    with pytest.raises(AssertionError, match="copy reads what nobody has written"):
        check_signals(with_stage(plan, wrong), conditions)


class Announced:
    """Which writes each element of one buffer got, and which slots tell of them."""

    def __init__(self, plan: KernelPlan, buffer: str, slots: str) -> None:
        self.plan, self.buffer, self.slots = plan, buffer, slots
        self.ring = plan.buffer(buffer).ring is not None
        self.writer: dict[tuple[int, int], Any] = {}
        """Number of the write that each element got, by memory and round."""
        self.told: dict[int, set[tuple[int, int]]] = defaultdict(set)
        """Rank and slot of the announcements of a write."""
        self.numbers: dict[Any, int] = {}
        self.round: dict[int, int] = {}

    def _memory(self, walk: Walk, rank: int, tile: Values, stage: Stage) -> Any:
        position = tile[stage.tasks.round.name] if stage.tasks.round and self.ring else -1
        extents = [walk.extent(axis.extent) for axis in self.plan.buffer(self.buffer).layout.axes]
        return self.writer.setdefault((rank, position), np.full(extents, -1, np.int64))

    def write(self, stage: Stage, everybody: list[Walk]) -> None:
        """Record every write of the stage on every rank."""
        receiver = next((h.receiver for h in self.plan.hand_overs if h.sender == stage.name), stage.name)
        announces = [each for each in self.plan.stage(receiver).announces if each.slots == self.slots]
        for access in stage.writes:
            if access.region != self.buffer:
                continue
            for walk in everybody:
                for tile in walk.visits(stage):
                    rank = tile[access.place.rank.name] if isinstance(access.place, Peer) else walk.rank
                    number = self._number(stage, announces, walk, tile)
                    self._memory(walk, rank, tile, stage)[np.ix_(*self._block(stage, access, tile, walk))] = number
                    for announce in announces:
                        for values in turns(announce, tile):
                            told = evaluate(announce.rank, values), slot_number(self.plan, announce, values)
                            self.told[number].add(told)
        per_slot = Counter((self.round[number], told) for number, tolds in self.told.items() for told in tolds)
        assert set(per_slot.values()) <= {1}, f"{stage.name}: several writes of a round share a slot of {self.slots}"

    def _number(self, stage: Stage, announces: list[Announce], walk: Walk, tile: Values) -> int:
        """Tiles of one work item that are announced together count as one write."""
        inner = () if {each.level for each in announces} == {Level.ITEM} else tuple(axis.name for axis in stage.inner)
        carried = tuple(tile[axis.name] for axis in stage.tasks.items if axis.name in tile)
        position = tile[stage.tasks.round.name] if stage.tasks.round else -1
        key = stage.name, walk.rank, position, tile["work"], carried, tuple(tile[name] for name in inner)
        number = self.numbers.setdefault(key, len(self.numbers))
        self.round[number] = position if self.ring else -1
        return number

    def _block(self, stage: Stage, access: Access, tile: Values, walk: Walk) -> tuple[Any, ...]:
        """A transfer writes whole rows."""
        coordinates = box(stage, access, tile)
        if stage.kind is not Kind.PUT:
            return coordinates
        extents = [walk.extent(axis.extent) for axis in self.plan.buffer(self.buffer).layout.axes]
        whole = extents[2:]
        return (*coordinates[:2], *(np.arange(extent) for extent in whole))

    def read(self, stage: Stage, everybody: list[Walk]) -> None:
        """Check every read of the stage on every rank."""
        waits = [each for each in stage.waits if each.slots == self.slots and each.region == self.buffer]
        for access in stage.reads:
            if access.region != self.buffer:
                continue
            assert waits, f"{stage.name} reads {self.buffer} without a wait"
            for walk in everybody:
                for tile in walk.visits(stage):
                    for values in sources(stage, tile):
                        rank = values[access.place.rank.name] if isinstance(access.place, Peer) else walk.rank
                        memory = self._memory(walk, rank, values, stage)
                        numbers = np.unique(memory[np.ix_(*self._block(stage, access, values, walk))])
                        assert -1 not in numbers, f"{stage.name} reads what nobody has written"
                        awaited = set()
                        for wait in waits:
                            first = slot_number(self.plan, wait, values)
                            awaited |= {(walk.rank, first + i) for i in range(evaluate(wait.count, values))}
                        for number in numbers:
                            assert self.told[number] & awaited, f"{stage.name} does not wait for what it reads"


def turns(announce: Announce, tile: Values) -> list[Values]:
    """The tile's names in each turn of the loop around a notify."""
    each = announce.each
    if each is None:
        return [tile]
    return [{**tile, each.name: i} for i in range(evaluate(each.first, tile), evaluate(each.stop, tile))]


def sources(stage: Stage, tile: Values) -> list[Values]:
    """The tile's names in each turn of the loop over ranks, where the stage has one."""
    if not reads_sources(stage) or stage.partner is None:
        return [tile]
    steps = [{**tile, "step": step} for step in range(tile["ranks"])]
    return [{**values, stage.partner.name: evaluate(stage.partner.value, values)} for values in steps]


@pytest.mark.parametrize(("pattern", "choice", "swizzle"), signal_cases())
def test_credits_return_to_the_slots_that_writers_wait_for(
    pattern: str, choice: dict[str, Any], swizzle: dict[str, Any]
) -> None:
    ranks = (1, 2, 4) if swizzle is SPLIT else (1, 2, 3)
    plan = plan_with(pattern, choice, swizzle, ranks)
    most = {"S": 200, "H": 2, "D": 200, "M": 50, "N": 50, "K": 20}

    @settings(max_examples=2, deadline=None, database=None, derandomize=True)
    @given(walks(plan, ranks, most))
    def credit(walk: Walk) -> None:
        check_credits(plan, walk.conditions)

    credit()


def check_credits(plan: KernelPlan, conditions: Conditions) -> None:
    """Assert that writers wait for the slots that readers return, each written by one core in a use."""
    everybody = [Walk(plan, conditions, rank) for rank in range(conditions.ranks)]
    for edge in plan.edges:
        if not isinstance(edge.cover, SignalCover) or edge.across_launches:
            continue
        group = plan.slot_group(edge.cover.slots)
        if group.purpose is Purpose.TILE:
            tile_credits(plan, plan.stage(edge.source), group.name, everybody)
            tile_credits(plan, plan.stage(edge.target), group.name, everybody)
        elif group.purpose is Purpose.CREDIT:
            round_credits(plan, plan.stage(edge.source), plan.stage(edge.target), group.name, everybody)


Signals = Counter[tuple[int, int]]
"""Rank and number of slots."""


def waited(plan: KernelPlan, walk: Walk, wait: Wait, values: Values) -> Signals:
    """Slots that a wait covers."""
    rank = values[wait.place.rank.name] if isinstance(wait.place, Peer) else walk.rank
    first = slot_number(plan, wait, values)
    return Counter((rank, first + i) for i in range(evaluate(wait.count, values)))


def notified(plan: KernelPlan, announce: Announce, values: Values) -> Signals:
    """Slots that an announcement writes."""
    return Counter(
        (evaluate(announce.rank, turn), slot_number(plan, announce, turn)) for turn in turns(announce, values)
    )


def tile_credits(plan: KernelPlan, stage: Stage, slots: str, everybody: list[Walk]) -> None:
    """Who has waited for a slot writes that slot, and no other."""
    for walk in everybody:
        for tile in walk.visits(stage):
            heard: Signals = Counter()
            told: Signals = Counter()
            for wait in stage.waits:
                for values in sources(stage, tile):
                    heard += waited(plan, walk, wait, values) if wait.slots == slots else Counter()
            for announce in stage.announces:
                told += notified(plan, announce, tile) if announce.slots == slots else Counter()
            assert heard == told, f"{stage.name} waits for {sorted(heard)} and writes {sorted(told)}"


def round_credits(plan: KernelPlan, reader: Stage, writer: Stage, slots: str, everybody: list[Walk]) -> None:
    """For each use, the readers of all ranks have written what the writer waits for, each slot once, in the use before.

    The use before the first one of a launch is the last one of the launch before.
    """
    told: dict[tuple[int, int], Signals] = defaultdict(Counter)
    for walk in (replace(each, launch=launch) for each in everybody for launch in (0, 1)):
        for values in walk.turns(reader):
            for announce in reader.announces:
                if announce.slots == slots:
                    assert announce.level is Level.ROUND
                    told[values["ring"], values["turn"] + 1] += notified(plan, announce, values)
    for walk in (replace(each, launch=1) for each in everybody):
        for values in walk.turns(writer):
            for wait in writer.waits:
                if wait.slots == slots:
                    assert wait.level is Level.ROUND
                    before = told[values["ring"], values["turn"]]
                    here = {key: n for key, n in before.items() if key[0] == walk.rank}
                    heard = waited(plan, walk, wait, values)
                    assert heard == here, f"{writer.name} waits for {sorted(heard)}, gets {sorted(here)}"


@pytest.mark.parametrize("defect", ["other rank", "own slot", "no slot"])
def test_a_credit_that_goes_elsewhere_is_noticed(defect: str) -> None:
    plan, conditions = plan_for("allgather", flatten="none"), Conditions(2, 3, {"M": 40, "N": 70})
    check_credits(plan, conditions)
    push, copy = plan.stages
    wrong = {
        "other rank": replace(push, announces=(replace(push.announces[0], rank=Sym("rank")),)),
        "own slot": replace(push, waits=(replace(push.waits[0], place=Local()),)),
        "no slot": replace(copy, waits=(replace(copy.waits[0], count=Const(0)),)),
    }[defect]
    with pytest.raises(AssertionError, match=f"{wrong.name} waits for"):
        check_credits(with_stage(plan, wrong), conditions)


@pytest.mark.parametrize("defect", ["only the own rank", "one slot of many"])
def test_a_credit_of_a_round_that_is_lost_is_noticed(defect: str) -> None:
    plan, conditions = plan_for("gemm_allreduce"), Conditions(2, 3, {"M": 40, "N": 70, "K": 20})
    check_credits(plan, conditions)
    gemm, reduce = plan.stage("gemm"), plan.stage("reduce")
    wrong = {
        "only the own rank": replace(reduce, announces=(replace(reduce.announces[0], each=None, rank=Sym("rank")),)),
        "one slot of many": replace(gemm, waits=(replace(gemm.waits[0], count=Const(1)),)),
    }[defect]
    with pytest.raises(AssertionError, match="gemm waits for"):
        check_credits(with_stage(plan, wrong), conditions)
