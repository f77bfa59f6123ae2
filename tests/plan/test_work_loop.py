"""Work loops, walked number by number: every tile once, every element of C once, every read behind the right signal."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.plan import KernelPlan
from fusegen.plan.evaluate import Conditions
from fusegen.plan.expr import Const, evaluate
from fusegen.plan.ir import Purpose, SignalCover
from fusegen.plan.stages import Access, Announce, Kind, Level, Peer, Stage
from fusegen.plan.tasks import reads_sources
from tests.plan.plans import BASES, MIX, choice_id, every_choice, plan_for
from tests.plan.walking import Values, Walk, box, slot_number

SEQUENTIAL, SPLIT, ROWS = (
    {"comm": {"order": "sequential"}},
    {"comm": {"npu_split": 2}},
    {"gemm": {"order": "row_major"}},
)
RANKS = (1, 2, 3, 5)
EVEN = (1, 2, 4, 8)
"""Rank counts for which a split of 2 is a bijection."""


def cases() -> list[Any]:
    """Each choice but for the ring's depth, which no work loop depends on, in each order of tiles."""
    found = []
    for pattern in BASES:
        for choice in every_choice(pattern):
            if choice["buffer_num"] != (1 if choice["transport"] == "udma" else 2):
                continue
            orders: dict[str, dict[str, Any]] = {"nz": {}}
            if pattern in MIX:
                orders["rows"] = ROWS
            if choice["transport"] == "mte" and not (pattern in MIX and choice.get("reduce") == "ordered"):
                orders |= {"sequential": SEQUENTIAL, "split": SPLIT}
            for name, swizzle in orders.items():
                found.append(pytest.param(pattern, choice, swizzle, id=f"{pattern}-{choice_id(choice)}-{name}"))
    return found


def plan_with(pattern: str, choice: dict[str, Any], swizzle: dict[str, Any], ranks: tuple[int, ...]) -> KernelPlan:
    """The plan of a choice in one order, verified with rank counts that the order allows."""
    return plan_for(pattern, **choice, swizzle=swizzle, verify=[{**BASES[pattern]["verify"][0], "ranks": ranks}])


@st.composite
def walks(draw: st.DrawFn, plan: KernelPlan, ranks: tuple[int, ...], most: dict[str, int]) -> Walk:
    """Ranks, cores, sizes and a rank to look at."""
    count = draw(st.sampled_from(ranks))
    shape = {each.name: draw(st.integers(1, most[each.name])) for each in plan.dimensions}
    cores = draw(st.integers(plan.launch.minimum_cores, 9))
    return Walk(plan, Conditions(count, cores, shape), draw(st.integers(0, count - 1)))


MOST = {"S": 400, "H": 4, "D": 400, "M": 100, "N": 100, "K": 60}


@pytest.mark.parametrize(("pattern", "choice", "swizzle"), cases())
def test_a_stage_visits_every_round_item_and_rank_once(
    pattern: str, choice: dict[str, Any], swizzle: dict[str, Any]
) -> None:
    ranks = EVEN if swizzle is SPLIT else RANKS
    plan = plan_with(pattern, choice, swizzle, ranks)

    @settings(max_examples=8, deadline=None, database=None, derandomize=True)
    @given(walks(plan, ranks, MOST))
    def visits(walk: Walk) -> None:
        for stage in plan.stages:
            axes = [*([stage.tasks.round] if stage.tasks.round else []), *stage.tasks.items, *stage.inner]
            product = itertools.product(*(range(walk.extent(axis.extent)) for axis in axes), partners(walk, stage))
            names = [axis.name for axis in axes]
            visited = [(*(tile[name] for name in names), partner(stage, tile)) for tile in walk.visits(stage)]
            assert sorted(visited) == sorted(product), stage.name

    visits()


def partners(walk: Walk, stage: Stage) -> list[int]:
    """Ranks that a tile of the stage must meet one after the other; one number where it meets none, or all at once."""
    ranks = range(walk.conditions.ranks)
    if stage.tasks.rank is None or stage.partner is None:
        return [-1]
    others_only = walk.extent(stage.tasks.rank.extent) == len(ranks) - 1
    return [rank for rank in ranks if not (others_only and rank == walk.rank)]


def partner(stage: Stage, tile: Values) -> int:
    """The partner rank of a visited tile."""
    return tile[stage.partner.name] if stage.tasks.rank and stage.partner else -1


@pytest.mark.parametrize(("pattern", "choice", "swizzle"), cases())
def test_every_element_of_the_output_is_written_once(
    pattern: str, choice: dict[str, Any], swizzle: dict[str, Any]
) -> None:
    """Or once by each rank's term, where terms are added as they arrive."""
    ranks = EVEN if swizzle is SPLIT else RANKS
    plan = plan_with(pattern, choice, swizzle, ranks)

    @settings(max_examples=4, deadline=None, database=None, derandomize=True)
    @given(walks(plan, ranks, MOST))
    def writes(walk: Walk) -> None:
        written = np.zeros([walk.extent(axis.extent) for axis in plan.tensor("c").axes], np.int64)
        for stage in plan.stages:
            for access in stage.writes:
                if access.region == "c":
                    for tile in walk.visits(stage):
                        written[np.ix_(*box(stage, access, tile))] += 1
        terms = walk.conditions.ranks if any(stage.kind is Kind.ACCUMULATE for stage in plan.stages) else 1
        assert (written == terms).all()

    writes()


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
