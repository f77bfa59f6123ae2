"""Patterns in which every rank sends blocks of rows to every rank: stages over MTE and over UDMA.

An `Exchange` says where a tile comes from and where it goes; the stages are the same for all such patterns.

    MTE     push stores the tile for each target rank into the target's ring buffer; copy moves what arrived to C
    UDMA    put sends whole blocks to the other ranks, into a region that is written once; copy moves them to C; the
            own part, which no transfer may carry, goes through a ring (keep, copy_own) or the same region (keep)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fusegen.plan.expr import Const, Expr, Sym, cdiv, minimum, substitute
from fusegen.plan.facts import Dimension
from fusegen.plan.ir import DTYPE_BYTES, Buffer, KernelPlan, LaunchKind, Tensor
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.patterns.parts import (
    BUFFER_NUM,
    COPY_ORDER,
    IN_TURN,
    MOVED,
    PUSH_ORDER,
    RANK,
    RANKS,
    RING,
    ROWS,
    SHIFT,
    SOURCE,
    TARGET,
    base_plan,
    movement_choices,
    push_target,
)
from fusegen.plan.stages import (
    Access,
    AllCores,
    Definition,
    Engine,
    First,
    Kind,
    Local,
    Peer,
    Piece,
    Rest,
    Stage,
    Tasks,
    TileAxis,
    Workers,
)
from fusegen.spec import All2All, AllGather, Movement, ReverseAll2All

VECTOR = Workers(Engine.VECTOR, AllCores())
SENDERS = Sym("senders")
Position = Callable[[Expr], tuple[Expr, ...]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tile has rows of one block and columns of one block; `heads` stand between where there are any.

    row, column     names of the positions, `s` and `d`
    rows, columns   extents of the positions
    tile            names of the constants with the tile's extents
    heads           axis between rows and columns
    read, written   coordinates in A of a tile for a rank, and in C of a tile from a rank
    packed          blocks for one rank are no contiguous rows of A: they must be packed before a transfer
    """

    row: str
    column: str
    rows: Sym
    columns: Sym
    tile: tuple[str, str]
    heads: Axis | None
    read: Position
    written: Position
    packed: bool

    @property
    def blocks(self) -> Axis:
        """Blocks of rows: the rounds of a ring."""
        return Axis(f"block_{self.row}", Sym(f"blocks_{self.row}"), f"{self.row.upper()} blocks")

    @property
    def items(self) -> tuple[Axis, ...]:
        """Axes of the tiles of one block for one rank."""
        columns = Axis(f"block_{self.column}", Sym(f"blocks_{self.column}"), f"{self.column.upper()} blocks")
        return (columns,) if self.heads is None else (self.heads, columns)

    @property
    def sizes(self) -> tuple[Definition, ...]:
        """Numbers of blocks."""
        return (
            Definition(f"blocks_{self.row}", cdiv(self.rows, Sym(self.tile[0]))),
            Definition(f"blocks_{self.column}", cdiv(self.columns, Sym(self.tile[1]))),
        )

    @property
    def axes(self) -> tuple[TileAxis, TileAxis]:
        """The tile: rows of one block, columns of one block."""
        row_block, column_block = Sym(f"block_{self.row}"), Sym(f"block_{self.column}")
        row_tile, column_tile = (Sym(name) for name in self.tile)
        return (
            TileAxis(self.row, row_block * row_tile, self.tile[0], self.rows, local=ROWS.name),
            TileAxis(self.column, column_block * column_tile, self.tile[1], self.columns),
        )

    @property
    def inner(self) -> tuple[Axis, ...]:
        """Axes of a buffer behind its rows."""
        columns = Axis(self.column, self.columns)
        return (columns,) if self.heads is None else (Axis("head", self.heads.extent), columns)

    def position(self) -> tuple[Expr, ...]:
        """Coordinates on the inner axes."""
        column = Sym(self.column)
        return (column,) if self.heads is None else (Sym(self.heads.name), column)

    def tile_number(self) -> Expr:
        """Number of the tile among those of one block for one rank."""
        number: Expr = Const(0)
        for axis in self.items:
            number = number * axis.extent + Sym(axis.name)
        return number

    def tiles(self) -> Expr:
        """Tiles of one block for one rank."""
        count: Expr = Const(1)
        for axis in self.items:
            count = count * axis.extent
        return count


def compose_exchange(
    name: str,
    spec: ReverseAll2All | All2All | AllGather,
    exchange: Exchange,
    *,
    summary: str,
    dimensions: tuple[Dimension, ...],
    tensors: tuple[Tensor, ...],
    tile: tuple[int, int],
) -> KernelPlan:
    """The plan of an exchange: its stages and buffers; workers, flattening, edges and covers are the passes' work."""
    buffers, stages = _mte(spec, exchange) if spec.transport == "mte" else _udma(spec, exchange)
    constants = tuple(zip(exchange.tile, tile, strict=True))
    if any(buffer.ring for buffer in buffers):
        constants += (("BUFFER_NUM", spec.buffer_num),)
    sizes = exchange.sizes
    if spec.transport == "udma":
        constants += (("ELEMENT_BYTES", DTYPE_BYTES[spec.dtype]),)
        base = Sym("cores" if spec.roles == "shared" else "role_cores")
        sizes += (Definition("senders", _senders(base)),)
    plan = base_plan(
        name,
        spec,
        movement_choices(spec),
        kind=LaunchKind.VECTOR,
        summary=summary,
        tolerance=MOVED,
        constants=constants,
        dimensions=dimensions,
    )
    return replace(plan, tensors=tensors, buffers=buffers, stages=stages, sizes=sizes)


def _senders(cores: Expr) -> Expr:
    """Cores that send: one for each other rank, as long as one core is left for the own part."""
    return minimum(RANKS - 1, cores - 1)


def _mte(
    spec: ReverseAll2All | All2All | AllGather, exchange: Exchange
) -> tuple[tuple[Buffer, ...], tuple[Stage, ...]]:
    row, *_ = exchange.axes
    peer = Buffer(
        "peer",
        Layout(
            (
                Axis("ring", BUFFER_NUM),
                Axis("source_rank", RANKS),
                Axis("row", Sym(row.tile)),
                *exchange.inner,
            ),
            stride_names=(("ring", "peer_block"), ("source_rank", "peer_rank"), ("row", "peer_row")),
        ),
        "ring",
        spec.dtype,
        (Axis("source_rank", RANKS), Axis("tile", exchange.tiles())),
    )
    tasks = Tasks("block_work", "total_work", exchange.blocks, exchange.items, Axis("shift", RANKS, "ranks"))

    def in_peer(source: Expr) -> tuple[tuple[Expr, ...], Piece]:
        return (RING, source, ROWS, *exchange.position()), Piece((source, exchange.tile_number()))

    push = Stage(
        "push",
        Kind.MOVE,
        VECTOR,
        tasks,
        push_target(movement_choices(spec)),
        exchange.axes,
        reads=(Access("a", Local(), exchange.read(TARGET)),),
        writes=(Access("peer", Peer(TARGET), *in_peer(RANK)),),
    )
    copy = Stage(
        "copy",
        Kind.MOVE,
        VECTOR,
        tasks,
        Definition("source", (RANK + RANKS - SHIFT) % RANKS, COPY_ORDER),
        exchange.axes,
        reads=(Access("peer", Local(), *in_peer(SOURCE)),),
        writes=(Access("c", Local(), exchange.written(SOURCE)),),
    )
    return (peer,), (push, copy)


def _udma(spec: Movement, exchange: Exchange) -> tuple[tuple[Buffer, ...], tuple[Stage, ...]]:
    landing = Buffer(
        "landing",
        Layout(
            (Axis("source_rank", RANKS), Axis("row", exchange.rows), *exchange.inner),
            stride_names=(("source_rank", "landing_rank"), ("row", "landing_row")),
        ),
        None,
        spec.dtype,
        (Axis("block", exchange.blocks.extent), Axis("source_rank", RANKS)),
        signal="arrived",
    )
    others = Axis("shift", RANKS - 1, "other ranks")
    put = _put(exchange, others, signals=spec.sync == "signal")
    copied = exchange.blocks, exchange.items
    if spec.sync == "barrier":
        keep = Stage(
            "keep",
            Kind.MOVE,
            Workers(Engine.VECTOR, AllCores(), Rest(SENDERS)),
            Tasks("keep_work", "total_keep", *copied, None),
            None,
            exchange.axes,
            reads=(Access("a", Local(), exchange.read(RANK)),),
            writes=(
                Access("landing", Local(), (RANK, Sym(exchange.row), *exchange.position()), _block(exchange, RANK)),
            ),
        )
        source = Definition("source", (RANK + RANKS - SHIFT) % RANKS, COPY_ORDER)
        copy = _copy_landed(exchange, Axis("shift", RANKS, "ranks"), source)
        return _packing(spec, exchange, others, (landing,), (put, keep, copy))
    own = Buffer(
        "own",
        Layout(
            (Axis("ring", BUFFER_NUM), Axis("row", Sym(exchange.tile[0])), *exchange.inner),
            stride_names=(("ring", "own_block"), ("row", "own_row")),
        ),
        "ring",
        spec.dtype,
        (Axis("tile", exchange.tiles()),),
    )
    in_own = (RING, ROWS, *exchange.position()), Piece((exchange.tile_number(),))
    tasks = Tasks("own_work", "total_own", *copied, None)
    keep = Stage(
        "keep",
        Kind.MOVE,
        Workers(Engine.VECTOR, AllCores(), Rest(SENDERS)),
        tasks,
        None,
        exchange.axes,
        reads=(Access("a", Local(), exchange.read(RANK)),),
        writes=(Access("own", Local(), *in_own),),
    )
    copy_own = Stage(
        "copy_own",
        Kind.MOVE,
        VECTOR,
        tasks,
        None,
        exchange.axes,
        reads=(Access("own", Local(), *in_own),),
        writes=(Access("c", Local(), exchange.written(RANK)),),
    )
    source = Definition("source", (RANK + RANKS - 1 - SHIFT) % RANKS, COPY_ORDER)
    copy = _copy_landed(exchange, others, source)
    return _packing(spec, exchange, others, (landing, own), (put, keep, copy_own, copy))


def _block(exchange: Exchange, source: Expr) -> Piece:
    return Piece((Sym(exchange.blocks.name), source))


def _put(exchange: Exchange, others: Axis, *, signals: bool) -> Stage:
    """Block by block to one target, each target from one core (guide 1.5). The row is the first one of the block.

    Where a barrier and no signal tells of arrival there is one block for each target.
    """
    rows, _ = exchange.axes
    first = Sym(exchange.row) if signals else Const(0)
    rest = tuple(Const(0) for _ in exchange.inner)
    zeros: dict[str, Expr] = {name: Const(0) for name in (exchange.column, *(h.name for h in _heads(exchange)))}
    zeros |= {} if signals else {exchange.row: Const(0)}
    start = tuple(substitute(each, zeros) for each in exchange.read(TARGET))
    return Stage(
        "put",
        Kind.PUT,
        Workers(Engine.VECTOR, AllCores(), First(SENDERS)),
        Tasks("put_work", "total_put", None, (), others),
        Definition("target", (RANK + 1 + SHIFT) % RANKS, IN_TURN),
        (replace(rows, local=None) if signals else TileAxis(rows.index, Const(0), exchange.rows.name, exchange.rows),),
        reads=(Access("a", Local(), start),),
        writes=(Access("landing", Peer(TARGET), (RANK, first, *rest), _block(exchange, RANK)),),
        inner=(exchange.blocks,) if signals else (),
    )


def _heads(exchange: Exchange) -> tuple[Axis, ...]:
    return () if exchange.heads is None else (exchange.heads,)


def _copy_landed(exchange: Exchange, ranks: Axis, source: Definition) -> Stage:
    return Stage(
        "copy",
        Kind.MOVE,
        VECTOR,
        Tasks("copy_work", "total_copy", exchange.blocks, exchange.items, ranks),
        source,
        exchange.axes,
        reads=(
            Access(
                "landing",
                Local(),
                (SOURCE, Sym(exchange.row), *exchange.position()),
                _block(exchange, SOURCE),
            ),
        ),
        writes=(Access("c", Local(), exchange.written(SOURCE)),),
    )


def _packing(
    spec: Movement, exchange: Exchange, others: Axis, buffers: tuple[Buffer, ...], stages: tuple[Stage, ...]
) -> tuple[tuple[Buffer, ...], tuple[Stage, ...]]:
    """Where the rows for one rank are not contiguous in A, pack them first: a transfer is one whole block."""
    if not exchange.packed:
        return buffers, stages
    put, *others_stages = stages
    packed = Buffer(
        "packed",
        Layout(
            (Axis("target_rank", RANKS), Axis("row", exchange.rows), *exchange.inner),
            stride_names=(("target_rank", "packed_rank"), ("row", "packed_row")),
        ),
        None,
        spec.dtype,
        (Axis("block", exchange.blocks.extent), Axis("target_rank", RANKS)),
        signal="packed_ready",
    )
    piece = Piece((Sym(exchange.blocks.name), TARGET))
    pack = Stage(
        "pack",
        Kind.MOVE,
        Workers(Engine.VECTOR, AllCores(), Rest(SENDERS)),
        Tasks("pack_work", "total_pack", exchange.blocks, (), others),
        Definition("target", (RANK + 1 + SHIFT) % RANKS, PUSH_ORDER),
        exchange.axes,
        reads=(Access("a", Local(), exchange.read(TARGET)),),
        writes=(Access("packed", Local(), (TARGET, Sym(exchange.row), *exchange.position()), piece),),
        inner=exchange.items,
    )
    rest = tuple(Const(0) for _ in exchange.inner)
    first = Sym(exchange.row) if spec.sync == "signal" else Const(0)
    put = replace(put, reads=(Access("packed", Local(), (TARGET, first, *rest), piece),))
    return (packed, *buffers), (pack, put, *others_stages)
