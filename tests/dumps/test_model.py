"""Files that are no dumps, and dumps that do not belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusegen.dumps import DumpError, load_dumps


def facts(**changes: Any) -> dict[str, Any]:
    """A dump with some fields changed; None takes a field away."""
    nonzero = [{"slot": 3, "value": 1, "tile": 1, "ring": 1}]
    signal = {
        "purpose": "tile",
        "values": "plain",
        "buffer": "peer",
        "axes": {"ring": 2, "tile": 2},
        "nonzero": nonzero,
    }
    document: dict[str, Any] = {
        "kernel": "exchange",
        "pattern": "allgather",
        "sync": "signal",
        "rank": 0,
        "ranks": 3,
        "shape": {"M": 5, "N": 6},
        "launches": 2,
        "ended": 1,
        "grid": 4,
        "vector_cores": 8,
        "buffer_num": 2,
        "rounds": 3,
        "slots": {"signal": signal},
    }
    return {name: value for name, value in {**document, **changes}.items() if value is not None}


def signal(**changes: Any) -> dict[str, Any]:
    return {"signal": {**facts()["slots"]["signal"], **changes}}


def written(folder: Path, *documents: Any) -> list[Path]:
    paths = [folder / f"{number}.json" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(document if isinstance(document, str) else json.dumps(document))
    return paths


def test_dumps_come_by_rank(tmp_path: Path) -> None:
    dumps = load_dumps(written(tmp_path, facts(rank=2), facts(rank=0, launches=3)))
    assert [(dump.rank, dump.launches, dump.hangs) for dump in dumps] == [(0, 3, True), (2, 2, True)]
    assert (dumps[0].cores, dumps[0].core_kind) == (8, "vector cores")
    (mix,) = load_dumps(written(tmp_path, facts(vector_cores=None, ai_cores=20)))
    assert (mix.cores, mix.core_kind) == (20, "AI cores")
    assert mix.slots["signal"].position(3) == {"ring": 1, "tile": 1}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "expected JSON, got Expecting property name enclosed in double quotes"),
        ([], "expected a valid dictionary or instance of Dump, got []"),
        (facts(rounds=None), "rounds: expected a value, got nothing (dumps of older modules lack it: render again)"),
        (facts(more=1), "more: expected a field of a dump, got one that no dump has"),
        (facts(rank="0"), "rank: expected a valid integer, got '0'"),
        (facts(ranks=0), "ranks: expected greater than or equal to 1, got 0"),
        (facts(sync="both"), "sync: expected 'barrier' or 'signal', got 'both'"),
        (facts(rank=3), "rank: expected a rank below 3, got 3"),
        (facts(vector_cores=None), "vector_cores: expected vector_cores or ai_cores, got neither of them"),
        (facts(ended=3), "ended: expected at most 2, the launches, got 3"),
        (
            facts(slots=signal(purpose="x")),
            "slots.signal.purpose: expected 'tile', 'ready', 'credit' or 'arrived', got",
        ),
        (
            facts(slots=signal(nonzero=[{"slot": 4, "value": 1}])),
            "slots.signal.nonzero[0].slot: expected a slot below 4, got 4",
        ),
        (
            facts(slots=signal(nonzero=[{"slot": 1, "value": 1, "ring": 1, "tile": 0}])),
            "slots.signal.nonzero[0]: expected the position {'ring': 0, 'tile': 1}, got {'ring': 1, 'tile': 0}",
        ),
        (
            facts(slots=signal(nonzero=[{"slot": 0, "value": 0, "ring": 0, "tile": 0}])),
            "slots.signal.nonzero[0].value: expected a value that is not 0, got 0",
        ),
        (
            facts(slots=signal(values="counted")),
            "slots.signal.values: expected plain or numbered for slots of purpose tile, got counted",
        ),
        (
            facts(slots=signal(axes={"tile": 4}, nonzero=[])),
            "slots.signal.axes: expected the axis ring, got tile",
        ),
    ],
)
def test_malformed_files(tmp_path: Path, document: Any, message: str) -> None:
    (path,) = written(tmp_path, document)
    with pytest.raises(DumpError) as caught:
        load_dumps([path])
    assert f"{path}: {message}" in str(caught.value)


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(DumpError) as caught:
        load_dumps([path])
    assert str(caught.value) == f"{path}: expected a dump, got No such file or directory"


def test_every_fault_of_every_file(tmp_path: Path) -> None:
    paths = written(tmp_path, facts(rank="0", ranks=0), "x")
    with pytest.raises(DumpError) as caught:
        load_dumps(paths)
    assert [line.split(": expected")[0] for line in str(caught.value).splitlines()] == [
        f"{paths[0]}: rank",
        f"{paths[0]}: ranks",
        str(paths[1]),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "other"}, "kernel: expected exchange, as in {first}, got other (one launch at a time)"),
        ({"shape": {"M": 5, "N": 7}}, "shape: expected {{'M': 5, 'N': 6}}, as in {first}, got {{'M': 5, 'N': 7}}"),
        ({"ranks": 2}, "ranks: expected 3, as in {first}, got 2"),
        ({"rank": 0}, "rank: expected each rank once, got 0 again ({first} has it)"),
    ],
)
def test_dumps_of_different_launches(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    first, second = written(tmp_path, facts(), facts(**{"rank": 1, **change}))
    with pytest.raises(DumpError) as caught:
        load_dumps([first, second])
    assert f"{second}: {message.format(first=first)}" in str(caught.value)
