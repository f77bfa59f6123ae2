"""Patterns that add tiles of all ranks: stages over MTE, for a part of the rows on each rank or for all of them.

push    stores the tile for each target rank into the target's ring buffer
reduce  ordered: adds the tiles of all ranks in a fixed order; atomic: adds each tile to C as it arrives
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.plan.expr import Expr, Sym, cdiv, minimum
from fusegen.plan.facts import Dimension
from fusegen.plan.ir import Buffer, KernelPlan, LaunchKind, Tensor, TensorRole
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.patterns.parts import (
    BUFFER_NUM,
    COPY_ORDER,
    RANK,
    RANK_ROWS,
    RANKS,
    RING,
    ROWS,
    SHIFT,
    SOURCE,
    TARGET,
    base_plan,
    chunks,
    movement_choices,
    push_target,
    summed,
)
from fusegen.plan.stages import (
    Access,
    AllCores,
    Definition,
    Engine,
    Kind,
    Local,
    Peer,
    Piece,
    Stage,
    Tasks,
    TileAxis,
    Workers,
)
from fusegen.spec import AllReduce, ReduceScatter

M, N = Sym("M"), Sym("N")
BLOCKS_N = Sym("blocks_n")
VECTOR = Workers(Engine.VECTOR, AllCores())
STEP = Sym("step")
FIXED_ORDER = "The same order on every rank, so that every rank gets the same bits."
OWN_ORDER = "Each rank starts with its own part, which is there first."


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of the sum that a rank gets.

    rows     how many, on this rank
    most     how many at most, on any rank: the rounds walk over them
    """

    rows: Expr
    most: Expr

    def first(self, rank: Expr) -> Expr:
        """First row of a rank's share in A."""
        return rank * RANK_ROWS if self.most == RANK_ROWS else 0 * rank

    def stop(self) -> Expr:
        """Row of A behind the partner's share."""
        return Sym("stop") if self.most == RANK_ROWS else M

    def definitions(self, rank: Expr) -> tuple[Definition, ...]:
        """What `stop` is for a rank."""
        return (Definition("stop", minimum((rank + 1) * RANK_ROWS, M)),) if self.most == RANK_ROWS else ()


SCATTERED = Share(Sym("own_rows"), RANK_ROWS)
WHOLE = Share(M, M)


def sources(share: Share) -> Definition:
    """The rank that step `step` of an ordered sum takes: fixed where all ranks must get the same bits."""
    if share is WHOLE:
        return Definition("source", STEP, FIXED_ORDER)
    return Definition("source", (RANK + STEP) % RANKS, OWN_ORDER)


def output(share: Share, dtype: str) -> Tensor:
    """C, the rank's share of the sum."""
    axes = (Axis("m", share.rows), Axis("n", N))
    return Tensor("c", axes, ("stride_cm",), TensorRole.OUTPUT, dtype)


def compose_sum(name: str, spec: ReduceScatter | AllReduce, share: Share, *, summary: str) -> KernelPlan:
    """A round adds TILE_M rows of every rank's share; workers, flattening, edges and covers are the passes' work."""
    blocks = Axis("block_m", Sym("blocks_m"), "M blocks")
    items = (Axis("block_n", BLOCKS_N, "N blocks"),)
    ranks = Axis("shift", RANKS, "ranks")
    peer = Buffer(
        "peer",
        Layout(
            (Axis("ring", BUFFER_NUM), Axis("source_rank", RANKS), Axis("row", Sym("TILE_M")), Axis("n", N)),
            stride_names=(("ring", "peer_block"), ("source_rank", "peer_rank")),
        ),
        "ring",
        spec.dtype,
        (Axis("source_rank", RANKS), Axis("tile", BLOCKS_N)),
    )
    in_block = Sym("block_m") * Sym("TILE_M")
    columns = TileAxis("n", Sym("block_n") * Sym("TILE_N"), "TILE_N", N)
    sent = TileAxis("m", share.first(TARGET) + in_block, "TILE_M", share.stop(), local=ROWS.name)
    kept = TileAxis("m", in_block, "TILE_M", share.rows, local=ROWS.name)
    position = Sym("rows"), Sym("n")
    push = Stage(
        "push",
        Kind.MOVE,
        VECTOR,
        Tasks("push_work", "total_push", blocks, items, ranks),
        push_target(movement_choices(spec, spec.reduce)),
        (sent, columns),
        reads=(Access("a", Local(), (Sym("m"), Sym("n"))),),
        writes=(Access("peer", Peer(TARGET), (RING, RANK, *position), Piece((RANK, Sym("block_n")))),),
        definitions=share.definitions(TARGET),
    )
    atomic = spec.reduce == "atomic"
    reduce = Stage(
        "reduce",
        Kind.ACCUMULATE if atomic else Kind.REDUCE,
        VECTOR,
        Tasks("reduce_work", "total_reduce", blocks, items, ranks if atomic else None),
        Definition("source", (RANK + RANKS - SHIFT) % RANKS, COPY_ORDER) if atomic else sources(share),
        (kept, columns),
        reads=(Access("peer", Local(), (RING, SOURCE, *position), Piece((SOURCE, Sym("block_n")))),),
        writes=(Access("c", Local(), (Sym("m"), Sym("n"))),),
    )
    plan = base_plan(
        name,
        spec,
        movement_choices(spec, spec.reduce),
        kind=LaunchKind.VECTOR,
        summary=summary,
        tolerance=summed(spec.dtype, reduce=spec.reduce),
        constants=(("TILE_M", spec.tile.m), ("TILE_N", spec.tile.n), ("BUFFER_NUM", spec.buffer_num)),
        dimensions=(Dimension("M", "rows of A"), Dimension("N", "columns of A")),
    )
    a = Tensor("a", (Axis("m", M), Axis("n", N)), ("stride_am",), TensorRole.INPUT, spec.dtype)
    return replace(
        plan,
        tensors=(a, output(share, spec.dtype)),
        buffers=(peer,),
        stages=(push, reduce),
        sizes=(
            *(chunks(M) if share is SCATTERED else ()),
            Definition("blocks_m", cdiv(share.most, Sym("TILE_M"))),
            Definition("blocks_n", cdiv(N, Sym("TILE_N"))),
        ),
        initial="zero" if atomic else None,
    )
