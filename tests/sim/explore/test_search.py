"""The search on abstract programs, against all of their interleavings."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusegen.sim.errors import SimulationError
from fusegen.sim.explore.search import Search
from fusegen.sim.explore.trace import Operation, Trace
from tests.sim.explore.programs import Meet, Program, SkipIf, Wait, Write, exhausted, searched

WORDS = st.integers(0, 2)
VALUES = st.integers(0, 2)
WAITS = st.dictionaries(WORDS, VALUES, min_size=1, max_size=2).map(lambda words: Wait(tuple(sorted(words.items()))))
INSTRUCTIONS = st.one_of(st.builds(Write, WORDS, VALUES), WAITS, st.builds(SkipIf, WORDS, VALUES))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    actors = draw(st.integers(2, 4))
    longest = {2: 5, 3: 3, 4: 2}[actors]
    program = [draw(st.lists(INSTRUCTIONS, min_size=1, max_size=longest)) for _ in range(actors)]
    if draw(st.booleans()):
        for instructions in program:
            instructions.insert(draw(st.integers(0, len(instructions))), Meet())
    return program


@settings(max_examples=100, deadline=None, derandomize=True)
@given(programs())
@example(
    # The wait can only end before both 0s, which nothing orders.
    [
        [Write(0, 1), Write(0, 0)],
        [Write(1, 1), Write(1, 0)],
        [Wait(((0, 1), (1, 1)))],
    ]
)
@example(
    # It can only end between the writes of one actor and before that of the other.
    [[Write(1, 1), Meet(), Write(0, 1), Write(0, 0)], [Meet(), Write(1, 0)], [Meet(), Wait(((0, 1), (1, 1)))]]
)
def test_the_search_has_every_outcome(program: Program) -> None:
    assert set(searched(program)) - {None} == exhausted(program)


@pytest.mark.parametrize(
    ("program", "outcomes"),
    [
        ([[Write(0, 1)], [Write(0, 2)]], 2),
        ([[Write(0, 1)], [Write(1, 1)], [Write(2, 1)]], 1),
        ([[Write(0, 1)], [Wait(((0, 1),)), Write(0, 0)], [Wait(((0, 0),)), Write(1, 1)]], 2),
        ([[Write(0, 1)], [SkipIf(0, 1), Write(1, 1)], [SkipIf(0, 1), Write(2, 1)]], 4),
        ([[Write(0, 1), Write(1, 1)], [SkipIf(1, 1), Write(2, 1), SkipIf(0, 1)]], 3),
        # The second wait may end with either 1; the actor of the first one has to go on before.
        ([[Write(0, 1)], [Wait(((0, 1),)), Write(1, 1), Write(1, 0), Write(1, 1)], [Wait(((1, 1),))]], 2),
        ([[Write(0, 1)], [Wait(((0, 1),)), Write(0, 2)], [Wait(((0, 2),)), Write(0, 3)]], 1),
    ],
)
def test_every_order_is_run_once(program: Program, outcomes: int) -> None:
    found = searched(program)
    assert None not in found
    assert len(found) == len(set(found)) == outcomes


def test_everybody_goes_on_where_a_reversal_needs_somebody_who_cannot_yet() -> None:
    """Such as a program that starts on the core of another one, whichever that is."""
    search = Search()
    write = (Operation("write", ("word",), 0, 0),)
    trace = Trace()
    for decision, enabled in enumerate([[("a",), ("c",)], [("b",)]]):
        search.choose(enabled, ())
        trace.add(enabled[0], write, decision=decision)
    assert search.end(write, trace, {})
    assert search.choose([("a",), ("c",)], ()) == ("c",)


def test_what_depends_on_more_than_the_schedule_is_refused() -> None:
    search = Search()
    write = Operation("write", ("word",), 0, 0)
    trace = Trace()
    for decision, actor in enumerate([("a",), ("b",)]):
        assert search.choose([("a",), ("b",)][decision:], (write,)) == actor
        trace.add(actor, (write,), decision=decision)
    assert search.end((write,), trace, {})
    with pytest.raises(SimulationError, match=r"^decision 0: expected \('b',\) to be able to go on, as in the run be"):
        search.choose([("a",)], (write,))
