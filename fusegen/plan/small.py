"""The smallest conditions under which a kernel does all that it does: for exploring every interleaving."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fusegen.plan.evaluate import Conditions, rounds_of
from fusegen.plan.explain import condition_faults
from fusegen.plan.ir import KernelPlan

SMALL_RANKS: Final = (2, 3)
SMALL_ROUNDS: Final = (2, 3, 4)
LARGEST: Final = 2**14
"""Extent at which the search for a number of rounds ends."""


def small_conditions(plan: KernelPlan) -> Iterator[Conditions]:
    """One tile each on 2 and 3 ranks, in 2, 3 and 4 rounds, with as few cores as the kernel takes.

    A kernel without rounds has the smallest shape only. Numbers of rounds that no shape gives are left out.
    """
    for ranks in SMALL_RANKS:
        shapes: list[dict[str, int]] = []
        for rounds in SMALL_ROUNDS:
            shape = _shape(plan, ranks, rounds)
            if shape is not None and shape not in shapes:
                shapes.append(shape)
        for smallest in shapes or [_ones(plan)]:
            conditions = Conditions(ranks, plan.launch.minimum_cores, smallest)
            if not condition_faults(plan, conditions):
                yield conditions


def _shape(plan: KernelPlan, ranks: int, rounds: int) -> dict[str, int] | None:
    """The shape with this number of rounds whose extents are 1 but for one of them; None if there is none."""

    def made(shape: Mapping[str, int]) -> int:
        return rounds_of(plan, Conditions(ranks, plan.launch.minimum_cores, shape))

    ones = _ones(plan)
    for axis in ones:
        if made(ones | {axis: LARGEST}) < rounds:
            continue
        low, high = 1, LARGEST
        while low < high:
            middle = (low + high) // 2
            if made(ones | {axis: middle}) < rounds:
                low = middle + 1
            else:
                high = middle
        if made(ones | {axis: low}) == rounds:
            return ones | {axis: low}
    return None


def _ones(plan: KernelPlan) -> dict[str, int]:
    return {dimension.name: 1 for dimension in plan.dimensions}
