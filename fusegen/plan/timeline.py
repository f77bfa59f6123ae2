"""Barriers between rounds: which stage of which round runs in which epoch.

An epoch is the number of barriers that every core has passed. All cores pass the same barriers, so a stage in a later
epoch comes after a stage in an earlier one, on whatever rank and core; within one epoch nothing is ordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from fusegen.plan.ir import Edge
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When

Epochs: TypeAlias = dict[tuple[int, str, int], int]
"""Epoch of (launch, stage, round)."""


def epochs(program: tuple[Node, ...], *, rounds: int, launches: int) -> Epochs:
    """Walk `program` as every core does, for `launches` launches of `rounds` rounds each."""
    result: Epochs = {}
    passed = 0

    def visit(nodes: tuple[Node, ...], launch: int, step: int, current: int | None) -> None:
        nonlocal passed
        for node in nodes:
            match node:
                case Barrier():
                    passed += 1
                case Run(stage) if current is not None:
                    result[launch, stage, current] = passed
                case Run(stage):  # outside of the rounds: all of them at once
                    result.update({(launch, stage, each): passed for each in range(rounds)})
                case Scope(_, body):
                    visit(body, launch, step, current)
                case When(_, None, body):
                    visit(body, launch, step, current)
                case When(_, int(lag), body) if 0 <= step - lag < rounds:
                    visit(body, launch, step, step - lag)
                case When():
                    pass
                case Rounds(_, extra, body):
                    for position in range(rounds + extra):
                        visit(body, launch, position, position if not extra else None)

    for launch in range(launches):
        visit(program, launch, 0, None)
    return result


def unordered(edge: Edge, program: tuple[Node, ...], *, ring: int, rounds: int) -> Iterator[tuple[int, int]]:
    """Pairs (source round, target round) of `edge` that no barrier separates, in launches of `rounds` rounds."""
    at = epochs(program, rounds=rounds, launches=2)
    for source_round in range(rounds):
        if edge.across_launches:
            targets = [(1, r) for r in range(rounds) if r % ring == source_round % ring]
        else:
            targets = [(0, source_round + edge.distance)]
        for launch, target_round in targets:
            if target_round < rounds and at[launch, edge.target, target_round] <= at[0, edge.source, source_round]:
                yield source_round, target_round


def covers(program: tuple[Node, ...], edges: tuple[Edge, ...], *, ring: int) -> bool:
    """True when barriers order every edge, for every number of rounds.

    Epochs are periodic in the round: launches of `relative_rounds` show every relative position of longer ones.
    """
    return not any(
        any(unordered(edge, program, ring=ring, rounds=rounds)) for rounds in relative_rounds(ring) for edge in edges
    )


def relative_rounds(ring: int) -> range:
    """Numbers of rounds that show all that a ring can meet: not full, full, and each position used again twice."""
    return range(1, 2 * ring + 3)
