"""The planner: what it decides for every legal choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fusegen.plan import KernelPlan
from fusegen.plan.ir import BarrierCover, EdgeKind, PlanDefect, SignalCover
from fusegen.plan.passes.barriers import cover_with_program
from fusegen.plan.passes.prove import prove
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When, walk
from fusegen.plan.stages import AllCores, Granularity, Role
from fusegen.plan.timeline import covers, epochs, unordered
from tests.plan.plans import BASES, MIX, choice_id, every_choice, every_combination, every_product, plan_for, plan_of

CHOICES = [
    pytest.param(pattern, choice, id=f"{pattern}-{choice_id(choice)}")
    for pattern in BASES
    for choice in every_choice(pattern)
]
GUIDE = {"1.1", "1.2", "1.3", "1.4", "1.5", "2.1"}


@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_every_legal_choice_has_a_plan_that_is_proved(pattern: str, choice: dict[str, Any]) -> None:
    plan = plan_for(pattern, **choice)
    assert prove(plan) == plan
    assert sorted(n.stage for n in walk(plan.program) if isinstance(n, Run)) == sorted(s.name for s in plan.stages)
    for edge in plan.edges:
        closes = edge.across_launches and plan.buffer(edge.buffer).ring is None
        assert isinstance(edge.cover, BarrierCover if choice["sync"] == "barrier" or closes else SignalCover)
        assert edge.kind is EdgeKind.BACKWARD or (edge.distance, edge.across_launches) == (0, False)
    assert bool(plan.slots) == (choice["sync"] == "signal")
    assert {d.section for d in plan.decisions} <= GUIDE
    assert all(d.choice and d.reason for d in plan.decisions)
    assert len({d.rule for d in plan.decisions}) == len(plan.decisions)


@pytest.mark.parametrize(
    ("pattern", "legal", "combinations"),
    [
        ("reverse_all2all", 58, 192),
        ("all2all", 58, 192),
        ("allgather", 58, 192),
        ("reduce_scatter", 72, 384),
        ("allreduce", 72, 384),
        ("allgather_gemm", 15, 32),
        ("gemm_reduce_scatter", 24, 64),
        ("gemm_allreduce", 24, 64),
    ],
)
def test_how_many_choices_are_legal(pattern: str, legal: int, combinations: int) -> None:
    """A rule that starts to refuse or to accept more shows here."""
    assert len(every_choice(pattern)) == legal
    assert len(every_product(pattern)) == combinations


@pytest.mark.parametrize("pattern", [pattern for pattern in BASES if pattern != "allgather_gemm"])
@pytest.mark.parametrize("swizzle", [{"order": "sequential"}, {"npu_split": 2}], ids=["sequential", "split"])
def test_every_order_of_ranks_is_proved(pattern: str, swizzle: dict[str, Any]) -> None:
    verify = [{**BASES[pattern]["verify"][0], "ranks": [1, 2, 4, 8]}]
    for choice in every_choice(pattern):
        ordered_gemm = pattern in MIX and choice["reduce"] == "ordered"
        if choice["transport"] == "mte" and not ordered_gemm:
            plan = plan_for(pattern, **choice, swizzle={"comm": swizzle}, verify=verify)
            assert plan.host.npu_split == swizzle.get("npu_split", 1)


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


@pytest.mark.parametrize("buffer_num", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("pattern", "changes"),
    [
        *(
            (pattern, {"roles": roles})
            for pattern in ("all2all", "allreduce", "reverse_all2all")
            for roles in ("shared", "interleaved")
        ),
        *((pattern, {}) for pattern in MIX),
    ],
)
def test_no_barrier_of_a_program_can_be_left_out(pattern: str, changes: dict[str, Any], buffer_num: int) -> None:
    plan = plan_for(pattern, sync="barrier", buffer_num=buffer_num, **changes)
    count = sum(isinstance(node, Barrier) for node in walk(plan.program))
    assert covers(plan.program, plan.edges, ring=buffer_num)
    for position in range(count):
        assert not covers(without_barrier(plan.program, position), plan.edges, ring=buffer_num)
        with pytest.raises(PlanDefect, match="no barrier between rounds"):
            prove(replace(plan, program=without_barrier(plan.program, position)))


@pytest.mark.parametrize(
    ("pattern", "changes", "needed"),
    [
        # The barrier behind packing keeps launches apart as well: the closing one is one more than needed.
        ("all2all", {"sync": "barrier", "roles": "shared"}, 2),
        ("allgather", {"sync": "barrier", "roles": "shared"}, 2),
        ("allgather_gemm", {"sync": "barrier"}, 2),
        ("all2all", {}, 1),
        ("allgather", {}, 1),
        ("allgather_gemm", {}, 1),
    ],
)
def test_no_barrier_around_a_region_can_be_left_out(pattern: str, changes: dict[str, Any], needed: int) -> None:
    plan = plan_for(pattern, transport="udma", buffer_num=1, **changes)
    for position in range(needed):
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
                case Rounds() | When() | Scope():
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


def test_a_stage_outside_of_the_rounds_runs_all_of_them_in_one_epoch() -> None:
    at = epochs((Run("push"), Barrier(""), Run("copy")), rounds=2, launches=1)
    assert at == {(0, "push", 0): 0, (0, "push", 1): 0, (0, "copy", 0): 1, (0, "copy", 1): 1}


def test_one_barrier_is_too_few_for_one_buffer() -> None:
    plan = plan_of(sync="barrier", flatten="none", roles="shared", buffer_num=1)
    backward = plan.edges[1]
    assert list(unordered(backward, one_barrier(plan), ring=1, rounds=3)) == [(0, 1), (1, 2)]


def one_barrier(plan: KernelPlan) -> tuple[Node, ...]:
    """A program with one barrier in each round and none after them."""
    axis = plan.stages[0].tasks.round
    assert axis is not None
    return (Rounds(axis, 0, (Run("push"), Barrier(""), Run("copy"))),)


def test_no_program_for_the_edges_is_a_defect() -> None:
    plan = plan_of(sync="barrier", roles="shared", buffer_num=1)
    with pytest.raises(PlanDefect, match="no barrier program orders every edge of a ring of 1"):
        cover_with_program(plan, iter([one_barrier(plan)]))


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


def test_flattening_is_the_same_for_all_stages() -> None:
    for changes in every_combination():
        tasks = {stage.tasks for stage in plan_of(**changes).stages}
        assert len(tasks) == 1
        (task,) = tasks
        assert task.merged_rounds == (changes["sync"] == "signal" and changes["flatten"] != "none")
        assert (task.granularity is Granularity.FILL) == (changes["flatten"] == "auto")


def test_batched_announcements_keep_rounds_apart() -> None:
    for pattern in ("reverse_all2all", "allreduce"):
        plan = plan_for(pattern, announce="batched", flatten="auto")
        assert all(stage.batched and not stage.tasks.merged_rounds for stage in plan.stages)


def test_workers_share_every_core_out_once() -> None:
    plan = plan_of()
    assert [stage.workers.selection for stage in plan.stages] == [Role(0, 2), Role(1, 2)]
    for cores in range(2, 12):
        assert [stage.workers.count(cores) for stage in plan.stages] == [-(-cores // 2), cores // 2]
    assert plan_of(sync="barrier", roles="shared").stages[0].workers.selection == AllCores()
    mix = plan_for("gemm_allreduce")
    assert [(s.name, s.workers.engine.value, s.workers.count(5)) for s in mix.stages] == [
        ("gemm", "cube", 5),
        ("announce", "vector", 5),
        ("reduce", "vector", 10),
    ]


@pytest.mark.parametrize(
    ("changes", "minimum"),
    [
        ({}, 2),
        ({"sync": "barrier", "roles": "shared"}, 1),
        ({"transport": "udma"}, 3),
        ({"transport": "udma", "sync": "barrier", "roles": "shared", "buffer_num": 1}, 2),
    ],
)
def test_every_role_and_every_part_of_it_needs_a_core(changes: dict[str, Any], minimum: int) -> None:
    assert plan_for("allgather", **changes).launch.minimum_cores == minimum
