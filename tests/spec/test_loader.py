"""Every fault that a spec file can have, with the whole message."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fusegen.errors import Fault, SpecError
from fusegen.spec import load_spec, load_specs

GOOD = """\
pattern: reverse_all2all
dtype: bfloat16
target: Ascend910B3
transport: mte
sync: signal
buffer_num: 2
tile:
  s: 64
  d: 128
flatten: auto
roles: interleaved
watchdog:
  enabled: true
  timeout_s: 60
verify:
  - ranks: [1, 2]
    cores: 4
    shape: {S: 1, H: 2, D: 3}
"""

TARGET_LIST = (
    "targets: Ascend910B1, Ascend910B2, Ascend910B2C, Ascend910_9391, Ascend910_9392, Ascend910_9381, Ascend910B3, "
    "Ascend910B4, Ascend910B4-1, Ascend910_9372, Ascend910_9362, Ascend950PR_9589, Ascend950DT_9582, Ascend950PR_9599, "
    "Ascend950DT_9595, Ascend950PR_957c"
)
ROWS = "the rows of a tile are a block of S, and Triton blocks are powers of two"
BURST = "a tile row is one MTE burst, and Triton blocks are powers of two: a D that is no multiple is masked"
ALL_KEYS = (
    "keys: pattern, description, dtype, target, transport, sync, buffer_num, watchdog, tile, flatten, roles, verify"
)
DEPTH = "2 overlaps moving and consuming; more cost memory"
SYNTAX = "indent with spaces only, and quote a text that holds ': ' or ' #'"


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str | bytes, name: str = "x.yaml") -> Path:
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def faults_of(text: str | bytes, *overrides: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(write(text), overrides)
    return str(caught.value).splitlines()


def test_a_good_spec() -> None:
    path = write(GOOD)
    loaded = load_spec(path)
    assert (loaded.name, loaded.path) == ("x", path)
    assert loaded.sha256 == hashlib.sha256(loaded.spec.model_dump_json().encode()).hexdigest()
    spec = loaded.spec
    assert (spec.pattern, spec.dtype, spec.target, spec.transport) == (
        "reverse_all2all",
        "bfloat16",
        "Ascend910B3",
        "mte",
    )
    assert (spec.sync, spec.buffer_num, spec.flatten, spec.roles) == ("signal", 2, "auto", "interleaved")
    assert (spec.tile.s, spec.tile.d) == (64, 128)
    assert (spec.watchdog.enabled, spec.watchdog.timeout_s) == (True, 60.0)
    point = spec.verify[0]
    assert (point.ranks, point.cores, point.launches) == ((1, 2), 4, 3)
    assert (point.shape.S, point.shape.H, point.shape.D) == (1, 2, 3)


def test_defaults() -> None:
    required = "".join(GOOD.splitlines(keepends=True)[:5] + GOOD.splitlines(keepends=True)[14:])
    full = load_spec(write(GOOD)).spec
    assert load_spec(write(required)).spec == full


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("pattern", 1),
        ("tile", 7),
        ("tile.d", 9),
        ("verify[0]", 16),
        ("verify[0].cores", 17),
        ("verify[0].shape.H", 18),
        ("verify[0].launches", 16),
        ("description", 1),
    ],
)
def test_locate(field: str, line: int) -> None:
    assert load_spec(write(GOOD)).locate(field) == line


def test_located_gives_planner_faults_their_place() -> None:
    fault = Fault("tile.s", "a smaller tile", "64")
    assert str(load_spec(write(GOOD)).located(fault)) == "x.yaml:8: tile.s: expected a smaller tile, got 64"
    overridden = load_spec(write(GOOD), ["tile.s=32"])
    assert str(overridden.located(fault)) == "--set tile.s: expected a smaller tile, got 64"


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
    (
        "transport: mte",
        "transport: udma",
        "4: transport: expected mte, got udma (the only transport that is possible)",
    ),
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
        "1: pattern: expected reverse_all2all, got reverse_a2a (did you mean reverse_all2all?)",
    ),
    ("pattern: reverse_all2all", "pattern: gemm", "1: pattern: expected reverse_all2all, got gemm"),
    ("pattern: reverse_all2all\n", "", "1: pattern: expected reverse_all2all, got nothing (this key is required)"),
    # Rules about several fields.
    (
        "roles: interleaved",
        "roles: shared",
        "11: roles: expected interleaved, because of sync: signal, got shared "
        "(with shared roles a producer would wait for credit from the very core that waits)",
    ),
    (
        "sync: signal\nbuffer_num: 2\ntile:\n  s: 64\n  d: 128\nflatten: auto",
        "sync: barrier\nbuffer_num: 2\ntile:\n  s: 64\n  d: 128\nflatten: s",
        "10: flatten: expected none or auto, because of sync: barrier, got s "
        "(a barrier separates the S blocks, so they cannot be worked on at once; sync: signal allows it)",
    ),
    (
        "cores: 4",
        "cores: 1",
        "17: verify[0].cores: expected at least 2, because of roles: interleaved, got 1 "
        "(even cores produce and odd cores consume, so one core alone has no partner)",
    ),
    (
        "    shape: {S: 1, H: 2, D: 3}\n",
        "    shape: {S: 1, H: 2, D: 3}\n  - {cores: 4, ranks: [1, 2], shape: {S: 1, H: 2, D: 3}}\n",
        "19: verify[1]: expected a new verification point, got a repetition of verify[0] (remove one of them)",
    ),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml: expected a mapping of spec fields, got an empty file (fusegen new writes a full one)"),
        (
            "# only this\n",
            "x.yaml: expected a mapping of spec fields, got an empty file (fusegen new writes a full one)",
        ),
        ("- a\n- b\n", "x.yaml:1: expected a mapping of spec fields, got [a, b] (lines like `sync: signal`)"),
        ("signal\n", "x.yaml:1: expected a mapping of spec fields, got signal (lines like `sync: signal`)"),
        (b"a: 1\nb: \xff\n", "x.yaml:2: expected UTF-8 text, got the byte 0xff (save the file as UTF-8)"),
        (
            "a: 1\nb: c: d\n",
            "x.yaml:2:5: expected valid YAML, got a syntax error "
            f"(the parser says: mapping values are not allowed in this context; {SYNTAX})",
        ),
        (
            "a: 1\n\tb: 2\n",
            "x.yaml:2:1: expected valid YAML, got a syntax error "
            f"(the parser says: found a tab character that violates indentation; {SYNTAX})",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "x.yaml:2:1: expected valid YAML, got a syntax error "
            f"(the parser says: but found another document; {SYNTAX})",
        ),
        ("a: \x01\n", "x.yaml: expected valid YAML, got a character that YAML forbids (remove control characters)"),
    ],
)
def test_files_that_hold_no_spec(text: str | bytes, message: str) -> None:
    assert faults_of(text) == [message]


def test_a_missing_file() -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(Path("specs/none.yaml"))
    assert str(caught.value) == "specs/none.yaml: expected a spec file, got no such file"


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path)
    assert str(caught.value) == ".: expected a readable spec file, got an unreadable one: Is a directory"


def test_a_byte_order_mark_is_accepted() -> None:
    assert load_spec(write(b"\xef\xbb\xbf" + GOOD.encode())).spec.sync == "signal"


@pytest.mark.parametrize("name", ["My", "a-b", "1a", "class", "ä"])
def test_the_file_name_must_name_a_module(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(GOOD, f"{name}.yaml"))
    assert str(caught.value) == (
        f"{name}.yaml: name: expected a lower-case Python identifier as the name of the file, got {name} "
        "(the generated module has the same name, and Python must be able to import it)"
    )


def test_all_faults_come_at_once_in_the_order_of_lines() -> None:
    text = (
        GOOD.replace("  d: 128", "  d: 100")
        .replace("dtype: bfloat16", "dtype: int8")
        .replace("cores: 4", "cores: 1")
        .replace("roles: interleaved", "roles: shared")
        .replace("sync: signal", "sync: signal\nsync_mode: x")
    )
    assert [line.split(":")[1:3] for line in faults_of(text)] == [
        ["2", " dtype"],
        ["6", " sync_mode"],
        ["10", " tile.d"],
        ["12", " roles"],
    ]


def test_rules_are_left_out_where_a_field_they_read_is_faulty() -> None:
    text = GOOD.replace("roles: interleaved", "roles: x").replace("cores: 4", "cores: 1")
    assert [line.split(": ")[1] for line in faults_of(text)] == ["roles"]


def test_without_a_known_pattern_common_fields_are_still_checked() -> None:
    text = GOOD.replace("reverse_all2all", "gemm").replace("buffer_num: 2", "buffer_num: 9")
    assert [line.split(": ")[1] for line in faults_of(text)] == ["pattern", "buffer_num"]


def test_overrides() -> None:
    loaded = load_spec(write(GOOD), ["tile.d=64", "buffer_num=3", "verify[0].ranks=[4]", "description=quick"])
    assert (loaded.spec.tile.d, loaded.spec.buffer_num, loaded.spec.verify[0].ranks) == (64, 3, (4,))
    assert loaded.overridden == {"tile.d", "buffer_num", "verify[0].ranks", "description"}
    assert loaded.sha256 != load_spec(write(GOOD)).sha256


def test_comments_do_not_change_the_digest() -> None:
    before = load_spec(write(GOOD)).sha256
    assert load_spec(write(f"# A comment.\n{GOOD}")).sha256 == before
    assert load_spec(write(GOOD.replace("buffer_num: 2", "buffer_num: 3"))).sha256 != before


@pytest.mark.parametrize("name", ["torch", "json", "shmem", "triton"])
def test_a_kernel_must_not_hide_a_module_that_kernels_import(name: str) -> None:
    path = write(GOOD).with_name(f"{name}.yaml")
    path.write_text(GOOD)
    with pytest.raises(SpecError, match=f"name: expected a name that no module of Python .* has, got {name} "):
        load_spec(path)


def test_verification_beyond_the_cores_of_the_target() -> None:
    text = GOOD.replace("cores: 4", "cores: 41", 1)
    assert faults_of(text)[0].endswith("verify[0].cores: expected at most 40, the vector cores of Ascend910B3, got 41")


def test_an_override_of_a_mapping_that_the_file_leaves_out() -> None:
    text = GOOD.replace("tile:\n  s: 64\n  d: 128\n", "")
    assert load_spec(write(text), ["tile.d=64"]).spec.tile.d == 64


def test_an_override_heals_a_fault_of_the_file() -> None:
    text = GOOD.replace("sync: signal", "sync: signal\nsync: x")
    assert load_spec(write(text), ["sync=barrier"]).spec.sync == "barrier"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tile.d=100", f"tile.d: expected a power of two between 16 and 1024, got 100 ({BURST})"),
        ("tile.q=1", "tile.q: expected a known key, got q (keys: s, d)"),
        ("sync=no", "sync: expected barrier or signal, got no (YAML reads an unquoted no as false)"),
        ("sync=", "sync: expected barrier or signal, got nothing"),
        ("tile={s: 1}", f"tile.s: expected a power of two between 16 and 1024, got 1 ({ROWS})"),
        ("tile", "tile: expected KEY=VALUE, got tile (for example tile.d=64)"),
        ("a b=1", "a b: expected KEY=VALUE, got a b=1 (for example tile.d=64)"),
        ("sync.x=1", "sync.x: expected a key of a mapping, but sync is none, got x"),
        ("verify[7].cores=1", "verify[7].cores: expected an index below 1, got [7].cores"),
        ("verify.x=1", "verify.x: expected an index into the list verify, got x"),
        (
            "buffer_num=[",
            "buffer_num: expected valid YAML, got a syntax error "
            f"(the parser says: did not find expected node content; {SYNTAX})",
        ),
        (
            "roles=shared",
            "roles: expected interleaved, because of sync: signal, got shared "
            "(with shared roles a producer would wait for credit from the very core that waits)",
        ),
    ],
)
def test_faults_of_overrides_name_the_option(override: str, message: str) -> None:
    assert faults_of(GOOD, override) == [f"--set {message}"]


def test_load_specs_reports_the_faults_of_all_files() -> None:
    paths = [write(GOOD.replace("mte", "x"), "a.yaml"), write(GOOD, "b.yaml"), write("", "c.yaml")]
    with pytest.raises(SpecError) as caught:
        load_specs(paths)
    assert [fault.file for fault in caught.value.faults] == ["a.yaml", "c.yaml"]
    assert [loaded.name for loaded in load_specs([paths[1]])] == ["b"]


def test_an_override_is_not_held_to_verification_points_that_it_makes_impossible() -> None:
    text = GOOD.replace("sync: signal", "sync: barrier").replace("cores: 4", "cores: 1")
    shared = text.replace("roles: interleaved", "roles: shared")
    assert shared != text
    assert load_spec(write(shared), ["roles=interleaved"]).spec.roles == "interleaved"
    assert "verify[0].cores: expected at least 2" in faults_of(text)[0]
