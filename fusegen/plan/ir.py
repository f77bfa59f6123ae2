"""The plan: what a fused collective is, in one small language.

    KernelPlan = name choices constants dimensions tensors buffers slots definitions stages edges program
                 launch host decisions
    Tensor     = name axes strides role                              a user's tensor on one rank, with any strides
    Buffer     = name layout ring                                    symmetric memory, one ring axis
    SlotGroup  = name layout words protocol                          symmetric int64 signals, 64 bytes each
    Stage      = name kind workers tasks reads writes tile           a loop over tiles
    Workers    = engine (vector | cube) and selection (AllCores | Role)
    Tasks      = round axis, item axes, rank axis; what one work item carries
    Access     = region, place (Local | Peer), a coordinate for each axis
    Edge       = forward (data ready) or backward (buffer free), from stage to stage, `distance` rounds apart,
                 within a launch or across launches, and the cover that orders it
    Cover      = BarrierCover | SignalCover
    Node       = Rounds | When | Run | Barrier                       the program (see plan.program)
    Decision   = rule choice reason section                          (see plan.facts)

A fused collective is a pipeline over rounds; in each round stages run over tasks; stages meet in buffers; every
meeting is an edge that a cover must order. Passes (`fusegen.plan.passes`) fill the plan in, field by field, and the
last one proves that nothing was forgotten. Everything is frozen; a pass returns a new plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.plan.expr import Expr, Sym
from fusegen.plan.facts import Decision, Dimension, Tolerance, VerifyPoint
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.program import Node
from fusegen.targets import Target

SLOT_BYTES = 64
"""A signal slot fills one cache line: cores that write different words of one line lose writes (guide 1.3)."""
SLOT_WORDS = SLOT_BYTES // 8
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "int64": 8}
INT32_LIMIT = 2**31
"""Offsets are 32-bit in the kernel: every region must have fewer elements than this (docs/platform.md, hazard 7)."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that the text defines: `name = value`, with the comment that stands above it."""

    name: str
    value: Expr
    comment: str = ""


class TensorRole(Enum):
    """Who does what with a user's tensor: the kernel reads it, the kernel writes it, or only the launcher reads it."""

    INPUT = "input"
    OUTPUT = "output"
    INITIAL = "initial"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A user's tensor on one rank: axes slowest first, a stride name for each.

    extents may name `rank` where ranks have different shapes.
    contiguous   the kernel moves whole blocks of it: the launcher makes it contiguous first, and passes no strides
    """

    name: str
    axes: tuple[Axis, ...]
    strides: tuple[str, ...]
    role: TensorRole
    dtype: str
    contiguous: bool = False


@dataclass(frozen=True, slots=True)
class Buffer:
    """Symmetric memory in which stages of all ranks meet.

    `ring` is the name of the ring axis: a round uses position `round % buffer_num`. None: every element is written once
    in a launch.
    """

    name: str
    layout: Layout
    ring: str | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Protocol:
    """Values of a slot over its uses, and the definitions that the values need.

    A producer waits for `free` and writes `ready`; a consumer waits for `ready` and writes `credit`. `reason` is the
    comment that the kernel carries.
    """

    free: Expr
    ready: Expr
    credit: Expr
    producer_definitions: tuple[Definition, ...]
    consumer_definitions: tuple[Definition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SlotGroup:
    """Signal slots beside a buffer: one slot for each tile that the buffer holds at a time, 64 bytes each.

    `resetters` names the stages that return a slot to free: exactly one where slots are reused (guide 1.3).
    """

    name: str
    layout: Layout
    buffer: str
    protocol: Protocol
    resetters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Local:
    """This rank's own memory."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The memory of the rank that `rank` names, mapped for MTE loads and stores (dl.symm_at)."""

    rank: Sym


@dataclass(frozen=True, slots=True)
class Access:
    """One tile of a region: a coordinate for each axis. Coordinates that hold a tile axis are vectors."""

    region: str
    place: Local | Peer
    coordinates: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class TileAxis:
    """An axis of the tile that a stage moves.

    index     name of the position in the whole axis (`s`), a vector of `tile` elements
    block     name of the tile's number along the axis (`block_s`)
    tile      name of the constexpr with the tile's extent (`TILE_S`)
    extent    the axis' extent in the caller's shape: positions beyond it are masked
    local     name of the position inside the tile, where an access needs it
    """

    index: str
    block: str
    tile: str
    extent: Expr
    local: str | None = None


class PlanDefect(AssertionError):
    """The planner made a plan that breaks its own rules. Nobody recovers: it is a bug of fusegen, report it."""


class Engine(Enum):
    """The kind of core that a stage runs on."""

    VECTOR = "vector"
    CUBE = "cube"


@dataclass(frozen=True, slots=True)
class AllCores:
    """Every core of the launch works on the stage."""


@dataclass(frozen=True, slots=True)
class Role:
    """The cores with `core % roles == index`, numbered by `core // roles`: neighbours have different roles."""

    index: int
    roles: int


@dataclass(frozen=True, slots=True)
class Workers:
    """Who runs a stage: the core type, and which cores of it."""

    engine: Engine
    selection: AllCores | Role

    def core(self) -> Sym:
        """Name of the worker's number in the kernel's text."""
        return Sym("core" if isinstance(self.selection, AllCores) else "role_core")

    def cores(self) -> Sym:
        """Name of the number of workers in the kernel's text."""
        return Sym("cores" if isinstance(self.selection, AllCores) else "role_cores")

    def count(self, cores: int) -> int:
        """Workers among `cores` launched cores; role 0 gets one more where the roles do not divide the cores."""
        match self.selection:
            case AllCores():
                return cores
            case Role(index, roles):
                return (cores + roles - 1 - index) // roles


class Granularity(Enum):
    """What one work item carries."""

    TILE = "tile"
    """One tile: every item axis is part of the work index."""
    FILL = "fill"
    """All positions of the item axes that the launcher did not need for filling the cores (guide 1.2)."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tiles of a stage as one work index (guide 1.2), slowest axis first: round, items, rank.

    merged_rounds   the round axis is part of the work index; otherwise a loop over rounds stands outside
    """

    round: Axis
    items: tuple[Axis, ...]
    rank: Axis
    merged_rounds: bool
    granularity: Granularity


@dataclass(frozen=True, slots=True)
class Stage:
    """A loop over tiles that reads some regions and writes others.

    kind      which template renders it
    partner   definition of the other rank of a task, from the rank axis
    """

    name: str
    kind: str
    workers: Workers
    tasks: Tasks
    partner: Definition
    tile: tuple[TileAxis, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class BarrierCover:
    """Ordered by barriers of the program between the two stages."""


@dataclass(frozen=True, slots=True)
class SignalCover:
    """Ordered by a slot of `slots`: the source announces, the target waits."""

    slots: str


class EdgeKind(Enum):
    """Why the target must wait for the source."""

    FORWARD = "forward"
    """The source wrote what the target reads."""
    BACKWARD = "backward"
    """The source reads what the target writes over."""


@dataclass(frozen=True, slots=True)
class Edge:
    """`target` in round r + distance must come after `source` in round r, on every pair of ranks that share the buffer.

    across_launches   the target's round belongs to the next launch on the workspace, at the same ring position
    """

    kind: EdgeKind
    source: str
    target: str
    buffer: str
    distance: int
    across_launches: bool
    cover: BarrierCover | SignalCover | None = None


class LaunchKind(Enum):
    """What the grid counts."""

    VECTOR = "vector"
    """One program on each vector core."""
    MIX = "mix"
    """One program on each AI core: a cube core and two vector cores, which run at the same time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The grid: one program on each core, all resident, shared out among `roles` roles."""

    kind: LaunchKind
    roles: int

    @property
    def minimum_cores(self) -> int:
        """Each role needs a core of its own: it waits for the others."""
        return self.roles


@dataclass(frozen=True, slots=True)
class Allocation:
    """Symmetric memory that the launcher allocates: `elements` of `dtype`, zeroed on every rank if it holds signals."""

    name: str
    elements: Expr
    dtype: str
    zeroed: bool


@dataclass(frozen=True, slots=True)
class Host:
    """What the launcher must do: allocate, zero, check sizes against 32-bit offsets, start the engines.

    allocations     sizes may name `cores` besides the dimensions and `ranks`
    limits          elements of each user's tensor; the allocations are checked as well
    initial         what the output holds before the kernel adds to it: "zero", the name of a tensor of one row that is
                    copied to every row, or None where the kernel writes every element itself
    numbers_launch  the kernel needs to know whether an even or an odd number of launches went before
    npu_split       the launcher refuses rank counts for which this split of the rank order is no bijection (guide 1.4);
                    the constant NPU_SPLIT has the same value
    """

    allocations: tuple[Allocation, ...]
    limits: tuple[tuple[str, Expr], ...]
    engines: tuple[str, ...]
    initial: str | None = None
    numbers_launch: bool = False
    npu_split: int = 1


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Everything that a kernel and its launcher are rendered from. See the module's docstring for the grammar.

    summary                       what the pattern computes, in one line
    description                   what the spec's author says about the kernel, or nothing
    sync, flatten, roles, ...     the spec's choices, which passes turn into structure
    constants                     values of the kernel's constexpr parameters
    """

    name: str
    pattern: str
    summary: str
    description: str
    dtype: str
    target: Target
    transport: str
    sync: str
    flatten: str
    roles: str
    watchdog_seconds: float | None
    tolerance: Tolerance
    constants: tuple[tuple[str, int], ...]
    verify: tuple[VerifyPoint, ...]
    dimensions: tuple[Dimension, ...]
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    definitions: tuple[Definition, ...] = ()
    slots: tuple[SlotGroup, ...] = ()
    edges: tuple[Edge, ...] = ()
    program: tuple[Node, ...] = ()
    launch: Launch = Launch(LaunchKind.VECTOR, roles=1)
    host: Host = Host((), (), ())
    decisions: tuple[Decision, ...] = ()

    @property
    def buffer_num(self) -> int:
        """Depth of the ring."""
        return dict(self.constants)["BUFFER_NUM"]

    @property
    def names(self) -> dict[str, Expr]:
        """Values of the names that the kernel defines before its loops."""
        return {definition.name: definition.value for definition in self.definitions}

    def is_source(self, stage: Stage) -> bool:
        """True when other stages read what `stage` wrote: it announces, and waits for free places."""
        return any(edge.kind is EdgeKind.FORWARD and edge.source == stage.name for edge in self.edges)

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises KeyError when there is none."""
        return {stage.name: stage for stage in self.stages}[name]

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name. Raises KeyError when there is none."""
        return {buffer.name: buffer for buffer in self.buffers}[name]

    def tensor(self, name: str) -> Tensor:
        """The user's tensor of that name. Raises KeyError when there is none."""
        return {tensor.name: tensor for tensor in self.tensors}[name]
