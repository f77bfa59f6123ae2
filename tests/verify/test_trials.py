"""How schedules are dealt to conditions."""

from __future__ import annotations

from collections import Counter

import pytest

from fusegen.verify.trials import PROVING, TRYING, Subject, further_trials, proving_trials


def test_every_condition_is_run_once_with_its_order_checked(clean: Subject) -> None:
    trials = proving_trials(clean)
    assert [trial.condition for trial in trials] == list(clean.conditions)
    assert {(trial.schedule, trial.seed, trial.races) for trial in trials} == {(PROVING, 0, True)}


@pytest.mark.parametrize(("schedules", "further"), [(1, 0), (2, 0), (3, 1), (50, 48)])
def test_schedules_are_counted_with_the_first_runs(clean: Subject, schedules: int, further: int) -> None:
    assert len(list(further_trials(clean, schedules, settled=[True, True]))) == further


def test_conditions_and_strategies_take_turns(clean: Subject) -> None:
    rounds = 3
    count = 2 + 2 * rounds * len(TRYING)
    trials = list(further_trials(clean, count, settled=[True, True]))
    assert Counter(trial.place for trial in trials) == {0: rounds * len(TRYING), 1: rounds * len(TRYING)}
    for place in (0, 1):
        names = Counter(trial.schedule for trial in trials if trial.place == place)
        assert names == dict.fromkeys(TRYING, rounds)
    assert len(set(trials)) == len(trials)


def test_only_what_is_not_settled_is_checked_again(clean: Subject) -> None:
    trials = further_trials(clean, 10, settled=[True, False])
    assert {(trial.place, trial.races) for trial in trials} == {(0, False), (1, True)}
