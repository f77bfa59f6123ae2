"""Reverse All2All: C_r[s, q * H + h, d] = A_q[r * S + s, h, d] on rank r, for every rank q.

A round moves one block of TILE_S rows of every (rank, head). `push` stores the tile for each target rank into the
target's ring buffer; `copy` moves what arrived from each source rank to C.
"""

from __future__ import annotations

from fusegen.plan.expr import Expr, Sym
from fusegen.plan.facts import Dimension, Tolerance, VerifyPoint
from fusegen.plan.ir import (
    Access,
    AllCores,
    Buffer,
    Definition,
    Engine,
    Granularity,
    KernelPlan,
    Local,
    Peer,
    Stage,
    Tasks,
    Tensor,
    TensorRole,
    TileAxis,
    Workers,
)
from fusegen.plan.layout import Axis, Layout
from fusegen.spec import ReverseAll2All
from fusegen.targets import target

S, H, D = Sym("S"), Sym("H"), Sym("D")
RANK, RANKS, SHIFT = Sym("rank"), Sym("ranks"), Sym("shift")
BLOCKS_S, BLOCKS_D = Sym("blocks_s"), Sym("blocks_d")
TARGET, SOURCE = Sym("target"), Sym("source")
PUSH_ORDER = "Neighbouring cores write to neighbouring ranks, counted from this one: every link is in use."
COPY_ORDER = "In the order in which the other ranks count their targets: own tile first, then the rank before."


def compose(name: str, spec: ReverseAll2All) -> KernelPlan:
    """The stages and regions of the pattern; workers, flattening, edges and covers are the passes' work."""
    tensors = (
        Tensor(
            "a",
            (Axis("s", RANKS * S), Axis("h", H), Axis("d", D)),
            ("stride_as", "stride_ah", "stride_ad"),
            TensorRole.INPUT,
        ),
        Tensor(
            "c",
            (Axis("s", S), Axis("h", RANKS * H), Axis("d", D)),
            ("stride_cs", "stride_ch", "stride_cd"),
            TensorRole.OUTPUT,
        ),
    )
    peer = Buffer(
        "peer",
        Layout(
            (
                Axis("ring", Sym("BUFFER_NUM")),
                Axis("row", Sym("TILE_S")),
                Axis("head", RANKS * H),
                Axis("d", D),
            ),
            stride_names=(("ring", "peer_block"), ("row", "peer_row")),
        ),
        ring="ring",
    )
    tasks = Tasks(
        round=Axis("block_s", BLOCKS_S, "S blocks"),
        items=(Axis("h", H, "heads"), Axis("block_d", BLOCKS_D, "D blocks")),
        rank=Axis("shift", RANKS, "ranks"),
        merged_rounds=False,
        granularity=Granularity.TILE,
    )
    tile = (
        TileAxis("s", "block_s", "TILE_S", S, local="rows"),
        TileAxis("d", "block_d", "TILE_D", D),
    )
    push = Stage(
        "push",
        "move_tiles",
        Workers(Engine.VECTOR, AllCores()),
        tasks,
        Definition(
            "target",
            (RANK + SHIFT) % RANKS,
            PUSH_ORDER,
        ),
        tile,
        reads=(Access("a", Local(), (TARGET * S + Sym("s"), Sym("h"), Sym("d"))),),
        writes=(Access("peer", Peer(TARGET), _peer_position(RANK)),),
    )
    copy = Stage(
        "copy",
        "move_tiles",
        Workers(Engine.VECTOR, AllCores()),
        tasks,
        Definition(
            "source",
            (RANK + RANKS - SHIFT) % RANKS,
            COPY_ORDER,
        ),
        tile,
        reads=(Access("peer", Local(), _peer_position(SOURCE)),),
        writes=(Access("c", Local(), (Sym("s"), SOURCE * H + Sym("h"), Sym("d"))),),
    )
    return KernelPlan(
        name=name,
        pattern=spec.pattern,
        summary="Reverse All2All: C_r[s, q * H + h, d] = A_q[r * S + s, h, d] on rank r, for every rank q.",
        description=spec.description or "",
        dtype=spec.dtype,
        target=target(spec.target),
        transport=spec.transport,
        sync=spec.sync,
        flatten=spec.flatten,
        roles=spec.roles,
        watchdog_seconds=spec.watchdog.timeout_s if spec.watchdog.enabled else None,
        tolerance=Tolerance(0.0, "data is moved, not computed: bit-exact"),
        constants=(("TILE_S", spec.tile.s), ("TILE_D", spec.tile.d), ("BUFFER_NUM", spec.buffer_num)),
        verify=tuple(
            VerifyPoint(point.ranks, point.cores, point.launches, tuple(point.shape.model_dump().items()))
            for point in spec.verify
        ),
        dimensions=(
            Dimension("S", "rows that each rank receives from each rank"),
            Dimension("H", "heads of one rank"),
            Dimension("D", "elements of one head"),
        ),
        tensors=tensors,
        buffers=(peer,),
        stages=(push, copy),
    )


def _peer_position(source: Expr) -> tuple[Expr, ...]:
    """Coordinates in the ring buffer of a tile that comes from rank `source`."""
    return (Sym("ring"), Sym("rows"), source * H + Sym("h"), Sym("d"))
