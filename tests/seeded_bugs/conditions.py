"""What mutants and their unmutated modules run under: small, with tails, and more rounds than the ring has buffers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.seeded_bugs.module import Module

GENERATED = Path(__file__).parents[2] / "generated"
SPECS = tuple(path.stem for path in sorted(GENERATED.glob("*.py")))
SMALL_TILES = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "COMM_ROWS": 16, "COMM_COLUMNS": 32, "PVALUE": 1}


@dataclass(frozen=True)
class Condition:
    """Ranks, cores of a rank, shape and launches of a run, and constants of the module that have other values."""

    ranks: int
    cores: int
    shape: Mapping[str, int]
    launches: int = 3
    constants: Mapping[str, int] = field(default_factory=dict)

    def source(self, spec: str) -> str:
        """The text of the module of a spec, with the constants of the condition."""
        return _with_constants(spec, tuple(self.constants.items()))


@cache
def _with_constants(spec: str, constants: tuple[tuple[str, int], ...]) -> str:
    module = Module((GENERATED / f"{spec}.py").read_text())
    values = {
        name: node.value for node in module.tree.body if isinstance(node, ast.Assign) for name in module.assigned(node)
    }
    return module.edited(*((values[name], str(value)) for name, value in constants if name in values))


def _tiles(rows: str, count: int, **others: int) -> Condition:
    return Condition(2, 5, {rows: count, **others})


CONDITIONS = {
    "all2all_mte_signal": _tiles("S", 130, H=2, D=72),
    "all2all_udma_signal": Condition(3, 7, {"S": 130, "H": 2, "D": 72}),
    "allgather_gemm_mte_barrier": Condition(2, 2, {"M": 84, "N": 40, "K": 24}, constants=SMALL_TILES),
    "allgather_gemm_mte_signal": Condition(2, 2, {"M": 84, "N": 40, "K": 24}, constants=SMALL_TILES),
    "allgather_gemm_udma_barrier": Condition(3, 2, {"M": 84, "N": 40, "K": 24}, constants=SMALL_TILES),
    "allgather_gemm_udma_signal": Condition(3, 2, {"M": 84, "N": 40, "K": 24}, constants=SMALL_TILES),
    "allgather_mte_signal": _tiles("M", 130, N=136),
    "allgather_udma_signal": Condition(3, 7, {"M": 130, "N": 136}),
    "allreduce_mte_signal": _tiles("M", 130, N=136),
    "gemm_allreduce_mte_barrier": Condition(2, 2, {"M": 84, "N": 40, "K": 24}, constants=SMALL_TILES),
    "gemm_allreduce_mte_signal": Condition(2, 2, {"M": 84, "N": 40, "K": 24}, constants=SMALL_TILES),
    "gemm_reduce_scatter_mte_barrier": Condition(2, 2, {"M": 168, "N": 40, "K": 24}, constants=SMALL_TILES),
    "gemm_reduce_scatter_mte_signal": Condition(2, 2, {"M": 168, "N": 40, "K": 24}, constants=SMALL_TILES),
    "reduce_scatter_mte_signal": _tiles("M", 520, N=136),
    "reverse_all2all_mte_barrier": Condition(2, 3, {"S": 130, "H": 2, "D": 72}),
    "reverse_all2all_mte_signal": _tiles("S", 130, H=2, D=72),
    "reverse_all2all_udma_signal": Condition(3, 7, {"S": 130, "H": 2, "D": 72}),
}
"""The condition of each spec where a row of the catalogue has none of its own."""
