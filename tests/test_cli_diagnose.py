"""fusegen diagnose, and the dumps that fusegen run --dump-dir writes for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import fusegen_, refused
from tests.dumps.hanging import GENERATED, HEADS, run_edited
from tests.kernels.cases import edited

NAME = "reverse_all2all_mte_signal"
CREDIT = ("dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)", "pass")
SHAPE = "S=300,H=3,D=72"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of the two ranks of a kernel that returns no credit."""
    folder = tmp_path_factory.mktemp("dumps")
    run_edited(folder, NAME, (CREDIT,), HEADS)
    return [str(folder / f"{NAME}.rank{rank}.json") for rank in range(2)]


def test_text(dumps: list[str]) -> None:
    result = fusegen_("diagnose", *dumps)
    assert (result.exit_code, result.stderr) == (1, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == f"{NAME}: S=300, H=3, D=72, 2 ranks, 5 rounds in a ring of 2 buffers, sync: signal"
    assert lines[1].split() == ["rank", "launches", "ended", "grid", "cores", "programs", "slots", "stuck"]
    assert lines[2].split() == ["0", "1", "0", "4", "4", "-", "12", "12"]
    assert lines[5:7] == [
        "likely cause 1: credit return missing (guide 1.3, 2.1)",
        "  5 rounds share 2 ring positions",
    ]
    assert "  what to do: after reading a tile: fence, then notify the slot" in result.stdout
    row = next(line for line in lines if line.startswith("   0  signal     5"))
    assert row.split("  ", 3)[3].split(None, 1)[1] != ""
    assert "ring 0, source_rank 1, tile 2      1  tile of use 0 is there, its credit is not back  stuck" in row
    assert lines[-1] == "and 12 more slots that are not 0: --json has all of them"


def test_json(dumps: list[str]) -> None:
    result = fusegen_("diagnose", *dumps, "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    document = json.loads(result.stdout)
    assert (document["kernel"], document["at_rest"], document["missing_ranks"]) == (NAME, False, [])
    assert document["launches"] == {"0": {"enqueued": 1, "ended": 0}, "1": {"enqueued": 1, "ended": 0}}
    first = document["causes"][0]
    assert (first["name"], first["guide"]) == ("credit return missing", "1.3, 2.1")
    assert len(document["slots"]) == 24
    assert document["slots"][5] == {
        "rank": 0,
        "group": "signal",
        "slot": 5,
        "position": {"ring": 0, "source_rank": 1, "tile": 2},
        "value": 1,
        "stuck": True,
        "state": "ready",
        "use": 0,
        "round": 0,
        "launch": None,
        "meaning": "tile of use 0 is there, its credit is not back",
    }


def test_ranks_without_a_dump_are_named(dumps: list[str]) -> None:
    result = fusegen_("diagnose", dumps[1])
    assert result.exit_code == 1
    assert "no dump of rank 0: with all of them, more shows" in result.stdout


def test_what_is_refused(dumps: list[str], tmp_path: Path) -> None:
    assert refused("diagnose", dumps[0], dumps[0]).endswith(
        f"rank: expected each rank once, got 0 again ({dumps[0]} has it)"
    )
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    assert f"{broken}: kernel: expected a value, got nothing" in refused("diagnose", str(broken))
    assert "Missing argument" in fusegen_("diagnose").stderr


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (NAME, "Every slot is at rest, as a finished launch leaves it."),
        (
            "reverse_all2all_mte_barrier",
            "This kernel has no slots: its cores meet in barriers, whose state no dump shows.",
        ),
    ],
)
def test_dumps_of_a_finished_run(tmp_path: Path, kernel: str, told: str) -> None:
    end = "        synchronize(workspace, dump_dir=dump_dir)\n"
    dump = '        dump(workspace, dump_dir / f"{rank}.json")\n'
    result = run_edited(tmp_path, kernel, ((end, end + "        dist.barrier()\n" + dump),), HEADS)
    assert result.ok
    result_of = fusegen_("diagnose", str(tmp_path / "0.json"), str(tmp_path / "1.json"))
    assert (result_of.exit_code, result_of.stderr) == (0, "")
    assert told in result_of.stdout
    assert "likely cause" not in result_of.stdout


def test_run_writes_dumps_and_names_them(project: Path) -> None:
    module = Path(f"{NAME}.py")
    module.write_text(
        edited((GENERATED / module.name).read_text(), CREDIT, ("WATCHDOG_SECONDS = 60.0", "WATCHDOG_SECONDS = 0.5"))
    )
    conditions = ("--ranks", "2", "--cores", "4", "--shape", SHAPE, "--no-races")
    result = fusegen_("run", str(module), *conditions, "--dump-dir", "dumps")
    assert result.exit_code == 1
    files = [f"dumps/{NAME}.rank{rank}.json" for rank in range(2)]
    assert f"{NAME}: dumps of the signal slots: {' '.join(files)}" in result.stdout
    assert fusegen_("diagnose", *files).exit_code == 1
    document = json.loads(fusegen_("run", str(module), *conditions, "--dump-dir", "dumps", "--json").stdout)
    assert document["dumps"] == files
    assert [finding["kind"] for finding in document["findings"]] == ["Deadlock", "MissingReset"]
    without = json.loads(fusegen_("run", str(module), *conditions, "--json").stdout)
    assert without["dumps"] == []
