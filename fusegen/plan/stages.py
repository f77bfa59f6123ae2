"""Stages: loops over tiles, who runs them, how a work index becomes a tile, and how a stage meets other stages.

Stage     = name kind workers tasks partner definitions inner tile reads writes waits announces
Workers   = engine (vector | cube), selection (AllCores | Role | VectorCores), part (everyone | First | Rest)
Tasks     = round axis, item axes, rank axis, and the order in which one work index runs over them
Order     = Interleaved | Sequential | Grid                      visiting order (plan.swizzle, guide 1.4)
Access    = region, place (Local | Peer), a coordinate for each axis, and the piece that it lies in
Wait      = slots that a stage waits for                         level: once a round, an item, a tile or a source
Announce  = slots that a stage writes                            level: once a round, an item or a tile
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from fusegen.plan.expr import Const, Expr, Sym
from fusegen.plan.layout import Axis
from fusegen.plan.swizzle import CommOrder, Interleaved, TileOrder

ONE, ZERO = Const(1), Const(0)
NEIGHBOURS_FIRST = Interleaved()


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that the text defines: `name = value`, with the comment that stands above it.

    at_most   a bound that proofs may use where the value is no polynomial: value <= at_most for every shape
    """

    name: str
    value: Expr
    comment: str = ""
    at_most: Expr | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """`names = function(arguments)` in the text; result i is at least 0 and less than `extents[i]`."""

    names: tuple[str, ...]
    function: str
    arguments: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    comment: str = ""


Binding: TypeAlias = Definition | Call


class Engine(Enum):
    """The kind of core that a stage runs on."""

    VECTOR = "vector"
    CUBE = "cube"


@dataclass(frozen=True, slots=True)
class AllCores:
    """Every program of the launch; in a mix kernel that is one cube core, or both vector cores together."""


@dataclass(frozen=True, slots=True)
class Role:
    """The cores with `core % roles == index`, numbered by `core // roles`: neighbours have different roles."""

    index: int
    roles: int


@dataclass(frozen=True, slots=True)
class VectorCores:
    """Both vector cores of every AI core of a mix kernel; AIV 1 of all AI cores comes first."""


Selection: TypeAlias = AllCores | Role | VectorCores


@dataclass(frozen=True, slots=True)
class First:
    """The first `count` of the selected cores, each with tasks of its own."""

    count: Sym


@dataclass(frozen=True, slots=True)
class Rest:
    """The selected cores behind the first `count`."""

    count: Sym


@dataclass(frozen=True, slots=True)
class Workers:
    """Who runs a stage: the core type, which cores of it, and which part of those (None: all of them)."""

    engine: Engine
    selection: Selection
    part: First | Rest | None = None

    def base(self) -> tuple[Sym, Sym]:
        """Names of the number of a selected core, and of how many are selected, in the kernel's text."""
        match self.selection:
            case AllCores():
                return Sym("core"), Sym("cores")
            case Role():
                return Sym("role_core"), Sym("role_cores")
            case VectorCores():
                return Sym("vector_core"), Sym("vector_cores")

    def core(self) -> Expr:
        """The worker's number among the workers."""
        core, _ = self.base()
        return core - self.part.count if isinstance(self.part, Rest) else core

    def cores(self) -> Expr:
        """The number of workers."""
        _, cores = self.base()
        match self.part:
            case None:
                return cores
            case First(count):
                return count
            case Rest(count):
                return cores - count

    def count(self, cores: int) -> int:
        """Selected cores among `cores` launched ones; role 0 gets one more where the roles do not divide the cores."""
        match self.selection:
            case AllCores():
                return cores
            case Role(index, roles):
                return (cores + roles - 1 - index) // roles
            case VectorCores():
                return 2 * cores


class Granularity(Enum):
    """What one work item carries."""

    TILE = "tile"
    """One position of every item axis."""
    FILL = "fill"
    """All positions of the item axes that the launcher did not need for filling the cores (guide 1.2)."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows (rank and all items but the last) by columns (the last item) of GEMM tiles."""

    tiles: TileOrder


Order: TypeAlias = CommOrder | Grid


@dataclass(frozen=True, slots=True)
class Tasks:
    """The work of a stage as one work index (guide 1.2).

    work, total     names of the number of work items in one round, and in all of them
    round           what the ring rotates with; None where the stage passes once over everything
    items           axes of the tiles of a round
    rank            axis of the partner ranks; None where a task has no partner, or all ranks at once
    merged_rounds   the round axis is part of the work index; otherwise a loop over rounds stands outside
    sizes           names that extents use and whose values differ from round to round
    """

    work: str
    total: str
    round: Axis | None
    items: tuple[Axis, ...]
    rank: Axis | None
    order: Order = NEIGHBOURS_FIRST
    merged_rounds: bool = False
    granularity: Granularity = Granularity.TILE
    sizes: tuple[Definition, ...] = ()

    @property
    def index_total(self) -> str:
        """Name of the number of positions of the work index."""
        return self.total if self.merged_rounds else self.work

    def label(self) -> str:
        """What messages call the rounds."""
        return self.round.label if self.round else ""


@dataclass(frozen=True, slots=True)
class Local:
    """This rank's own memory."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The memory of the rank that `rank` names: mapped for loads and stores (dl.symm_at), or named to putmem."""

    rank: Sym


@dataclass(frozen=True, slots=True)
class Each:
    """`for name in range(first, stop)` around an announcement."""

    name: str
    first: Expr
    stop: Expr


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` neighbouring pieces of a buffer's ring position, from coordinates `first` on (see Buffer.pieces).

    each   or those that a loop goes through
    """

    first: tuple[Expr, ...]
    count: Expr = ONE
    each: Each | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One tile of a region: a coordinate for each axis. Coordinates that hold a tile axis are vectors.

    piece   the pieces of the buffer that the tile lies in; None for tensors
    """

    region: str
    place: Local | Peer
    coordinates: tuple[Expr, ...]
    piece: Piece | None = None


@dataclass(frozen=True, slots=True)
class TileAxis:
    """An axis of the tile that a stage works on: `index = origin + offset + arange(tile)`, masked at `stop`.

    index     name of the position in the whole axis, a vector of `tile` elements
    tile      name of the constexpr with the tile's extent (`TILE_S`)
    stop      positions from here on are masked
    local     name of `offset + arange(tile)`, the position inside a buffer's ring position, where an access needs it
    """

    index: str
    origin: Expr
    tile: str
    stop: Expr
    offset: Expr = ZERO
    local: str | None = None


class Kind(Enum):
    """What a stage does with a tile; each kind has a template of this name."""

    MOVE = "move_tiles"
    """Load one tile, store it elsewhere."""
    ACCUMULATE = "accumulate_tiles"
    """Load one tile, add it atomically to the output."""
    REDUCE = "reduce_tiles"
    """Load a tile of every rank, add them in a fixed order, store the sum."""
    GEMM = "gemm_tiles"
    """Multiply a row panel of A with a column panel of B; tile axes are m, n, k, and reads are A, B and a bias."""
    PUT = "put_blocks"
    """Whole blocks of rows to one rank by UDMA; the one tile axis counts rows, from the first one of a block."""
    ANNOUNCE = "announce_tiles"
    """Tell readers of tiles that the cube core of the same AI core has stored."""


class Level(Enum):
    """Where in a stage's loops a wait or an announcement stands."""

    ROUND = "round"
    ITEM = "item"
    TILE = "tile"
    SOURCE = "source"
    CREDIT = "credit"
    """After the work loop of a round, before what is announced there."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until `count` neighbouring slots from `first` on have `value`; `region` is accessed only afterwards."""

    slots: str
    place: Local | Peer
    first: tuple[Expr, ...]
    count: Expr
    value: Expr
    region: str
    level: Level


@dataclass(frozen=True, slots=True)
class Announce:
    """Write `value` into a slot of `rank`, after a fence unless what it announces is complete anyway (putmem).

    each      a loop around the write, where there is one
    comment   stands above the write
    """

    slots: str
    rank: Expr
    first: tuple[Expr, ...]
    value: Expr
    level: Level
    each: Each | None = None
    fence: bool = True
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A loop over tiles that reads some regions and writes others.

    partner       the other rank of a task, from the rank axis; of kind REDUCE from `step`, for every rank in turn
    definitions   further names of a work item
    inner         loops over what a work item carries besides, one tile each
    batched       all tiles of a round first, then one fence and all announcements (guide 2.1)
    hand_over     event that the cube core sets after each tile (batched: round), and that the vector cores wait for
    """

    name: str
    kind: Kind
    workers: Workers
    tasks: Tasks
    partner: Definition | None
    tile: tuple[TileAxis, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    definitions: tuple[Definition, ...] = ()
    inner: tuple[Axis, ...] = ()
    waits: tuple[Wait, ...] = ()
    announces: tuple[Announce, ...] = ()
    batched: bool = False
    hand_over: int | None = None

    def signals(self) -> tuple[Wait | Announce, ...]:
        """All waits and announcements."""
        return (*self.waits, *self.announces)

    def slot_names(self) -> frozenset[str]:
        """Every slot group that the stage waits for or writes."""
        return frozenset(each.slots for each in self.signals())

    def regions(self) -> frozenset[str]:
        """Everything that the stage reads or writes."""
        return frozenset(access.region for access in (*self.reads, *self.writes))
