"""Running commands in tests, and what they print."""

from __future__ import annotations

from click.testing import CliRunner, Result

from fusegen.cli import cli


def fusegen_(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def refused(*arguments: str) -> str:
    """The message of a command that ends with status 2 and prints nothing on stdout."""
    result = fusegen_(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.rstrip("\n")
