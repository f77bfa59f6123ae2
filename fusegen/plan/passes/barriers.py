"""Cover edges with barriers: the cheapest program in which every edge crosses one (guide 1.1).

The hazards that it excludes are 1 and 2 of docs/platform.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusegen.plan.facts import Decision
from fusegen.plan.ir import BarrierCover, KernelPlan, PlanDefect
from fusegen.plan.layout import Axis
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When, walk
from fusegen.plan.stages import Stage
from fusegen.plan.timeline import covers

CLOSE = "Close the launch: the next one starts in buffer 0, which a slower rank may still be reading."
CLOSE_WHOLE = "Close the launch: the next one writes the same memory, which a slower rank may still be reading."
WRITTEN = "Every tile of this round is in place, on every rank."
READ = "Every tile of this round has been read: the next round, or launch, writes the same buffer."


def cover_with_barriers(plan: KernelPlan) -> KernelPlan:
    """Take the first of the candidate programs, cheapest first, whose barriers order every edge."""
    if all(buffer.ring is None for buffer in plan.buffers):
        once = _whole(plan)
        return cover_with_program(plan, iter((once, (*once, Barrier(CLOSE_WHOLE)))))
    producer, consumer = plan.stages
    axis = producer.tasks.round
    if axis is None:
        raise PlanDefect(f"{plan.name}: a ring without rounds")
    candidates = (
        _shared(axis, run(plan, producer), run(plan, consumer), plan.buffer_num)
        if plan.launch.roles == 1
        else _interleaved(axis, producer.name, consumer.name)
    )
    return cover_with_program(plan, candidates)


def cover_with_program(plan: KernelPlan, candidates: Iterator[tuple[Node, ...]]) -> KernelPlan:
    """The plan with the first program that orders its edges. Raises PlanDefect when none does."""
    program = next((each for each in candidates if covers(each, plan.edges, ring=plan.buffer_num)), None)
    if program is None:
        raise PlanDefect(f"{plan.name}: no barrier program orders every edge of a ring of {plan.buffer_num}")
    edges = tuple(replace(edge, cover=BarrierCover()) for edge in plan.edges)
    return replace(plan, program=program, edges=edges, decisions=(*plan.decisions, *_decisions(plan, program)))


def _decisions(plan: KernelPlan, program: tuple[Node, ...]) -> tuple[Decision, ...]:
    met = "of the vector cores of all ranks" if not plan.is_mix else "of the cube and vector cores of all ranks"
    loops = [node for node in program if isinstance(node, Rounds)]
    if not loops:
        total = sum(isinstance(node, Barrier) for node in walk(program))
        return (
            Decision("barriers", f"{total} a launch, {met}", "one separates writing from reading; one closes", "1.1"),
        )
    (rounds,) = loops
    per_round = sum(isinstance(node, Barrier) for node in walk(rounds.body))
    closing = any(isinstance(node, Barrier) for node in program)
    again = (
        ", one reading from writing again: the only buffer is written in every round"
        if per_round == 2
        else "; a buffer is written again only after a later barrier, which its readers pass after reading"
    )
    return (
        Decision(
            "barriers",
            f"{per_round} a round, {met}" + (f", {rounds.extra} round more" if rounds.extra else ""),
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


def _shared(axis: Axis, producer: Node, consumer: Node, ring: int) -> Iterator[tuple[Node, ...]]:
    """Every core produces, then consumes."""
    no_second = (
        " No second barrier is needed: this\nbuffer is written again after the next round's barrier, which its readers"
        " reach after reading."
    )
    written = Barrier(WRITTEN + (no_second if ring > 1 else ""))
    one = Rounds(axis, 0, (producer, written, consumer))
    yield (one,)
    yield one, Barrier(CLOSE)
    yield (Rounds(axis, 0, (producer, written, consumer, Barrier(READ))),)


def _interleaved(axis: Axis, producer: str, consumer: str) -> Iterator[tuple[Node, ...]]:
    """Producers and consumers are different cores: consumers lag a round behind, or take turns with the producers."""
    step = Barrier(
        "What was written before this barrier is read after it; what was read before it may be written over.\n"
        "The last one closes the launch."
    )
    yield (Rounds(axis, 1, (When(0, 0, (Run(producer),)), When(1, 1, (Run(consumer),)), step)),)
    taking_turns = (When(0, None, (Run(producer),)), Barrier(WRITTEN), When(1, None, (Run(consumer),)), Barrier(READ))
    yield (Rounds(axis, 0, taking_turns),)


def _whole(plan: KernelPlan) -> tuple[Node, ...]:
    """Stages once over everything, in the composition's order, a barrier where one reads what was just written."""
    nodes: list[Node] = []
    fresh: set[str] = set()
    for stage in plan.stages:
        if fresh & {access.region for access in stage.reads}:
            nodes.append(Barrier("Everything that was written before is in place, on every rank."))
            fresh.clear()
        nodes.append(run(plan, stage))
        fresh |= {access.region for access in stage.writes}
    return tuple(nodes)


def run(plan: KernelPlan, stage: Stage) -> Node:
    """The stage; in a mix kernel its core type alone executes it.

    Without the scope the cube core would map peers and request transfers once more, and on the 950 family the vector
    cores would store what the cube core has multiplied.
    """
    return Scope(stage.workers.engine, (Run(stage.name),)) if plan.is_mix else Run(stage.name)
