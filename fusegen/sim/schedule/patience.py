"""How long a schedule leaves actors waiting."""

from typing import Final

PATIENCE: Final = 10_000
"""Picks in a row that leave somebody waiting, for whom those who go on may be polling."""
