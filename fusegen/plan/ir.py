"""The plan: what a fused collective is, in one small language.

    KernelPlan = name choices constants dimensions tensors buffers slots definitions stages edges program
                 launch host decisions
    Tensor     = name axes strides role dtype                        a user's tensor on one rank
    Buffer     = name layout ring pieces dtype                       symmetric memory, with at most one ring axis
    SlotGroup  = name layout purpose protocol                        symmetric int64 signals, 64 bytes each
    Stage      = a loop over tiles                                   (see plan.stages)
    Edge       = forward (data ready) or backward (buffer free), from stage to stage, `distance` rounds apart,
                 within a launch or across launches, and the cover that orders it
    Cover      = BarrierCover | SignalCover
    HandOver   = from the cube core to the vector cores of one AI core, by an event
    Node       = Rounds | When | Scope | Run | Barrier               the program (see plan.program)
    Decision   = rule choice reason section                          (see plan.facts)

A fused collective is a pipeline over rounds; in each round stages run over tasks; stages meet in buffers; every
meeting is an edge that a cover must order. Passes (`fusegen.plan.passes`) fill the plan in, field by field, and the
last one proves that nothing was forgotten. Everything is frozen; a pass returns a new plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.plan.expr import Expr
from fusegen.plan.facts import Decision, Dimension, Tolerance, VerifyPoint
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.program import Node
from fusegen.plan.stages import Definition, Stage
from fusegen.targets import Target

SLOT_BYTES = 64
"""A signal slot fills one cache line: cores that write different words of one line lose writes (guide 1.3)."""
SLOT_WORDS = SLOT_BYTES // 8
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "int64": 8}
INT32_LIMIT = 2**31
"""Offsets are 32-bit in the kernel: every region must have fewer elements than this (docs/platform.md, hazard 7)."""


class TensorRole(Enum):
    """Who does what with a user's tensor: the kernel reads it, the kernel writes it, or only the launcher reads it."""

    INPUT = "input"
    OUTPUT = "output"
    INITIAL = "initial"
    """An input that only the launcher reads: the output starts from it."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A user's tensor on one rank: axes slowest first, and names of their strides.

    axes         extents may name `rank` where ranks have different shapes
    strides      the last axis has none where neighbours must be neighbours in memory: a vector core that gathers single
                 elements overflows its unified buffer. The launcher copies what is laid out otherwise
    contiguous   the kernel moves whole blocks of it: the launcher makes it contiguous, and passes no strides
    turned       name of a constant that is true where columns, and not rows, are contiguous: the cube core loads such a
                 matrix turned
    converted    element type that the launcher converts it to
    """

    name: str
    axes: tuple[Axis, ...]
    strides: tuple[str, ...]
    role: TensorRole
    dtype: str
    contiguous: bool = False
    turned: str | None = None
    converted: str | None = None


@dataclass(frozen=True, slots=True)
class Buffer:
    """Symmetric memory in which stages of all ranks meet.

    ring     name of the ring axis: a round uses position `round % buffer_num`. None: written once in a launch
    pieces   axes of what is announced at a time, within a ring position
    signal   name of the slots that announce its pieces
    """

    name: str
    layout: Layout
    ring: str | None
    dtype: str
    pieces: tuple[Axis, ...]
    signal: str = "signal"


class SlotValues(Enum):
    """How the values of a slot tell its uses apart; a dump names it, so that it can be decoded without the plan."""

    PLAIN = "plain"
    """0 is free, 1 is ready."""
    NUMBERED = "numbered"
    """2 * use is free, 2 * use + 1 is ready, 0 again after the last use of a launch."""
    COUNTED = "counted"
    """Uses are numbered over four launches: ready is turn + 1, a credit turn + 1 or 0 after the last turn."""
    LAUNCH = "launch"
    """One use in a launch: ready is the number of the launch, modulo four, plus one."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Values of a slot over its uses, and the definitions that the values need.

    A producer waits for `free` and writes `ready`; a consumer waits for `ready` and writes `credit`. Where slots are
    not reused there is neither free nor credit. `reason` is the comment that the kernel carries.
    """

    values: SlotValues
    free: Expr | None
    ready: Expr
    credit: Expr | None
    producer_definitions: tuple[Definition, ...]
    consumer_definitions: tuple[Definition, ...]
    reason: str


class Purpose(Enum):
    """What the slots of a group carry."""

    TILE = "tile"
    """Ready and credit of one piece: its consumer is the one resetter (guide 1.3)."""
    READY = "ready"
    """Ready of one piece, for any number of waiters; never reset, its values tell the uses apart."""
    CREDIT = "credit"
    """Credit of one reader core for a whole round, in the writer's memory."""
    ARRIVED = "arrived"
    """One piece that is written once in a launch: any number of waiters, no reset (guide 1.3, 1.5)."""


@dataclass(frozen=True, slots=True)
class SlotGroup:
    """Signal slots beside a buffer, 64 bytes each.

    `resetters` names the stages that return a slot to free: exactly one where slots are reused (guide 1.3).
    """

    name: str
    layout: Layout
    buffer: str
    purpose: Purpose
    protocol: Protocol
    resetters: tuple[str, ...]


class PlanDefect(AssertionError):
    """The planner made a plan that breaks its own rules. Nobody recovers: it is a bug of fusegen, report it."""


@dataclass(frozen=True, slots=True)
class BarrierCover:
    """Ordered by barriers of the program between the two stages."""


@dataclass(frozen=True, slots=True)
class SignalCover:
    """Ordered by a slot of `slots`: the source announces, or hands over to `through` that does; the target waits."""

    slots: str
    through: str | None = None


@dataclass(frozen=True, slots=True)
class HandOver:
    """Inside an AI core: the cube core of stage `sender` sets `event` after each tile or round, `receiver` waits."""

    sender: str
    receiver: str
    event: int


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
    minimum_cores: int = 1


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
    numbers_launch  the kernel needs the number of launches before this one, modulo a few
    transfer_bytes  the largest transfer, which must stay below 2**31; None where there is none (guide 1.5)
    npu_split       the launcher refuses rank counts for which this split of the rank order is no bijection (guide 1.4);
                    the constant NPU_SPLIT has the same value
    """

    allocations: tuple[Allocation, ...]
    limits: tuple[tuple[str, Expr], ...]
    engines: tuple[str, ...]
    initial: str | None = None
    numbers_launch: bool = False
    transfer_bytes: Expr | None = None
    npu_split: int = 1


@dataclass(frozen=True, slots=True)
class Choices:
    """What the spec chooses, which passes turn into structure. Fields that a pattern lacks have the neutral value."""

    transport: str
    sync: str
    announce: str = "per_tile"
    flatten: str = "none"
    roles: str = "shared"
    reduce: str | None = None
    npu_split: int = 1
    comm_order: str = "nz"


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Everything that a kernel and its launcher are rendered from. See the module's docstring for the grammar.

    summary        what the pattern computes, in one line
    description    what the spec's author says about the kernel, or nothing
    dtype          of the inputs
    constants      values of the kernel's constexpr parameters
    stores_total_cores   the kernel stores its number of programs for the launcher to check (guide 2.1)
    sizes          names that the composition's expressions use, and their values
    definitions    all names that the kernel defines before its loops
    """

    name: str
    pattern: str
    summary: str
    description: str
    dtype: str
    target: Target
    choices: Choices
    watchdog_seconds: float | None
    tolerance: Tolerance
    constants: tuple[tuple[str, int], ...]
    verify: tuple[VerifyPoint, ...]
    dimensions: tuple[Dimension, ...]
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    launch: Launch
    sizes: tuple[Definition, ...] = ()
    initial: str | None = None
    stores_total_cores: bool = False
    definitions: tuple[Definition, ...] = ()
    slots: tuple[SlotGroup, ...] = ()
    edges: tuple[Edge, ...] = ()
    hand_overs: tuple[HandOver, ...] = ()
    program: tuple[Node, ...] = ()
    host: Host = Host((), (), ())
    decisions: tuple[Decision, ...] = ()

    @property
    def buffer_num(self) -> int:
        """Depth of the ring; 1 where there is none."""
        return dict(self.constants).get("BUFFER_NUM", 1)

    @property
    def names(self) -> dict[str, Expr]:
        """Values of the names that the kernel defines before its loops."""
        return {definition.name: definition.value for definition in self.definitions}

    @property
    def is_mix(self) -> bool:
        """True when cube and vector cores run the kernel together."""
        return self.launch.kind is LaunchKind.MIX

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises KeyError when there is none."""
        return {stage.name: stage for stage in self.stages}[name]

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name. Raises KeyError when there is none."""
        return {buffer.name: buffer for buffer in self.buffers}[name]

    def tensor(self, name: str) -> Tensor:
        """The user's tensor of that name. Raises KeyError when there is none."""
        return {tensor.name: tensor for tensor in self.tensors}[name]

    def slot_group(self, name: str) -> SlotGroup:
        """The slot group of that name. Raises KeyError when there is none."""
        return {group.name: group for group in self.slots}[name]

    def is_buffer(self, region: str) -> bool:
        """True for symmetric memory, False for a user's tensor."""
        return any(buffer.name == region for buffer in self.buffers)
