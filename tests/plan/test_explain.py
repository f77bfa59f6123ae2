"""The sections of an explanation, for kernels of both kinds and all signal protocols."""

from __future__ import annotations

import json

import pytest

from fusegen.errors import PlanError
from fusegen.plan.evaluate import Conditions
from fusegen.plan.explain import Explanation, explain
from fusegen.plan.ir import KernelPlan
from tests.plan.plans import SPECS, plan_from, plan_of

GEMM = {"M": 140, "N": 264, "K": 72}
ROWS = {"S": 130, "H": 3, "D": 72}


def explained(plan: KernelPlan, cores: int, shape: dict[str, int], ranks: int = 2) -> Explanation:
    return explain(plan, Conditions(ranks, cores, shape))


@pytest.mark.parametrize("name", sorted(path.stem for path in SPECS.glob("*.yaml")))
def test_every_spec_can_be_explained_at_its_verification_points(name: str) -> None:
    plan = plan_from(name)
    for point in plan.verify:
        for ranks in point.ranks:
            document = explained(plan, point.cores, dict(point.shape), ranks).as_json()
            assert json.loads(json.dumps(document)) == document
            assert document["slots"]["count"] == sum(group["count"] for group in document["slot_groups"])
            assert {stage["name"] for stage in document["stages"]} == document["launch"]["roles"].keys()
            assert all(edge["cover"] != "nothing" for edge in document["edges"])


def test_two_slot_groups_of_one_buffer() -> None:
    found = explained(plan_from("gemm_allreduce_mte_signal"), 20, GEMM)
    words = (
        "Uses of a ring position are numbered: 0 to 4 * uses - 1 over four launches, then again. In use t a writer "
        "core with tiles waits until all credits are t, and sets ready to t + 1; a reader core that has read its share "
        "sets its credit to t + 1. It can be one use ahead of the slowest writer, but not two, for it has waited for a "
        "tile of each use: credits of even and of odd uses have slots of their own."
    )
    assert found.slots == {"count": 352, "bytes": 352 * 64}
    assert found.slot_groups == [
        {
            "name": "ready",
            "buffer": "partial",
            "purpose": "ready",
            "meaning": "a tile is there",
            "axes": {"ring": 2, "source_rank": 2, "tile_row": 4, "block_n": 2},
            "count": 32,
            "bytes": 32 * 64,
            "values": {"ready": "turn + 1"},
            "values_in_words": words,
            "resetters": [],
        },
        {
            "name": "credit",
            "buffer": "partial",
            "purpose": "credit",
            "meaning": "a reader core has read its share of a round",
            "axes": {"ring": 2, "parity": 2, "reader_rank": 2, "reader_core": 40},
            "count": 320,
            "bytes": 320 * 64,
            "values": {"free": "turn", "credit": "(turn + 1) % (4 * uses)"},
            "values_in_words": words,
            "resetters": ["reduce"],
        },
    ]


def test_slots_of_three_buffers() -> None:
    found = explained(plan_from("all2all_udma_signal"), 8, ROWS)
    groups = [(group["name"], group["buffer"], group["count"], group["resetters"]) for group in found.slot_groups]
    assert groups == [
        ("packed_ready", "packed", 6, []),
        ("arrived", "landing", 6, []),
        ("signal", "own", 6, ["copy_own"]),
    ]
    assert [group["values"] for group in found.slot_groups[:2]] == [{"ready": "launch + 1"}] * 2


def test_one_group_stands_at_the_top_as_well_and_barriers_have_none() -> None:
    (group,) = explained(plan_of(), 8, ROWS).slot_groups
    assert explained(plan_of(), 8, ROWS).slots == {key: group[key] for key in ("count", "bytes", "axes", "resetters")}
    barrier = explained(plan_of(sync="barrier", roles="shared"), 8, ROWS)
    assert barrier.slots == {"count": 0, "bytes": 0, "axes": {}, "resetters": []}
    assert barrier.slot_groups == []


def test_regions() -> None:
    found = explained(plan_from("gemm_allreduce_mte_signal"), 20, GEMM)
    assert found.tensors[-1] == {
        "name": "c",
        "role": "output",
        "dtype": "float16",
        "axes": {"m": 140, "n": 264},
        "shape": [140, 264],
        "bytes": 140 * 264 * 2,
    }
    assert found.buffers == [
        {
            "name": "partial",
            "dtype": "float16",
            "axes": {"ring": 2, "row": 512, "n": 264},
            "elements": 2 * 512 * 264,
            "bytes": 2 * 512 * 264 * 2,
            "formula": "BUFFER_NUM * panel_rows * N",
            "ring": "ring",
            "written_by": ["gemm"],
            "read_by": ["reduce"],
        }
    ]


def test_a_stage_of_a_mix_kernel() -> None:
    announce = explained(plan_from("gemm_allreduce_mte_signal"), 20, GEMM).stages[1]
    assert announce == {
        "name": "announce",
        "kind": "announce_tiles",
        "engine": "vector",
        "workers": {"which": "both vector cores of each AI core, together", "count": 20},
        "tasks": {
            "round": {"panel": 1},
            "axes": {"tile_row": 2, "block_n": 2},
            "carried": {"tile_row": 1, "block_n": 1},
            "per_round": 4,
            "total": 4,
            "merged_rounds": False,
            "order": "zigzag, groups of 7 columns",
        },
        "inner": {},
        "tile": {},
        "tiles": 4,
        "reads": [],
        "writes": [],
        "waits": [],
        "announces": ["ready"],
    }


def test_senders_are_a_part_of_their_role() -> None:
    found = explained(plan_from("reverse_all2all_udma_signal"), 9, ROWS, ranks=3)
    workers = {stage["name"]: (stage["workers"]["which"], stage["workers"]["count"]) for stage in found.stages}
    even, odd = "vector cores with core % 2 == 0", "vector cores with core % 2 == 1"
    assert workers == {
        "put": (f"the first senders of {even}", 2),
        "keep": (f"{even}, without the first senders", 3),
        "copy_own": (odd, 4),
        "copy": (odd, 4),
    }
    assert found.launch["roles"] == {"put": 2, "keep": 3, "copy_own": 4, "copy": 4}
    put = found.stages[0]
    assert (put["tasks"]["total"], put["inner"], put["tiles"]) == (2, {"block_s": 3}, 6)


def test_launches_of_both_kinds() -> None:
    assert explained(plan_from("gemm_allreduce_mte_signal"), 20, GEMM).launch == {
        "kind": "mix",
        "grid": 20,
        "minimum_cores": 1,
        "roles": {"gemm": 20, "announce": 20, "reduce": 40},
        "rounds": 1,
        "barriers": 0,
        "events": {"used": [{"sender": "gemm", "receiver": "announce", "event": 8}], "available": 16},
    }
    launch = explained(plan_from("all2all_udma_signal"), 8, ROWS).launch
    assert (launch["kind"], launch["minimum_cores"], launch["barriers"], launch["events"]["used"]) == (
        "vector",
        3,
        1,
        [],
    )


def test_what_covers_an_edge() -> None:
    edges = explained(plan_from("gemm_allreduce_mte_signal"), 20, GEMM).edges
    assert [(edge["cover"], edge["slots"], edge["through"]) for edge in edges] == [
        ("slots ready through announce", "ready", "announce"),
        ("slots credit", "credit", None),
        ("slots credit", "credit", None),
    ]
    barrier = explained(plan_of(sync="barrier", roles="shared"), 8, ROWS).edges[0]
    assert (barrier["cover"], barrier["slots"]) == ("barrier", None)


def outlined(plan: KernelPlan, shape: dict[str, int]) -> list[str]:
    return ["  " * line["depth"] + line["text"] for line in explained(plan, 8, shape).program]


def test_programs_in_words() -> None:
    assert outlined(plan_from("gemm_allreduce_mte_signal"), {**GEMM, "M": 1100}) == [
        "on cube cores",
        "  in each of 3 rounds (panels)",
        "    gemm: multiplies tiles",
        "on vector cores",
        "  in each of 3 rounds (panels)",
        "    announce: announces tiles that the cube core has stored",
        "    reduce: adds the tiles of all ranks",
    ]
    lagging = plan_of(sync="barrier", roles="interleaved", flatten="none")
    assert outlined(lagging, {**ROWS, "S": 64}) == [
        "in the one round (S blocks), and 1 more for what lags behind",
        "  on cores with core % 2 == 0",
        "    push: moves tiles",
        "  on cores with core % 2 == 1, 1 round behind",
        "    copy: moves tiles",
        "  barrier: What was written before this barrier is read after it; "
        "what was read before it may be written over. The last one closes the launch.",
    ]


def test_occupancy_of_every_stage_of_a_gemm_kernel() -> None:
    found = explained(plan_from("allgather_gemm_mte_signal"), 20, {"M": 512, "N": 300, "K": 72}).occupancy
    assert (found["stage"], found["total_tasks"], found["role_cores"], found["active_cores"]) == ("gemm", 16, 20, 16)
    assert found["stages"] == [
        {
            "stage": "push",
            "total_tasks": 32,
            "cores": 40,
            "active_cores": 32,
            "idle_cores": 8,
            "utilization": 0.8,
            "full": False,
        },
        {
            "stage": "gemm",
            "total_tasks": 16,
            "cores": 20,
            "active_cores": 16,
            "idle_cores": 4,
            "utilization": 0.8,
            "full": False,
        },
    ]


def test_without_other_ranks_no_core_sends() -> None:
    put = explained(plan_from("reverse_all2all_udma_signal"), 8, ROWS, ranks=1).occupancy["stages"][0]
    assert (put["total_tasks"], put["cores"], put["utilization"], put["full"]) == (0, 0, 1.0, True)


def test_a_split_that_misses_ranks_is_refused() -> None:
    with pytest.raises(PlanError) as caught:
        explained(plan_from("all2all_mte_signal"), 8, ROWS, ranks=5)
    assert str(caught.value) == (
        "swizzle.comm.npu_split: expected a split that visits each of 5 ranks once, got 2, which never visits 1 and 3 "
        "(nearest allowed splits: 1 or 3; divisors of the rank count always work)"
    )
