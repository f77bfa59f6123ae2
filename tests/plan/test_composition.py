"""Compositions: the stages and buffers that each pattern consists of, for each transport and synchronisation."""

from __future__ import annotations

import pytest
import yaml

from fusegen.plan import KernelPlan, make_plan
from fusegen.plan.ir import LaunchKind
from fusegen.plan.program import Barrier, walk
from fusegen.plan.stages import Kind
from fusegen.spec.model import PATTERNS
from fusegen.spec.starter import starter
from tests.plan.plans import BASES, MIX, plan_for


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_starting_spec_of_every_pattern_has_a_plan(pattern: str) -> None:
    spec = PATTERNS[pattern].model_validate(yaml.safe_load(starter(pattern)))
    plan = make_plan("kernel", spec)
    assert (plan.name, plan.pattern) == ("kernel", pattern)
    assert plan.launch.kind is (LaunchKind.MIX if pattern in MIX else LaunchKind.VECTOR)


def kinds(plan: KernelPlan) -> dict[str, Kind]:
    """Kind of each stage, in order."""
    return {stage.name: stage.kind for stage in plan.stages}


@pytest.mark.parametrize("pattern", ["reverse_all2all", "all2all", "allgather"])
def test_exchanges_over_mte(pattern: str) -> None:
    for sync in ("barrier", "signal"):
        plan = plan_for(pattern, sync=sync)
        assert kinds(plan) == {"push": Kind.MOVE, "copy": Kind.MOVE}
        assert [(buffer.name, buffer.ring) for buffer in plan.buffers] == [("peer", "ring")]


@pytest.mark.parametrize("pattern", ["reverse_all2all", "allgather"])
def test_exchanges_over_udma(pattern: str) -> None:
    """With signals the own part goes through a ring, so that it can be consumed while others travel."""
    signal = plan_for(pattern, transport="udma")
    assert kinds(signal) == {"put": Kind.PUT, "keep": Kind.MOVE, "copy_own": Kind.MOVE, "copy": Kind.MOVE}
    assert [(buffer.name, buffer.ring) for buffer in signal.buffers] == [("landing", None), ("own", "ring")]
    barrier = plan_for(pattern, transport="udma", sync="barrier", roles="shared", buffer_num=1)
    assert kinds(barrier) == {"put": Kind.PUT, "keep": Kind.MOVE, "copy": Kind.MOVE}
    assert [(buffer.name, buffer.ring) for buffer in barrier.buffers] == [("landing", None)]


def test_heads_for_one_rank_are_packed_before_they_travel() -> None:
    plan = plan_for("all2all", transport="udma")
    assert list(kinds(plan)) == ["pack", "put", "keep", "copy_own", "copy"]
    assert [buffer.name for buffer in plan.buffers] == ["packed", "landing", "own"]


@pytest.mark.parametrize("pattern", ["reduce_scatter", "allreduce"])
def test_sums(pattern: str) -> None:
    ordered, atomic = (plan_for(pattern, reduce=reduce) for reduce in ("ordered", "atomic"))
    assert kinds(ordered) == {"push": Kind.MOVE, "reduce": Kind.REDUCE}
    assert kinds(atomic) == {"push": Kind.MOVE, "reduce": Kind.ACCUMULATE}
    assert (ordered.host.initial, atomic.host.initial) == (None, "zero")


def test_gather_and_multiply() -> None:
    assert kinds(plan_for("allgather_gemm")) == {"push": Kind.MOVE, "gemm": Kind.GEMM}
    udma = plan_for("allgather_gemm", transport="udma", buffer_num=1)
    assert kinds(udma) == {"put": Kind.PUT, "keep": Kind.MOVE, "gemm": Kind.GEMM}
    assert [(group.name, group.resetters) for group in udma.slots] == [("arrived", ())]


@pytest.mark.parametrize("pattern", ["gemm_reduce_scatter", "gemm_allreduce"])
def test_multiply_and_add(pattern: str) -> None:
    """With signals, vector cores announce what the cube core has stored: it has no fence that covers its stores."""
    assert kinds(plan_for(pattern, sync="barrier")) == {"gemm": Kind.GEMM, "reduce": Kind.REDUCE}
    signal = plan_for(pattern, reduce="atomic")
    assert kinds(signal) == {"gemm": Kind.GEMM, "announce": Kind.ANNOUNCE, "reduce": Kind.ACCUMULATE}
    assert [(each.sender, each.receiver, each.event) for each in signal.hand_overs] == [("gemm", "announce", 8)]
    assert [(group.name, group.resetters) for group in signal.slots] == [("ready", ()), ("credit", ("reduce",))]


@pytest.mark.parametrize(
    ("reduce", "initial"), [("ordered", None), ("atomic", "bias")], ids=["ordered sums load it", "launcher writes it"]
)
def test_a_bias_is_added_once(reduce: str, initial: str | None) -> None:
    plan = plan_for("gemm_allreduce", bias=True, reduce=reduce)
    readers = [stage.name for stage in plan.stages for access in stage.reads if access.region == "bias"]
    assert (plan.host.initial, readers) == (initial, [] if initial else ["reduce"])
    assert plan.tensor("bias").converted == "float32"


@pytest.mark.parametrize("pattern", BASES)
def test_engines_of_the_host_library(pattern: str) -> None:
    assert plan_for(pattern).host.engines == ("MTE",)
    if pattern in ("reverse_all2all", "all2all", "allgather", "allgather_gemm"):
        assert plan_for(pattern, transport="udma", buffer_num=1).host.engines == ("MTE", "UDMA")


@pytest.mark.parametrize(
    ("pattern", "changes", "barriers"),
    [
        ("allgather", {"transport": "udma"}, 1),
        ("allgather", {"transport": "udma", "sync": "barrier", "roles": "shared", "buffer_num": 1}, 2),
        ("all2all", {"transport": "udma", "sync": "barrier", "roles": "shared", "buffer_num": 1}, 2),
        ("allgather_gemm", {"transport": "udma", "buffer_num": 1}, 1),
        ("allgather_gemm", {"transport": "udma", "sync": "barrier", "buffer_num": 1}, 2),
        ("gemm_allreduce", {}, 0),
        ("gemm_allreduce", {"sync": "barrier"}, 2),
        ("gemm_allreduce", {"sync": "barrier", "buffer_num": 1}, 2),
    ],
)
def test_barriers_in_the_text_of_a_launch(pattern: str, changes: dict[str, object], barriers: int) -> None:
    plan = plan_for(pattern, **changes)
    assert sum(isinstance(node, Barrier) for node in walk(plan.program)) == barriers


@pytest.mark.parametrize("pattern", BASES)
def test_only_protocols_that_count_over_launches_number_them(pattern: str) -> None:
    assert plan_for(pattern).host.numbers_launch == (pattern in MIX)
    assert not plan_for(pattern, sync="barrier").host.numbers_launch
