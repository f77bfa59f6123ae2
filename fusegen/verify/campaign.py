"""Verifying modules in a pool of processes."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Final

from fusegen.errors import UsageError
from fusegen.verify.replay import write_replay
from fusegen.verify.trials import Condition, Subject, Trial, further_trials, proving_trials
from fusegen.verify.verdicts import ConditionVerdict, Explored, Failure, SubjectVerdict, TrialResult

AHEAD: Final = 3
"""Trials under way or waiting, for each process of the pool."""

Progress = Callable[[str, int, int], None]
"""Told the name of a subject, how many of its trials are done, and how many there will be."""


def verify(
    subjects: Sequence[Subject],
    *,
    schedules: int,
    jobs: int,
    replay_folder: Path,
    progress: Progress = lambda name, done, total: None,
) -> Iterator[SubjectVerdict]:
    """Verify one module after the other, each under `schedules` schedules, and at least one for each condition.

    `jobs` processes share the trials. Trying a condition ends with its first finding, which a file in `replay_folder`
    reproduces. The verdicts do not depend on `jobs` or on timing.

    Raises what `run_module` raises, such as Unsupported for a builtin that the simulator does not know, and UsageError
    when a module ends the process that runs it, or its replay cannot be written.
    """
    with _pool(jobs) as pool:
        for subject in subjects:
            try:
                verdict = _verify(subject, pool, AHEAD * jobs, schedules, replay_folder, progress)
            except BrokenProcessPool as error:
                raise UsageError(
                    f"{subject.module}: expected it to return, got a process that ended with it: "
                    "does it crash, or does memory run out? (--jobs 1 needs the least)"
                ) from error
            yield verdict


def _verify(
    subject: Subject, pool: Executor, ahead: int, schedules: int, replay_folder: Path, progress: Progress
) -> SubjectVerdict:
    verdicts = tuple(ConditionVerdict(condition) for condition in subject.conditions)
    total = max(schedules, len(verdicts))
    done = 0

    def settle(trials: Iterable[Trial]) -> None:
        nonlocal done
        wanted = (trial for trial in trials if verdicts[trial.place].ok)
        for result in _results(pool, wanted, ahead):
            verdicts[result.trial.place].add(result)
            done += 1
            progress(subject.name, done, total)

    settle(proving_trials(subject))
    settle(further_trials(subject, schedules, settled=[verdict.proved for verdict in verdicts]))
    explored: tuple[Explored, ...] = ()
    if all(verdict.ok for verdict in verdicts) and not all(verdict.proved for verdict in verdicts):
        explored = tuple(pool.map(explore, itertools.repeat(subject), subject.tiny))
    judged: tuple[ConditionVerdict | Explored, ...] = (*verdicts, *explored)
    for each in judged:
        if each.failed is not None:
            each.replay = write_replay(replay_folder, each.failed)
    return SubjectVerdict(subject, verdicts, explored)


def _results(pool: Executor, trials: Iterable[Trial], ahead: int) -> Iterator[TrialResult]:
    """The outcomes in the order of the trials, of which at most `ahead` are taken before the first one is done."""
    waiting: deque[Future[TrialResult]] = deque()
    for trial in trials:
        waiting.append(pool.submit(_run, trial))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _run(trial: Trial) -> TrialResult:
    """Run a trial in a process of the pool."""
    result = trial.run()
    failure = None
    if result.findings:
        made = (trial.schedule, trial.seed, trial.races)
        failure = Failure(
            trial.subject, trial.condition, *made, result.findings, result.schedule or (), result.late_stores
        )
    return TrialResult(trial, failure, result.proof, result.max_abs_err, result.wall_s)


def explore(subject: Subject, condition: Condition) -> Explored:
    """Explore the orders of a condition in a process of the pool, up to the first finding."""
    from fusegen.sim.explore.run import explore_module

    exploration = explore_module(
        subject.module,
        ranks=condition.ranks,
        cores=condition.cores,
        shape=condition.shape,
        launches=condition.launches,
        target=subject.target,
        stop_at_finding=True,
    )
    failure = None
    if exploration.findings:
        first = exploration.findings[0]
        alike = tuple(shown.finding for shown in exploration.findings if shown.schedule == first.schedule)
        failure = Failure(subject, condition, "explored", 0, True, alike, first.schedule)
    return Explored(condition, exploration.runs, exploration.complete, exploration.orders, failure)


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[Executor]:
    """A pool whose processes know nothing of this one; each computes on one thread.

    They end with this one. Where it is interrupted, or gives up, they end at once, in the middle of a run.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_start)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Prepare a process: the one that began it deals with interrupts, and what modules print goes nowhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)

    import torch

    torch.set_num_threads(1)
