"""AllGather + GEMM: C = allgather(A) @ B (+ bias) on every rank.

MTE     a round gathers a panel of PVALUE * BLOCK_M rows of every rank in a ring; push stores tiles of the own panel
        into every rank's ring, gemm multiplies what arrived
UDMA    put sends panels of the own rows to the other ranks, into a region that is written once; keep copies the own
        part there, which no transfer may carry; gemm multiplies
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Sym, cdiv, minimum
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
    TILES_M,
    VECTORS,
    K,
    M,
    N,
    bias,
    gemm_plan,
    grid,
    has_panels,
    out_dtype,
    panels,
    weights,
)
from fusegen.plan.patterns.parts import (
    BUFFER_NUM,
    IN_TURN,
    RANK,
    RANKS,
    RING,
    SHIFT,
    SOURCE,
    TARGET,
    gemm_choices,
    push_target,
)
from fusegen.plan.stages import (
    Access,
    Definition,
    Each,
    First,
    Kind,
    Local,
    Peer,
    Piece,
    Rest,
    Stage,
    Tasks,
    TileAxis,
)
from fusegen.spec import AllGatherGemm

COMM_ROW, COMM_COLUMN, TILE_ROW = Sym("comm_row"), Sym("comm_column"), Sym("tile_row")
COMM_BLOCKS_K, TILE_COMM_ROWS = Sym("comm_blocks_k"), Sym("tile_comm_rows")
SENDERS = Sym("senders")
OWN_FIRST = "The own rows first: they are there before those of any other rank."


def compose(name: str, spec: AllGatherGemm) -> KernelPlan:
    """The stages and regions of the pattern; edges and covers are the passes' work."""
    plan = gemm_plan(
        name,
        spec,
        gemm_choices(spec),
        summary="AllGather + GEMM: C = concatenation of all ranks' A @ B" + (" + bias" if spec.bias else "") + ".",
        counts="rows of A on one rank",
    )
    udma = spec.transport == "udma"
    c = Tensor(
        "c",
        (Axis("m", RANKS * M), Axis("n", N)),
        ("stride_cm",),
        TensorRole.OUTPUT,
        out_dtype(spec),
    )
    tensors = (_rows(spec, contiguous=udma), weights(spec, cube_adds_bias=spec.bias), *bias(spec), c)
    plan = replace(plan, tensors=tensors)
    return _udma(plan, spec) if udma else _mte(plan, spec)


def _rows(spec: AllGatherGemm, *, contiguous: bool) -> Tensor:
    """A [M, K] of one rank, which vector cores or transfers send."""
    axes = (Axis("m", M), Axis("k", K))
    return Tensor("a", axes, ("stride_am",), TensorRole.INPUT, spec.dtype, contiguous=contiguous)


def _gemm(spec: AllGatherGemm, tasks: Tasks, rows: TileAxis, gathered: Access) -> Stage:
    """C tiles from the gathered rows: the stage both transports end with."""
    b = Access("b", Local(), (Sym("k"), Sym("n")))
    added = (Access("bias", Local(), (Sym("n"),)),) if spec.bias else ()
    return Stage(
        "gemm",
        Kind.GEMM,
        CUBE,
        tasks,
        Definition("source", (RANK + SHIFT) % RANKS, OWN_FIRST),
        (rows, TILE_COLUMNS, TILE_DEPTH),
        reads=(gathered, b, *added),
        writes=(Access("c", Local(), (SOURCE * M + Sym("m"), Sym("n"))),),
    )


def _mte(plan: KernelPlan, spec: AllGatherGemm) -> KernelPlan:
    comm_rows = PVALUE * TILE_COMM_ROWS
    gathered = Buffer(
        "gathered",
        Layout(
            (Axis("ring", BUFFER_NUM), Axis("source_rank", RANKS), Axis("row", PANEL_ROWS), Axis("k", K)),
            stride_names=(("ring", "gathered_ring"), ("source_rank", "gathered_rank")),
        ),
        "ring",
        spec.dtype,
        (Axis("source_rank", RANKS), Axis("comm_row", comm_rows), Axis("comm_column", COMM_BLOCKS_K)),
        signal="ready",
    )
    ranks = Axis("shift", RANKS, "ranks")
    origin = PANEL * PANEL_ROWS
    push = Stage(
        "push",
        Kind.MOVE,
        VECTORS,
        Tasks(
            "push_work",
            "total_push",
            ROUNDS,
            (
                Axis("comm_row", PANEL_TILES * TILE_COMM_ROWS, "rows"),
                Axis("comm_column", COMM_BLOCKS_K, "columns"),
            ),
            ranks,
            sizes=IN_PANEL,
        ),
        push_target(gemm_choices(spec)),
        (
            TileAxis("m", origin, "COMM_ROWS", M, offset=COMM_ROW * COMM_ROWS, local="row_in_panel"),
            TileAxis("k", COMM_COLUMN * COMM_COLUMNS, "COMM_COLUMNS", K),
        ),
        reads=(Access("a", Local(), (Sym("m"), Sym("k"))),),
        writes=(
            Access(
                "gathered",
                Peer(TARGET),
                (RING, RANK, Sym("row_in_panel"), Sym("k")),
                Piece((RANK, COMM_ROW, COMM_COLUMN)),
            ),
        ),
    )
    rows = TileAxis("m", origin, "BLOCK_M", M, offset=TILE_ROW * BLOCK_M, local="row_in_panel")
    first = Piece((SOURCE, TILE_ROW * TILE_COMM_ROWS, Const(0)), TILE_COMM_ROWS * COMM_BLOCKS_K)
    gemm = _gemm(
        spec,
        Tasks(
            "gemm_work",
            "total_gemm",
            ROUNDS,
            (Axis("tile_row", PANEL_TILES), Axis("block_n", BLOCKS_N)),
            ranks,
            grid(spec),
            sizes=IN_PANEL,
        ),
        rows,
        Access("gathered", Local(), (RING, SOURCE, Sym("row_in_panel"), Sym("k")), first),
    )
    sizes = (
        *panels(M),
        Definition("tile_comm_rows", BLOCK_M // COMM_ROWS),
        Definition("comm_blocks_k", cdiv(K, COMM_COLUMNS)),
        Definition("blocks_k", cdiv(K, Sym("BLOCK_K"))),
    )
    return replace(plan, buffers=(gathered,), stages=(push, gemm), sizes=sizes)


def _udma(plan: KernelPlan, spec: AllGatherGemm) -> KernelPlan:
    gathered = Buffer(
        "gathered",
        Layout(
            (Axis("source_rank", RANKS), Axis("row", M), Axis("k", K)),
            stride_names=(("source_rank", "gathered_rank"),),
        ),
        None,
        spec.dtype,
        (Axis("source_rank", RANKS), Axis("tile_row", TILES_M)),
        signal="arrived",
    )
    signals = spec.sync == "signal"
    first = Sym("m") if signals else Const(0)
    put = Stage(
        "put",
        Kind.PUT,
        replace(VECTORS, part=First(SENDERS)),
        Tasks("put_work", "total_put", None, (), Axis("shift", RANKS - 1, "other ranks")),
        Definition("target", (RANK + 1 + SHIFT) % RANKS, IN_TURN),
        (TileAxis("m", PANEL * PANEL_ROWS, "panel_rows", M) if signals else TileAxis("m", Const(0), "M", M),),
        reads=(Access("a", Local(), (first, Const(0))),),
        writes=(
            Access(
                "gathered",
                Peer(TARGET),
                (RANK, first, Const(0)),
                Piece((RANK, TILE_ROW), each=Each("tile_row", PANEL * PVALUE, minimum((PANEL + 1) * PVALUE, TILES_M))),
            ),
        ),
        # A barrier tells of everything at once: one block for each target.
        inner=(ROUNDS,) if signals else (),
    )
    comm_axes = (Axis("comm_row", TILE_COMM_ROWS, "rows"), Axis("comm_column", COMM_BLOCKS_K, "columns"))
    # With a signal for each GEMM tile row, one core copies all of it: it has one announcement.
    keep = Stage(
        "keep",
        Kind.MOVE,
        replace(VECTORS, part=Rest(SENDERS)),
        Tasks(
            "keep_work",
            "total_keep",
            None,
            (Axis("tile_row", TILES_M, "GEMM tile rows"), *(() if signals else comm_axes)),
            None,
        ),
        None,
        (
            TileAxis("m", TILE_ROW * BLOCK_M, "COMM_ROWS", M, offset=COMM_ROW * COMM_ROWS),
            TileAxis("k", COMM_COLUMN * COMM_COLUMNS, "COMM_COLUMNS", K),
        ),
        reads=(Access("a", Local(), (Sym("m"), Sym("k"))),),
        writes=(Access("gathered", Local(), (RANK, Sym("m"), Sym("k")), Piece((RANK, TILE_ROW))),),
        inner=comm_axes if signals else (),
    )
    gemm = _gemm(
        spec,
        Tasks(
            "gemm_work",
            "total_gemm",
            None,
            (Axis("tile_row", TILES_M), Axis("block_n", BLOCKS_N)),
            Axis("shift", RANKS, "ranks"),
            grid(spec),
        ),
        TileAxis("m", TILE_ROW * BLOCK_M, "BLOCK_M", M),
        Access("gathered", Local(), (SOURCE, Sym("m"), Sym("k")), Piece((SOURCE, TILE_ROW))),
    )
    sizes = (
        *(
            panels(M)
            if has_panels(spec)
            else (Definition("tiles_m", cdiv(M, BLOCK_M)), Definition("blocks_n", cdiv(N, BLOCK_N)))
        ),
        Definition("tile_comm_rows", BLOCK_M // COMM_ROWS),
        Definition("comm_blocks_k", cdiv(K, COMM_COLUMNS)),
        Definition("blocks_k", cdiv(K, Sym("BLOCK_K"))),
        Definition("senders", minimum(RANKS - 1, Sym("vector_cores") - 1)),
    )
    return replace(plan, buffers=(gathered,), stages=(put, keep, gemm), sizes=sizes)
