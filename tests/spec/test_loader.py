"""How spec files are read: faults of files, faults of overrides, places, names and digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fusegen.errors import Fault, SpecError
from fusegen.spec import ReverseAll2All, load_spec, load_specs
from tests.spec.texts import BURST, GOOD, PATTERN_LIST, ROWS, SYNTAX, faults_of, write


def test_a_good_spec() -> None:
    path = write(GOOD)
    loaded = load_spec(path)
    assert (loaded.name, loaded.path) == ("x", path)
    assert loaded.sha256 == hashlib.sha256(loaded.spec.model_dump_json().encode()).hexdigest()
    spec = loaded.spec
    assert isinstance(spec, ReverseAll2All)
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
    text = (
        GOOD.replace("reverse_all2all", "gemm")
        .replace("buffer_num: 2", "buffers: 2\nbuffer_num: 9")
        .replace("cores: 4", "cores: 0")
        .replace("s: 64", "s: 100")
    )
    text = f"{text}swizzle: {{comm: {{order: z}}}}\n"
    assert faults_of(text) == [
        f"x.yaml:1: pattern: expected {PATTERN_LIST}, got gemm",
        "x.yaml:6: buffers: expected a known key, got buffers (did you mean buffer_num?)",
        "x.yaml:7: buffer_num: expected a whole number between 1 and 4, got 9 "
        "(2 overlaps moving and consuming; more cost memory)",
        "x.yaml:18: verify[0].cores: expected a whole number of at least 1, got 0",
        "x.yaml:20: swizzle.comm.order: expected nz or sequential, got z (did you mean nz?)",
    ]


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
