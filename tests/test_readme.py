"""What README.md and docs/ show is what the project does: the spec, the kernel, the output, the tables, the excerpts.

FUSEGEN_UPDATE=1 pytest -n 0 tests/test_readme.py writes the kernel and the output of commands in README.md anew.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Option
from pydantic import BaseModel

from fusegen.cli import cli
from fusegen.errors import SpecError
from fusegen.pipeline import build
from fusegen.project import find_project
from fusegen.sim import run_module
from fusegen.sim.findings import Finding
from fusegen.sim.schedule import SCHEDULE_NAMES
from fusegen.spec import Gemm, Reduction, SpecBase, load_spec
from fusegen.spec.model import PATTERNS
from fusegen.spec.starter import starter
from tests.commands import fusegen_

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PATTERNS_PAGE = ROOT / "docs/patterns.md"
SPEC_PAGE = ROOT / "docs/spec.md"
VERIFYING_PAGE = ROOT / "docs/verifying.md"
IS_UPDATE = os.environ.get("FUSEGEN_UPDATE") == "1"
MEASURED = re.compile(r"\d+\.\d+")
"""Seconds and errors of a run, which differ between machines."""


def block(language: str, word: str) -> str:
    """The fenced block of README in a language that has a word in it."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = (text for text in blocks if word in text)
    return str(found)


def indented(first: str) -> str:
    """The indented lines of README from the one that starts with `first` up to an empty one."""
    (found,) = re.findall(rf"^    {re.escape(first)}.*?\n(?=\n)", README.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def squeezed(text: str) -> str:
    """The words of a text: README wraps long lines."""
    return " ".join(text.split())


def assert_shown(shown: str, current: str, same: Callable[[str], str] = str) -> None:
    """README shows `current`, as far as `same` can tell; an update puts it there in place of `shown`."""
    if same(shown) != same(current) and IS_UPDATE:
        README.write_text(README.read_text().replace(shown, current))
        return
    assert same(shown) == same(current)


@pytest.fixture
def module(tmp_path: Path) -> str:
    """The module that the spec of README renders."""
    spec = tmp_path / "exchange.yaml"
    spec.write_text(block("yaml", "pattern"))
    return build(load_spec(spec), find_project(ROOT)).text


def consumer(module: str) -> str:
    """The second role's branch, which is the end of the kernel."""
    kernel = module[module.index("_kernel(\n") :]
    return kernel[kernel.index("    else:\n") : kernel.index("\n\n\ndef ")] + "\n"


def test_the_spec_is_the_one_that_new_writes(tmp_path: Path) -> None:
    shown, written = tmp_path / "shown/exchange.yaml", tmp_path / "written/exchange.yaml"
    for path, text in ((shown, block("yaml", "pattern")), (written, starter("reverse_all2all"))):
        path.parent.mkdir()
        path.write_text(text)
    assert load_spec(shown).spec == load_spec(written).spec


def test_the_spec_renders_the_kernel_that_is_shown(module: str) -> None:
    assert_shown(block("python", "Credit return"), consumer(module))


def test_the_fault_that_is_shown(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    path = tmp_path / "specs/exchange.yaml"
    path.write_text(block("yaml", "pattern").replace("d: 128", "d: 100"))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    shown = squeezed(indented("specs/exchange.yaml:"))
    assert shown.endswith(" ...)")
    assert shown.removesuffix(" ...)") in str(caught.value)


def test_the_finding_that_is_shown(module: str, tmp_path: Path) -> None:
    edited = tmp_path / "edited.py"
    edited.write_text(without_credit(module))
    findings = run_module(edited, ranks=1, cores=2, shape={"S": 257, "H": 1, "D": 128}).findings
    lines = [line for finding in findings for line in f"edited: {finding}".splitlines()]
    assert_shown(indented("edited: "), "".join(map(wrapped, lines)), squeezed)


def test_the_dump_that_is_shown(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edited.py").write_text(without_credit(module))
    run, diagnose = re.findall(
        r"^    fusegen (run edited.*--dump-dir.*)\n    fusegen (diagnose .*)$", README.read_text(), re.M
    )[0]
    assert fusegen_(*run.split()).exit_code == 1
    result = fusegen_(*diagnose.split())
    assert result.exit_code == 1
    shown = README.read_text().partition("## Reading a dump\n")[2].partition("prints (wrapped here)\n\n")[2]
    shown = shown.partition("\n\nLikely causes follow")[0] + "\n"
    current = "".join(wrapped(line) if line.strip() else "\n" for line in result.stdout.splitlines())
    assert_shown(shown, current, squeezed)


def without_credit(module: str) -> str:
    """What the grep of README leaves of the module: all but the last line of the consumer."""
    (word,) = re.findall(r"^    grep -vF '(.*)' generated/exchange.py > edited.py$", README.read_text(), re.MULTILINE)
    lines = module.splitlines(keepends=True)
    assert [line for line in lines if word in line] == consumer(module).splitlines(keepends=True)[-1:]
    return "".join(line for line in lines if word not in line)


def test_the_compilations_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    fine, large = re.findall(r"^    fusegen (compile \w+_mte.*)$", README.read_text(), re.M)
    result = fusegen_(*fine.split())
    assert result.exit_code == 0, result.stderr
    for core in ("AIC: ", "AIV: "):
        lines = result.stdout[result.stdout.index(f"\n{core}") + 1 :].splitlines()[:2]
        assert_shown(indented(core), "".join(map(wrapped, lines)), squeezed)
    result = fusegen_(*large.split())
    assert result.exit_code == 1
    first = "allgather_gemm_mte_barrier: MemoryOverflow: "
    (line,) = [line for line in result.stdout.splitlines() if line.startswith(first)]
    assert_shown(indented(first), wrapped(line), squeezed)


def wrapped(line: str) -> str:
    """A line of output as README shows it."""
    return (
        textwrap.fill(
            line, 115, initial_indent="    ", subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
        )
        + "\n"
    )


def test_the_runs_that_are_shown() -> None:
    shown = indented("kernel")
    printed = [fusegen_("run", row.split()[0]).stdout.splitlines() for row in shown.splitlines()[1:]]
    current = "".join(f"    {line.rstrip()}\n" for line in aligned([printed[0][0], *(lines[1] for lines in printed)]))
    assert_shown(shown, current, lambda text: MEASURED.sub("", squeezed(text)))


def test_the_script_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (words,) = re.findall(r"^    fusegen (simulate .*docs/examples.*)$", README.read_text(), re.MULTILINE)
    result = fusegen_(*words.split())
    assert result.exit_code == 1
    section = README.read_text().partition("## Your own kernels\n")[2]
    shown = section.partition("(wrapped here):\n\n")[2].partition("\nThe comparison")[0]
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    current = "".join(wrapped(line) if "DataRace" in line else f"    {line}".rstrip() + "\n" for line in lines)
    assert_shown(shown, current, lambda text: MEASURED.sub("", squeezed(text)))


def aligned(lines: list[str]) -> list[str]:
    """Rows of several tables as one, two spaces between their columns."""
    table = [re.split(r"  +", line.strip()) for line in lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in table]


def table(page: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of the one table of a page whose columns start with these."""
    lines = iter(page.read_text().splitlines())
    start = "| " + " | ".join(columns) + " |"
    header = next(line for line in lines if line.startswith(start))
    names = cells(header)
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    """The cells of a line of a table, without code marks."""
    return [cell.strip().replace("`", "") for cell in line.split("|")[1:-1]]


def test_the_table_lists_every_finding() -> None:
    listed = [row["finding"] for row in table(README, "finding", "what it means")]
    kinds = [kind for base in Finding.__subclasses__() for kind in (base, *base.__subclasses__())]
    assert sorted(listed) == sorted({kind.__name__ for kind in kinds})


def test_the_table_lists_every_schedule() -> None:
    rows = table(VERIFYING_PAGE, "schedule", "who goes next", "good at")
    assert tuple(row["schedule"] for row in rows) == SCHEDULE_NAMES


def test_the_usage_lists_every_command_and_option() -> None:
    usage = README.read_text().partition("## Commands\n")[2].partition("SPEC is a name")[0]
    shown = set(re.findall(r"[\w-]+", usage))
    for name, command in cli.commands.items():
        assert name in shown
        for option in (each for each in command.params if isinstance(each, Option)):
            names = {*option.opts, *option.secondary_opts}
            assert names & (shown | {"--specs", "--generated", "--json"}), f"{name} {option.name}"


@pytest.mark.parametrize("page", [README, PATTERNS_PAGE], ids=lambda page: page.name)
def test_the_table_of_patterns(page: Path) -> None:
    rows = {row["pattern"]: row for row in table(page, "pattern", "computes", "kernel", "transport")}
    assert list(rows) == list(PATTERNS)
    for name, model in PATTERNS.items():
        assert rows[name]["kernel"] == ("mix" if issubclass(model, Gemm) else "vector")
        assert rows[name]["transport"] == ("mte" if issubclass(model, Reduction) else "mte, udma")
        own = model.model_fields.keys() - SpecBase.model_fields.keys()
        assert set(rows[name]["options of its own"].split(", ")) == own, name


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and JSON Schema of every field that holds no fields itself; a shape has other fields in each pattern."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def walk(node: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, entry in node["properties"].items():
            path, found = f"{prefix}{name}", entry
            if found.get("type") == "array" and "$ref" in found["items"]:
                path, found = f"{path}[]", found["items"]
            inner = definitions.get(found.get("$ref", "").rpartition("/")[2])
            if inner and name != "shape":
                yield from walk(inner, f"{path}.")
            else:
                yield path, entry

    yield from walk(schema, prefix)


def test_the_table_of_fields() -> None:
    fields: dict[str, list[dict[str, Any]]] = {}
    for model in PATTERNS.values():
        for path, entry in leaves(model):
            fields.setdefault(path, []).append(entry)
    rows = {row["field"]: row for row in table(SPEC_PAGE, "field", "values", "default", "meaning")}
    assert sorted(rows) == sorted(fields)
    for path, entries in fields.items():
        defaults = dict.fromkeys(default_text(entry) for entry in entries)
        assert rows[path]["default"] == "; ".join(defaults), path
        choices = {choice for entry in entries for choice in entry.get("enum", ()) if isinstance(choice, str)}
        if choices and path != "target":
            assert set(rows[path]["values"].split(", ")) == choices, path


def default_text(entry: dict[str, Any]) -> str:
    """The default as YAML spells it; nothing for a field that is required, or optional without a value."""
    default = entry.get("default")
    return "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def test_excerpts_are_in_the_code() -> None:
    page = (ROOT / "docs/adding_a_pattern.md").read_text()
    excerpts = re.findall(r"```(python|jinja)\n(.*?)```", page, re.DOTALL)
    folders = {"python": (ROOT / "fusegen").rglob("*.py"), "jinja": (ROOT / "templates").rglob("*.j2")}
    sources = {language: [path.read_text() for path in paths] for language, paths in folders.items()}
    assert excerpts
    for language, excerpt in excerpts:
        assert any(excerpt in source for source in sources[language]), excerpt


def test_files_that_the_pages_name_exist() -> None:
    for page in (README, *sorted((ROOT / "docs").glob("*.md"))):
        named = re.findall(
            r"(?:fusegen|templates|specs|tests|docs)/[\w/]*\w\.(?:py\.j2|py|yaml|json|md)", page.read_text()
        )
        missing = [name for name in named if not (ROOT / name).exists() and name not in EXAMPLES]
        assert not missing, page.name


EXAMPLES = {"specs/exchange.yaml"}
"""Files that a reader writes."""
