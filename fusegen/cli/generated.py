"""fusegen render and fusegen check: the generated folder, written from the specs or compared with them."""

from __future__ import annotations

from dataclasses import asdict

import click

from fusegen.cli.base import echo_json, json_option, project_options
from fusegen.errors import UsageError
from fusegen.project import Project


@click.command()
@click.argument("names", nargs=-1, metavar="[SPEC]...")
@json_option
@project_options
def render(project: Project, names: tuple[str, ...], as_json: bool) -> None:
    """Render specs into the generated folder.

    Without a SPEC, all specs are rendered. Only files that change are written, and nothing is while any spec of the
    project has a fault.
    """
    from fusegen.pipeline import render_project

    report = render_project(project, [_name(project, name) for name in names])
    if as_json:
        echo_json(asdict(report))
        return
    folder = project.shown(project.generated)
    for filename in report.written:
        note = " (an edit by hand was overwritten)" if filename in report.overwritten_edits else ""
        click.echo(f"wrote {folder}/{filename}{note}")
    if report.unchanged:
        click.echo(f"{len(report.unchanged)} unchanged")
    for filename in report.orphans:
        click.echo(f"{folder}/{filename} has no spec: delete it, or restore its spec", err=True)


@click.command()
@json_option
@project_options
@click.pass_context
def check(context: click.Context, project: Project, as_json: bool) -> None:
    """Compare the generated folder with what the specs render.

    Exit status 1, with a unified diff, when a file differs. Files are missing, stale (their spec or the templates
    changed), edited by hand, or orphans without a spec. A record of compilations that is about other texts is
    mentioned, and changes nothing: renewing it needs the extra vendor.
    """
    from fusegen.pipeline import check_project

    differences = check_project(project)
    _note_stale_record(project)
    if as_json:
        files = [{"problem": d.problem.value, "file": d.filename, "diff": d.diff} for d in differences]
        echo_json({"ok": not differences, "differences": files})
    else:
        folder = project.shown(project.generated)
        for difference in differences:
            click.echo(difference.diff, nl=False)
        for difference in differences:
            click.echo(f"{folder}/{difference.filename}: {difference.problem.value}: {difference.advice}")
        if not differences:
            click.echo(f"{folder}: every file is what its spec renders")
    context.exit(1 if differences else 0)


def _note_stale_record(project: Project) -> None:
    from fusegen.vendor.record import RECORD, stale_modules

    path = project.generated / RECORD
    if path.is_file() and (stale := stale_modules(project.generated)):
        what = f"{project.shown(path)} is about other texts of {', '.join(stale)}"
        click.echo(f"note: {what} (fusegen compile --all --record)", err=True)


def _name(project: Project, spec: str) -> str:
    """The name of one of the project's own specs: the generated folder holds modules of these only."""
    path = project.find_spec(spec)
    if path.resolve() not in {own.resolve() for own in project.spec_paths()}:
        raise UsageError(f"SPEC: expected a spec in {project.shown(project.specs)}, got {spec}")
    return path.stem
