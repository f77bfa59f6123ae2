"""explain: default cores, advice, visiting orders and flowcharts, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusegen.plan.graph import markdown, mermaid
from tests.commands import fusegen_, refused
from tests.plan.plans import plan_from

SPECS = Path(__file__).parents[1] / "specs"


def document(*arguments: str) -> dict[str, Any]:
    result = fusegen_("explain", *arguments, "--specs", str(SPECS), "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return dict(json.loads(result.stdout))


def printed(*arguments: str) -> str:
    result = fusegen_("explain", *arguments, "--specs", str(SPECS))
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize(
    ("name", "cores", "unit", "available"),
    [
        ("reverse_all2all_mte_signal", 40, "vector", 40),
        ("reverse_all2all_udma_signal", 64, "vector", 64),
        ("allgather_gemm_mte_signal", 20, "AI", 20),
        ("allgather_gemm_udma_signal", 32, "AI", 32),
    ],
)
def test_default_cores_are_those_that_the_kernel_runs_on(name: str, cores: int, unit: str, available: int) -> None:
    assert document(name)["cores"] == cores
    more = fusegen_("explain", name, "--cores", str(cores + 1), "--specs", str(SPECS))
    assert more.stderr.endswith(f" has {available} {unit} cores, not {cores + 1}\n")


def test_advice_in_json_and_in_text() -> None:
    assert document("reverse_all2all_mte_barrier")["advice"] == {
        "recommended": "signal",
        "strength": "strongly recommended",
        "reason": "pure communication from producers to consumers, no cube computation: "
        "with barriers the slowest producer would hold back all consumers",
        "chosen": "barrier",
        "follows": False,
    }
    words = " ".join(printed("reverse_all2all_mte_barrier").split())
    assert "synchronisation advice (guide 1.3) signal, strongly recommended: pure communication" in words
    assert "; the spec does not follow: sync is barrier" in words
    assert "hold back all consumers; the spec follows" in " ".join(printed("reverse_all2all_mte_signal").split())
    single = " ".join(printed("reverse_all2all_mte_signal", "--ranks", "1").split())
    assert (
        "not needed: a single rank: no communication between cards, either kind will do; the spec has signal" in single
    )


def test_every_section_of_a_mix_kernel_is_printed() -> None:
    lines = [" ".join(line.split()) for line in printed("gemm_allreduce_mte_signal").splitlines()]
    for line in (
        "gemm_allreduce_mte_signal: 2 ranks, 20 cores, M=140, N=264, K=72",
        "bias input n 264 float16 528",
        "partial ring 2 x row 512 x n 264 float16 270,336 540,672 gemm reduce",
        "backward reduce gemm partial 2 rounds slots credit",
        "forward gemm reduce partial same round slots ready through announce",
        "gemm gemm_tiles the cube core of each AI core 20 4: tile_row 2 x block_n 2 4 one tile m 128 x n 256 x k 256",
        "in the one round (panels)",
        "launch mix kernel on 20 AI cores, at least 1; 1 round, 0 barriers, 1 of 16 events",
        "work gemm: 4 work items over tile_row, block_n, each with one tile; 4 tiles in a launch on each rank",
        "occupancy 4 of 20 cores work (20%), 16 idle",
        "reduce: 64 work items for 40 cores, 40 with work",
    ):
        assert line in lines


def test_swizzle() -> None:
    swizzle = document("allgather_gemm_mte_signal", "--swizzle", "--ranks", "4")["swizzle"]
    assert swizzle["comm"]["visits"][:5] == [
        {"work": 0, "core": 0, "round": 0, "tile": 0, "partner": 0},
        {"work": 1, "core": 1, "round": 0, "tile": 0, "partner": 1},
        {"work": 2, "core": 2, "round": 0, "tile": 0, "partner": 2},
        {"work": 3, "core": 3, "round": 0, "tile": 0, "partner": 3},
        {"work": 4, "core": 4, "round": 0, "tile": 1, "partner": 1},
    ]
    assert (swizzle["gemm"]["rows"], swizzle["gemm"]["columns"]) == (8, 2)
    assert swizzle["notes"] == []
    text = printed("allgather_gemm_mte_signal", "--swizzle", "--ranks", "4")
    assert "communication of rank 0: 8 tiles x 4 ranks" in text
    assert "GEMM: 8 tile rows of A x 2 tile columns of B" in text
    assert "swizzle" not in document("allgather_gemm_mte_signal")


def test_swizzle_of_kernels_without_such_loops() -> None:
    assert printed("reverse_all2all_udma_signal", "--swizzle").endswith(
        "\nno communication order: put sends whole blocks, to each other rank from one core\n"
        "no GEMM order: the kernel multiplies nothing\n"
    )


@pytest.mark.parametrize(("suffix", "maker"), [(".mmd", mermaid), (".md", markdown)])
def test_graph(tmp_path: Path, suffix: str, maker: Any) -> None:
    path = tmp_path / f"charts/plan{suffix}"
    name = "allgather_gemm_mte_signal"
    assert printed(name, "--graph", str(path)).endswith(f"\nwrote {path}\n")
    text = path.read_text(encoding="utf-8")
    assert text == maker(plan_from(name))
    path.write_text("old")
    assert document(name, "--graph", str(path))["graph"] == str(path)
    assert path.read_text(encoding="utf-8") == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("file", ["plan.svg", "plan"])
def test_graph_refuses_other_files(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    message = refused("explain", "reverse_all2all_mte_signal", "--specs", str(SPECS), "--graph", str(path))
    assert message == f"--graph: expected a file that ends in .mmd or .md, got {path}"
    assert not path.exists()
