"""fusegen compile: generated modules through the vendor's compiler, on a CPU."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from fusegen.cli.base import echo_json, json_option, project_options
from fusegen.errors import UsageError
from fusegen.project import Project

if TYPE_CHECKING:
    from fusegen.vendor.compilation import Compilation, Subject
    from fusegen.vendor.native.trials import Trial


@click.command("compile")
@click.argument("specs", nargs=-1, metavar="[SPEC ...]")
@click.option("--all", "every", is_flag=True, help="Compile every spec of the project.")
@click.option("--target", "device", metavar="NAME", help="Plan and compile for this device.  [default: the spec's]")
@click.option("--set", "overrides", multiple=True, metavar="K=V", help="Change the spec for this: tile.n=128.")
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [one for each CPU]")
@click.option("--run", is_flag=True, help="Also run the lowered kernels on this machine, against their references.")
@click.option("--ranks", multiple=True, type=click.IntRange(1, 16), help="Ranks of --run, repeatable.  [2 and 4]")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each run of --run may take.",
)
@click.option("--record", is_flag=True, help="Write the verdicts to COMPILED.json beside the modules.")
@json_option
@project_options
@click.pass_context
def compile_command(
    context: click.Context,
    project: Project,
    specs: tuple[str, ...],
    every: bool,
    device: str | None,
    overrides: tuple[str, ...],
    jobs: int | None,
    run: bool,
    ranks: tuple[int, ...],
    timeout: float,
    record: bool,
    as_json: bool,
) -> None:
    """Ask the vendor's compiler what it makes of kernels: memory, double buffering, core functions, calls.

    SPEC is a name in specs/, a path to a spec, or a generated .py file with an entry in the MANIFEST.json beside it. A
    kernel that the planner finds too large is compiled all the same, and both verdicts are shown. Needs the extra
    vendor; --run needs the extra sim and gcc too, and runs the verification points of the specs. Exit status 1: a
    finding.
    """
    from fusegen.cli.compile_report import kernel_bar, print_compilations
    from fusegen.vendor.campaign import compile_all, run_all
    from fusegen.vendor.tools import find_toolchain, tool_versions

    if every == bool(specs):
        raise UsageError(f"expected SPECs or --all, got {'both' if every else 'neither'}")
    if record and (device or overrides):
        raise UsageError("expected --record without --target and --set: the record is about the modules as they are")
    if ranks and not run:
        raise UsageError("expected --ranks with --run, got it alone")
    find_toolchain()
    if run:
        _require_native()
    names = tuple(str(path) for path in project.spec_paths()) if every else specs
    if not names:
        raise UsageError(f"expected specs in {project.shown(project.specs)}, got none")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fusegen-")))
        subjects = [_subject(name, project, device, overrides, folder) for name in names]
        work = _work(subjects, project, overrides, ranks) if run else []
        processes = jobs or os.cpu_count() or 1
        progress = stack.enter_context(kernel_bar("compiling"))
        compiled = list(compile_all(subjects, jobs=processes, progress=progress))
        progress = stack.enter_context(kernel_bar("running"))
        native = list(run_all(work, seconds=timeout, jobs=processes, progress=progress)) if run else []
    if record:
        _write_record(project, compiled)
    ok = all(each.ok for each in compiled) and all(each.ok for each in native)
    if as_json:
        documents = [each.to_json() for each in compiled]
        for document, verdict in zip(documents, native, strict=False):
            document["native"] = verdict.to_json()
        echo_json({"ok": ok, "tools": tool_versions(), "specs": documents})
    else:
        print_compilations(compiled, native)
    context.exit(0 if ok else 1)


def _subject(name: str, project: Project, device: str | None, overrides: tuple[str, ...], folder: Path) -> Subject:
    """What `name` means; a module that no file of the project has as it is planned here is rendered into `folder`."""
    from fusegen.pipeline import build
    from fusegen.spec import load_spec
    from fusegen.targets import target
    from fusegen.vendor.compilation import Subject
    from fusegen.vendor.entry import parse_entry, read_entry

    if name.endswith(".py"):
        if overrides:
            raise UsageError(f"expected --set with a spec, got it with the finished module {name}")
        if not Path(name).is_file():
            raise UsageError(f"SPEC: expected a generated module, got no such file: {name}")
        entry = read_entry(Path(name))
        return Subject(Path(name).stem, Path(name), entry, target(device or entry.target).name)
    path = project.find_spec(name)
    chosen = (*overrides, *((f"target={target(device).name}",) if device else ()))
    built = build(load_spec(path, chosen), project, memory_check=False)
    rendered = built.rendered()
    module = project.module_path(built.name)
    if chosen or not module.is_file():
        module = folder / rendered.filename
        module.write_text(built.text, encoding="utf-8")
    elif module.read_bytes() != built.text.encode():
        shown = project.shown(module)
        click.echo(f"warning: {shown} is compiled as it stands, but differs from what its spec renders", err=True)
    planner = tuple(map(str, built.memory_faults))
    return Subject(built.name, module, parse_entry(rendered.kernel), built.plan.target.name, planner)


def _require_native() -> None:
    from fusegen.doctor import require_sim
    from fusegen.vendor.native.build import find_gcc

    require_sim()
    find_gcc()


def _work(
    subjects: list[Subject], project: Project, overrides: tuple[str, ...], ranks: tuple[int, ...]
) -> list[tuple[Subject, tuple[Trial, ...]]]:
    """How to run each module: the verification points of its spec, with the wanted numbers of ranks or its own."""
    from fusegen.spec import load_spec
    from fusegen.vendor.native.trials import trials_of

    work = []
    for subject in subjects:
        path = project.specs / f"{subject.name}.yaml"
        if not path.is_file():
            raise UsageError(
                f"--run: expected a spec with verification points for {subject.name}, got no {project.shown(path)}"
            )
        points = load_spec(path, overrides).spec.verify
        plain = [(point.ranks, point.cores, point.shape.model_dump(), point.launches) for point in points]
        trials = trials_of(plain, ranks)
        work.append((subject, trials))
    return work


def _write_record(project: Project, compiled: list[Compilation]) -> None:
    """Replace the entries of these modules; entries of modules that are gone go too."""
    from fusegen.render.files import replace_file
    from fusegen.vendor.record import RECORD, read_record, record_text
    from fusegen.vendor.tools import tool_versions

    specs = {path.stem for path in project.spec_paths()}
    kept = {name: entry for name, entry in read_record(project.generated).items() if name in specs}
    path = project.generated / RECORD
    if replace_file(path, record_text(compiled, tool_versions(), kept)):
        click.echo(f"wrote {project.shown(path)}", err=True)
