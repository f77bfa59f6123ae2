"""What the kernel's templates see: views that hold finished text. Templates substitute and loop over them, no more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """`name = value`, under a comment (one line each) where there is one."""

    name: str
    value: str
    comment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the kernel, with the comment behind it."""

    name: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class AccessView:
    """A tile of a region: the pointer's name, the names and texts of its offset and mask.

    turned   constant that says whether the region is to be read as `other` does, with the axes of the tile swapped
    """

    region: str
    pointer: str
    offset: Line
    mask: Line
    turned: str | None = None
    other: AccessView | None = None


@dataclass(frozen=True, slots=True)
class WaitView:
    """Slots to wait for, and the pointers that may be used afterwards."""

    pointer: str
    slot: str
    count: str
    value: str
    consumed: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ItemView:
    """`for name in range(first, stop)`."""

    name: str
    first: str
    stop: str


@dataclass(frozen=True, slots=True)
class AnnounceView:
    """A slot to write. `each` is a loop around the write, where there is one."""

    pointer: str
    slot: str
    rank: str
    value: str
    each: ItemView | None
    comment: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LevelView:
    """What stands at one depth of a stage's loops: names, waits, and after the body announcements behind a fence."""

    lines: tuple[Line, ...]
    waits: tuple[WaitView, ...]
    fence: bool
    announces: tuple[AnnounceView, ...]


@dataclass(frozen=True, slots=True)
class BatchView:
    """A second work loop that announces what the first one stored: names of an item, its loops, names and slots."""

    lines: tuple[Line, ...]
    items: tuple[ItemView, ...]
    tile: LevelView


@dataclass(frozen=True, slots=True)
class StageView:
    """One work loop.

    kind             the template of the body
    guard            condition under which a core takes part, or nothing
    round            before and after the work loop
    waiting          condition under which a core has work in this round, where it waits for the round; else nothing
    credit           after the work loop, before announcements of the round
    item             inside the work loop, around the loops over what an item carries
    items            those loops
    tile             inside of them, around the body
    source           inside the body's loop over ranks, whose variable is `step`, under `source_comment`
    mask             of the tile that is moved, or written by a multiplication
    reads, writes    the accesses
    bias             what a sum starts with, or nothing
    depth            positions in the inner loop of a multiplication
    shape            of an accumulator
    precision        how a multiplication rounds its inputs, where it must not
    block_elements   of a block that is sent
    batch            a second loop with the announcements of all items, or nothing
    event            of the hand-over from the cube core, or nothing; `hands_over_rounds` where not each tile has one
    first_announces  both vector cores run the loop, the first one announces
    """

    kind: str
    guard: str | None
    core: str
    total: str
    cores: str
    round: LevelView
    waiting: str | None
    credit: LevelView
    item: LevelView
    items: tuple[ItemView, ...]
    tile: LevelView
    source: LevelView
    step: str
    source_comment: tuple[str, ...]
    mask: Line | None
    reads: tuple[AccessView, ...]
    writes: tuple[AccessView, ...]
    bias: AccessView | None
    depth: Line | None
    shape: str
    precision: str | None
    block_elements: str | None
    batch: BatchView | None
    event: str | None
    hands_over_rounds: bool
    first_announces: bool


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of the program. kind: block (a loop or a condition with its head), run or barrier."""

    kind: str
    head: str = ""
    definitions: tuple[Line, ...] = ()
    comment: tuple[str, ...] = ()
    stage: StageView | None = None
    body: tuple[NodeView, ...] = ()
    call: str = ""


@dataclass(frozen=True, slots=True)
class KernelView:
    """The kernel: parameters (`general` ones never become constants), names defined from the shape, and the program.

    helpers   device functions that it calls: gemm_swizzle, comm_swizzle
    """

    name: str
    parameters: tuple[Parameter, ...]
    general: tuple[str, ...]
    constants: tuple[str, ...]
    roles: int
    role_comment: str
    has_vector_core: bool
    stores_total_cores: bool
    is_mix: bool
    needs_scope: bool
    uses_dl: bool
    prologue: tuple[Line, ...]
    notes: tuple[str, ...]
    rows: tuple[Line, ...]
    program: tuple[NodeView, ...]
    helpers: tuple[str, ...]

    @property
    def uses_sub_vec_id(self) -> bool:
        """True when the two vector cores of an AI core do different things."""
        return self.has_vector_core or (self.is_mix and self.stores_total_cores)
