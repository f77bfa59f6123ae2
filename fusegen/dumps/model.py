"""The file that a generated module's `dump` writes, checked when it is read.

    Dump      = kernel pattern sync rank ranks shape launches ended grid cores total_cores buffer_num rounds slots
    SlotGroup = purpose values buffer axes nonzero

A dump names the protocol of each group of slots, so that nothing but the file is needed to decode it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fusegen.errors import Fault, FaultsError, listed

Purpose = Literal["tile", "ready", "credit", "arrived"]
SlotValues = Literal["plain", "numbered", "counted", "launch"]
PROTOCOLS: Final[dict[Purpose, tuple[tuple[SlotValues, ...], tuple[str, ...]]]] = {
    "tile": (("plain", "numbered"), ("ring",)),
    "ready": (("counted",), ("ring",)),
    "credit": (("counted",), ("ring", "parity", "reader_rank", "reader_core")),
    "arrived": (("launch",), ()),
}
"""Values and axes of each purpose."""
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class DumpError(FaultsError):
    """A file is no dump, or files are not dumps of one launch. The user recovers by naming other files."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NonzeroSlot(BaseModel):
    """A slot that is not zero: its number, its 64-bit value, and its coordinate on each axis as further fields."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    __pydantic_extra__: dict[str, int]

    slot: Count
    value: int


class SlotGroup(_Model):
    """The slots of one allocation: extents by axis, slowest first, and every slot that is not zero.

    purpose   tile: ready and credit of a piece; ready and credit: one of the two; arrived: written once in a launch
    values    how values count uses; fusegen.dumps.values has the meanings
    buffer    memory that the slots are about
    """

    purpose: Purpose
    values: SlotValues
    buffer: str
    axes: dict[str, Count]
    nonzero: tuple[NonzeroSlot, ...] = Field(strict=False)

    @property
    def count(self) -> int:
        """All slots of the group."""
        return prod(self.axes.values())

    def position(self, slot: int) -> dict[str, int]:
        """Coordinates of a slot, by axis, slowest first."""
        found = {}
        for axis, extent in reversed(self.axes.items()):
            slot, found[axis] = divmod(slot, extent)
        return dict(reversed(found.items()))


class Dump(_Model):
    """One rank's dump.

    launches      enqueued on the workspace; `ended` of them are known to have ended
    grid          programs that the launcher asks for: the cores of the workspace
    total_cores   programs that the kernel has counted, where it does; 0 before the first launch has begun
    buffer_num    depth of the ring, and `rounds` the rounds of one launch that take turns in it
    """

    kernel: str
    pattern: str
    sync: Literal["barrier", "signal"]
    rank: Count
    ranks: Positive
    shape: dict[str, Count]
    launches: Count
    ended: Count
    grid: Positive
    vector_cores: Positive | None = None
    ai_cores: Positive | None = None
    total_cores: Count | None = None
    buffer_num: Positive
    rounds: Count
    slots: dict[str, SlotGroup]

    @property
    def cores(self) -> int:
        """Cores of the device, of the kind that the grid counts."""
        return self.vector_cores or self.ai_cores or 0

    @property
    def core_kind(self) -> str:
        """In words, in the plural."""
        return "vector cores" if self.vector_cores else "AI cores"

    @property
    def hangs(self) -> bool:
        """A launch is not known to have ended."""
        return self.ended < self.launches


def load_dumps(paths: Sequence[Path]) -> tuple[Dump, ...]:
    """The dumps of one launch, by rank. Raises DumpError, with file and field, for anything else."""
    faults: list[Fault] = []
    loaded: list[tuple[Path, Dump]] = []
    for path in paths:
        try:
            loaded.append((path, _load(path)))
        except DumpError as error:
            faults += error.faults
    if faults:
        raise DumpError(faults)
    if faults := list(_mixed(loaded)):
        raise DumpError(faults)
    return tuple(sorted((dump for _, dump in loaded), key=lambda dump: dump.rank))


def _load(path: Path) -> Dump:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DumpError([Fault("", "a dump", error.strerror or "no file", file=str(path))]) from error
    except ValueError as error:
        advice = "the file that dump of a generated module wrote"
        raise DumpError([Fault("", "JSON", str(error), advice, file=str(path))]) from error
    try:
        dump = Dump.model_validate(document)
    except ValidationError as error:
        raise DumpError(_fault(path, details) for details in error.errors(include_url=False)) from error
    if faults := list(_contradictions(path, dump)):
        raise DumpError(faults)
    return dump


def _fault(path: Path, details: Any) -> Fault:
    """What pydantic found, in one line."""
    keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in details["loc"]).removeprefix(".")
    match details["type"]:
        case "missing":
            return Fault(keys, "a value", "nothing", "dumps of older modules lack it: render again", file=str(path))
        case "extra_forbidden":
            return Fault(keys, "a field of a dump", "one that no dump has", file=str(path))
        case _:
            text = details["msg"].removeprefix("Input should be ")
            return Fault(keys, text, repr(details["input"])[:60], file=str(path))


def _contradictions(path: Path, dump: Dump) -> Iterator[Fault]:
    """Fields that do not fit each other."""
    file = str(path)
    if dump.rank >= dump.ranks:
        yield Fault("rank", f"a rank below {dump.ranks}", str(dump.rank), file=file)
    if not dump.cores:
        yield Fault("vector_cores", "vector_cores or ai_cores", "neither of them", file=file)
    if dump.ended > dump.launches:
        yield Fault("ended", f"at most {dump.launches}, the launches", str(dump.ended), file=file)
    for name, group in dump.slots.items():
        yield from (replace(fault, field=f"slots.{name}.{fault.field}", file=file) for fault in _protocol(group))
        for index, entry in enumerate(group.nonzero):
            field = f"slots.{name}.nonzero[{index}]"
            if entry.slot >= group.count:
                yield Fault(f"{field}.slot", f"a slot below {group.count}", str(entry.slot), file=file)
            elif entry.__pydantic_extra__ != group.position(entry.slot):
                expected = group.position(entry.slot)
                yield Fault(field, f"the position {expected}", str(entry.__pydantic_extra__), file=file)
            if not entry.value:
                yield Fault(f"{field}.value", "a value that is not 0", "0", file=file)


def _protocol(group: SlotGroup) -> Iterator[Fault]:
    """Values and axes that the purpose of a group does not have."""
    values, axes = PROTOCOLS[group.purpose]
    if group.values not in values:
        yield Fault("values", f"{listed(values)} for slots of purpose {group.purpose}", group.values)
    if missing := [axis for axis in axes if axis not in group.axes]:
        yield Fault("axes", f"the axis {listed(missing)}", ", ".join(group.axes) or "none")


def _mixed(loaded: Sequence[tuple[Path, Dump]]) -> Iterator[Fault]:
    """Dumps that do not belong to one launch: other kernels, shapes or numbers of ranks, or one rank twice.

    Numbers of launches may differ: a rank that has not launched is what a dump can show.
    """
    (first_path, first), *others = loaded
    ranks = {first.rank: first_path}
    for path, dump in others:
        for field in ("kernel", "ranks", "shape", "grid", "buffer_num", "rounds"):
            expected, got = getattr(first, field), getattr(dump, field)
            if expected != got:
                yield Fault(field, f"{expected}, as in {first_path}", str(got), "one launch at a time", file=str(path))
        if dump.rank in ranks:
            advice = f"{ranks[dump.rank]} has it"
            yield Fault("rank", "each rank once", f"{dump.rank} again", advice, file=str(path))
        ranks.setdefault(dump.rank, path)
