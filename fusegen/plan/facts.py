"""What a plan records for its readers: sizes and their meaning, decisions with reasons, how it is verified."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice the planner made: which rule, what it chose, why, and the guide section the rule comes from."""

    rule: str
    choice: str
    reason: str
    section: str


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size that the caller's shape has, and what it counts."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest error that the self-check accepts, |c - expected| / (1 + |expected|), and why it is not smaller."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class VerifyPoint:
    """One set of conditions that verification runs under."""

    ranks: tuple[int, ...]
    cores: int
    launches: int
    shape: tuple[tuple[str, int], ...]
