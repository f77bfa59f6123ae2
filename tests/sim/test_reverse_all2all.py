"""The generated kernels are right on every machine: ranks, cores, shapes, ring depths, launches, schedules."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.sim import run_module
from tests.sim.checks import assert_exact

SHAPES = [
    {"S": 1, "H": 1, "D": 1},
    {"S": 63, "H": 2, "D": 64},
    {"S": 64, "H": 1, "D": 128},
    {"S": 65, "H": 3, "D": 129},
    {"S": 300, "H": 2, "D": 72},
]
NAMES = ["signal_module", "barrier_module"]


@pytest.fixture(params=NAMES)
def module(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape.values())))
@pytest.mark.parametrize(("ranks", "cores"), [(1, 2), (2, 4), (3, 7), (5, 5), (8, 3)])
def test_values_are_exact(module: Path, ranks: int, cores: int, shape: dict[str, int]) -> None:
    result = run_module(module, ranks=ranks, cores=cores, shape=shape)
    assert_exact(result)
    blocks_s, blocks_d = -(-shape["S"] // 64), -(-shape["D"] // 128)
    assert result.tiles == 2 * ranks * ranks * blocks_s * blocks_d * shape["H"]
    assert result.rank_errors == (0.0,) * ranks


@pytest.mark.parametrize("launches", [2, 3])
def test_launches_on_one_workspace(module: Path, launches: int) -> None:
    assert_exact(run_module(module, ranks=3, cores=5, shape={"S": 130, "H": 3, "D": 72}, launches=launches))


@pytest.mark.parametrize("buffers", [2, 3, 4])
def test_ring_depths(module: Path, mutant, buffers: int) -> None:
    path = mutant(module, ("BUFFER_NUM = 2\n", f"BUFFER_NUM = {buffers}\n"))
    assert_exact(run_module(path, ranks=2, cores=6, shape={"S": 500, "H": 2, "D": 64}, launches=3))


def test_single_buffer_with_signals(signal_module: Path, mutant) -> None:
    path = mutant(signal_module, ("BUFFER_NUM = 2\n", "BUFFER_NUM = 1\n"))
    assert_exact(run_module(path, ranks=2, cores=6, shape={"S": 500, "H": 2, "D": 64}, launches=3))


def test_single_buffer_with_one_barrier_a_round_is_wrong(barrier_module: Path, mutant) -> None:
    path = mutant(barrier_module, ("BUFFER_NUM = 2\n", "BUFFER_NUM = 1\n"))
    shape = {"S": 500, "H": 2, "D": 64}
    results = [run_module(path, ranks=2, cores=6, shape=shape, schedule="random", seed=seed) for seed in range(8)]
    assert any(result.max_abs_err for result in results)


def test_more_cores_than_work(module: Path) -> None:
    assert_exact(run_module(module, ranks=2, cores=64, shape={"S": 10, "H": 1, "D": 16}))


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules(module: Path, seed: int) -> None:
    shape = {"S": 260, "H": 2, "D": 40}
    assert_exact(run_module(module, ranks=3, cores=9, shape=shape, launches=2, schedule="random", seed=seed))


@pytest.mark.parametrize("axis", ["S", "H", "D"])
def test_empty_shapes_move_nothing(module: Path, axis: str) -> None:
    result = run_module(module, ranks=2, cores=4, shape={"S": 8, "H": 2, "D": 16, axis: 0})
    assert_exact(result)
    assert result.tiles == 0


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_dtypes(module: Path, mutant, dtype: str) -> None:
    path = mutant(module, ("DTYPE = torch.bfloat16", f"DTYPE = torch.{dtype}"))
    assert_exact(run_module(path, ranks=2, cores=4, shape={"S": 100, "H": 2, "D": 40}))


def test_a_run_is_reproducible(signal_module: Path) -> None:
    shape = {"S": 200, "H": 2, "D": 40}
    first, second = (
        run_module(signal_module, ranks=2, cores=6, shape=shape, schedule="random", seed=5) for _ in range(2)
    )
    assert (first.steps, first.tiles) == (second.steps, second.tiles)


def test_progress_counts_tiles(signal_module: Path) -> None:
    counts: list[int] = []
    shape = {"S": 2048, "H": 4, "D": 128}
    result = run_module(signal_module, ranks=2, cores=8, shape=shape, progress=counts.append)
    assert result.tiles == 1024
    assert counts == [256, 512, 768, 1024]


def test_the_acceptance_shape_is_fast(signal_module: Path) -> None:
    """3,072 tile tasks take 0.3 s on an idle machine; the bound leaves room for a busy one."""
    result = run_module(signal_module, ranks=2, cores=40, shape={"S": 2045, "H": 12, "D": 128})
    assert_exact(result)
    assert result.tiles == 3072
    assert result.wall_s < 4.0
