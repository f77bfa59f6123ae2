"""What the launcher must do before and around a launch."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Expr, Sym, product, substitute, symbols
from fusegen.plan.facts import Decision
from fusegen.plan.ir import Allocation, Host, KernelPlan
from fusegen.plan.stages import Kind
from fusegen.plan.tasks import block_elements

ENGINES = {"mte": ("MTE",), "udma": ("MTE", "UDMA")}
"""Data engines that a transport needs at the initialisation of the host library: a rank's own part goes by MTE."""


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
    limits = tuple(
        (tensor.name, substitute(product(axis.extent for axis in tensor.axes), names)) for tensor in plan.tensors
    )
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
                "a slot zeroed after a peer's producer wrote it loses that signal; later launches need no zeroing",
                "2.1",
            )
        )
    if plan.initial is not None:
        decisions.append(
            Decision(
                "output",
                "the launcher zeroes it" if plan.initial == "zero" else f"the launcher fills it with {plan.initial}",
                "the kernel adds to it",
                "2.1",
            )
        )
    host = Host(
        tuple(allocations),
        limits,
        ENGINES[plan.choices.transport],
        initial=plan.initial,
        numbers_launch=_numbers_launch(plan),
        transfer_bytes=_transfer_bytes(plan),
        npu_split=plan.choices.npu_split,
    )
    return replace(plan, host=host, decisions=(*plan.decisions, *decisions))


def _transfer_bytes(plan: KernelPlan) -> Expr | None:
    """Bytes of the first block, which is as large as any."""
    for stage in plan.stages:
        if stage.kind is Kind.PUT:
            first = substitute(block_elements(plan, stage), {stage.tile[0].index: Const(0)})
            return substitute(first, plan.names) * Sym("ELEMENT_BYTES")
    return None


def _numbers_launch(plan: KernelPlan) -> bool:
    """True when slot values tell an even launch from an odd one."""
    return any(
        "launch" in symbols(value)
        for group in plan.slots
        for value in (group.protocol.ready, *(d.value for d in group.protocol.producer_definitions))
    )
