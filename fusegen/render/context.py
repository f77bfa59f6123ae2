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
