"""Anybody, by a seed."""

from __future__ import annotations

import random


class Random:
    """Picks every runnable actor with the same probability, reproducibly for a seed."""

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, runnable: int) -> int:
        return int(self._random() * runnable)
