"""fusegen run: a generated module on the CPU machine, compared with its reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fusegen.cli.base import echo_json, json_option, printing_to_stderr, project_options
from fusegen.cli.subject import open_subject, refuse_impossible
from fusegen.cli.values import Outcome, Size, parse_shape, size_for, size_without_spec
from fusegen.errors import UsageError, listed
from fusegen.project import Project
from fusegen.sim.mix import MAX_PROGRAMS, core_unit_of
from fusegen.sim.schedule import SCHEDULE_NAMES, ScheduleName

if TYPE_CHECKING:
    from fusegen.plan import KernelPlan


@click.command()
@click.argument("spec", required=False)
@click.option("--all", "run_all", is_flag=True, help="Run every spec of the project, and print one row for each.")
@click.option("--ranks", type=click.IntRange(1, 16), help="Number of ranks.")
@click.option(
    "--ranks-per-node",
    type=click.IntRange(1, 16),
    metavar="N",
    help="Ranks of one node, a divisor of the ranks: MTE does not reach other nodes.  [default: all ranks]",
)
@click.option(
    "--cores",
    type=click.IntRange(1, MAX_PROGRAMS),
    help="Cores of each rank: AI cores for mix kernels, else vector cores.  [default with --shape: all of the target]",
)
@click.option("--shape", metavar="K=V,...", help="Tensor sizes, for example S=130,H=3,D=72.")
@click.option("--launches", type=click.IntRange(1), help="Launches on one workspace.  [default with --shape: 1]")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Seed of input and schedule.")
@click.option("--schedule-seed", type=click.IntRange(0), help="Seed of the schedule alone.  [default: --seed]")
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULE_NAMES),
    default="round-robin",
    show_default=True,
    help="Which core goes next, and with late-stores when others see what it has stored: docs/verifying.md.",
)
@click.option(
    "--races/--no-races",
    default=True,
    show_default=True,
    help="Check that all accesses are ordered, and whether the run proves every schedule.",
)
@click.option("--set", "overrides", multiple=True, metavar="K=V", help="Change the spec for this run: tile.d=64.")
@click.option(
    "--replay",
    "replay_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Repeat the run with a finding that `fusegen verify` has recorded; takes no other options.",
)
@click.option(
    "--dump-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for what each rank of a run that hangs would dump: fusegen diagnose reads it.",
)
@json_option
@project_options
@click.pass_context
def run(
    context: click.Context,
    project: Project,
    spec: str | None,
    run_all: bool,
    ranks: int | None,
    ranks_per_node: int | None,
    cores: int | None,
    shape: str | None,
    launches: int | None,
    seed: int,
    schedule_seed: int | None,
    schedule: ScheduleName,
    races: bool,
    overrides: tuple[str, ...],
    replay_file: Path | None,
    dump_dir: Path | None,
    as_json: bool,
) -> None:
    """Run a kernel on a CPU and compare it with its reference.

    SPEC is a name in the specs folder, a path to a .yaml file, or a path to a generated .py file. Without --shape, the
    first verification point of the spec supplies what the options leave out. The generated file runs as it stands;
    where there is none, or with --set, the spec is rendered for this run only. Exit status 1: a finding, or wrong
    values; that a run without findings does not prove every schedule is told, and no failure.

    \b
    Examples:
      fusegen run exchange
      fusegen run exchange --ranks 4 --shape S=2045,H=12,D=128
      fusegen run exchange --schedule slow-core --schedule-seed 3
      fusegen run edited.py --ranks 2 --cores 4 --shape S=257,H=1,D=128 --dump-dir dumps
    """
    from fusegen.cli import report
    from fusegen.doctor import require_sim

    given = {
        "ranks": ranks,
        "cores": cores,
        "shape": None if shape is None else parse_shape(shape),
        "launches": launches,
    }
    options = {
        "seed": seed,
        "schedule_seed": schedule_seed,
        "schedule": schedule,
        "ranks_per_node": ranks_per_node,
        "races": races,
        "dump_dir": dump_dir,
        "cost": as_json,
    }
    if replay_file is not None:
        _refuse_others(context)
    elif (spec is None) != run_all:
        raise UsageError(f"expected a SPEC or --all, got {'both of them' if run_all else 'neither of them'}")
    if run_all and (shape or overrides):
        raise UsageError("expected --shape and --set with a single SPEC, got one of them with --all")
    require_sim()
    if replay_file is not None:
        outcomes = [_repeat(replay_file)]
    else:
        names = [str(path) for path in project.spec_paths()] if run_all else [spec or ""]
        if not names:
            raise UsageError(f"--all: expected specs in {project.shown(project.specs)}, got none")
        outcomes = [_simulate(each, project, overrides, given, options) for each in names]
    if as_json:
        documents = [outcome.to_json() for outcome in outcomes]
        echo_json(documents if run_all else documents[0])
    else:
        report.print_outcomes(outcomes)
    context.exit(0 if all(outcome.result.ok for outcome in outcomes) else 1)


def _simulate(
    name: str, project: Project, overrides: tuple[str, ...], given: dict[str, Any], options: dict[str, Any]
) -> Outcome:
    """One run of one kernel, with a progress bar on stderr where a person watches."""
    from fusegen.cli.report import progress_bar
    from fusegen.sim import run_module

    with open_subject(name, project, overrides) as subject:
        size = size_for(subject.loaded.spec, **given) if subject.loaded else size_without_spec(**given)
        refuse_impossible(subject.plan, size, core_unit_of(subject.module))
        per_node = options["ranks_per_node"]
        if per_node and size.ranks % per_node:
            raise UsageError(
                f"--ranks-per-node: expected a divisor of {size.ranks}, the number of ranks, got {per_node}"
            )
        with progress_bar(subject.name, _tiles(subject.plan, size)) as progress, printing_to_stderr():
            result = run_module(
                subject.module,
                ranks=size.ranks,
                cores=size.cores,
                shape=size.shape,
                launches=size.launches,
                target=subject.loaded.spec.target if subject.loaded else None,
                **options,
                progress=progress,
            )
        dump_dir = options["dump_dir"]
        dumps = [dump_dir / f"{facts['kernel']}.rank{facts['rank']}.json" for facts in result.dumps] if dump_dir else []
        return Outcome(subject.name, size, result, tuple(map(str, dumps)))


def _refuse_others(context: click.Context) -> None:
    """Raises UsageError when --replay, which says it all, is not alone."""
    given = [
        parameter.opts[-1] if isinstance(parameter, click.Option) else "SPEC"
        for parameter in context.command.params
        if parameter.name not in ("replay_file", "as_json")
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise UsageError(f"--replay: expected nothing else but --json, got {listed(given, 'and')}")


def _repeat(path: Path) -> Outcome:
    """The run of a replay file again; says on stderr when it does not end as it did."""
    from fusegen.verify.replay import read_replay

    recorded = read_replay(path)
    with printing_to_stderr():
        result = recorded.run()
    if tuple(map(str, result.findings)) != recorded.findings:
        click.echo(f"warning: {path} has other findings: the simulator has changed since it was written", err=True)
    return Outcome(recorded.kernel, Size(recorded.ranks, recorded.cores, recorded.shape, recorded.launches), result)


def _tiles(plan: KernelPlan | None, size: Size) -> int | None:
    """Tiles that a run without findings stores, as far as that is known; transfers and atomic sums store none."""
    if plan is None:
        return None
    from fusegen.plan.evaluate import Conditions, stage_work
    from fusegen.plan.stages import Kind

    stores = (Kind.MOVE, Kind.REDUCE, Kind.GEMM)
    conditions = Conditions(ranks=size.ranks, cores=size.cores, shape=size.shape)
    tiles = sum(stage_work(plan, conditions, stage).tiles for stage in plan.stages if stage.kind in stores)
    return tiles * size.ranks * size.launches
