"""The commented specs that `fusegen new` starts from, one text file for each pattern."""

from __future__ import annotations

from importlib.resources import files


def starter(pattern: str) -> str:
    """The starting spec of a pattern: valid as it stands, with every option explained."""
    return files("fusegen.spec").joinpath("starters", f"{pattern}.yaml").read_text(encoding="utf-8")
