"""Findings about order: two doings of different actors on the same memory, and nothing that makes one come first.

    DataRace | StaleRead | MissingFence | UnconsumedToken | WrongCore | SlotConflict | DoubleReset | LostWakeup
             | UninitialisedRead

All are DataRaces; a narrower kind says why the order is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.sim.findings import ActorName, Finding, Location, Slot


@dataclass(frozen=True, slots=True)
class DataRace(Finding):
    """`actor` and `other` access the same elements, one of them writes, and nothing orders them.

    They meet in `count` of the elements `first` to `last`, of `element_bytes` bytes, counted from the start of the
    storage of `tensor` on `rank`. `slot`, in `slot_tensor` on `slot_rank`, is the one whose signal one of them relies
    on, or the one that the finding is about. `expected` is what would have ordered the two, `guide` the section that
    treats it.
    """

    other: ActorName | None = None
    other_location: Location | None = None
    tensor: str = ""
    rank: int = 0
    first: int = 0
    last: int = 0
    count: int = 0
    element_bytes: int = 0
    slot: Slot | None = None
    slot_tensor: str = ""
    slot_rank: int | None = None
    expected: str = ""
    guide: str = ""


@dataclass(frozen=True, slots=True)
class StaleRead(DataRace):
    """The reader relies on a notify that does not announce what it reads: the store comes after it."""


@dataclass(frozen=True, slots=True)
class MissingFence(DataRace):
    """The earlier access comes before a notify that the later actor has seen, but no fence has completed it before."""


@dataclass(frozen=True, slots=True)
class UnconsumedToken(DataRace):
    """A wait would order the accesses, but its token was not consumed, or not by the pointer of the later access."""


@dataclass(frozen=True, slots=True)
class WrongCore(DataRace):
    """A signal is sent by a core of an AI core that has not done the work that it stands for."""


@dataclass(frozen=True, slots=True)
class SlotConflict(DataRace):
    """Two actors write different words of one 64-byte line: one data cache line may overwrite the other."""


@dataclass(frozen=True, slots=True)
class DoubleReset(DataRace):
    """Two actors return the credit of one slot."""


@dataclass(frozen=True, slots=True)
class LostWakeup(DataRace):
    """A slot may be overwritten before a wait for its value has seen it."""


@dataclass(frozen=True, slots=True)
class UninitialisedRead(DataRace):
    """A load of symmetric memory that nobody has written, or a wait on a slot that may not be zeroed yet."""
