"""Reverse All2All: C_r[s, q * H + h, d] = A_q[r * S + s, h, d] on rank r, for every rank q."""

from __future__ import annotations

from fusegen.plan.expr import Sym
from fusegen.plan.facts import Dimension
from fusegen.plan.ir import KernelPlan, Tensor, TensorRole
from fusegen.plan.layout import Axis
from fusegen.plan.patterns.exchange import Exchange, compose_exchange
from fusegen.plan.patterns.parts import RANKS
from fusegen.spec import ReverseAll2All

S, H, D = Sym("S"), Sym("H"), Sym("D")
s, h, d = Sym("s"), Sym("h"), Sym("d")


def compose(name: str, spec: ReverseAll2All) -> KernelPlan:
    """A round exchanges TILE_S rows of every rank and head."""
    udma = spec.transport == "udma"
    return compose_exchange(
        name,
        spec,
        Exchange(
            row="s",
            column="d",
            rows=S,
            columns=D,
            tile=("TILE_S", "TILE_D"),
            heads=Axis("h", H, "heads"),
            read=lambda rank: (rank * S + s, h, d),
            written=lambda rank: (s, rank * H + h, d),
            packed=False,
        ),
        summary="Reverse All2All: C_r[s, q * H + h, d] = A_q[r * S + s, h, d] on rank r, for every rank q.",
        dimensions=(
            Dimension("S", "rows that each rank receives from each rank"),
            Dimension("H", "heads of one rank"),
            Dimension("D", "elements of one head"),
        ),
        tensors=(
            Tensor(
                "a",
                (Axis("s", RANKS * S), Axis("h", H), Axis("d", D)),
                ("stride_as", "stride_ah", "stride_ad"),
                TensorRole.INPUT,
                spec.dtype,
                contiguous=udma,
            ),
            Tensor(
                "c",
                (Axis("s", S), Axis("h", RANKS * H), Axis("d", D)),
                ("stride_cs", "stride_ch", "stride_cd"),
                TensorRole.OUTPUT,
                spec.dtype,
            ),
        ),
        tile=(spec.tile.s, spec.tile.d),
    )
