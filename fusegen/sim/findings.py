"""What a simulation finds: immutable values that name the actor, the source line, the tensor and the slot.

    Finding = Deadlock | OutOfBounds | UseAfterFree | IntegerOverflow | DivisionByZero | StepLimit | MisalignedSlot
            | NotSymmetric | InvalidPeer | Unreachable | UdmaRule | SlotLayout | LeftoverFlag | CollectiveMismatch
            | MissingReset | HostError | LeakedCollective | KernelError | WrongValues, and those of order.kinds

Inside the machine a finding travels as the exception `Found` from the place that notices it, which knows no actor, to
the actor that was running, which adds who and where. `Found` never leaves `fusegen.sim`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

CoreKind = Literal["AIV", "AIC", "host"]


@dataclass(frozen=True, slots=True)
class ActorName:
    """One thread of control: the host of a rank, or a program on a core of a rank.

    `sub_vec_id` tells the two AIVs of an AI core apart; it is None where a program has only one vector core.
    """

    rank: int
    kind: CoreKind
    core: int | None = None
    program: int | None = None
    sub_vec_id: int | None = None

    def __str__(self) -> str:
        if self.kind == "host":
            return f"rank {self.rank} host"
        number = "" if self.sub_vec_id is None else f" {self.sub_vec_id}"
        return f"rank {self.rank} core {self.core} {self.kind}{number} program {self.program}"


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the simulated module and its text."""

    file: str
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.source}`"


@dataclass(frozen=True, slots=True)
class Slot:
    """A signal slot.

    Its index in units of 64 bytes, and its coordinates by axis name when the module names the axes.
    """

    index: int
    position: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        if not self.position:
            return f"slot {self.index}"
        return f"slot {self.index} ({', '.join(f'{axis} {value}' for axis, value in self.position)})"


@dataclass(frozen=True, slots=True)
class Finding:
    """Base of all findings. `message` is complete by itself; `actor` and `location` repeat its parts for programs."""

    message: str
    actor: ActorName | None = None
    location: Location | None = None

    @property
    def kind(self) -> str:
        return type(self).__name__

    def at(self, actor: ActorName, location: Location | None) -> Finding:
        """This finding with the actor and the line that caused it, also in the message."""
        where = f"{actor} at {location}" if location else str(actor)
        return replace(self, message=f"{where}: {self.message}", actor=actor, location=location)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars, `kind` first."""
        return {"kind": self.kind, **asdict(self)}

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class OutOfBounds(Finding):
    """An access outside the storage of `tensor`. Indices are elements from the start of the storage, inclusive."""

    tensor: str = ""
    first: int = 0
    last: int = 0
    elements: int = 0
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class UseAfterFree(Finding):
    """An access to symmetric memory that its rank has freed."""

    tensor: str = ""


@dataclass(frozen=True, slots=True)
class IntegerOverflow(Finding):
    """A 32-bit result that does not fit, or `//` or `%` of a negative number, where Triton and Python differ."""

    operation: str = ""
    value: int = 0


@dataclass(frozen=True, slots=True)
class DivisionByZero(Finding):
    """`//` or `%` by zero."""


@dataclass(frozen=True, slots=True)
class StepLimit(Finding):
    """The run did not end within its budget of steps and loop iterations."""

    limit: int = 0


@dataclass(frozen=True, slots=True)
class MisalignedSlot(Finding):
    """A wait or notify at an address that is not 64-byte aligned; `word` counts slot words of the element size."""

    tensor: str = ""
    word: int = 0
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class NotSymmetric(Finding):
    """symm_at or notify with a pointer that is not into the symmetric heap, or that symm_at has mapped already."""

    tensor: str = ""


@dataclass(frozen=True, slots=True)
class InvalidPeer(Finding):
    """A rank argument outside 0 .. ranks - 1."""

    peer: int = 0
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class Unreachable(Finding):
    """An access to memory of `peer` that no engine carries: MTE is not initialised, or would have to cross nodes."""

    tensor: str = ""
    peer: int = 0


UdmaRuleName = Literal[
    "target",
    "engine",
    "size",
    "mapped address",
    "symmetric address",
    "local address",
    "own rank",
    "single core",
    "whole block",
]


@dataclass(frozen=True, slots=True)
class UdmaRule(Finding):
    """putmem or getmem with `peer` breaks a rule of the guide's section `guide`; `udma` has the rules.

    `expected` is what the rule asks for. `other` is the core that addressed the peer first, for the rule of the single
    core.
    """

    rule: UdmaRuleName = "target"
    expected: str = ""
    guide: str = ""
    peer: int = 0
    other: ActorName | None = None


@dataclass(frozen=True, slots=True)
class SlotLayout(Finding):
    """The slots that a run used are not those that the module declares: `slot` is the first that does not belong."""

    tensor: str = ""
    rank: int = 0
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class LeftoverFlag(Finding):
    """A launch ended, and `count` sets of a flag between the core types of an AI core have not been waited for."""

    event: int = 0
    sender: str = ""
    receiver: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class CollectiveMismatch(Finding):
    """Ranks met in different host collectives, or in the same one with different sizes."""

    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostError(Finding):
    """Host code of `ranks` raised."""

    exception: str = ""
    ranks: tuple[int, ...] = ()
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeakedCollective(HostError):
    """Host code of `ranks` raised while others wait for them, on the device or in a host collective.

    `waiting` says who waits where, one entry for each line of code.
    """

    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelError(Finding):
    """Kernel code raised a Python exception: the program is not legal Triton, or a static_assert failed."""

    exception: str = ""


@dataclass(frozen=True, slots=True)
class WrongValues(Finding):
    """The run ended, and `ranks` differ from the reference by more than `tolerance`.

    `largest` is the largest error; None where elements were never written, which counts as infinite.
    """

    ranks: tuple[int, ...] = ()
    largest: float | None = None
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Blocked:
    """One actor that cannot go on: where it stands, what it waits for, and what it sees instead."""

    actor: ActorName
    location: Location | None
    waits_for: str
    slot: Slot | None = None
    wanted: int | None = None
    actual: int | None = None

    def __str__(self) -> str:
        return f"{self.actor} waits for {self.waits_for} at {self.location}"


@dataclass(frozen=True, slots=True)
class Cause:
    """A likely cause of a deadlock and the section of the optimization guide that treats it."""

    name: str
    explanation: str
    guide: str

    def __str__(self) -> str:
        return f"{self.name}: {self.explanation} (guide {self.guide})"


@dataclass(frozen=True, slots=True)
class Deadlock(Finding):
    """No actor can go on, or none could with other timing. `blocked` has the first few of `blocked_count` actors.

    Likelier causes come first.
    """

    blocked: tuple[Blocked, ...] = ()
    blocked_count: int = 0
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingReset(Finding):
    """`actor`, a producer, waits for the credit of a slot that `other` has read, and nobody has reset the slot.

    Comes with a Deadlock that it causes. `location` is the producer's wait and `other_location` the reader's. The slot
    of `tensor` on `rank` holds `actual`, and the producer waits for `wanted`. `expected` is what would have reset it,
    `guide` the section that treats it.
    """

    other: ActorName | None = None
    other_location: Location | None = None
    tensor: str = ""
    rank: int = 0
    slot: Slot | None = None
    wanted: int = 0
    actual: int = 0
    expected: str = ""
    guide: str = ""


class Found(BaseException):
    """Carries a finding to the actor that was running. The actor's body catches it.

    Not an Exception, so that an `except Exception` in the code under test does not swallow the finding.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding
