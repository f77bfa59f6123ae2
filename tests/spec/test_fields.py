"""Every fault that a single field can have, with its line and the whole message."""

from __future__ import annotations

import pytest

from tests.spec.texts import BURST, GOOD, PATTERN_LIST, ROWS, faults_of, text_of

TARGET_LIST = (
    "targets: Ascend910B1, Ascend910B2, Ascend910B2C, Ascend910_9391, Ascend910_9392, Ascend910_9381, Ascend910B3, "
    "Ascend910B4, Ascend910B4-1, Ascend910_9372, Ascend910_9362, Ascend950PR_9589, Ascend950DT_9582, Ascend950PR_9599, "
    "Ascend950DT_9595, Ascend950PR_957c"
)
ALL_KEYS = (
    "keys: pattern, description, dtype, target, transport, sync, announce, buffer_num, swizzle, watchdog, debug, "
    "verify, flatten, roles, tile"
)
DEPTH = "2 overlaps moving and consuming; more cost memory"

SINGLE_FAULTS = [
    # Values outside a field's limits.
    (
        "dtype: bfloat16",
        "dtype: bf16",
        "2: dtype: expected bfloat16, float16 or float32, got bf16 (did you mean bfloat16?)",
    ),
    ("dtype: bfloat16", "dtype: int8", "2: dtype: expected bfloat16, float16 or float32, got int8"),
    (
        "target: Ascend910B3",
        "target: ascend910b3",
        "3: target: expected a known target, got ascend910b3 (did you mean Ascend910B3?)",
    ),
    ("target: Ascend910B3", "target: h100", f"3: target: expected a known target, got h100 ({TARGET_LIST})"),
    ("transport: mte", "transport: roce", "4: transport: expected mte or udma, got roce"),
    ("sync: signal", "sync: signals", "5: sync: expected barrier or signal, got signals (did you mean signal?)"),
    ("buffer_num: 2", "buffer_num: 0", f"6: buffer_num: expected a whole number between 1 and 4, got 0 ({DEPTH})"),
    ("buffer_num: 2", "buffer_num: 5", f"6: buffer_num: expected a whole number between 1 and 4, got 5 ({DEPTH})"),
    ("  s: 64", "  s: 100", f"8: tile.s: expected a power of two between 16 and 1024, got 100 ({ROWS})"),
    ("  d: 128", "  d: 100", f"9: tile.d: expected a power of two between 16 and 1024, got 100 ({BURST})"),
    ("  d: 128", "  d: 2048", f"9: tile.d: expected a power of two between 16 and 1024, got 2048 ({BURST})"),
    ("  d: 128", "  d: 8", f"9: tile.d: expected a power of two between 16 and 1024, got 8 ({BURST})"),
    ("timeout_s: 60", "timeout_s: 0", "14: watchdog.timeout_s: expected a number of seconds greater than 0, got 0"),
    (
        "timeout_s: 60",
        "timeout_s: .inf",
        "14: watchdog.timeout_s: expected a number of seconds greater than 0, got .inf",
    ),
    ("cores: 4", "cores: 0", "17: verify[0].cores: expected a whole number of at least 1, got 0"),
    ("[1, 2]", "[1, 17]", "16: verify[0].ranks[1]: expected a whole number between 1 and 16, got 17"),
    (
        "[1, 2]",
        "[1, 1]",
        "16: verify[0].ranks: expected a list of different rank counts, each between 1 and 16, got [1, 1] "
        "(for example [1, 2, 5])",
    ),
    (
        "[1, 2]",
        "[]",
        "16: verify[0].ranks: expected a list of different rank counts, each between 1 and 16, got an empty list "
        "(for example [1, 2, 5])",
    ),
    ("S: 1,", "S: -1,", "18: verify[0].shape.S: expected a whole number of at least 0, got -1"),
    *(
        (
            "dtype: bfloat16",
            f"description: {written}\ndtype: bfloat16",
            f"2: description: expected one line of 1 to 110 characters, got {written} "
            "(it becomes a line of a docstring: no backslash, no triple or final double quotes, no spaces around it)",
        )
        for written in ('"a\\nb"', '\'a"""b\'', "'say \"a\"'", "'a\\b'", "' a'", "''")
    ),
    # Wrong types.
    ("buffer_num: 2", "buffer_num: 2.0", f"6: buffer_num: expected a whole number between 1 and 4, got 2.0 ({DEPTH})"),
    (
        "buffer_num: 2",
        'buffer_num: "2"',
        f'6: buffer_num: expected a whole number between 1 and 4, got "2" (a number takes no quotes; {DEPTH})',
    ),
    (
        "buffer_num: 2",
        "buffer_num: true",
        f"6: buffer_num: expected a whole number between 1 and 4, got true ({DEPTH})",
    ),
    ("buffer_num: 2", "buffer_num:", f"6: buffer_num: expected a whole number between 1 and 4, got nothing ({DEPTH})"),
    ("enabled: true", "enabled: 1", "13: watchdog.enabled: expected true or false, got 1"),
    ("tile:\n  s: 64\n  d: 128", "tile: 64", "7: tile: expected a mapping with s and d, got 64"),
    ("tile:\n  s: 64\n  d: 128", "tile: [64, 128]", "7: tile: expected a mapping with s and d, got [64, 128]"),
    ("sync: signal", "sync: [signal]", "5: sync: expected barrier or signal, got [signal]"),
    ("sync: signal", "sync: {a: 1}", "5: sync: expected barrier or signal, got a mapping"),
    (
        "verify:\n  - ranks: [1, 2]\n    cores: 4\n    shape: {S: 1, H: 2, D: 3}",
        "verify: []",
        "15: verify: expected a list of verification points, got an empty list (each with ranks, cores and shape)",
    ),
    (
        "verify:\n  - ranks: [1, 2]\n    cores: 4\n    shape: {S: 1, H: 2, D: 3}",
        "verify: [3]",
        "15: verify[0]: expected a mapping with ranks, cores, launches and shape, got 3",
    ),
    # What YAML 1.1 reads as true or false.
    (
        "flatten: auto",
        "flatten: no",
        "10: flatten: expected none, s or auto, got no (YAML reads an unquoted no as false; did you mean none?)",
    ),
    ("sync: signal", "sync: on", "5: sync: expected barrier or signal, got on (YAML reads an unquoted on as true)"),
    ("sync: signal", "on: signal\nsync: signal", f"5: on: expected a known key, got on ({ALL_KEYS})"),
    # Keys.
    (
        "dtype: bfloat16\n",
        "",
        "1: dtype: expected bfloat16, float16 or float32, got nothing (this key is required)",
    ),
    (
        "    shape: {S: 1, H: 2, D: 3}\n",
        "",
        "16: verify[0].shape: expected a mapping with S, H and D, got nothing (this key is required)",
    ),
    (
        ", D: 3}",
        "}",
        "18: verify[0].shape.D: expected a whole number of at least 0, got nothing (this key is required)",
    ),
    (
        "buffer_num: 2",
        "buffers_num: 2",
        "6: buffers_num: expected a known key, got buffers_num (did you mean buffer_num?)",
    ),
    ("  d: 128", "  q: 128", "9: tile.q: expected a known key, got q (keys: s, d)"),
    ("sync: signal", "sync: signal\nsync: barrier", "6: sync: expected each key once, got it again after line 5"),
    ("sync: signal", "sync: signal\n? [a]\n: 1", "6: expected a plain word as key, got a list"),
    # Patterns.
    (
        "pattern: reverse_all2all",
        "pattern: reverse_a2a",
        f"1: pattern: expected {PATTERN_LIST}, got reverse_a2a (did you mean reverse_all2all?)",
    ),
    ("pattern: reverse_all2all", "pattern: gemm", f"1: pattern: expected {PATTERN_LIST}, got gemm"),
    ("pattern: reverse_all2all\n", "", f"1: pattern: expected {PATTERN_LIST}, got nothing (this key is required)"),
    # YAML that is none, or not plain.
    ("sync: signal", "sync: !made signal", "5: sync: expected a plain YAML value, got !made signal"),
    ("sync: signal", "sync: &a [*a]", "5: sync[0]: expected a value, got an alias of a value that contains it"),
    (
        "sync: signal",
        "sync: 2024-99-99",
        "5: sync: expected a plain YAML value, got tag:yaml.org,2002:timestamp 2024-99-99",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), SINGLE_FAULTS)
def test_a_fault_is_reported_with_its_line_in_our_words(old: str, new: str, message: str) -> None:
    assert old in GOOD
    first, *_ = faults_of(GOOD.replace(old, new, 1))
    assert first == f"x.yaml:{message}"


TILE = "a power of two between 16 and 1024"
BLOCKS = "Triton blocks are powers of two"
PVALUE = "more makes rounds longer and buffers larger"

FAULTS_OF_PATTERNS = [
    # Common.
    ("all2all", "announce", "batch", "announce: expected per_tile or batched, got batch (did you mean batched?)"),
    ("allgather", "swizzle", "3", "swizzle: expected a mapping with comm, got 3"),
    ("allgather", "swizzle", "{com: 1}", "swizzle.com: expected a known key, got com (did you mean comm?)"),
    ("allgather", "swizzle", "{gemm: {}}", "swizzle.gemm: expected a known key, got gemm (keys: comm)"),
    ("allgather", "swizzle", "{comm: nz}", "swizzle.comm: expected a mapping with order and npu_split, got nz"),
    ("allgather", "swizzle", "{comm: {order: seq}}", "swizzle.comm.order: expected nz or sequential, got seq"),
    *(
        (
            pattern,
            "swizzle",
            f"{{comm: {{npu_split: {split}}}}}",
            f"swizzle.comm.npu_split: expected a whole number between 1 and 16, got {split} "
            "(1 counts the ranks one by one)",
        )
        for pattern, split in (("allgather", "0"), ("gemm_allreduce", "17"), ("reverse_all2all", "2.0"))
    ),
    # Movement.
    ("all2all", "flatten", "m", "flatten: expected none, s or auto, got m"),
    ("allgather", "flatten", "s", "flatten: expected none, m or auto, got s"),
    ("all2all", "roles", "inter", "roles: expected interleaved or shared, got inter (did you mean interleaved?)"),
    ("all2all", "tile", "{s: 8}", f"tile.s: expected {TILE}, got 8 ({ROWS})"),
    ("all2all", "tile", "{d: 8}", f"tile.d: expected {TILE}, got 8 ({BURST})"),
    ("all2all", "tile", "{m: 64}", "tile.m: expected a known key, got m (keys: s, d)"),
    (
        "allgather",
        "tile",
        "{m: 48}",
        f"tile.m: expected {TILE}, got 48 (the rows of a tile are a block of M, and {BLOCKS})",
    ),
    (
        "allreduce",
        "tile",
        "{n: 2048}",
        f"tile.n: expected {TILE}, got 2048 "
        f"(a tile row is one MTE burst, and {BLOCKS}: an N that is no multiple is masked)",
    ),
    ("allgather", "tile", "64", "tile: expected a mapping with m and n, got 64"),
    *(
        (pattern, "reduce", "order", "reduce: expected ordered or atomic, got order (did you mean ordered?)")
        for pattern in ("reduce_scatter", "allreduce", "gemm_reduce_scatter", "gemm_allreduce")
    ),
    # GEMM.
    ("allgather_gemm", "tile", "[1]", "tile: expected a mapping with m, n and k, got [1]"),
    *(
        ("gemm_allreduce", "tile", f"{{{axis}: 8}}", f"tile.{axis}: expected {TILE}, got 8 ({BLOCKS})")
        for axis in ("m", "n", "k")
    ),
    ("gemm_allreduce", "comm_tile", "8", "comm_tile: expected a mapping with rows and columns, got 8"),
    *(
        (
            pattern,
            "comm_tile",
            f"{{rows: {rows}}}",
            f"comm_tile.rows: expected a power of two between 1 and 1024, got {rows} ({BLOCKS})",
        )
        for pattern, rows in (("allgather_gemm", "0"), ("gemm_allreduce", "20"), ("gemm_reduce_scatter", "2048"))
    ),
    *(
        (
            pattern,
            "comm_tile",
            f"{{columns: {columns}}}",
            f"comm_tile.columns: expected {TILE}, got {columns} (a row is one MTE burst, and {BLOCKS})",
        )
        for pattern, columns in (("allgather_gemm", "8"), ("gemm_allreduce", "100"))
    ),
    *(
        ("allgather_gemm", "pvalue", given, f"pvalue: expected a whole number between 1 and 64, got {given} ({PVALUE})")
        for given in ("0", "65", "4.0")
    ),
    (
        "allgather_gemm",
        "out_dtype",
        "float64",
        "out_dtype: expected bfloat16, float16 or float32, got float64 (did you mean float16?)",
    ),
    ("gemm_allreduce", "out_dtype", "int8", "out_dtype: expected bfloat16, float16 or float32, got int8"),
    ("allgather_gemm", "bias", "1", "bias: expected true or false, got 1"),
    ("gemm_allreduce", "swizzle", "{gemm: 7}", "swizzle.gemm: expected a mapping with order and offset, got 7"),
    (
        "gemm_allreduce",
        "swizzle",
        "{gemm: {order: row_mayor}}",
        "swizzle.gemm.order: expected nz or row_major, got row_mayor (did you mean row_major?)",
    ),
    *(
        (
            "gemm_allreduce",
            "swizzle",
            f"{{gemm: {{offset: {offset}}}}}",
            f"swizzle.gemm.offset: expected a whole number between 1 and 64, got {offset} "
            "(7 is the size used in the field)",
        )
        for offset in ("0", "65")
    ),
]


@pytest.mark.parametrize(("pattern", "field", "value", "message"), FAULTS_OF_PATTERNS)
def test_a_faulty_field_of_a_pattern(pattern: str, field: str, value: str, message: str) -> None:
    assert faults_of(text_of(pattern, **{field: value})) == [f"x.yaml:7: {message}"]


ALL_MOVEMENTS = "reverse_all2all, all2all, allgather, reduce_scatter, allreduce"
ALL_SUMS = "reduce_scatter, allreduce, gemm_reduce_scatter, gemm_allreduce"


@pytest.mark.parametrize(
    ("pattern", "field", "owners"),
    [
        ("allgather", "pvalue", "allgather_gemm, gemm_reduce_scatter, gemm_allreduce"),
        ("allgather", "reduce", ALL_SUMS),
        ("allgather_gemm", "reduce", ALL_SUMS),
        ("gemm_allreduce", "roles", ALL_MOVEMENTS),
        ("allgather_gemm", "flatten", ALL_MOVEMENTS),
    ],
)
def test_a_field_that_only_other_patterns_have(pattern: str, field: str, owners: str) -> None:
    message = f"x.yaml:7: {field}: expected a known key, got {field} (patterns with it: {owners})"
    assert faults_of(text_of(pattern, **{field: "x"})) == [message]


@pytest.mark.parametrize(
    ("pattern", "shape", "message"),
    [
        (
            "all2all",
            "{S: 1, H: 2}",
            "shape.D: expected a whole number of at least 0, got nothing (this key is required)",
        ),
        ("allgather", "{M: 1, N: -2}", "shape.N: expected a whole number of at least 0, got -2"),
        ("allreduce", "{M: 1, N: 2, K: 3}", "shape.K: expected a known key, got K (keys: M, N)"),
        ("allgather_gemm", "{M: 1, N: 2, K: x}", "shape.K: expected a whole number of at least 0, got x"),
        ("gemm_allreduce", "3", "shape: expected a mapping with M, N and K, got 3"),
    ],
)
def test_a_faulty_shape(pattern: str, shape: str, message: str) -> None:
    text = text_of(pattern, verify=f"[{{ranks: [1], cores: 2, shape: {shape}}}]")
    assert faults_of(text) == [f"x.yaml:6: verify[0].{message}"]
