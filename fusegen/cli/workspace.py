"""The commands about the project rather than about one kernel: list, new, schema, doctor."""

from __future__ import annotations

from pathlib import Path

import click

from fusegen.cli.base import echo_json, json_option, project_options
from fusegen.errors import UsageError, listed, nearest
from fusegen.project import Project


@click.command("list")
@json_option
@project_options
def list_specs(project: Project, as_json: bool) -> None:
    """List the specs, and whether their modules are current.

    `fusegen explain` says why a spec cannot be planned.
    """
    from fusegen.cli import report
    from fusegen.pipeline import module_states
    from fusegen.spec import load_specs

    specs = load_specs(project.spec_paths())
    states = module_states(specs, project)
    if as_json:
        echo_json([report.spec_row(loaded, states[loaded.name]) for loaded in specs])
    else:
        report.print_specs(specs, states, project)


@click.command()
@click.argument("pattern")
@click.option("--name", help="Name of the kernel, and of its file.  [default: PATTERN]")
@click.option("--force", is_flag=True, help="Overwrite a spec of that name.")
@json_option
@project_options
def new(project: Project, pattern: str, name: str | None, force: bool, as_json: bool) -> None:
    """Write a starting spec, with every option explained.

    PATTERN is what the kernel computes, for example reverse_all2all or allgather_gemm; README.md has all of them.

    \b
    Example:
      fusegen new reverse_all2all --name exchange
    """
    from fusegen.render.files import replace_file
    from fusegen.spec.loader import name_fault
    from fusegen.spec.model import PATTERNS
    from fusegen.spec.schema import SCHEMA_FILE, schema_text
    from fusegen.spec.starter import starter

    if pattern not in PATTERNS:
        advice = nearest(pattern, PATTERNS)
        raise UsageError(f"PATTERN: expected {listed(PATTERNS)}, got {pattern}{f' ({advice})' if advice else ''}")
    name = name or pattern
    if fault := name_fault(name):
        raise UsageError(str(fault))
    file = project.specs / f"{name}.yaml"
    if file.exists() and not force:
        advice = "--name chooses another, --force overwrites it"
        raise UsageError(f"{project.shown(file)}: expected a new file, got an existing one ({advice})")
    files = ((file, starter(pattern)), (project.specs / SCHEMA_FILE, schema_text()))
    written = [project.shown(path) for path, text in files if replace_file(path, text)]
    if as_json:
        echo_json({"written": written})
        return
    for shown in written:
        click.echo(f"wrote {shown}")


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead.")
@click.option("--json", "_", is_flag=True, help="Changes nothing: the schema is JSON.")
def schema(output: Path | None, _: bool) -> None:
    """Print the JSON Schema of spec files.

    Editors complete and check specs with it; `fusegen new` writes it beside them.
    """
    from fusegen.spec.schema import schema_text

    if output is None:
        click.echo(schema_text(), nl=False)
        return
    try:
        output.write_text(schema_text(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"-o: expected a file that can be written, got {output}: {error.strerror}") from None


@click.command()
@json_option
@project_options
@click.pass_context
def doctor(context: click.Context, project: Project, as_json: bool) -> None:
    """Show what is installed, and what to install for the rest."""
    from fusegen.cli import report
    from fusegen.doctor import diagnose

    diagnosis = diagnose(project)
    if as_json:
        echo_json(diagnosis.to_json())
    else:
        report.print_diagnosis(diagnosis)
    context.exit(0 if diagnosis.ok else 1)
