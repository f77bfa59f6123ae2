"""What a row of the catalogue is, and a mutant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.seeded_bugs.conditions import Condition
from tests.seeded_bugs.module import Module, Site


@dataclass(frozen=True)
class Mutant:
    """A row applied to a site of the module of a spec; `text` is the mutated module, `kinds` what may find it."""

    name: str
    spec: str
    site: str
    text: str
    condition: Condition
    kinds: frozenset[str]


@dataclass(frozen=True)
class Row:
    """A kind of bug.

    guide     section of the optimization guide that treats it
    kinds     findings of which each mutant must cause one
    sites     where it fits in a module, and the module's text with it there
    changes   by spec: what differs from the spec's condition, where the bug does not matter under that
    harmless  by spec and start of a site's label: why nothing is wrong with the mutant under any condition
    """

    name: str
    guide: str
    kinds: frozenset[str]
    sites: Callable[[Module], Iterator[Site]]
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    harmless: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def why_harmless(self, mutant: Mutant) -> str | None:
        """The reason why nothing is wrong with a mutant of this row; None for a bug."""
        reasons = [
            reason
            for (spec, label), reason in self.harmless.items()
            if spec == mutant.spec and mutant.site.startswith(label)
        ]
        return reasons[0] if reasons else None


def row(name: str, guide: str, kinds: str, sites: Callable[[Module], Iterator[Site]], **others: Any) -> Row:
    """A row whose kinds are given as words."""
    return Row(name, guide, frozenset(kinds.split()), sites, **others)
