"""What the GEMM patterns share: GEMM tiles on the cube cores, in panels of rows that the rounds walk over."""

from __future__ import annotations

from fusegen.plan.expr import Expr, Sym, cdiv, minimum
from fusegen.plan.facts import Dimension
from fusegen.plan.ir import DTYPE_BYTES, Choices, KernelPlan, LaunchKind, Tensor, TensorRole
from fusegen.plan.layout import Axis
from fusegen.plan.patterns.parts import base_plan, rounded, summed
from fusegen.plan.stages import AllCores, Definition, Engine, Grid, TileAxis, VectorCores, Workers
from fusegen.plan.swizzle import RowMajor, Zigzag
from fusegen.spec import AllGatherGemm, Gemm, GemmAllReduce, GemmReduceScatter
from fusegen.targets import target

M, N, K = Sym("M"), Sym("N"), Sym("K")
BLOCK_M, BLOCK_N, BLOCK_K = Sym("BLOCK_M"), Sym("BLOCK_N"), Sym("BLOCK_K")
COMM_ROWS, COMM_COLUMNS, PVALUE = Sym("COMM_ROWS"), Sym("COMM_COLUMNS"), Sym("PVALUE")
TILES_M, PANEL_TILES = Sym("tiles_m"), Sym("panel_tiles")
PANEL, PANEL_ROWS, PANELS = Sym("panel"), Sym("panel_rows"), Sym("panels")
BLOCKS_N = Sym("blocks_n")

CUBE = Workers(Engine.CUBE, AllCores())
VECTORS = Workers(Engine.VECTOR, VectorCores())
ROUNDS = Axis("panel", PANELS, "panels")
TILE_COLUMNS = TileAxis("n", Sym("block_n") * BLOCK_N, "BLOCK_N", N)
TILE_DEPTH = TileAxis("k", Sym("block_k") * BLOCK_K, "BLOCK_K", K)


def grid(spec: Gemm) -> Grid:
    """The visiting order of the GEMM tiles."""
    swizzle = spec.swizzle.gemm
    return Grid(Zigzag(swizzle.offset) if swizzle.order == "nz" else RowMajor())


IN_PANEL = (Definition("panel_tiles", minimum(TILES_M - PANEL * PVALUE, PVALUE), at_most=PVALUE),)
"""GEMM tile rows of a panel: the last panel has those that are left."""


def has_panels(spec: Gemm) -> bool:
    """Whether communication goes in rounds or blocks: by UDMA with barriers each target gets all rows at once."""
    return spec.transport == "mte" or spec.sync == "signal"


def panels(rows: Expr) -> tuple[Definition, ...]:
    """Panels of at most PVALUE GEMM tile rows, and blocks of columns."""
    return (
        Definition("panel_rows", PVALUE * BLOCK_M),
        Definition("panels", cdiv(rows, PANEL_ROWS)),
        Definition("tiles_m", cdiv(rows, BLOCK_M)),
        Definition("blocks_n", cdiv(N, BLOCK_N)),
    )


def weights(spec: Gemm, *, cube_adds_bias: bool = False) -> Tensor:
    """B [K, N] on one rank.

    Where the cube core of the 910B family adds a bias, its compiler forgets to turn B: rows must be dense.
    """
    axes = (Axis("k", K), Axis("n", N))
    if cube_adds_bias and target(spec.target).family == "910B":
        return Tensor("b", axes, ("stride_bk",), TensorRole.INPUT, spec.dtype)
    return Tensor("b", axes, ("stride_bk", "stride_bn"), TensorRole.INPUT, spec.dtype, turned="B_TURNED")


def bias(spec: Gemm, role: TensorRole = TensorRole.INPUT) -> tuple[Tensor, ...]:
    """The bias [N], where the spec has one: the cube core adds float32."""
    return (Tensor("bias", (Axis("n", N),), (), role, spec.dtype, converted="float32"),) if spec.bias else ()


def gemm_plan(
    name: str, spec: AllGatherGemm | GemmReduceScatter | GemmAllReduce, choices: Choices, *, summary: str, counts: str
) -> KernelPlan:
    """What a GEMM plan takes over from its spec. `counts` says whose rows M are."""
    swizzle = spec.swizzle.gemm
    offset = (("SWIZZLE_OFFSET", swizzle.offset),) if swizzle.order == "nz" else ()
    mte = spec.transport == "mte"
    transport = ("BUFFER_NUM", spec.buffer_num) if mte else ("ELEMENT_BYTES", DTYPE_BYTES[spec.dtype])
    dtype = out_dtype(spec)
    return base_plan(
        name,
        spec,
        choices,
        kind=LaunchKind.MIX,
        summary=summary,
        tolerance=summed(dtype, reduce=choices.reduce) if choices.reduce else rounded(dtype),
        constants=(
            ("BLOCK_M", spec.tile.m),
            ("BLOCK_N", spec.tile.n),
            ("BLOCK_K", spec.tile.k),
            ("COMM_ROWS", spec.comm_tile.rows),
            ("COMM_COLUMNS", spec.comm_tile.columns),
            *((("PVALUE", spec.pvalue),) if has_panels(spec) else ()),
            transport,
            *offset,
        ),
        dimensions=(
            Dimension("M", counts),
            Dimension("N", "columns of B"),
            Dimension("K", "columns of A on one rank"),
        ),
    )


def out_dtype(spec: Gemm) -> str:
    """Element type of C, and of partial results on their way."""
    return spec.out_dtype or spec.dtype
