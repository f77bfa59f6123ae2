"""GEMM whose partial results are added over the ranks: C = sum over ranks of A @ B (+ bias), or a rank's rows of it.

A round covers a panel of PVALUE * BLOCK_M rows of every rank's share. gemm stores partial tiles into this rank's ring,
reduce loads the tiles of all ranks and adds them: in a fixed order, or atomically to C.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Sym, cdiv
from fusegen.plan.ir import Buffer, KernelPlan, Tensor, TensorRole
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.patterns.gemm import (
    BLOCK_M,
    BLOCK_N,
    BLOCKS_N,
    COMM_COLUMNS,
    COMM_ROWS,
    CUBE,
    IN_PANEL,
    PANEL,
    PANEL_ROWS,
    PANEL_TILES,
    PVALUE,
    ROUNDS,
    TILE_COLUMNS,
    TILE_DEPTH,
    VECTORS,
    M,
    N,
    bias,
    gemm_plan,
    grid,
    out_dtype,
    panels,
    weights,
)
from fusegen.plan.patterns.parts import BUFFER_NUM, RANK, RANKS, RING, SHIFT, SOURCE, chunks, gemm_choices
from fusegen.plan.patterns.sum import SCATTERED, Share, output, sources
from fusegen.plan.stages import Access, Definition, Kind, Local, Peer, Piece, Stage, Tasks, TileAxis
from fusegen.spec import GemmAllReduce, GemmReduceScatter

OWNER = Sym("owner")
TILE_COMM_ROWS, TILE_COMM_COLUMNS = Sym("tile_comm_rows"), Sym("tile_comm_columns")
TILE_ROW, COMM_ROW, COMM_COLUMN = Sym("tile_row"), Sym("comm_row"), Sym("comm_column")
OTHERS_FIRST = "The rows of the next rank first and the own ones last: ranks wait for different ones."


def compose_gemm_sum(name: str, spec: GemmReduceScatter | GemmAllReduce, share: Share, *, summary: str) -> KernelPlan:
    """The stages and regions of the pattern; edges and covers are the passes' work."""
    atomic = spec.reduce == "atomic"
    plan = gemm_plan(
        name,
        spec,
        gemm_choices(spec, spec.reduce),
        summary=summary,
        counts="rows of A",
    )
    scattered = share is SCATTERED
    owners = (Axis("owner_rank", RANKS),) if scattered else ()
    partial = Buffer(
        "partial",
        Layout(
            (Axis("ring", BUFFER_NUM), *owners, Axis("row", PANEL_ROWS), Axis("n", N)),
            stride_names=(("ring", "partial_ring"), *((("owner_rank", "partial_rank"),) if scattered else ())),
        ),
        "ring",
        out_dtype(spec),
        (Axis("source_rank", RANKS), Axis("tile_row", PVALUE), Axis("block_n", BLOCKS_N)),
        signal="ready",
    )
    added = bias(spec, TensorRole.INITIAL if atomic else TensorRole.INPUT)
    return replace(
        plan,
        tensors=(_factor(spec), weights(spec), *added, output(share, out_dtype(spec))),
        buffers=(partial,),
        stages=(_gemm(spec, share), _reduce(spec, share)),
        sizes=(
            *(chunks(M) if scattered else ()),
            *panels(share.most),
            Definition("blocks_k", cdiv(Sym("K"), Sym("BLOCK_K"))),
            Definition("tile_comm_rows", BLOCK_M // COMM_ROWS),
            Definition("tile_comm_columns", BLOCK_N // COMM_COLUMNS),
            Definition("comm_blocks_n", cdiv(N, COMM_COLUMNS), at_most=BLOCKS_N * TILE_COMM_COLUMNS),
        ),
        initial=("bias" if spec.bias else "zero") if atomic else None,
    )


def _factor(spec: GemmReduceScatter | GemmAllReduce) -> Tensor:
    """A [M, K] on one rank."""
    axes, strides = (Axis("m", M), Axis("k", Sym("K"))), ("stride_am", "stride_ak")
    return Tensor("a", axes, strides, TensorRole.INPUT, spec.dtype, turned="A_TURNED")


def _gemm(spec: GemmReduceScatter | GemmAllReduce, share: Share) -> Stage:
    """Partial tiles: of this rank's part of K, for every owner of rows."""
    scattered = share is SCATTERED
    owners = (OWNER,) if scattered else ()
    tasks = Tasks(
        "gemm_work",
        "total_gemm",
        ROUNDS,
        (Axis("tile_row", PANEL_TILES), Axis("block_n", BLOCKS_N)),
        Axis("shift", RANKS, "ranks") if scattered else None,
        grid(spec),
        sizes=IN_PANEL,
    )
    rows = TileAxis(
        "m",
        share.first(OWNER) + PANEL * PANEL_ROWS,
        "BLOCK_M",
        share.stop(),
        offset=TILE_ROW * BLOCK_M,
        local="row_in_panel",
    )
    return Stage(
        "gemm",
        Kind.GEMM,
        CUBE,
        tasks,
        Definition("owner", (RANK + 1 + SHIFT) % RANKS, OTHERS_FIRST) if scattered else None,
        (rows, TILE_COLUMNS, TILE_DEPTH),
        reads=(Access("a", Local(), (Sym("m"), Sym("k"))), Access("b", Local(), (Sym("k"), Sym("n")))),
        writes=(
            Access(
                "partial",
                Local(),
                (RING, *owners, Sym("row_in_panel"), Sym("n")),
                Piece((RANK, TILE_ROW, Sym("block_n"))),
            ),
        ),
        definitions=share.definitions(OWNER),
    )


def _reduce(spec: GemmReduceScatter | GemmAllReduce, share: Share) -> Stage:
    """Tiles of communication size: several vector cores share the sum of one GEMM tile."""
    atomic = spec.reduce == "atomic"
    owners = (RANK,) if share is SCATTERED else ()
    tasks = Tasks(
        "reduce_work",
        "total_reduce",
        ROUNDS,
        (
            Axis("comm_row", PANEL_TILES * TILE_COMM_ROWS, "rows"),
            Axis("comm_column", Sym("comm_blocks_n"), "columns"),
        ),
        Axis("shift", RANKS, "ranks") if atomic else None,
        sizes=IN_PANEL,
    )
    partner = Definition("source", (RANK + SHIFT) % RANKS) if atomic else sources(share)
    rows = TileAxis("m", PANEL * PANEL_ROWS, "COMM_ROWS", share.rows, offset=COMM_ROW * COMM_ROWS, local="row_in_panel")
    columns = TileAxis("n", COMM_COLUMN * COMM_COLUMNS, "COMM_COLUMNS", N)
    # The GEMM tile that the communication tile lies in.
    piece = Piece((SOURCE, COMM_ROW // TILE_COMM_ROWS, COMM_COLUMN // TILE_COMM_COLUMNS))
    partial = Access("partial", Peer(SOURCE), (RING, *owners, Sym("row_in_panel"), Sym("n")), piece)
    added = (Access("bias", Local(), (Sym("n"),)),) if spec.bias and not atomic else ()
    return Stage(
        "reduce",
        Kind.ACCUMULATE if atomic else Kind.REDUCE,
        VECTORS,
        tasks,
        partner,
        (rows, columns),
        reads=(partial, *added),
        writes=(Access("c", Local(), (Sym("m"), Sym("n"))),),
    )
