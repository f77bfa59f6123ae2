"""Values are read as the plan's protocols write them."""

from __future__ import annotations

from typing import Any

import pytest

from fusegen.dumps import Dump, Slot, State
from fusegen.dumps.values import decoded
from fusegen.plan.expr import evaluate
from fusegen.plan.ir import Protocol, SlotGroup
from tests.plan.plans import plan_for

ROUNDS = 7


def slot(group: SlotGroup, value: int, *, ring: int = 0, parity: int = 0, ended: int = 0) -> Slot:
    """The first slot of a ring position, in a dump of one rank."""
    axes = {"ring": 2, **({"parity": 2, "reader_rank": 1, "reader_core": 1} if group.purpose.value == "credit" else {})}
    if group.protocol.values.value == "launch":
        axes = {"block": 1, "source_rank": 2}
    index = ring * (axes.get("parity", 1)) + parity
    position = {"ring": ring, **({"parity": parity, "reader_rank": 0, "reader_core": 0} if "parity" in axes else {})}
    position = {"block": 0, "source_rank": 0} if "block" in axes else position
    nonzero: list[dict[str, Any]] = [{"slot": index, "value": value, **position}] if value else []
    dump = Dump.model_validate(
        {
            "kernel": "kernel",
            "pattern": "pattern",
            "sync": "signal",
            "rank": 1,
            "ranks": 2,
            "shape": {"M": 1},
            "launches": ended + 1,
            "ended": ended,
            "grid": 4,
            "vector_cores": 4,
            "buffer_num": 2,
            "rounds": ROUNDS,
            "slots": {
                group.name: {
                    "purpose": group.purpose.value,
                    "values": group.protocol.values.value,
                    "buffer": group.buffer,
                    "axes": axes,
                    "nonzero": nonzero,
                }
            },
        }
    )
    return list(decoded(dump, group.name))[index]


def written(protocol: Protocol, part: str, **names: int) -> int:
    """What the plan writes in a use."""
    return int(evaluate(getattr(protocol, part), names))


def test_plain_values() -> None:
    (group,) = plan_for("allgather", flatten="none").slots
    assert group.protocol.values.value == "plain"
    assert slot(group, written(group.protocol, "ready")).reading.state is State.READY
    assert slot(group, written(group.protocol, "free")).reading.state is State.FREE
    assert slot(group, written(group.protocol, "credit")).at_rest
    assert slot(group, 2).reading.state is State.FOREIGN


@pytest.mark.parametrize(("ring", "uses"), [(0, 4), (1, 3)])
def test_numbered_values(ring: int, uses: int) -> None:
    (group,) = plan_for("reverse_all2all", flatten="s").slots
    assert group.protocol.values.value == "numbered"
    for use in range(uses):
        names = {"use": use, "uses": uses}
        ready = slot(group, written(group.protocol, "ready", **names), ring=ring).reading
        assert (ready.state, ready.use, ready.round) == (State.READY, use, 2 * use + ring)
        assert ready.meaning == f"tile of use {use} is there, its credit is not back"
        free = slot(group, written(group.protocol, "free", **names), ring=ring)
        assert (free.reading.state, free.reading.use) == (State.FREE, use)
        credit = slot(group, written(group.protocol, "credit", **names), ring=ring)
        assert credit.at_rest == (use == uses - 1)
    for value in (2 * uses, -1, 2**62):
        reading = slot(group, value, ring=ring).reading
        assert reading.state is State.FOREIGN
        assert reading.meaning == f"no use of this slot writes {value:#x}"


@pytest.mark.parametrize("ended", range(9))
@pytest.mark.parametrize(("ring", "uses"), [(0, 4), (1, 3)])
def test_counted_values(ring: int, uses: int, ended: int) -> None:
    """Of the launch that is under way, and of the one before."""
    ready, credit = plan_for("gemm_allreduce").slots
    assert {ready.protocol.values.value, credit.protocol.values.value} == {"counted"}
    for launch in range(max(ended - 1, 0), ended + 1):
        for use in range(uses):
            turn = launch % 4 * uses + use
            names = {"turn": turn, "uses": uses, "launch": launch % 4}
            told = slot(ready, written(ready.protocol, "ready", **names), ring=ring, ended=ended).reading
            assert (told.state, told.launch, told.use, told.round) == (State.READY, launch + 1, use, 2 * use + ring)
            value = written(credit.protocol, "credit", **names)
            told = slot(credit, value, ring=ring, parity=turn % 2, ended=ended).reading
            if value or ended >= 4:
                assert (told.state, told.launch, told.use) == (State.CREDITED, launch + 1, use)
            if value:
                other = slot(credit, value, ring=ring, parity=1 - turn % 2, ended=ended)
                assert other.reading.state is State.FOREIGN
    assert slot(ready, 4 * uses + 1, ring=ring).reading.state is State.FOREIGN
    assert slot(credit, 4 * uses, ring=ring, parity=1).reading.state is State.FOREIGN


@pytest.mark.parametrize("ended", range(9))
def test_numbers_of_launches(ended: int) -> None:
    group = plan_for("allgather", transport="udma").slot_group("arrived")
    for launch in range(max(ended - 1, 0), ended + 1):
        told = slot(group, written(group.protocol, "ready", launch=launch % 4), ended=ended)
        assert told.reading.launch == launch + 1
        assert told.at_rest == (launch == ended - 1)
    assert slot(group, 5).reading.state is State.FOREIGN
