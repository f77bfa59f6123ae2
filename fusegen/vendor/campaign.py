"""Work on many modules in a pool of processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

from fusegen.vendor.compilation import Compilation, Subject, compile_subject
from fusegen.vendor.native.trials import NativeVerdict, Trial, run_natively

Progress = Callable[[str, int, int], None]
"""Told the name of the module that is done, how many are, and how many there will be."""
Work = tuple[Subject, tuple[Trial, ...]]
"""A module and how to run it."""
Task = TypeVar("Task")
Answer = TypeVar("Answer")


def _silent(name: str, done: int, total: int) -> None:
    """Nobody is told."""


def compile_all(subjects: Sequence[Subject], *, jobs: int, progress: Progress = _silent) -> Iterator[Compilation]:
    """Compile modules, the results in their order. `jobs` processes share the work.

    Raises what `compile_subject` raises.
    """
    names = [subject.name for subject in subjects]
    return _shared_out(compile_subject, subjects, names, jobs, progress)


def run_all(
    work: Sequence[Work], *, seconds: float, jobs: int, progress: Progress = _silent
) -> Iterator[NativeVerdict]:
    """Run modules natively, the results in their order; a trial may take `seconds`. `jobs` processes share the work.

    Raises what `run_natively` raises.
    """
    names = [subject.name for subject, _ in work]
    return _shared_out(partial(_run, seconds=seconds), work, names, jobs, progress)


def _run(work: Work, *, seconds: float) -> NativeVerdict:
    return run_natively(*work, seconds=seconds)


def _shared_out(
    function: Callable[[Task], Answer], tasks: Sequence[Task], names: Sequence[str], jobs: int, progress: Progress
) -> Iterator[Answer]:
    with ProcessPoolExecutor(min(jobs, len(tasks)), multiprocessing.get_context("spawn")) as pool:
        try:
            for number, answer in enumerate(pool.map(function, tasks), start=1):
                progress(names[number - 1], number, len(tasks))
                yield answer
        finally:
            pool.shutdown(cancel_futures=True)
