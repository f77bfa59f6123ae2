"""Every rule about several fields: its message and line, what it leaves alone, and that it reads what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from fusegen.spec import KernelSpec, Movement
from fusegen.spec.model import PATTERNS
from fusegen.spec.rules import RULES, Rule, too_few_cores
from tests.spec.texts import SHAPES, UDMA, faults_of, spec_of, text_of

MOVEMENTS = ("reverse_all2all", "all2all", "allgather", "reduce_scatter", "allreduce")
GEMMS = ("allgather_gemm", "gemm_reduce_scatter", "gemm_allreduce")
SUMS = ("reduce_scatter", "allreduce", "gemm_reduce_scatter", "gemm_allreduce")
UDMA_TARGETS = (
    "targets with udma: Ascend950PR_9589, Ascend950DT_9582, Ascend950PR_9599, Ascend950DT_9595, Ascend950PR_957c"
)
SUM_GEMMS = ("gemm_reduce_scatter", "gemm_allreduce")
CHOOSES_RANK_ORDER = (*MOVEMENTS, "allgather_gemm")
NO_RANK_ORDER = "an ordered sum reads all ranks for each tile, in a fixed order: leave it out, or choose reduce: atomic"
NO_ORDER = "whole blocks travel, each target rank has a core of its own, and all of them start at once"
SUM = "consumers load tiles and add them, and whole blocks cannot be reduced on the way: use mte"


def merged(pattern: str) -> str:
    """The way of flattening that merges blocks."""
    return "s" if "all2all" in pattern else "m"


def points(pattern: str, *cores: int) -> str:
    """Verification points that differ in their cores."""
    return ", ".join(f"{{ranks: [2], cores: {each}, shape: {SHAPES[pattern]}}}" for each in cores).join("[]")


BROKEN: list[tuple[str, Mapping[str, str], str]] = [
    *(
        (
            pattern,
            {"roles": "shared"},
            "7: roles: expected interleaved, because of sync: signal, got shared "
            "(with shared roles a producer would wait for credit from the very core that waits)",
        )
        for pattern in MOVEMENTS
    ),
    *(
        (
            pattern,
            {"sync": "barrier", "flatten": merged(pattern)},
            f"7: flatten: expected none or auto, because of sync: barrier, got {merged(pattern)} "
            f"(a barrier separates the {merged(pattern).upper()} blocks, so they cannot be worked on at once; "
            "sync: signal allows it)",
        )
        for pattern in MOVEMENTS
    ),
    *(
        (
            pattern,
            {"sync": "barrier", "announce": "batched"},
            "7: announce: expected per_tile, because of sync: barrier, got batched "
            "(a barrier announces all tiles of a round at once; sync: signal has notifies to batch)",
        )
        for pattern in PATTERNS
    ),
    *(
        (
            pattern,
            {"announce": "batched", "flatten": merged(pattern)},
            f"8: flatten: expected none or auto, because of announce: batched, got {merged(pattern)} "
            "(the notifies of a round come after all its stores, so rounds cannot be merged; "
            "announce: per_tile allows it)",
        )
        for pattern in MOVEMENTS
    ),
    *(
        (
            pattern,
            {"transport": "udma", **changes},
            f"3: target: expected a target with udma, because of transport: udma, got Ascend910B3 ({UDMA_TARGETS})",
        )
        for pattern, changes in (("all2all", {}), ("allgather", {}), ("allgather_gemm", {"buffer_num": "1"}))
    ),
    *(
        (pattern, changes, f"4: transport: expected mte, because of the sum in pattern: {pattern}, got udma ({SUM})")
        for pattern in SUMS
        for changes in (UDMA, {"transport": "udma"}, {**UDMA, "sync": "barrier"})
    ),
    *(
        (
            pattern,
            {**UDMA, "sync": "barrier", "buffer_num": "1", "roles": "interleaved"},
            "8: roles: expected shared, because of transport: udma and sync: barrier, got interleaved (all blocks have "
            "landed at the one barrier, after which every core consumes; sync: signal overlaps the two)",
        )
        for pattern in ("reverse_all2all", "all2all", "allgather")
    ),
    *(
        (
            pattern,
            {**UDMA, "sync": "barrier", "roles": "shared", "buffer_num": "2"},
            "8: buffer_num: expected 1, because of transport: udma and sync: barrier, got 2 "
            "(each block lands once, in a region of its own: there is no ring of buffers)",
        )
        for pattern in ("reverse_all2all", "all2all", "allgather")
    ),
    *(
        (
            "allgather_gemm",
            {**UDMA, "sync": sync, "buffer_num": "3"},
            "7: buffer_num: expected 1, because of transport: udma, got 3 "
            "(the rows of each rank land once, in a region of their own: there is no ring of buffers)",
        )
        for sync in ("barrier", "signal")
    ),
    (
        "allgather_gemm",
        {**UDMA, "sync": "barrier", "buffer_num": "1", "pvalue": "4"},
        "8: pvalue: expected no pvalue, because of transport: udma and sync: barrier, got 4 "
        "(all rows for a target travel as one block, there are no rounds: leave it out, or choose sync: signal)",
    ),
    *(
        (
            pattern,
            {**UDMA, **changes, "swizzle": "{comm: {order: sequential}}"},
            f"{line}: swizzle.comm.order: expected nz, because of transport: udma, got sequential ({NO_ORDER})",
        )
        for pattern, changes, line in (("all2all", {}, 7), ("allgather_gemm", {"buffer_num": "1"}, 8))
    ),
    (
        "allgather",
        {**UDMA, "swizzle": "{comm: {npu_split: 2}}"},
        f"7: swizzle.comm.npu_split: expected 1, because of transport: udma, got 2 ({NO_ORDER})",
    ),
    *(
        (
            pattern,
            {"swizzle": "{comm: {order: sequential, npu_split: 2}}"},
            "7: swizzle.comm.npu_split: expected 1, because of swizzle.comm.order: sequential, got 2 "
            "(only the nz order takes turns between groups of ranks)",
        )
        for pattern in CHOOSES_RANK_ORDER
    ),
    *(
        (
            pattern,
            {"swizzle": "{comm: {npu_split: 2}}"},
            f"7: swizzle.comm.npu_split: expected 1, because of reduce: ordered, got 2 ({NO_RANK_ORDER})",
        )
        for pattern in SUM_GEMMS
    ),
    *(
        (
            pattern,
            {"swizzle": "{comm: {order: sequential}}"},
            f"7: swizzle.comm.order: expected nz, because of reduce: ordered, got sequential ({NO_RANK_ORDER})",
        )
        for pattern in SUM_GEMMS
    ),
    *(
        (
            pattern,
            {**UDMA, "verify": points(pattern, 2)},
            "6: verify[0].cores: expected at least 3, because of transport: udma, got 2 (a core that sends blocks to "
            "other ranks needs another one for the own part, and consumers have cores of their own)",
        )
        for pattern in ("reverse_all2all", "all2all", "allgather")
    ),
    *(
        (
            pattern,
            {**UDMA, "sync": "barrier", "roles": "shared", "buffer_num": "1", "verify": points(pattern, 1)},
            "6: verify[0].cores: expected at least 2, because of transport: udma, got 1 "
            "(a core that sends blocks to other ranks needs another one for the own part)",
        )
        for pattern in ("reverse_all2all", "all2all", "allgather")
    ),
    *(
        (
            pattern,
            {"swizzle": "{gemm: {order: row_major, offset: 7}}"},
            "7: swizzle.gemm.offset: expected no offset, because of swizzle.gemm.order: row_major, got 7 "
            "(it is the width of the groups of the nz order: leave it out, or choose order: nz)",
        )
        for pattern in GEMMS
    ),
    *(
        (
            pattern,
            {"tile": "{m: 64}", "comm_tile": "{rows: 128}"},
            "8: comm_tile.rows: expected a divisor of tile.m, which is 64, got 128 "
            "(a GEMM tile is made of whole communication tiles: lower comm_tile.rows or raise tile.m)",
        )
        for pattern in GEMMS
    ),
    *(
        (
            pattern,
            {"tile": "{n: 128}"},
            "1: comm_tile.columns: expected a divisor of tile.n, which is 128, got 256 "
            "(a GEMM tile is made of whole communication tiles: lower comm_tile.columns or raise tile.n)",
        )
        for pattern in ("gemm_reduce_scatter", "gemm_allreduce")
    ),
    *(
        (
            pattern,
            {"verify": points(pattern, 1)},
            "6: verify[0].cores: expected at least 2, because of roles: interleaved, got 1 "
            "(even cores produce and odd cores consume, so one core alone has no partner)",
        )
        for pattern in MOVEMENTS
    ),
    *(
        (
            pattern,
            {"verify": points(pattern, 2, 41)},
            "6: verify[1].cores: expected at most 40, the vector cores of Ascend910B3, got 41",
        )
        for pattern in MOVEMENTS
    ),
    *(
        (
            pattern,
            {"verify": points(pattern, 21)},
            "6: verify[0].cores: expected at most 20, the AI cores of Ascend910B3, got 21",
        )
        for pattern in GEMMS
    ),
    *(
        (
            pattern,
            {"verify": points(pattern, 3, 2, 3)},
            "6: verify[2]: expected a new verification point, got a repetition of verify[0] (remove one of them)",
        )
        for pattern in PATTERNS
    ),
]


@pytest.mark.parametrize(("pattern", "changes", "message"), BROKEN)
def test_a_broken_rule(pattern: str, changes: Mapping[str, str], message: str) -> None:
    assert faults_of(text_of(pattern, **changes)) == [f"x.yaml:{message}"]


def test_the_specs_above_break_every_rule() -> None:
    texts = [text_of(pattern, **changes) for pattern, changes, _ in BROKEN]
    specs = [PATTERNS[data["pattern"]].model_validate(data) for data in map(yaml.safe_load, texts)]
    broken = {
        rule.faults.__name__
        for spec in specs
        for rule in RULES
        if isinstance(spec, rule.patterns) and list(rule.faults(spec))
    }
    assert broken == {rule.faults.__name__ for rule in RULES}


FINE: list[tuple[str, Mapping[str, str]]] = [
    *((pattern, {"sync": "barrier", "roles": "shared", "verify": points(pattern, 1)}) for pattern in MOVEMENTS),
    *((pattern, {"flatten": merged(pattern)}) for pattern in MOVEMENTS),
    *((pattern, {"announce": "batched", "flatten": "auto"}) for pattern in MOVEMENTS),
    *((pattern, {"announce": "batched"}) for pattern in GEMMS),
    *((pattern, {**UDMA, "buffer_num": "4"}) for pattern in ("reverse_all2all", "all2all", "allgather")),
    *(
        (pattern, {**UDMA, "sync": "barrier", "roles": "shared", "buffer_num": "1"})
        for pattern in ("reverse_all2all", "all2all", "allgather")
    ),
    *(("allgather_gemm", {**UDMA, "sync": sync, "buffer_num": "1"}) for sync in ("barrier", "signal")),
    *((pattern, {"swizzle": "{comm: {npu_split: 2}}"}) for pattern in CHOOSES_RANK_ORDER),
    *((pattern, {"swizzle": "{comm: {order: sequential, npu_split: 1}}"}) for pattern in CHOOSES_RANK_ORDER),
    *((pattern, {"reduce": "atomic", "swizzle": "{comm: {npu_split: 2}}"}) for pattern in SUM_GEMMS),
    *((pattern, {"reduce": "atomic", "swizzle": "{comm: {order: sequential}}"}) for pattern in SUM_GEMMS),
    *((pattern, {"swizzle": "{gemm: {order: row_major}}"}) for pattern in GEMMS),
    *((pattern, {"swizzle": "{gemm: {order: nz, offset: 3}}"}) for pattern in GEMMS),
    *((pattern, {"tile": "{m: 64}", "comm_tile": "{rows: 64}"}) for pattern in GEMMS),
    ("allgather_gemm", {"tile": "{n: 16, k: 16}", "comm_tile": "{columns: 1024}"}),
    *((pattern, {"verify": points(pattern, 1)}) for pattern in GEMMS),
    *((pattern, {"verify": points(pattern, 20)}) for pattern in GEMMS),
    *((pattern, {"verify": points(pattern, 40)}) for pattern in MOVEMENTS),
]


@pytest.mark.parametrize(("pattern", "changes"), FINE)
def test_what_no_rule_forbids(pattern: str, changes: Mapping[str, str]) -> None:
    assert spec_of(pattern, **changes).pattern == pattern


def test_several_rules_are_reported_at_once_in_the_order_of_lines() -> None:
    changes = {"transport": "udma", "swizzle": "{comm: {order: sequential, npu_split: 2}}", "announce": "batched"}
    assert [line.split(": expected")[0] for line in faults_of(text_of("allgather", sync="barrier", **changes))] == [
        "x.yaml:1: roles",
        "x.yaml:1: buffer_num",
        "x.yaml:3: target",
        "x.yaml:7: swizzle.comm.order",
        "x.yaml:7: swizzle.comm.npu_split",
        "x.yaml:7: swizzle.comm.npu_split",
        "x.yaml:8: announce",
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.faults.__name__)
def test_a_rule_reads_only_the_fields_it_names(rule: Rule[Any], pattern: str) -> None:
    model = PATTERNS[pattern]
    if not issubclass(model, rule.patterns):
        return
    assert rule.reads <= model.model_fields.keys()
    for changes in ({}, {"sync": "barrier"}):
        spec = spec_of(pattern, **changes)
        partial = model.model_construct(None, **{field: getattr(spec, field) for field in rule.reads})
        for field in model.model_fields.keys() - rule.reads:
            partial.__dict__.pop(field, None)
        assert list(rule.faults(partial)) == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_core_is_too_few_only_where_roles_are_interleaved(pattern: str) -> None:
    spec: KernelSpec = spec_of(pattern)
    faults = [str(fault) for fault in too_few_cores(spec, "--cores", 1)]
    expected = (
        "--cores: expected at least 2, because of roles: interleaved, got 1 "
        "(even cores produce and odd cores consume, so one core alone has no partner)"
    )
    assert faults == ([expected] if isinstance(spec, Movement) else [])
