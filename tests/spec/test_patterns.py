"""What each pattern may say: its fields, their defaults, the union that tells patterns apart, and its variants."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fusegen.errors import Fault
from fusegen.spec import AllGatherGemm, Gemm, KernelSpec, Movement, Reduction, cores_of
from fusegen.spec.fields import COMM_ROWS, TILE_SIZES
from fusegen.spec.model import PATTERNS
from fusegen.spec.rules import broken_rules
from fusegen.targets import TARGETS
from tests.spec.texts import PATTERN_LIST, faults_of, spec_of, text_of

COMMON = {
    "pattern",
    "description",
    "dtype",
    "target",
    "transport",
    "sync",
    "announce",
    "buffer_num",
    "swizzle",
    "watchdog",
    "debug",
    "verify",
}
OWN = {
    "reverse_all2all": {"tile", "flatten", "roles"},
    "all2all": {"tile", "flatten", "roles"},
    "allgather": {"tile", "flatten", "roles"},
    "reduce_scatter": {"tile", "flatten", "roles", "reduce"},
    "allreduce": {"tile", "flatten", "roles", "reduce"},
    "allgather_gemm": {"tile", "comm_tile", "pvalue", "out_dtype", "bias"},
    "gemm_reduce_scatter": {"tile", "comm_tile", "pvalue", "out_dtype", "bias", "reduce"},
    "gemm_allreduce": {"tile", "comm_tile", "pvalue", "out_dtype", "bias", "reduce"},
}
COMM_DEFAULTS = {"order": "nz", "npu_split": 1}
DEFAULTS: dict[str, Any] = {
    "description": None,
    "announce": "per_tile",
    "buffer_num": 2,
    "watchdog": {"enabled": True, "timeout_s": 60.0},
    "debug": {"total_cores": False},
}
HEAD_DEFAULTS = {"tile": {"s": 64, "d": 128}, "flatten": "auto", "roles": "interleaved"}
ROW_DEFAULTS = {"tile": {"m": 64, "n": 128}, "flatten": "auto", "roles": "interleaved"}
GEMM_DEFAULTS = {"tile": {"m": 128, "n": 256, "k": 256}, "pvalue": 4, "out_dtype": None, "bias": False}
ORDERED = {"reduce": "ordered"}
OWN_DEFAULTS: dict[str, dict[str, Any]] = {
    "reverse_all2all": HEAD_DEFAULTS,
    "all2all": HEAD_DEFAULTS,
    "allgather": ROW_DEFAULTS,
    "reduce_scatter": ROW_DEFAULTS | ORDERED,
    "allreduce": ROW_DEFAULTS | ORDERED,
    "allgather_gemm": GEMM_DEFAULTS | {"comm_tile": {"rows": 32, "columns": 256}},
    "gemm_reduce_scatter": GEMM_DEFAULTS | {"comm_tile": {"rows": 8, "columns": 256}} | ORDERED,
    "gemm_allreduce": GEMM_DEFAULTS | {"comm_tile": {"rows": 8, "columns": 256}} | ORDERED,
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_fields(pattern: str) -> None:
    assert PATTERNS[pattern].model_fields.keys() == COMMON | OWN[pattern]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_defaults(pattern: str) -> None:
    gemm = {"gemm": {"order": "nz", "offset": 7}} if "gemm" in pattern else {}
    expected = {**DEFAULTS, **OWN_DEFAULTS[pattern], "swizzle": {"comm": COMM_DEFAULTS, **gemm}}
    said = {"pattern", "dtype", "target", "transport", "sync", "verify"}
    assert spec_of(pattern).model_dump(exclude=said) == expected
    assert spec_of(pattern).verify[0].launches == 3


@pytest.mark.parametrize(
    ("pattern", "tile"),
    [("allgather_gemm", (32, 256)), ("gemm_reduce_scatter", (8, 256)), ("gemm_allreduce", (8, 256))],
)
def test_a_half_given_communication_tile_keeps_the_other_default(pattern: str, tile: tuple[int, int]) -> None:
    rows, columns = tile
    by_rows, by_columns = spec_of(pattern, comm_tile="{rows: 4}"), spec_of(pattern, comm_tile="{columns: 64}")
    assert isinstance(by_rows, Gemm)
    assert isinstance(by_columns, Gemm)
    assert (by_rows.comm_tile.rows, by_rows.comm_tile.columns) == (4, columns)
    assert (by_columns.comm_tile.rows, by_columns.comm_tile.columns) == (rows, 64)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_families(pattern: str) -> None:
    model = PATTERNS[pattern]
    assert issubclass(model, Gemm) is ("gemm" in pattern)
    assert issubclass(model, Movement) is ("gemm" not in pattern)
    assert issubclass(model, Reduction) is ("reduce" in pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_cores_of_a_kernel(pattern: str) -> None:
    spec = spec_of(pattern)
    assert cores_of(spec, TARGETS["Ascend910B3"]) == (20 if "gemm" in pattern else 40)
    assert cores_of(spec, TARGETS["Ascend950PR_957c"]) == (28 if "gemm" in pattern else 56)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_union_tells_patterns_apart(pattern: str) -> None:
    data = yaml.safe_load(text_of(pattern))
    spec: KernelSpec = TypeAdapter(KernelSpec).validate_python(data)
    assert type(spec) is PATTERNS[pattern]
    assert spec == spec_of(pattern)


def test_the_union_reports_one_error_for_an_unknown_pattern() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(KernelSpec).validate_python({"pattern": "broadcast"})
    (error,) = caught.value.errors()
    assert error["type"] == "union_tag_invalid"


@pytest.mark.parametrize(
    ("written", "got", "advice"),
    [
        ("allgather_gem", "allgather_gem", " (did you mean allgather_gemm?)"),
        ("AllReduce", "AllReduce", " (did you mean allreduce?)"),
        ("all_to_all", "all_to_all", " (did you mean all2all?)"),
        ("broadcast", "broadcast", ""),
        ("3", "3", ""),
        ("[allgather]", "[allgather]", " (did you mean allgather?)"),
        ("", "nothing", ""),
    ],
)
def test_an_unknown_pattern(written: str, got: str, advice: str) -> None:
    text = text_of("allgather").replace("pattern: allgather", f"pattern: {written}")
    assert faults_of(text) == [f"x.yaml:1: pattern: expected {PATTERN_LIST}, got {got}{advice}"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_reports_field_faults_and_broken_rules_together(pattern: str) -> None:
    text = text_of(pattern, sync="barrier", dtype="int8", announce="batched", verify="[]")
    assert [line.split(": expected")[0] for line in faults_of(text)] == [
        "x.yaml:2: dtype",
        "x.yaml:6: verify",
        "x.yaml:7: announce",
    ]


def test_out_dtype_may_differ_from_dtype() -> None:
    spec = spec_of("allgather_gemm", out_dtype="float32", bias="true")
    assert isinstance(spec, AllGatherGemm)
    assert (spec.dtype, spec.out_dtype, spec.bias) == ("float16", "float32", True)


def faults(pattern: str, **changes: Any) -> list[Fault]:
    """Broken rules of a spec that is made in memory."""
    data = {**yaml.safe_load(text_of(pattern)), **changes}
    model = PATTERNS[pattern]
    return broken_rules(model.model_validate(data), frozenset(model.model_fields))


@given(
    pattern=st.sampled_from([name for name in PATTERNS if "gemm" in name]),
    m=st.sampled_from(TILE_SIZES),
    n=st.sampled_from(TILE_SIZES),
    rows=st.sampled_from(COMM_ROWS),
    columns=st.sampled_from(TILE_SIZES),
)
def test_communication_tiles_fit_gemm_tiles(pattern: str, m: int, n: int, rows: int, columns: int) -> None:
    found = faults(pattern, tile={"m": m, "n": n}, comm_tile={"rows": rows, "columns": columns})
    refused = [f"comm_tile.{side}" for side, wrong in (("rows", m % rows), ("columns", n % columns)) if wrong]
    if pattern == "allgather_gemm":
        refused = [field for field in refused if field == "comm_tile.rows"]
    assert [fault.field for fault in found] == refused


@given(
    pattern=st.sampled_from(list(PATTERNS)),
    target=st.sampled_from(list(TARGETS)),
    transport=st.sampled_from(["mte", "udma"]),
    sync=st.sampled_from(["barrier", "signal"]),
    roles=st.sampled_from(["interleaved", "shared"]),
    buffer_num=st.integers(1, 4),
    announce=st.sampled_from(["per_tile", "batched"]),
    flatten=st.sampled_from(["none", "merged", "auto"]),
)
def test_which_specs_are_legal(
    pattern: str,
    target: str,
    transport: str,
    sync: str,
    roles: str,
    buffer_num: int,
    announce: str,
    flatten: str,
) -> None:
    is_gemm = "gemm" in pattern
    changes: dict[str, Any] = {
        "target": target,
        "transport": transport,
        "sync": sync,
        "buffer_num": buffer_num,
        "announce": announce,
    }
    if not is_gemm:
        merged = "s" if "all2all" in pattern else "m"
        changes |= {"roles": roles, "flatten": merged if flatten == "merged" else flatten}
    legal = announce == "per_tile" or sync == "signal"
    if transport == "udma":
        legal &= "950" in target and "reduce" not in pattern
        legal &= buffer_num == 1 or pattern != "allgather_gemm"
        legal &= is_gemm or sync == "signal" or (roles == "shared" and buffer_num == 1)
    if not is_gemm:
        legal &= not (sync == "signal" and roles == "shared")
        legal &= flatten != "merged" or (sync == "signal" and announce == "per_tile")
    assert (faults(pattern, **changes) == []) is legal
