"""Cover edges with signal slots: what a slot stands for, which values it takes, who waits, who resets (guide 1.3)."""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Sym, cdiv, product
from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    SLOT_WORDS,
    Definition,
    EdgeKind,
    KernelPlan,
    Protocol,
    SignalCover,
    SlotGroup,
    Tasks,
)
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.program import Node, Rounds, Run, When


def cover_with_signals(plan: KernelPlan) -> KernelPlan:
    """One slot for each tile that a buffer holds: it announces the tile, and its reset returns the credit."""
    (forward,) = (edge for edge in plan.edges if edge.kind is EdgeKind.FORWARD)
    tasks = plan.stage(forward.source).tasks
    layout = Layout(
        (
            Axis("ring", Sym("BUFFER_NUM")),
            Axis("source_rank", tasks.rank.extent),
            Axis("tile", product(axis.extent for axis in tasks.items)),
        ),
        stride_names=(("ring", "ring_slots"), ("source_rank", "rank_slots")),
    )
    protocol = _use_numbers(tasks) if tasks.merged_rounds else _free_and_ready()
    slots = SlotGroup("signal", layout, forward.buffer, protocol, resetters=(forward.target,))
    program: tuple[Node, ...] = tuple(
        When(role, None, (Run(stage.name),) if tasks.merged_rounds else (Rounds(0, (Run(stage.name),)),))
        for role, stage in enumerate(plan.stages)
    )
    return replace(
        plan,
        constants=(*plan.constants, ("SLOT_WORDS", SLOT_WORDS)),
        slots=(slots,),
        program=program,
        edges=tuple(replace(edge, cover=SignalCover(slots.name)) for edge in plan.edges),
        decisions=(*plan.decisions, *_decisions(plan, slots, tasks)),
    )


def _decisions(plan: KernelPlan, slots: SlotGroup, tasks: Tasks) -> tuple[Decision, ...]:
    rounds = tasks.round.label
    (resetter,) = slots.resetters
    return (
        Decision(
            "synchronisation",
            "a signal slot for each tile",
            "a consumer needs one producer's tile, not all of them: no core waits for the slowest producer",
            "1.3",
        ),
        Decision(
            "slot layout",
            "[" + ", ".join(axis.name for axis in slots.layout.axes) + "], 64 bytes each",
            "cores that write different words of one 64-byte line lose writes",
            "1.3",
        ),
        Decision(
            "credit return",
            f"{resetter} returns every slot",
            f"each ring position is reused, after {plan.buffer_num} {rounds} and by the next launch; "
            "the stage that read the tile is the one resetter",
            "1.3",
        ),
        Decision(
            "slot values",
            "use numbers: 2 * use is free, 2 * use + 1 is ready, 0 again after the last use"
            if tasks.merged_rounds
            else "0 is free, 1 is ready",
            _values_reason(rounds, merged=tasks.merged_rounds),
            "1.3",
        ),
        Decision(
            "launch close",
            "none",
            "all slots are free again when a launch has ended everywhere; until then the next launch waits for credits",
            "2.1",
        ),
    )


def _values_reason(rounds: str, *, merged: bool) -> str:
    """Why 0 and 1 are, or are not, enough to tell the uses of a slot apart."""
    if merged:
        return (
            f"{rounds} that share a ring position go to different cores: with 0 and 1 the later one's producer could "
            "take the zero that the earlier one still waits for"
        )
    return "the same core works on a slot in every round, so its uses follow each other"


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


def _use_numbers(tasks: Tasks) -> Protocol:
    """Numbered uses: every wait of a launch has a value of its own, so it cannot be released by another use's write."""
    use, uses, ring = Sym("use"), Sym("uses"), Sym("ring")
    use_definition = Definition("use", Sym(tasks.round.name) // Sym("BUFFER_NUM"))
    uses_definition = Definition("uses", cdiv(tasks.round.extent - ring, Sym("BUFFER_NUM")))
    return Protocol(
        free=2 * use,
        ready=2 * use + 1,
        credit=(use + 1) % uses * 2,
        producer_definitions=(use_definition,),
        consumer_definitions=(use_definition, uses_definition),
        reason=(
            "Values of a slot in use number u of a launch: 2 * u, the producer may write; 2 * u + 1, the tile is\n"
            f"there; 0 again after the last use. Plain 0 and 1 would not do: cores of {tasks.round.label} that share\n"
            "a ring buffer would wait for the same zero, and a later one's producer could take it first."
        ),
    )
