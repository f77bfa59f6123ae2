"""The planner: what it decides for every legal combination, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fusegen.errors import PlanError
from fusegen.plan import KernelPlan
from fusegen.plan.expr import Const, Expr, Sym
from fusegen.plan.ir import AllCores, BarrierCover, EdgeKind, Granularity, PlanDefect, Role, SignalCover
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.passes.barriers import cover_with_program
from fusegen.plan.passes.prove import prove
from fusegen.plan.program import Barrier, Node, Rounds, Run, When, walk
from fusegen.plan.timeline import covers, epochs, unordered
from tests.plan.plans import every_combination, plan_of


@pytest.mark.parametrize("changes", every_combination(), ids=lambda c: "-".join(str(v) for v in c.values()))
def test_every_legal_combination_has_a_plan_that_is_proved(changes: dict[str, Any]) -> None:
    plan = plan_of(**changes)
    assert {edge.kind for edge in plan.edges} == {EdgeKind.FORWARD, EdgeKind.BACKWARD}
    assert [edge.across_launches for edge in plan.edges] == [False, False, True]
    cover = BarrierCover if changes["sync"] == "barrier" else SignalCover
    assert all(isinstance(edge.cover, cover) for edge in plan.edges)
    runs = [node.stage for node in walk(plan.program) if isinstance(node, Run)]
    assert sorted(runs) == ["copy", "push"]
    assert prove(plan) == plan


def barriers(plan: KernelPlan) -> tuple[int, int, int]:
    """Barriers in a round, rounds beyond the last, barriers after the rounds."""
    (rounds,) = (node for node in walk(plan.program) if isinstance(node, Rounds))
    inside = sum(isinstance(node, Barrier) for node in rounds.body)
    return inside, rounds.extra, sum(isinstance(node, Barrier) for node in plan.program)


@pytest.mark.parametrize(
    ("roles", "buffer_num", "expected"),
    [
        ("shared", 1, (2, 0, 0)),
        ("shared", 2, (1, 0, 1)),
        ("shared", 4, (1, 0, 1)),
        ("interleaved", 1, (2, 0, 0)),
        ("interleaved", 2, (1, 1, 0)),
        ("interleaved", 4, (1, 1, 0)),
    ],
)
def test_a_round_has_as_many_barriers_as_its_ring_needs(
    roles: str, buffer_num: int, expected: tuple[int, int, int]
) -> None:
    assert barriers(plan_of(sync="barrier", flatten="none", roles=roles, buffer_num=buffer_num)) == expected


@pytest.mark.parametrize("roles", ["shared", "interleaved"])
@pytest.mark.parametrize("buffer_num", [1, 2, 3, 4])
def test_no_barrier_of_a_program_can_be_left_out(roles: str, buffer_num: int) -> None:
    plan = plan_of(sync="barrier", flatten="none", roles=roles, buffer_num=buffer_num)
    count = sum(isinstance(node, Barrier) for node in walk(plan.program))
    assert covers(plan.program, plan.edges, ring=buffer_num)
    for position in range(count):
        assert not covers(without_barrier(plan.program, position), plan.edges, ring=buffer_num)
        with pytest.raises(PlanDefect, match="no barrier between rounds"):
            prove(replace(plan, program=without_barrier(plan.program, position)))


def without_barrier(program: tuple[Node, ...], position: int) -> tuple[Node, ...]:
    """The program with one of its barriers, counted in text order, removed."""
    seen = -1

    def kept(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        nonlocal seen
        result: list[Node] = []
        for node in nodes:
            match node:
                case Barrier():
                    seen += 1
                    if seen == position:
                        continue
                    result.append(node)
                case Rounds() | When():
                    result.append(replace(node, body=kept(node.body)))
                case _:
                    result.append(node)
        return tuple(result)

    return kept(program)


def test_epochs_count_the_barriers_before_each_stage() -> None:
    plan = plan_of(sync="barrier", flatten="none", roles="interleaved", buffer_num=2)
    at = epochs(plan.program, rounds=2, launches=2)
    assert at == {
        (0, "push", 0): 0,
        (0, "push", 1): 1,
        (0, "copy", 0): 1,
        (0, "copy", 1): 2,
        (1, "push", 0): 3,
        (1, "push", 1): 4,
        (1, "copy", 0): 4,
        (1, "copy", 1): 5,
    }


def test_one_barrier_is_too_few_for_one_buffer() -> None:
    plan = plan_of(sync="barrier", flatten="none", roles="shared", buffer_num=1)
    one = (Rounds(0, (Run("push"), Barrier(""), Run("copy"))),)
    backward = plan.edges[1]
    assert list(unordered(backward, one, ring=1, rounds=3)) == [(0, 1), (1, 2)]


def test_a_stage_outside_of_the_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="stage push stands outside of the rounds"):
        epochs((Run("push"),), rounds=1, launches=1)


def test_a_barrier_that_only_some_cores_reach_is_a_defect() -> None:
    plan = plan_of(sync="barrier", flatten="none", roles="shared", buffer_num=1)
    with pytest.raises(PlanDefect, match="a barrier that only some cores reach"):
        prove(replace(plan, program=(*plan.program, When(0, None, (Barrier(""),)))))


def test_an_edge_without_cover_is_a_defect() -> None:
    plan = plan_of()
    edges = (replace(plan.edges[0], cover=None), *plan.edges[1:])
    with pytest.raises(PlanDefect, match="forward edge push -> copy on peer has no cover"):
        prove(replace(plan, edges=edges))


@pytest.mark.parametrize("resetters", [("copy", "push"), ("push",), ()])
def test_a_slot_has_exactly_one_resetter(resetters: tuple[str, ...]) -> None:
    plan = plan_of()
    with pytest.raises(PlanDefect, match="expected slots signal of peer with copy as their only resetter"):
        prove(replace(plan, slots=(replace(plan.slots[0], resetters=resetters),)))


def with_protocol(plan: KernelPlan, **values: int) -> KernelPlan:
    """The plan with constant slot values."""
    (slots,) = plan.slots
    protocol = replace(slots.protocol, **{name: Const(value) for name, value in values.items()})
    return replace(plan, slots=(replace(slots, protocol=protocol),))


@pytest.mark.parametrize(
    ("flatten", "values", "message"),
    [
        ("auto", {"free": 0, "ready": 1, "credit": 0}, r"different cores wait for the same value of one slot: \[0, 0"),
        ("none", {"ready": 0}, "a value is free in one use and ready in another"),
        ("none", {"credit": 2}, "a launch must start and end at 0, not at 0 and 2"),
        ("none", {"free": 3}, "a launch must start and end at 0, not at 3 and 0"),
        ("auto", {"credit": 0}, r"credits \(0,\) are not what the next uses wait for, \(2,\)"),
    ],
)
def test_slot_values_that_mix_up_uses_are_a_defect(flatten: str, values: dict[str, int], message: str) -> None:
    plan = plan_of(flatten=flatten)
    assert prove(plan) == plan
    with pytest.raises(PlanDefect, match=message):
        prove(with_protocol(plan, **values))


def test_plain_values_are_proved_where_rounds_are_not_merged() -> None:
    plan = plan_of(flatten="none")
    assert prove(with_protocol(plan, free=0, ready=1, credit=0)) == plan


@pytest.mark.parametrize("sync", ["barrier", "signal"])
def test_a_plan_without_edges_or_stages_is_a_defect(sync: str) -> None:
    plan = plan_of(sync=sync)
    with pytest.raises(PlanDefect, match="expected 3 edges between the stages that meet in a buffer, got 0 others"):
        prove(replace(plan, edges=()))
    with pytest.raises(PlanDefect, match=r"the program runs \[\], expected every stage once"):
        prove(replace(plan, program=()))


def test_no_program_for_the_edges_is_a_defect() -> None:
    plan = plan_of(sync="barrier", roles="shared")
    without = (Rounds(0, (Run("push"), Run("copy"))),)
    with pytest.raises(PlanDefect, match="no barrier program orders every edge of a ring of 2"):
        cover_with_program(plan, iter([without]))


def test_a_slot_coordinate_that_leaves_its_axis_is_a_defect() -> None:
    plan = plan_of()
    (slots,) = plan.slots
    ring, source, tile = slots.layout.axes
    short = Layout((ring, source, Axis(tile.name, Sym("H"))), slots.layout.stride_names)
    with pytest.raises(PlanDefect, match=r"push: signal\.tile may leave its axis"):
        prove(replace(plan, slots=(replace(slots, layout=short),)))


def written_at(plan: KernelPlan, **changes: Expr) -> KernelPlan:
    """The plan whose producer writes with other coordinates in the buffer."""
    push, copy = plan.stages
    (write,) = push.writes
    names = [axis.name for axis in plan.buffer("peer").layout.axes]
    coordinates = tuple(changes.get(name, old) for name, old in zip(names, write.coordinates, strict=True))
    return replace(plan, stages=(replace(push, writes=(replace(write, coordinates=coordinates),)), copy))


def test_a_buffer_coordinate_that_leaves_its_axis_is_a_defect() -> None:
    plan = plan_of()
    push, copy = plan.stages
    head = Sym("rank") * Sym("H") + Sym("h") + 1
    moved = written_at(plan, head=head)
    reading = replace(copy.reads[0], coordinates=(*copy.reads[0].coordinates[:2], head, copy.reads[0].coordinates[3]))
    shifted = replace(moved, stages=(moved.stages[0], replace(copy, reads=(reading,))))
    with pytest.raises(PlanDefect, match=r"peer: copy does not read where push writes|peer\.head may leave its axis"):
        prove(shifted)
    assert prove(replace(plan, stages=(push, copy))) == plan


@pytest.mark.parametrize("changes", [{"ring": Const(0)}, {"row": Const(0)}, {"head": Sym("h")}])
def test_a_consumer_that_reads_elsewhere_is_a_defect(changes: dict[str, Expr]) -> None:
    with pytest.raises(PlanDefect, match="buffer peer: copy does not read where push writes"):
        prove(written_at(plan_of(), **changes))


def test_a_partner_that_may_be_negative_is_a_defect() -> None:
    plan = plan_of()
    push, copy = plan.stages
    backwards = replace(copy.partner, value=(Sym("rank") - Sym("shift")) % Sym("ranks"))
    with pytest.raises(PlanDefect, match=r"copy: rank - work % ranks may be -1 on 2 ranks"):
        prove(replace(plan, stages=(push, replace(copy, partner=backwards))))


@pytest.mark.parametrize("flatten", ["s", "auto"])
def test_merged_rounds_number_the_uses_of_a_slot(flatten: str) -> None:
    plan = plan_of(flatten=flatten)
    assert [definition.name for definition in plan.slots[0].protocol.consumer_definitions] == ["use", "uses"]
    assert "use numbers" in decision(plan, "slot values")


def test_rounds_one_by_one_need_only_free_and_ready() -> None:
    plan = plan_of(flatten="none")
    assert plan.slots[0].protocol.consumer_definitions == ()
    assert decision(plan, "slot values") == "0 is free, 1 is ready"


def decision(plan: KernelPlan, rule: str) -> str:
    """What the plan chose for a rule."""
    (choice,) = (decision.choice for decision in plan.decisions if decision.rule == rule)
    return choice


@pytest.mark.parametrize("changes", every_combination(), ids=lambda c: "-".join(str(v) for v in c.values()))
def test_every_decision_names_its_guide_section(changes: dict[str, Any]) -> None:
    decisions = plan_of(**changes).decisions
    assert {d.section for d in decisions} <= {"1.1", "1.2", "1.3", "1.4", "2.1"}
    assert all(d.choice and d.reason for d in decisions)
    assert len({d.rule for d in decisions}) == len(decisions)


def test_flattening_is_the_same_for_all_stages() -> None:
    for changes in every_combination():
        tasks = {stage.tasks for stage in plan_of(**changes).stages}
        assert len(tasks) == 1
        (task,) = tasks
        assert task.merged_rounds == (changes["sync"] == "signal" and changes["flatten"] != "none")
        assert (task.granularity is Granularity.FILL) == (changes["flatten"] == "auto")


def test_workers_share_every_core_out_once() -> None:
    for cores in range(2, 12):
        counts = [Role(index, 2) for index in range(2)]
        plan = plan_of()
        assert [stage.workers.selection for stage in plan.stages] == counts
        assert [stage.workers.count(cores) for stage in plan.stages] == [-(-cores // 2), cores // 2]
    assert plan_of(sync="barrier", roles="shared").stages[0].workers.selection == AllCores()


@pytest.mark.parametrize(
    ("dtype", "target", "tile", "message"),
    [
        (
            "bfloat16",
            "Ascend910B3",
            {"s": 512, "d": 128},
            "tile.s: expected two bfloat16 tiles in the 192 KiB unified buffer of Ascend910B3, "
            "got 512 x 128 twice: 256 KiB (with tile.d 128, tile.s can be at most 256)",
        ),
        (
            "float32",
            "Ascend910B3",
            {"s": 256, "d": 128},
            "tile.s: expected two float32 tiles in the 192 KiB unified buffer of Ascend910B3, "
            "got 256 x 128 twice: 256 KiB (with tile.d 128, tile.s can be at most 128)",
        ),
        (
            "float32",
            "Ascend950PR_9589",
            {"s": 1024, "d": 1024},
            "tile.s: expected two float32 tiles in the 248 KiB unified buffer of Ascend950PR_9589, "
            "got 1024 x 1024 twice: 8192 KiB (with tile.d 1024, tile.s can be at most 16)",
        ),
    ],
)
def test_tiles_that_do_not_fit_twice_are_refused(dtype: str, target: str, tile: dict[str, int], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(dtype=dtype, target=target, tile=tile)
    assert str(caught.value) == message


def test_the_advised_tile_is_accepted() -> None:
    assert dict(plan_of(dtype="float32", tile={"s": 128, "d": 128}).constants)["TILE_S"] == 128


def test_verification_shapes_beyond_32_bit_offsets_are_refused_all_at_once() -> None:
    points = [
        {"ranks": [1, 2], "cores": 8, "shape": {"S": 2**16, "H": 2**8, "D": 2**6}},
        {"ranks": [2], "cores": 8, "shape": {"S": 1, "H": 2**16, "D": 2**8}},
    ]
    with pytest.raises(PlanError) as caught:
        plan_of(verify=points)
    assert [(fault.field, fault.expected, fault.got) for fault in caught.value.faults] == [
        ("verify[0].shape, 2 ranks", "fewer than 2**31 elements in a, for 32-bit offsets", str(2**31)),
        ("verify[0].shape, 2 ranks", "fewer than 2**31 elements in c, for 32-bit offsets", str(2**31)),
        ("verify[1].shape, 2 ranks", "fewer than 2**31 elements in peer, for 32-bit offsets", str(2**32)),
    ]
