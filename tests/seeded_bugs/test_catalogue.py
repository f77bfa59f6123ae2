"""Every seeded bug is caught wherever it fits, and the modules without bugs are clean under the same conditions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.seeded_bugs.catalogue import ROWS, condition_of, mutants, sites
from tests.seeded_bugs.conditions import CONDITIONS, GENERATED, SPECS
from tests.seeded_bugs.rows import Row
from tests.seeded_bugs.runner import complaints, outcome

TABLE = Path(__file__).with_name("sites.txt")
FITTING = [(row, spec) for row in ROWS for spec in SPECS if mutants(row, spec)]


def names(values: Iterable[tuple[Row, str]]) -> list[str]:
    return [f"{row.name}-{spec}" for row, spec in values]


@pytest.mark.parametrize(("row", "spec"), FITTING, ids=names(FITTING))
def test_every_mutant_is_caught(row: Row, spec: str) -> None:
    outcomes = [outcome(mutant) for mutant in mutants(row, spec)]
    assert [(each.site, each.seen) for each in outcomes if not each.caught] == []


@pytest.mark.parametrize("spec", SPECS)
def test_without_the_bugs_every_module_is_clean_and_proved(spec: str) -> None:
    conditions = [condition_of(row, spec) for row in ROWS if mutants(row, spec)]
    different = [each for place, each in enumerate(conditions) if each not in conditions[:place]]
    assert [complaints(spec, each.source(spec), each) for each in different] == [[] for _ in different]


HARMLESS = [(row, spec) for row in ROWS for spec in SPECS if len(sites(row, spec)) > len(mutants(row, spec))]


@pytest.mark.parametrize(("row", "spec"), HARMLESS, ids=names(HARMLESS))
def test_what_is_harmless_is_proved(row: Row, spec: str) -> None:
    """No schedule of these inputs shows anything; the reason beside the row says why those of others do not, either."""
    for mutant in sites(row, spec):
        if row.why_harmless(mutant):
            assert complaints(spec, mutant.text, mutant.condition) == [], mutant.site


def test_every_reason_is_for_a_site() -> None:
    for row in ROWS:
        for spec, label in row.harmless:
            assert any(each.site.startswith(label) for each in sites(row, spec)), (row.name, spec, label)


def test_every_module_has_a_condition() -> None:
    assert sorted(CONDITIONS) == sorted(SPECS)


def test_the_readme_counts_the_mutants() -> None:
    counts = [[len(fit(row, spec)) for row in ROWS for spec in SPECS] for fit in (mutants, sites)]
    bugs, all_sites = map(sum, counts)
    text = " ".join((GENERATED.parent / "README.md").read_text().split())
    assert f"{len(ROWS)} kinds of bugs" in text
    assert f"the {len(SPECS)} generated kernels, are {bugs:,} mutants" in text
    assert f"{all_sites - bugs} edits of the same kinds that are harmless" in text


def test_where_each_row_fits() -> None:
    """A change of the templates must not empty a row: the table says how many sites each has in each module."""
    lines = [f"{chr(ord('a') + place)}  {spec}" for place, spec in enumerate(SPECS)]
    lines += ["", f"{'':40}" + "".join(f"{line[0]:>4}" for line in lines)]
    for row in ROWS:
        counts = [len(mutants(row, spec)) for spec in SPECS]
        assert any(counts), row.name
        lines.append(f"{row.name:40}" + "".join(f"{count or '.':>4}" for count in counts))
    text = "\n".join(lines) + "\n"
    if os.environ.get("FUSEGEN_UPDATE"):
        TABLE.write_text(text)
    assert text == TABLE.read_text(), "FUSEGEN_UPDATE=1 writes the table anew: read what has changed"
