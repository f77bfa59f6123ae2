"""Anybody, by a seed, and every store shows as late as the memory model allows."""

from __future__ import annotations

from fusegen.sim.schedule.random import Random


class LateStores(Random):
    """Random order; a store is for others to see only after the fence, barrier or end of program that completes it.

    What a missing fence or quiet leaves incomplete is then really missing where it is read (see `store_buffers`).
    """

    late_stores = True
