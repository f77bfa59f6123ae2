"""The tree of all schedules, searched depth first; every path through it is a run.

At a decision some actors can go on. One is chosen; after the run, its reversals add others to the decisions where they
turn off. An actor that was chosen at a decision before sleeps in the branches of the others, until something happens
that its next step depends on: up to there, the orders are those that its own branch had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fusegen.sim.errors import SimulationError
from fusegen.sim.explore.reversals import reversals
from fusegen.sim.explore.trace import ActorKey, Operations, Trace, dependent


class Redundant(SimulationError):
    """Whatever this run could still do, another one does. It ends the run; the search goes on with the next one."""


@dataclass(slots=True)
class Decision:
    """A node of the tree on the path of the current run.

    `enabled` could go on, `wanted` shall all be chosen, `asleep` need not be. Those that were chosen, and those that
    sleep, have the operations of their next step; `operations` are those of the chosen actor.
    """

    enabled: tuple[ActorKey, ...]
    chosen: ActorKey
    wanted: dict[ActorKey, None]
    asleep: dict[ActorKey, Operations] = field(default_factory=dict)
    operations: Operations = ()


class Search:
    """Depth-first search with source sets and sleep sets. Call `choose` at every decision of a run, then `end`."""

    def __init__(self) -> None:
        self._path: list[Decision] = []
        self._kept = 0
        self._done = 0

    def choose(self, enabled: Sequence[ActorKey], operations: Operations) -> ActorKey:
        """Who goes on; `operations` are what the actor of the decision before has done.

        Raises Redundant where nobody needs to.
        """
        self._did(operations)
        if self._done == len(self._path):
            asleep = self._still_asleep()
            awake = next((actor for actor in enabled if actor not in asleep), None)
            if awake is None:
                raise Redundant("the rest of the run is in others")
            self._path.append(Decision(tuple(enabled), awake, {awake: None}, asleep))
        decision = self._path[self._done]
        if decision.chosen not in enabled:
            raise SimulationError(
                f"decision {self._done}: expected {decision.chosen} to be able to go on, as in the run before, "
                f"got {', '.join(map(str, enabled))}: what the module does depends on more than its inputs"
            )
        self._done += 1
        return decision.chosen

    def end(self, operations: Operations, trace: Trace, waiting: Mapping[ActorKey, Operations]) -> bool:
        """The run has ended, `operations` were its last ones, and `waiting` never ended; whether there is another."""
        self._did(operations)
        new = next((place for place, step in enumerate(trace.steps) if step.decision >= self._kept - 1), 0)
        for reversal in reversals(trace, waiting, start=new):
            self._want(self._path[reversal.decision], reversal.first)
        return self._turn()

    @property
    def decisions(self) -> int:
        """Decisions of the current run so far."""
        return self._done

    def _did(self, operations: Operations) -> None:
        if self._done:
            self._path[self._done - 1].operations = operations

    def _still_asleep(self) -> dict[ActorKey, Operations]:
        """Who sleeps after the last decision: who did before, but for those who depend on what was done."""
        if not self._path:
            return {}
        last = self._path[-1]
        return {
            actor: operations
            for actor, operations in last.asleep.items()
            if actor != last.chosen and not dependent(operations, last.operations)
        }

    def _want(self, decision: Decision, first: Iterable[ActorKey]) -> None:
        """One of `first` shall be chosen; everybody, where none of them can go on."""
        if any(actor in decision.wanted for actor in first):
            return
        able = [actor for actor in first if actor in decision.enabled]
        for actor in able[:1] or decision.enabled:
            decision.wanted[actor] = None

    def _turn(self) -> bool:
        """Go back to the last decision with somebody left to choose."""
        while self._path:
            decision = self._path[-1]
            decision.asleep[decision.chosen] = decision.operations
            left = [actor for actor in decision.wanted if actor not in decision.asleep]
            if left:
                decision.chosen = left[0]
                self._kept, self._done = len(self._path), 0
                return True
            self._path.pop()
        return False
