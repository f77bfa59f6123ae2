"""What templates see: views that hold finished text. A template substitutes and loops over them, no more."""

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
class AxisView:
    """A tile axis: its names (see plan.ir.TileAxis) and extent."""

    index: str
    block: str
    tile: str
    extent: str
    local: str | None


@dataclass(frozen=True, slots=True)
class AccessView:
    """A tile of a region: the pointer's name and the text of the offset.

    `symmetric` is the name of the symmetric pointer that `pointer` is bound from first: mapped to rank `remote`, or
    after a wait; None where `pointer` is the kernel's parameter.
    """

    region: str
    pointer: str
    offset: str
    symmetric: str | None
    remote: str | None


@dataclass(frozen=True, slots=True)
class SignalView:
    """What a stage does with its slot: index in words, value to wait for (on rank `remote`, or here), value to set."""

    region: str
    slot: str
    remote: str | None
    wait_value: str
    notify_rank: str
    notify_value: str
    notify_comment: str


@dataclass(frozen=True, slots=True)
class ItemView:
    """`for name in range(first, stop)`."""

    name: str
    first: str
    stop: str


@dataclass(frozen=True, slots=True)
class StageView:
    """One work loop. `sync` names the template that opens and closes a tile, around the `guarded` access."""

    kind: str
    sync: str
    core: str
    total: str
    cores: str
    definitions: tuple[Line, ...]
    items: tuple[ItemView, ...]
    tile: tuple[AxisView, ...]
    read: AccessView
    write: AccessView
    guarded: AccessView
    signal: SignalView | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of the program. kind: block (a loop or a condition with its head), run or barrier."""

    kind: str
    head: str = ""
    definitions: tuple[Line, ...] = ()
    comment: tuple[str, ...] = ()
    stage: StageView | None = None
    body: tuple[NodeView, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelView:
    """The kernel: parameters, names defined from the shape, and the program."""

    name: str
    parameters: tuple[Parameter, ...]
    constants: tuple[str, ...]
    roles: int
    role_comment: str
    prologue: tuple[Line, ...]
    notes: tuple[str, ...]
    rows: tuple[AxisView, ...]
    program: tuple[NodeView, ...]


@dataclass(frozen=True, slots=True)
class TensorView:
    """A user's tensor: name, shape and number of elements in the launcher's text."""

    name: str
    shape: str
    elements: str
    is_output: bool


@dataclass(frozen=True, slots=True)
class AllocationView:
    """Symmetric memory: number of elements in the launcher's text."""

    name: str
    elements: str
    dtype: str
    zeroed: bool


@dataclass(frozen=True, slots=True)
class SplitView:
    """The launcher's `work_split`: what a work item starts as, and the axes that may be split off it.

    rounds     rounds in the work index, nothing where a loop over rounds stands outside
    items      work items of a round before any axis is split off
    countable  which items count, in the words of the docstring
    """

    rounds: str | None
    items: str
    axes: tuple[Line, ...]
    last_wave: int
    whole: str
    countable: str


@dataclass(frozen=True, slots=True)
class ModuleView:
    """Everything that the module template needs."""

    name: str
    pattern: str
    summary: str
    description: str
    facts: str
    dtype: str
    engines: tuple[str, ...]
    watchdog: str
    tolerance: Line
    constants: tuple[Line, ...]
    dimensions: tuple[str, ...]
    kernel: KernelView
    tensors: tuple[TensorView, ...]
    allocations: tuple[AllocationView, ...]
    slot_axes: tuple[Line, ...]
    split: SplitView | None
    minimum_cores: int
    roles: int
