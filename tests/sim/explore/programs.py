"""Tiny abstract programs: actors that write, wait for and read words, and meet; and all of their interleavings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusegen.sim.explore.search import Redundant, Search
from fusegen.sim.explore.trace import ActorKey, Operation, Operations, Trace


@dataclass(frozen=True)
class Write:
    word: int
    value: int


@dataclass(frozen=True)
class Wait:
    """Ends when every word has its value."""

    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SkipIf:
    """Reads a word and leaves out the next instruction if it has this value."""

    word: int
    value: int


@dataclass(frozen=True)
class Meet:
    """All actors meet."""


Program = Sequence[Sequence[Write | Wait | SkipIf | Meet]]
Choose = Callable[[Sequence[ActorKey], Operations], ActorKey]
Outcome = tuple[frozenset[object], tuple[int, ...], tuple[int, ...]]
"""The order of the steps, where every actor has stopped, and what the words hold."""


class Run:
    """One run of a program; `choose` decides."""

    def __init__(self, program: Program, choose: Choose) -> None:
        self._program = program
        self._choose = choose
        self.trace = Trace()
        self.words: dict[int, int] = dict.fromkeys(range(8), 0)
        self.places = [0] * len(program)
        self.met: list[int] = []
        self.operations: Operations = ()

    def run(self) -> Outcome:
        """Until nobody can go on."""
        decision = 0
        while enabled := [actor for actor in range(len(self.places)) if self._can_go(actor)]:
            (actor,) = self._choose([(each,) for each in enabled], self.operations)
            self.operations = self._go(int(actor or 0), decision)
            decision += 1
        return self.trace.order(), tuple(self.places), tuple(self.words.values())

    def waiting(self) -> dict[ActorKey, Operations]:
        """Waits that have not ended, by actor."""
        return {
            (actor,): self._operations(instruction)
            for actor, place in enumerate(self.places)
            if place < len(self._program[actor]) and isinstance(instruction := self._program[actor][place], Wait)
        }

    def _can_go(self, actor: int) -> bool:
        if self.places[actor] == len(self._program[actor]) or actor in self.met:
            return False
        instruction = self._program[actor][self.places[actor]]
        return not isinstance(instruction, Wait) or all(self.words[word] == value for word, value in instruction.words)

    def _operations(self, instruction: Write | Wait | SkipIf) -> Operations:
        match instruction:
            case Write(word, value):
                return (Operation("write", ("word",), word, word, bytes([value]), bytes([self.words[word]])),)
            case Wait(words):
                return tuple(Operation("wait", ("word",), word, word, bytes([value])) for word, value in words)
            case SkipIf(word, _):
                return (Operation("read", ("word",), word, word),)

    def _go(self, actor: int, decision: int) -> Operations:
        instruction = self._program[actor][self.places[actor]]
        if isinstance(instruction, Meet):
            self._meet(actor, decision)
            return ()
        operations = self._operations(instruction)
        self.trace.add((actor,), operations, decision=decision)
        self.places[actor] += 1
        match instruction:
            case Write(word, value):
                self.words[word] = value
            case SkipIf(word, value) if self.words[word] == value:
                self.places[actor] = min(self.places[actor] + 1, len(self._program[actor]))
        return operations

    def _meet(self, actor: int, decision: int) -> None:
        self.trace.add((actor,), (), decision=decision)
        self.met.append(actor)
        if len(self.met) == len(self.places):
            clocks = [self.trace.known((each,)) for each in self.met]
            for each in self.met:
                self.places[each] += 1
                for clock in clocks:
                    self.trace.learn((each,), clock)
            self.met.clear()


def searched(program: Program) -> list[Outcome | None]:
    """What the runs of the search give, in their order; None for those that are cut short."""
    search = Search()
    outcomes: list[Outcome | None] = []
    while True:
        run = Run(program, search.choose)
        try:
            outcomes.append(run.run())
        except Redundant:
            outcomes.append(None)
        if not search.end(run.operations, run.trace, run.waiting()):
            return outcomes


def exhausted(program: Program) -> set[Outcome]:
    """What all interleavings give."""
    outcomes = set()
    turns: list[tuple[int, int]] = []
    while True:
        done = 0

        def choose(enabled: Sequence[ActorKey], _: Operations) -> ActorKey:
            nonlocal done
            if done == len(turns):
                turns.append((0, len(enabled)))
            done += 1
            return enabled[turns[done - 1][0]]

        outcomes.add(Run(program, choose).run())
        while turns and turns[-1][0] + 1 == turns[-1][1]:
            turns.pop()
        if not turns:
            return outcomes
        turn, choices = turns.pop()
        turns.append((turn + 1, choices))
