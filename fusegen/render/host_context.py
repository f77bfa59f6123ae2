"""What templates see of a module and of its host half: sizes, workspace, launcher, self-check; all finished text."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.render.context import KernelView, Line


@dataclass(frozen=True, slots=True)
class TensorView:
    """A user's tensor.

    shape       extents as the text of a tuple's elements
    dtype       name of the constant that holds its element type
    contiguous  the launcher makes it contiguous first
    """

    name: str
    shape: str
    dtype: str
    contiguous: bool


@dataclass(frozen=True, slots=True)
class AllocationView:
    """Symmetric memory: an attribute of the workspace, with its number of elements."""

    name: str
    elements: str
    dtype: str
    zeroed: bool


@dataclass(frozen=True, slots=True)
class SlotGroupView:
    """The signal slots of an allocation: an extent for each axis, slowest first, and what a dump says of their values.

    `purpose` and `values` are those of the plan, `buffer` is the memory that the slots are about.
    """

    name: str
    purpose: str
    values: str
    buffer: str
    axes: tuple[Line, ...]


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
class CoresView:
    """The cores that a grid counts.

    kind     in words, in the plural
    query    method of NPUUtils that counts them
    fact     name of their number in the watchdog's dump
    minimum  fewest cores of a launch, and `reason` for that
    workers  cores of one role, from `cores`
    """

    kind: str
    query: str
    fact: str
    minimum: int
    reason: str
    workers: str


@dataclass(frozen=True, slots=True)
class HostView:
    """Everything that the templates of the host half need.

    parameters    the shape as parameters with types; `dims` are the same names alone
    dtypes        a constant for each element type
    definitions   names that shapes of tensors are spelt with
    documentation of the launcher's tensors, one line each
    arguments     of the kernel, in the order of its parameters
    prepared      statements that make inputs what the kernel can read; `turns` where it reads matrices turned,
                  `copies_rows` where rows must be dense
    initial       statement that prepares the output for a kernel that adds to it, under its comment
    empty         the output when there is no element or nothing to add up; `empty_note` says so in words
    buffer_num    depth of the ring, `rounds` how often it turns: expressions of the shape and `ranks`
    split         name of the constant whose value the rank count must suit, nothing where every count does
    """

    dimensions: tuple[str, ...]
    dims: str
    parameters: str
    dtypes: tuple[Line, ...]
    engines: str
    crosses_nodes: bool
    cores: CoresView
    inputs: tuple[TensorView, ...]
    output: TensorView
    definitions: tuple[Line, ...]
    documentation: tuple[str, ...]
    allocations: tuple[AllocationView, ...]
    slots: tuple[SlotGroupView, ...]
    work_split: SplitView | None
    arguments: tuple[str, ...]
    prepared: tuple[Line, ...]
    turns: bool
    copies_rows: bool
    numbers_launch: bool
    checks_total_cores: bool
    sync: str
    buffer_num: str
    rounds: str
    phases: int
    transfer_bytes: str | None
    initial: Line | None
    empty: str
    empty_note: str
    split: str | None

    @property
    def tensors(self) -> tuple[TensorView, ...]:
        """All of the caller's tensors."""
        return (*self.inputs, self.output)


@dataclass(frozen=True, slots=True)
class ModuleView:
    """Everything that the module template needs: what stands above the two halves, the kernel, and the host half."""

    name: str
    pattern: str
    summary: str
    description: str
    facts: str
    watchdog: str
    tolerance: Line
    constants: tuple[Line, ...]
    kernel: KernelView
    host: HostView
