"""Compiling many modules in a pool of processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from fusegen.vendor.compilation import Compilation, Subject, compile_subject

Progress = Callable[[str, int, int], None]
"""Told the name of the module that is done, how many are, and how many there will be."""


def compile_all(
    subjects: Sequence[Subject], *, jobs: int, progress: Progress = lambda name, done, total: None
) -> Iterator[Compilation]:
    """Compile modules, the results in their order. `jobs` processes share the work.

    Raises what `compile_subject` raises.
    """
    with ProcessPoolExecutor(min(jobs, len(subjects)), multiprocessing.get_context("spawn")) as pool:
        try:
            for number, compiled in enumerate(pool.map(compile_subject, subjects), start=1):
                progress(compiled.subject.name, number, len(subjects))
                yield compiled
        finally:
            pool.shutdown(cancel_futures=True)
