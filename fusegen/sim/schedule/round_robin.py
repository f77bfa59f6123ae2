"""Everybody in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor


class RoundRobin:
    """Picks the actor that has waited longest."""

    late_stores = False

    def pick(self, runnable: Sequence[Actor]) -> int:
        return 0
