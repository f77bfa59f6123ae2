"""The Ascend devices that kernels are planned for, as the vendor's compiler describes them.

One AI core is one cube core (AIC) and two vector cores (AIV). Memory sizes are bytes: `ub` is the unified buffer of one
vector core; `l1`, `l0a`, `l0b` and `l0c` belong to one cube core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from fusegen.errors import UsageError, nearest

Family = Literal["910B", "950"]

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Target:
    """One device: its name in the compiler, its cores, its on-chip memory (bytes) and its data-movement engines."""

    name: str
    family: Family
    ai_cores: int
    cube_cores: int
    vector_cores: int
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    engines: tuple[str, ...]


def _target(name: str, family: Family, ai_cores: int) -> Target:
    """A device of a family; within a family only the number of AI cores differs."""
    is_950 = family == "950"
    return Target(
        name=name,
        family=family,
        ai_cores=ai_cores,
        cube_cores=ai_cores,
        vector_cores=2 * ai_cores,
        ub_bytes=(248 if is_950 else 192) * KIB,
        l1_bytes=512 * KIB,
        l0a_bytes=64 * KIB,
        l0b_bytes=64 * KIB,
        l0c_bytes=(256 if is_950 else 128) * KIB,
        engines=("mte", "udma") if is_950 else ("mte",),
    )


_AI_CORES: Final[tuple[tuple[Family, int, tuple[str, ...]], ...]] = (
    (
        "910B",
        24,
        ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910_9391", "Ascend910_9392", "Ascend910_9381"),
    ),
    ("910B", 20, ("Ascend910B3", "Ascend910B4", "Ascend910B4-1", "Ascend910_9372", "Ascend910_9362")),
    ("950", 32, ("Ascend950PR_9589", "Ascend950DT_9582")),
    ("950", 36, ("Ascend950PR_9599", "Ascend950DT_9595")),
    ("950", 28, ("Ascend950PR_957c",)),
)

TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {name: _target(name, family, ai_cores) for family, ai_cores, names in _AI_CORES for name in names}
)


def target(name: str) -> Target:
    """The device called `name`; raises UsageError, with the nearest name or all of them, when there is none."""
    if name not in TARGETS:
        advice = nearest(name, TARGETS) or f"targets: {', '.join(TARGETS)}"
        raise UsageError(f"target: expected a known target, got {name} ({advice})")
    return TARGETS[name]
