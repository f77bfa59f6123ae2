"""AllGather: C[q * M + m, n] = A_q[m, n] on every rank, for every rank q."""

from __future__ import annotations

from fusegen.plan.expr import Sym
from fusegen.plan.facts import Dimension
from fusegen.plan.ir import KernelPlan, Tensor, TensorRole
from fusegen.plan.layout import Axis
from fusegen.plan.patterns.exchange import Exchange, compose_exchange
from fusegen.plan.patterns.parts import RANKS
from fusegen.spec import AllGather

M, N = Sym("M"), Sym("N")
m, n = Sym("m"), Sym("n")


def compose(name: str, spec: AllGather) -> KernelPlan:
    """A round gathers TILE_M rows of every rank; every rank gets the same tiles."""
    return compose_exchange(
        name,
        spec,
        Exchange(
            row="m",
            column="n",
            rows=M,
            columns=N,
            tile=("TILE_M", "TILE_N"),
            heads=None,
            read=lambda rank: (m, n),
            written=lambda rank: (rank * M + m, n),
            packed=False,
        ),
        summary="AllGather: C[q * M + m, n] = A_q[m, n] on every rank, for every rank q.",
        dimensions=(Dimension("M", "rows of A on one rank"), Dimension("N", "columns")),
        tensors=(
            Tensor(
                "a",
                (Axis("m", M), Axis("n", N)),
                ("stride_am", "stride_an"),
                TensorRole.INPUT,
                spec.dtype,
                contiguous=spec.transport == "udma",
            ),
            Tensor(
                "c",
                (Axis("m", RANKS * M), Axis("n", N)),
                ("stride_cm", "stride_cn"),
                TensorRole.OUTPUT,
                spec.dtype,
            ),
        ),
        tile=(spec.tile.m, spec.tile.n),
    )
