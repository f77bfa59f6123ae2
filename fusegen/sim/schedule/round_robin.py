"""Everybody in turn."""

from __future__ import annotations


class RoundRobin:
    """Picks the actor that has waited longest."""

    def pick(self, runnable: int) -> int:
        return 0
