"""Exploring a generated module: the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from fusegen.sim.explore.recorder import Recorder
from fusegen.sim.explore.search import Redundant, Search
from fusegen.sim.explore.trace import MemoryKey
from fusegen.sim.findings import Finding
from fusegen.sim.program import DEFAULT_STEP_LIMIT
from fusegen.sim.run import RunResult, run_module

DEFAULT_LIMIT: Final = 1000
"""Runs after which an exploration stops without being complete."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding, and the schedule that shows it: what `Replay` takes."""

    finding: Finding
    schedule: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exploration:
    """Outcome of an exploration.

    `runs` counts runs of the simulator, those that ended early because others do the rest included. `complete` tells
    that no order is left. `findings` are distinct by kind and lines. `orders` counts the orders in which whole runs
    wrote, read and waited for words that actors synchronise by.
    """

    runs: int
    complete: bool
    findings: tuple[Shown, ...]
    orders: int


def explore_module(
    path: Path,
    *,
    ranks: int,
    cores: int,
    shape: Mapping[str, int],
    launches: int = 1,
    seed: int = 0,
    target: str | None = None,
    ranks_per_node: int | None = None,
    step_limit: int = DEFAULT_STEP_LIMIT,
    limit: int = DEFAULT_LIMIT,
    stop_at_finding: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Exploration:
    """Run the self-check of the module at `path` in every order in which its actors can synchronise.

    The options of a run are those of `run_module`, and so are the errors. At most `limit` runs are made;
    `stop_at_finding` ends with the first run that finds something. `progress` is told the number of runs after each.
    """
    run = partial(
        run_module,
        path,
        ranks=ranks,
        cores=cores,
        shape=shape,
        launches=launches,
        seed=seed,
        target=target,
        ranks_per_node=ranks_per_node,
        step_limit=step_limit,
        record=True,
        races=True,
    )
    shared: set[MemoryKey] = set()
    search = Search()
    found: dict[object, Shown] = {}
    orders: set[frozenset[object]] = set()
    runs, goes_on = 0, True
    while goes_on and runs < limit and not (found and stop_at_finding):
        recorder = Recorder(search, shared)
        result: RunResult | None = None
        with suppress(Redundant):
            result = run(schedule=recorder, observers=(recorder.observe,))
        runs += 1
        if progress is not None:
            progress(runs)
        if recorder.is_outdated:
            search, orders = Search(), set()
            continue
        goes_on = recorder.end()
        if result is not None:
            orders.add(recorder.trace.order())
            for finding in result.findings:
                found.setdefault(_likeness(finding), Shown(finding, result.schedule or ()))
    return Exploration(runs, not goes_on, tuple(found.values()), len(orders))


def _likeness(finding: Finding) -> object:
    """Equal for findings that differ in actors and values only."""
    return finding.kind, finding.location, getattr(finding, "other_location", None)
