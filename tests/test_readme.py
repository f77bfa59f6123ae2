"""What README.md shows is what the project does: the spec, the kernel, the finding, the table of findings."""

from __future__ import annotations

import re
from pathlib import Path

from fusegen.pipeline import build
from fusegen.project import find_project
from fusegen.sim import run_module
from fusegen.sim.findings import Finding
from fusegen.spec import load_spec

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CREDIT = "                    dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)\n"


def block(language: str, word: str) -> str:
    """The fenced block of a language that has a word in it."""
    (found,) = (text for text in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if word in text)
    return str(found)


def squeezed(text: str) -> str:
    """The words of a text: README wraps long lines."""
    return " ".join(text.split())


def readme_kernel(tmp_path: Path) -> str:
    """The module that the spec of README renders."""
    spec = tmp_path / "exchange.yaml"
    spec.write_text(block("yaml", "pattern"))
    return build(load_spec(spec), find_project(ROOT)).text


def test_the_spec_renders_the_kernel_that_is_shown(tmp_path: Path) -> None:
    assert block("python", "Credit return") in readme_kernel(tmp_path)


def test_the_fault_that_is_shown(tmp_path: Path) -> None:
    line = block("yaml", "pattern").splitlines().index("tile: {s: 64, d: 128}") + 1
    assert f"specs/exchange.yaml:{line}: tile.d: expected a power of two between 16 and 1024, got 100" in README


def test_the_finding_that_is_shown(tmp_path: Path) -> None:
    text = readme_kernel(tmp_path)
    assert CREDIT in text
    module = tmp_path / "edited.py"
    module.write_text(text.replace(CREDIT, ""))
    (finding,) = run_module(module, ranks=1, cores=2, shape={"S": 257, "H": 1, "D": 128}).findings
    assert squeezed(f"edited: {finding}") in squeezed(README)


def test_the_table_lists_every_finding() -> None:
    listed = re.findall(r"^\| (\w+) \| .* \|$", README.split("| finding |")[1].split("\n\n")[0], re.MULTILINE)
    kinds = [kind for base in Finding.__subclasses__() for kind in (base, *base.__subclasses__())]
    assert sorted(listed) == sorted({kind.__name__ for kind in kinds})
