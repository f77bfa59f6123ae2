"""What the launcher must do before and around a launch."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Sym, product, substitute
from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    Allocation,
    Host,
    KernelPlan,
)

ENGINES = {"mte": ("MTE",)}
"""Data engines that a transport needs at the initialisation of the host library."""


def derive_host_duties(plan: KernelPlan) -> KernelPlan:
    """Sizes come from the same layouts that the kernel indexes with, so allocation and addresses cannot drift apart."""
    names = plan.names
    allocations = [
        Allocation(buffer.name, substitute(buffer.layout.size(), names), buffer.dtype, zeroed=False)
        for buffer in plan.buffers
    ] + [
        Allocation(slots.name, substitute(slots.layout.size(), names) * Sym("SLOT_WORDS"), "int64", zeroed=True)
        for slots in plan.slots
    ]
    limits = tuple((tensor.name, product(axis.extent for axis in tensor.axes)) for tensor in plan.tensors)
    decisions = [
        Decision(
            "offsets",
            "32-bit, checked by the launcher for every region",
            "an offset that wraps writes another tile's memory without a word",
            "2.1",
        )
    ]
    if plan.slots:
        decisions.append(
            Decision(
                "zeroing",
                "the launcher zeroes the slots once, then all ranks meet",
                "a slot zeroed after a peer's producer wrote it loses that signal; every launch leaves the slots zero",
                "2.1",
            )
        )
    host = Host(tuple(allocations), limits, ENGINES[plan.transport])
    return replace(plan, host=host, decisions=(*plan.decisions, *decisions))
