"""What the commands share: how errors end a command, and the options that find the project."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from fusegen.errors import FusegenError
from fusegen.project import Project, find_project

if TYPE_CHECKING:
    from fusegen.plan import KernelPlan
    from fusegen.sim.mix import CoreUnit

P = ParamSpec("P")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


class FusegenGroup(click.Group):
    """A group whose commands end, on a FusegenError, with its message on stderr and its exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FusegenError as error:
            click.echo(str(error), err=True)
            ctx.exit(error.exit_status)


def project_options(command: Callable[Concatenate[Project, P], None]) -> Callable[P, None]:
    """Adds --specs and --generated; the command receives the project that they and the current directory mean."""

    @click.option(
        "--specs",
        "specs_folder",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the specs.  [default: ./specs]",
    )
    @click.option(
        "--generated",
        "generated_folder",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the generated modules.  [default: ./generated]",
    )
    @wraps(command)
    def with_project(*args: P.args, **kwargs: P.kwargs) -> None:
        specs: Any = kwargs.pop("specs_folder")
        generated: Any = kwargs.pop("generated_folder")
        command(find_project(Path.cwd(), specs=specs, generated=generated), *args, **kwargs)

    return with_project


def note_cores(plan: KernelPlan, cores: int, unit: CoreUnit = "vector") -> None:
    """Says on stderr when a command is about more cores than the target has: the launcher would refuse them there."""
    available = plan.target.ai_cores if unit == "AI" else plan.target.vector_cores
    if cores > available:
        click.echo(f"note: {plan.target.name} has {available} {unit} cores, not {cores}", err=True)


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """What a module prints goes to stderr, and what processes that it starts print: stdout is for results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def echo_json(document: Any) -> None:
    """Prints a JSON document on stdout; NaN and infinity, which JSON lacks, are a mistake of the caller."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))
