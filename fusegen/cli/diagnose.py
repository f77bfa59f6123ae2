"""fusegen diagnose: what the dumps of a launch that hangs say."""

from __future__ import annotations

from pathlib import Path

import click

from fusegen.cli.base import echo_json, json_option


@click.command()
@click.argument("dumps", nargs=-1, required=True, metavar="DUMP...", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def diagnose(context: click.Context, dumps: tuple[Path, ...], as_json: bool) -> None:
    """Decode dumps of signal slots and name likely causes of a hang.

    DUMP is a file that the watchdog of a generated module, or its function dump, has written, or fusegen run
    --dump-dir. The files of all ranks of one launch say more than one of them. Exit status 1: likely causes were found;
    0: every slot is as a finished launch leaves it.
    """
    from fusegen.cli.dump_report import print_dumps
    from fusegen.dumps import diagnose as diagnosed
    from fusegen.dumps import load_dumps

    diagnosis = diagnosed(load_dumps(dumps))
    if as_json:
        echo_json(diagnosis.to_json())
    else:
        print_dumps(diagnosis)
    context.exit(1 if diagnosis.causes else 0)
