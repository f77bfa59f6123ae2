"""fusegen verify: modules under all conditions of their specs and many schedules, in a pool of processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fusegen.cli.base import echo_json, json_option, project_options
from fusegen.cli.subject import RunSubject, open_subject, refuse_impossible
from fusegen.cli.values import Size, parse_shape, size_for, size_without_spec
from fusegen.errors import UsageError
from fusegen.project import Project
from fusegen.sim.mix import core_unit_of
from fusegen.verify.trials import Condition, Subject

if TYPE_CHECKING:
    from fusegen.spec import KernelSpec

SCHEDULES: Final = 48
"""Schedules of each spec, if not told otherwise."""

LAUNCHES: Final = 2
"""Launches of a kernel whose orders are explored: one meets what another has left."""


@click.command()
@click.argument("specs", nargs=-1, metavar="[SPEC ...]")
@click.option(
    "--schedules",
    type=click.IntRange(1),
    default=SCHEDULES,
    show_default=True,
    help="Runs of each spec, dealt to its verification points; every point has at least one.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [one for each CPU]")
@click.option(
    "--replay-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("replays"),
    show_default=True,
    help="Folder for the files that reproduce findings.",
)
@click.option("--ranks", type=click.IntRange(1, 16), help="Verify under this number of ranks only.")
@click.option("--cores", type=click.IntRange(1), help="Cores of each rank.")
@click.option("--shape", metavar="K=V,...", help="Verify under this shape only, for example S=130,H=3,D=72.")
@click.option("--launches", type=click.IntRange(1), help="Launches on one workspace.")
@click.option("--set", "overrides", multiple=True, metavar="K=V", help="Change the spec for this: tile.d=64.")
@json_option
@project_options
@click.pass_context
def verify(
    context: click.Context,
    project: Project,
    specs: tuple[str, ...],
    schedules: int,
    jobs: int | None,
    replay_dir: Path,
    ranks: int | None,
    cores: int | None,
    shape: str | None,
    launches: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Prove kernels for every schedule, and try many schedules besides.

    SPEC is what `fusegen run` takes; without any, all specs of the project are verified. Each runs under all its
    verification points and world sizes: first with the order of its accesses checked, which settles all schedules of
    that point (docs/proof.md), then under random, adversarial and skewed schedules. The options narrow the points
    down; a .py file without a spec needs --ranks, --cores and --shape. A finding ends the trials of its point and
    writes a file that `fusegen run --replay FILE` reproduces. Exit status 1: a finding.
    """
    from fusegen.cli import report
    from fusegen.doctor import require_sim
    from fusegen.verify.campaign import verify as verify_all

    require_sim()
    names = specs or tuple(str(path) for path in project.spec_paths())
    if not names:
        raise UsageError(f"expected specs in {project.shown(project.specs)}, got none")
    given = {
        "ranks": ranks,
        "cores": cores,
        "shape": None if shape is None else parse_shape(shape),
        "launches": launches,
    }
    started = time.perf_counter()
    with ExitStack() as stack:
        opened = [stack.enter_context(open_subject(name, project, overrides)) for name in names]
        subjects = [_to_verify(each, given) for each in opened]
        progress = stack.enter_context(report.verification_bar(len(subjects)))
        jobs = jobs or os.cpu_count() or 1
        found = verify_all(subjects, schedules=schedules, jobs=jobs, replay_folder=replay_dir, progress=progress)
        verdicts = list(found)
    seconds = time.perf_counter() - started
    if as_json:
        echo_json(
            {
                "ok": all(verdict.ok for verdict in verdicts),
                "proved": all(verdict.proved for verdict in verdicts),
                "schedules": sum(verdict.schedules for verdict in verdicts),
                "seconds": round(seconds, 3),
                "specs": [verdict.to_json() for verdict in verdicts],
            }
        )
    else:
        report.print_verdicts(verdicts, seconds)
    context.exit(0 if all(verdict.ok for verdict in verdicts) else 1)


def _to_verify(opened: RunSubject, given: dict[str, Any]) -> Subject:
    """The module with its conditions: those of its spec, as far as the options leave them as they are."""
    from fusegen.plan import make_plan
    from fusegen.plan.small import small_conditions

    if opened.loaded is None:
        size = size_without_spec(**given)
        return Subject(opened.name, opened.module, None, (_condition(size),), (_condition(size),))
    spec = opened.loaded.spec
    sizes = list(_sizes(spec, given))
    for size in sizes:
        refuse_impossible(opened.plan, size, core_unit_of(opened.module))
    conditions = dict.fromkeys(map(_condition, sizes))
    plan = opened.plan or make_plan(opened.name, spec)
    tiny = [Size(each.ranks, each.cores, each.shape, LAUNCHES) for each in small_conditions(plan)]
    return Subject(opened.name, opened.module, spec.target, tuple(conditions), tuple(map(_condition, tiny)))


def _sizes(spec: KernelSpec, given: dict[str, Any]) -> Iterator[Size]:
    """What to verify: a given shape under the world sizes of the first point, otherwise every point under its own."""
    if given["shape"] is not None:
        for ranks in [given["ranks"]] if given["ranks"] else spec.verify[0].ranks:
            yield size_for(spec, **given | {"ranks": ranks})
        return
    for point in spec.verify:
        for ranks in [given["ranks"]] if given["ranks"] else point.ranks:
            yield Size(
                ranks=ranks,
                cores=given["cores"] or point.cores,
                shape=point.shape.model_dump(),
                launches=given["launches"] or point.launches,
            )


def _condition(size: Size) -> Condition:
    return Condition(size.ranks, size.cores, tuple(size.shape.items()), size.launches)
