"""Cover edges with barriers: the cheapest program in which every edge crosses one (guide 1.1).

The hazards that it excludes are 1 and 2 of docs/platform.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    BarrierCover,
    KernelPlan,
    PlanDefect,
)
from fusegen.plan.program import Barrier, Node, Rounds, Run, When, walk
from fusegen.plan.timeline import covers


def cover_with_barriers(plan: KernelPlan) -> KernelPlan:
    """Take the first of the candidate programs, cheapest first, whose barriers order every edge."""
    producer, consumer = plan.stages
    candidates = (
        _shared(producer.name, consumer.name, plan.buffer_num)
        if plan.roles == "shared"
        else _interleaved(producer.name, consumer.name)
    )
    return cover_with_program(plan, candidates)


def cover_with_program(plan: KernelPlan, candidates: Iterator[tuple[Node, ...]]) -> KernelPlan:
    """The plan with the first program that orders its edges. Raises PlanDefect when none does."""
    program = next((each for each in candidates if covers(each, plan.edges, ring=plan.buffer_num)), None)
    if program is None:
        raise PlanDefect(f"{plan.name}: no barrier program orders every edge of a ring of {plan.buffer_num}")
    (rounds,) = (node for node in program if isinstance(node, Rounds))
    per_round = sum(isinstance(node, Barrier) for node in walk(rounds.body))
    closing = any(isinstance(node, Barrier) for node in program)
    again = (
        ", one reading from writing again: the only buffer is written in every round"
        if per_round == 2
        else "; a buffer is written again only after a later barrier, which its readers pass after reading"
    )
    decisions = (
        Decision(
            "barriers",
            f"{per_round} a round" + (f", {rounds.extra} round more" if rounds.extra else ""),
            f"one separates writing from reading{again}",
            "1.1",
        ),
        Decision(
            "launch close",
            "a barrier after the last round" if closing else "the last barrier of the rounds",
            "the next launch starts in buffer 0, which a slower rank may still be reading",
            "2.1",
        ),
    )
    edges = tuple(replace(edge, cover=BarrierCover()) for edge in plan.edges)
    return replace(plan, program=program, edges=edges, decisions=(*plan.decisions, *decisions))


def _shared(producer: str, consumer: str, ring: int) -> Iterator[tuple[Node, ...]]:
    """Every core produces, then consumes."""
    no_second = (
        " No second barrier is needed: this\nbuffer is written again after the next round's barrier, which its readers"
        " reach after reading."
    )
    written = Barrier("Every tile of this round is in place, on every rank." + (no_second if ring > 1 else ""))
    read = Barrier("Every tile of this round has been read: the next round, or launch, writes the same buffer.")
    close = Barrier("Close the launch: the next one starts in buffer 0, which a slower rank may still be reading.")
    one = Rounds(0, (Run(producer), written, Run(consumer)))
    yield (one,)
    yield one, close
    yield (Rounds(0, (Run(producer), written, Run(consumer), read)),)


def _interleaved(producer: str, consumer: str) -> Iterator[tuple[Node, ...]]:
    """Producers and consumers are different cores: consumers lag a round behind, or take turns with the producers."""
    step = Barrier(
        "What was written before this barrier is read after it; what was read before it may be written over.\n"
        "The last one closes the launch."
    )
    written = Barrier("Every tile of this round is in place, on every rank.")
    read = Barrier("Every tile of this round has been read: the next round, or launch, writes the same buffer.")
    yield (Rounds(1, (When(0, 0, (Run(producer),)), When(1, 1, (Run(consumer),)), step)),)
    yield (Rounds(0, (When(0, None, (Run(producer),)), written, When(1, None, (Run(consumer),)), read)),)
