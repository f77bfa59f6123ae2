"""The synchronisation that the guide's applicability criterion recommends, case by case."""

from __future__ import annotations

import pytest

from fusegen.plan.advice import advise
from fusegen.plan.evaluate import Conditions
from tests.plan.plans import plan_from, plan_of

SHAPE = {"S": 130, "H": 3, "D": 72}
GEMM = {"M": 130, "N": 264, "K": 72}
PURE = (
    "pure communication from producers to consumers, no cube computation: "
    "with barriers the slowest producer would hold back all consumers"
)
AS_GOOD = "one round, and every consumer needs the tiles of all producers: a signal would release it no earlier"


@pytest.mark.parametrize("sync", ["signal", "barrier"])
def test_a_single_rank_needs_neither(sync: str) -> None:
    roles = "interleaved" if sync == "signal" else "shared"
    assert advise(plan_of(sync=sync, roles=roles), Conditions(1, 8, SHAPE)).as_json() == {
        "recommended": "not needed",
        "strength": "not needed",
        "reason": "a single rank: no communication between cards, either kind will do",
        "chosen": sync,
        "follows": True,
    }


def test_an_empty_shape_needs_neither() -> None:
    advice = advise(plan_of(), Conditions(2, 8, {**SHAPE, "S": 0}))
    assert (advice.recommended, advice.reason) == ("not needed", "an empty shape: nothing is launched")


@pytest.mark.parametrize(("sync", "follows"), [("signal", True), ("barrier", False)])
def test_pure_communication_wants_signals_most(sync: str, follows: bool) -> None:
    roles = "interleaved" if sync == "signal" else "shared"
    advice = advise(plan_of(sync=sync, roles=roles), Conditions(2, 8, SHAPE))
    assert (advice.recommended, advice.strength, advice.reason) == ("signal", "strongly recommended", PURE)
    assert advice.follows is follows


@pytest.mark.parametrize("name", ["all2all_udma_signal", "allgather_mte_signal", "reverse_all2all_udma_signal"])
def test_so_does_every_exchange_also_in_one_round(name: str) -> None:
    plan = plan_from(name)
    advice = advise(plan, Conditions(2, 8, {dimension.name: 1 for dimension in plan.dimensions}))
    assert (advice.strength, advice.follows) == ("strongly recommended", True)


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ((), "; more so with a ring of 2 buffers, which lets rounds overlap"),
        (("buffer_num=1",), ""),
    ],
)
def test_several_rounds_want_signals(changes: tuple[str, ...], more: str) -> None:
    plan = plan_from("allgather_gemm_mte_barrier", *changes)
    advice = advise(plan, Conditions(2, 20, {**GEMM, "M": 1300}))
    assert (advice.recommended, advice.strength) == ("signal", "recommended")
    assert advice.reason == f"3 rounds: with barriers each of them lasts as long as its slowest producer{more}"
    assert advice.follows is False


@pytest.mark.parametrize(("sync", "follows"), [("barrier", True), ("signal", False)])
def test_one_round_in_which_all_wait_for_all_is_as_good_with_a_barrier(sync: str, follows: bool) -> None:
    # One GEMM tile on each rank, and every tile of the sum needs that of every rank.
    plan = plan_from(f"gemm_reduce_scatter_mte_{sync}", "pvalue=1")
    advice = advise(plan, Conditions(2, 20, {"M": 2, "N": 100, "K": 72}))
    assert (advice.recommended, advice.strength, advice.reason) == ("barrier", "as good", AS_GOOD)
    assert advice.follows is follows


def test_the_same_holds_for_a_sum_without_a_multiplication() -> None:
    plan = plan_from("allreduce_mte_signal")
    one_tile, two_tiles = (advise(plan, Conditions(4, 8, {"M": 1, "N": columns})) for columns in (1, 300))
    assert (one_tile.recommended, two_tiles.recommended) == ("barrier", "signal")


@pytest.mark.parametrize(
    ("name", "need", "of"),
    [
        ("allgather_gemm_mte_signal", 4, 32),  # the rows of one GEMM tile from one rank, of 4 tile rows of 2 ranks
        ("gemm_allreduce_mte_signal", 2, 16),  # one tile of each rank, of 4 x 2 on each of 2 ranks
        ("gemm_allreduce_mte_barrier", 1, 16),  # added in any order: one tile
        ("allgather_gemm_udma_signal", 1, 4),  # one block of rows, of 2 on each of 2 ranks
    ],
)
def test_signals_apply_where_a_consumer_waits_for_specific_tiles(name: str, need: int, of: int) -> None:
    advice = advise(plan_from(name), Conditions(2, 20, GEMM))
    assert (advice.recommended, advice.strength) == ("signal", "applicable")
    assert advice.reason == f"one round, but a consumer needs only {need} of the {of} pieces that producers write"
