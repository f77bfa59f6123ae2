"""Cover edges with signal slots: what a slot stands for, which values it takes, who waits, who resets (guide 1.3)."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Sym, cdiv, product
from fusegen.plan.ir import SLOT_WORDS, Decision, Definition, KernelPlan, Protocol, SignalCover, SlotGroup
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.program import Node, Rounds, Run, When
from fusegen.spec import KernelSpec


def cover_with_signals(plan: KernelPlan, spec: KernelSpec) -> KernelPlan:
    """One slot for each tile that a buffer holds: it announces the tile, and its reset returns the credit."""
    producer, consumer = plan.stages
    (buffer,) = plan.buffers
    tasks = producer.tasks
    layout = Layout(
        (
            Axis("ring", Sym("BUFFER_NUM")),
            Axis("source_rank", Sym("ranks")),
            Axis("tile", product(axis.extent for axis in tasks.items)),
        ),
        stride_names=(("ring", "ring_slots"), ("source_rank", "rank_slots")),
    )
    protocol = _use_numbers(plan) if tasks.merged_rounds else _free_and_ready()
    slots = SlotGroup("signal", layout, buffer.name, protocol, resetters=(consumer.name,))
    program: tuple[Node, ...] = tuple(
        When(role, None, (Run(stage.name),) if tasks.merged_rounds else (Rounds(0, (Run(stage.name),)),))
        for role, stage in enumerate(plan.stages)
    )
    edges = tuple(replace(edge, cover=SignalCover(slots.name)) for edge in plan.edges)
    decisions = (
        Decision(
            "synchronisation",
            "a signal slot for each tile",
            "a consumer needs one producer's tile, not all of them: no core waits for the slowest producer",
            "1.3",
        ),
        Decision(
            "slot layout",
            "[" + ", ".join(axis.name for axis in layout.axes) + "], 64 bytes each",
            "cores that write different words of one 64-byte line lose writes",
            "1.3",
        ),
        Decision(
            "credit return",
            f"{consumer.name} returns every slot",
            f"each ring position is reused, after {plan.buffer_num} S blocks and by the next launch; "
            "the stage that read the tile is the one resetter",
            "1.3",
        ),
        _slot_values(tasks.merged_rounds),
        Decision(
            "launch close",
            "none",
            "all slots are free again when a launch has ended everywhere; until then the next launch waits for credits",
            "2.1",
        ),
    )
    return replace(
        plan,
        constants=(*plan.constants, ("SLOT_WORDS", SLOT_WORDS)),
        slots=(slots,),
        program=program,
        edges=edges,
        decisions=(*plan.decisions, *decisions),
    )


def _slot_values(merged_rounds: bool) -> Decision:
    """Whether 0 and 1 are enough to tell the uses of a slot apart."""
    if merged_rounds:
        return Decision(
            "slot values",
            "use numbers: 2 * use is free, 2 * use + 1 is ready, 0 again after the last use",
            "S blocks that share a ring position go to different cores: with 0 and 1 the later one's producer could "
            "take the zero that the earlier one still waits for",
            "1.3",
        )
    return Decision(
        "slot values",
        "0 is free, 1 is ready",
        "the same core works on a slot in every round, so its uses follow each other",
        "1.3",
    )


def _free_and_ready() -> Protocol:
    """0 and 1: enough where one producer core and one consumer core work on a slot, use after use."""
    return Protocol(
        free=Const(0),
        ready=Const(1),
        credit=Const(0),
        producer_definitions=(),
        consumer_definitions=(),
        reason="Value of a slot: 0 = free, the producer may write; 1 = the tile is there.",
    )


def _use_numbers(plan: KernelPlan) -> Protocol:
    """Numbered uses: every wait of a launch has a value of its own, so it cannot be released by another use's write."""
    use, uses, ring = Sym("use"), Sym("uses"), Sym("ring")
    round_axis = plan.stages[0].tasks.round
    use_definition = Definition("use", Sym(round_axis.name) // Sym("BUFFER_NUM"))
    uses_definition = Definition("uses", cdiv(Sym("blocks_s") - ring, Sym("BUFFER_NUM")))
    return Protocol(
        free=2 * use,
        ready=2 * use + 1,
        credit=(use + 1) % uses * 2,
        producer_definitions=(use_definition,),
        consumer_definitions=(use_definition, uses_definition),
        reason=(
            "Value of a slot in use number u of a launch: 2 * u = free, the producer may write; 2 * u + 1 = ready\n"
            "to read. S blocks that share a ring buffer go to different cores: with 0 and 1, a later block's producer\n"
            "could take the zero that an earlier one still waits for. After its last use, a slot is 0."
        ),
    )
