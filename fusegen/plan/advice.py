"""Which synchronisation the guide's applicability criterion recommends under given conditions (guide 1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from fusegen.plan.evaluate import Conditions, given_values, rounds_of
from fusegen.plan.expr import evaluate
from fusegen.plan.ir import Edge, EdgeKind, KernelPlan
from fusegen.plan.tasks import reads_sources

NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Advice:
    """What the criterion says.

    recommended  "signal", "barrier" or "not needed"
    strength     the guide's word: "strongly recommended", "recommended", "applicable", "as good", "not needed"
    reason       which row of the criterion applies, and why
    chosen       the spec's synchronisation
    """

    recommended: str
    strength: str
    reason: str
    chosen: str

    @property
    def follows(self) -> bool:
        """True when the spec has chosen what is recommended, or when nothing is."""
        return self.recommended in (self.chosen, NOT_NEEDED)

    def as_json(self) -> dict[str, Any]:
        """Plain strings and booleans."""
        return {
            "recommended": self.recommended,
            "strength": self.strength,
            "reason": self.reason,
            "chosen": self.chosen,
            "follows": self.follows,
        }


def advise(plan: KernelPlan, conditions: Conditions) -> Advice:
    """The first row of the criterion that fits."""
    rounds = rounds_of(plan, conditions)
    recommended, strength, reason = _judged(plan, conditions, rounds)
    return Advice(recommended, strength, reason, plan.choices.sync)


def _judged(plan: KernelPlan, conditions: Conditions, rounds: int) -> tuple[str, str, str]:
    if rounds == 0:
        return NOT_NEEDED, NOT_NEEDED, "an empty shape: nothing is launched"
    if conditions.ranks == 1:
        return NOT_NEEDED, NOT_NEEDED, "a single rank: no communication between cards, either kind will do"
    needs = [need for edge in plan.edges if (need := _need(plan, conditions, edge)) is not None]
    if rounds == 1 and all(need == of for need, of in needs):
        return (
            "barrier",
            "as good",
            "one round, and every consumer needs the tiles of all producers: a signal would release it no earlier",
        )
    if not plan.is_mix:
        return (
            "signal",
            "strongly recommended",
            "pure communication from producers to consumers, no cube computation: "
            "with barriers the slowest producer would hold back all consumers",
        )
    if rounds > 1:
        more = (
            f"; more so with a ring of {plan.buffer_num} buffers, which lets rounds overlap"
            if plan.buffer_num > 1 and any(buffer.ring for buffer in plan.buffers)
            else ""
        )
        return (
            "signal",
            "recommended",
            f"{rounds} rounds: with barriers each of them lasts as long as its slowest producer{more}",
        )
    least, of = min(needs, key=lambda pair: pair[0] / pair[1])
    return (
        "signal",
        "applicable",
        f"one round, but a consumer needs only {least} of the {of} pieces that producers write",
    )


def _need(plan: KernelPlan, conditions: Conditions, edge: Edge) -> tuple[int, int] | None:
    """Pieces of a round that a task of the edge's target waits for, and pieces that producers write for its rank."""
    if edge.kind is not EdgeKind.FORWARD:
        return None
    values = given_values(plan, conditions)
    stage = plan.stage(edge.target)
    (piece,) = (access.piece for access in stage.reads if access.region == edge.buffer)
    pieces = prod(evaluate(axis.extent, values) for axis in plan.buffer(edge.buffer).pieces)
    count = 1 if piece is None else evaluate(piece.count, values)
    return min(count * (conditions.ranks if reads_sources(stage) else 1), pieces), pieces
