"""The kernels of this repository: at all their verification points, and with the commands that the README shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.sim import run_module
from fusegen.spec import load_specs
from tests.commands import fusegen_
from tests.kernels.cases import moves_only

ROOT = Path(__file__).parents[2]


def checked_in() -> list[tuple[str, str, int, int, dict[str, int], int]]:
    """Every verification point of every spec of this repository, for each of its rank counts."""
    return [
        (spec.name, spec.spec.pattern, ranks, point.cores, point.shape.model_dump(), point.launches)
        for spec in load_specs(sorted((ROOT / "specs").glob("*.yaml")))
        for point in spec.spec.verify
        for ranks in point.ranks
    ]


@pytest.mark.parametrize(("name", "pattern", "ranks", "cores", "shape", "launches"), checked_in())
def test_checked_in_kernels_at_their_verification_points(
    name: str, pattern: str, ranks: int, cores: int, shape: dict[str, int], launches: int
) -> None:
    module = ROOT / "generated" / f"{name}.py"
    result = run_module(module, ranks=ranks, cores=cores, shape=shape, launches=launches, schedule="random")
    assert [str(finding) for finding in result.findings] == []
    if moves_only(pattern):
        assert result.max_abs_err == 0.0


@pytest.mark.parametrize(
    ("name", "ranks", "cores", "shape", "launches"),
    [
        ("gemm_reduce_scatter_mte_barrier", 3, 20, "M=771,N=515,K=130", 1),
        ("allgather_gemm_mte_signal", 4, 5, "M=300,N=257,K=96", 3),
        ("gemm_allreduce_mte_signal", 7, 20, "M=257,N=129,K=64", 1),
        ("reverse_all2all_udma_signal", 8, 64, "S=255,H=5,D=128", 1),
    ],
)
def test_commands(name: str, ranks: int, cores: int, shape: str, launches: int) -> None:
    folders = "--specs", str(ROOT / "specs"), "--generated", str(ROOT / "generated")
    options = "--ranks", str(ranks), "--cores", str(cores), "--shape", shape, "--launches", str(launches)
    result = fusegen_("run", name, *options, "--json", *folders)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["ok"]
    assert document["findings"] == []
