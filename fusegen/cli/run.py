"""fusegen run: a generated module on the CPU machine, compared with its reference."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from fusegen.cli.base import echo_json, json_option, note_cores, project_options
from fusegen.cli.values import Outcome, Size, parse_shape, size_for, size_without_spec
from fusegen.errors import PlanError, UsageError
from fusegen.project import Project
from fusegen.sim.mix import CoreUnit, core_unit_of
from fusegen.sim.schedule import SCHEDULE_NAMES, ScheduleName

if TYPE_CHECKING:
    from fusegen.plan import KernelPlan
    from fusegen.spec import LoadedSpec


@click.command()
@click.argument("spec", required=False)
@click.option("--all", "run_all", is_flag=True, help="Run every spec of the project, and print one row for each.")
@click.option("--ranks", type=click.IntRange(1, 16), help="Number of ranks.")
@click.option(
    "--ranks-per-node",
    type=click.IntRange(1, 16),
    metavar="N",
    help="Ranks of one node, a divisor of the ranks: MTE does not reach other nodes.  [all ranks on one node]",
)
@click.option(
    "--cores",
    type=click.IntRange(1),
    help="Cores of each rank: AI cores for mix kernels, else vector cores.  [with --shape: all of the target]",
)
@click.option("--shape", metavar="K=V,...", help="Tensor sizes, for example S=130,H=3,D=72.")
@click.option("--launches", type=click.IntRange(1), help="Launches on one workspace.  [with --shape: 1]")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Seed of input and schedule.")
@click.option("--schedule-seed", type=click.IntRange(0), help="Seed of the schedule alone.  [the seed]")
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULE_NAMES),
    default="round-robin",
    show_default=True,
    help="Which core goes next.",
)
@click.option(
    "--races/--no-races",
    default=True,
    show_default=True,
    help="Check that all accesses are ordered, and whether the run proves every schedule.",
)
@click.option("--set", "overrides", multiple=True, metavar="K=V", help="Change the spec for this run: tile.d=64.")
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
    dump_dir: Path | None,
    as_json: bool,
) -> None:
    """Run a kernel on the CPU machine and compare it with its reference.

    SPEC is a name in the specs folder, a path to a .yaml file, or a path to a generated .py file. Without --shape, the
    first verification point of the spec supplies what the options leave out. The generated file runs as it stands;
    where there is none, or with --set, the spec is rendered for this run only. Exit status 1: a finding, or wrong
    values; that a run without findings does not prove every schedule is told, and no failure.
    """
    from fusegen.cli import report
    from fusegen.doctor import require_sim

    if (spec is None) != run_all:
        raise UsageError(f"expected a SPEC or --all, got {'both of them' if run_all else 'neither of them'}")
    if run_all and (shape or overrides):
        raise UsageError("expected --shape and --set with a single SPEC, got one of them with --all")
    require_sim()
    given = {
        "ranks": ranks,
        "cores": cores,
        "shape": None if shape is None else parse_shape(shape),
        "launches": launches,
    }
    names = [str(path) for path in project.spec_paths()] if run_all else [spec or ""]
    if not names:
        raise UsageError(f"--all: expected specs in {project.shown(project.specs)}, got none")
    options = {
        "seed": seed,
        "schedule_seed": schedule_seed,
        "schedule": schedule,
        "ranks_per_node": ranks_per_node,
        "races": races,
        "dump_dir": dump_dir,
    }
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

    with _subject(name, project, overrides) as subject:
        size = size_for(subject.loaded.spec, **given) if subject.loaded else size_without_spec(**given)
        _refuse_impossible(subject.plan, size, core_unit_of(subject.module))
        per_node = options["ranks_per_node"]
        if per_node and size.ranks % per_node:
            raise UsageError(
                f"--ranks-per-node: expected a divisor of {size.ranks}, the number of ranks, got {per_node}"
            )
        # What the module prints goes to stderr: stdout is for the result.
        with progress_bar(subject.name, _tiles(subject.plan, size)) as progress, redirect_stdout(sys.stderr):
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


def _refuse_impossible(plan: KernelPlan | None, size: Size, unit: CoreUnit) -> None:
    """Raises PlanError before gigabytes are allocated for a run that the launcher would refuse."""
    if plan is None:
        return
    from fusegen.plan.evaluate import Conditions
    from fusegen.plan.explain import condition_faults

    if faults := condition_faults(plan, Conditions(size.ranks, size.cores, size.shape)):
        raise PlanError(faults)
    note_cores(plan, size.cores, unit)


@dataclass(frozen=True, slots=True)
class Subject:
    """The module to run, and the spec and plan that belong to it, if there are any."""

    module: Path
    loaded: LoadedSpec | None
    plan: KernelPlan | None

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.module.stem


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


@contextmanager
def _subject(name: str, project: Project, overrides: tuple[str, ...]) -> Iterator[Subject]:
    """What `name` means; a module that is rendered for this run is removed afterwards."""
    from fusegen.pipeline import build
    from fusegen.spec import load_spec

    if name.endswith(".py"):
        yield _given_module(Path(name), project, overrides)
        return
    loaded = load_spec(project.find_spec(name), overrides)
    built = build(loaded, project)
    module = project.module_path(loaded.name)
    if module.is_file() and not overrides:
        if module.read_bytes() != built.text.encode():
            shown = project.shown(module)
            click.echo(f"warning: {shown} runs as it stands, but differs from what its spec renders", err=True)
        yield Subject(module, loaded, built.plan)
        return
    with TemporaryDirectory(prefix="fusegen-") as folder:
        module = Path(folder) / f"{loaded.name}.py"
        module.write_text(built.text, encoding="utf-8")
        yield Subject(module, loaded, built.plan)


def _given_module(module: Path, project: Project, overrides: tuple[str, ...]) -> Subject:
    """A module named by its path, with the spec of the same name if the project has one."""
    from fusegen.spec import load_spec

    if overrides:
        raise UsageError(f"expected --set with a spec, got it with the finished module {module}")
    if not module.is_file():
        raise UsageError(f"SPEC: expected a generated module, got no such file: {module}")
    spec = project.specs / f"{module.stem}.yaml"
    return Subject(module, load_spec(spec) if spec.is_file() else None, None)
