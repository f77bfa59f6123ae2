"""Anybody, by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor


class Random:
    """Picks every runnable actor with the same probability, reproducibly for a seed."""

    late_stores = False

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, runnable: Sequence[Actor]) -> int:
        return int(self._random() * len(runnable))
