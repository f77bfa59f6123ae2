"""Whether one run speaks for all schedules of its inputs. docs/proof.md has the theorem and its assumptions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of the check of sync-determinism.

    `doubts` says why another schedule may synchronise otherwise, the first few; empty where the run proves that none
    does. `slots`, `writes` and `waits` count what was checked.
    """

    proved: bool
    doubts: tuple[str, ...]
    slots: int
    writes: int
    waits: int

    def __str__(self) -> str:
        if self.proved:
            return (
                f"proved for every schedule of these inputs: {self.waits} waits on {self.slots} slots have one "
                f"possible partner each, {self.writes} writes of slots are ordered, and no access races"
            )
        return f"not proved: {'; '.join(self.doubts)}"
