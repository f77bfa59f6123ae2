"""The command line. A command is one thin function; what it needs beyond click is imported when it runs."""

from __future__ import annotations

import sys

import click

from fusegen import __version__
from fusegen.cli.base import FusegenGroup
from fusegen.cli.compile import compile_command
from fusegen.cli.diagnose import diagnose
from fusegen.cli.explain import explain
from fusegen.cli.generated import check, render
from fusegen.cli.run import run
from fusegen.cli.simulate import simulate
from fusegen.cli.verify import verify
from fusegen.cli.workspace import doctor, list_specs, new, schema

INTERRUPTED = 128 + 2
"""Exit status after an interrupt."""


@click.group(cls=FusegenGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fusegen")
def cli() -> None:
    """Fused collective Triton kernels for Ascend NPUs: rendered from specs, proved on a CPU.

    Exit status: 0 fine, 1 a finding or a difference, 2 a wrong spec or command.
    """


PROJECT_COMMANDS = (list_specs, new, schema, doctor, explain, render, check)
KERNEL_COMMANDS = (run, verify, simulate, compile_command, diagnose)

for _command in (*PROJECT_COMMANDS, *KERNEL_COMMANDS):
    cli.add_command(_command)


def main() -> None:
    """The console script. An interrupt ends it with the status that shells give it, not with that of a finding."""
    try:
        sys.exit(cli.main(prog_name="fusegen", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
