"""Every error that fusegen raises on purpose.

All of them derive from `FusegenError`. The command line prints `str(error)` on stderr and leaves with `exit_status`; a
library user catches the class whose docstring names a remedy that fits. Anything else that escapes is a defect of
fusegen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar


class FusegenError(Exception):
    """Base of the tree. The command line recovers: it prints the message and exits with `exit_status`."""

    exit_status: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a file: where, what was expected, what stands there, and what to do about it.

    `field` is the key path inside the file, such as `tile.d` or `verify[0].shape.S`; it is empty when the fault is
    about the file as a whole. `line` and `column` count from 1; 0 means that they are not known.
    """

    field: str
    expected: str
    got: str
    advice: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def located(self, file: str, line: int) -> Fault:
        """The same fault with its place in the file."""
        return replace(self, file=file, line=line)

    @property
    def position(self) -> str:
        """`file:line:column` as far as these are known; empty without a file."""
        if not self.file:
            return ""
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])

    def __str__(self) -> str:
        where = [part for part in (self.position, self.field) if part]
        advice = f" ({self.advice})" if self.advice else ""
        return ": ".join([*where, f"expected {self.expected}, got {self.got}{advice}"])


def field_fault(details: Mapping[str, Any], *, file: str, kind: str, advice: str) -> Fault:
    """What pydantic's `details` say of one field of a JSON file; `kind` is what the file should be.

    `advice` is for fields that are missing.
    """
    keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in details["loc"]).removeprefix(".")
    match details["type"]:
        case "missing":
            return Fault(keys, "a value", "nothing", advice, file=file)
        case "extra_forbidden":
            return Fault(keys, f"a field of a {kind}", f"one that no {kind} has", file=file)
        case _:
            text = details["msg"].removeprefix("Input should be ").replace("String should match", "text that matches")
            return Fault(keys, text, repr(details["input"])[:60], file=file)


class FaultsError(FusegenError):
    """A spec or another file cannot be used; `faults` holds every reason. Its message has one line per fault."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class SpecError(FaultsError):
    """A spec file breaks its format. The author of the file recovers by correcting every line that is listed."""


class PlanError(FaultsError):
    """A well-formed spec asks for a kernel that cannot be correct or cannot fit the target.

    The spec's author recovers by changing the named fields. Planner faults carry field paths only; the pipeline adds
    the file and the line.
    """


class ProjectError(FusegenError):
    """The folders fusegen works on, or `[tool.fusegen]`, are not usable. The user recovers by correcting the layout."""


class UsageError(FusegenError):
    """A command was given values that do not fit its spec or project. The user recovers by changing the command."""


class MissingExtraError(FusegenError):
    """A command needs packages that the plain installation leaves out. The user recovers by installing the extra."""

    def __init__(self, *, extra: str, module: str) -> None:
        self.extra = extra
        self.module = module
        super().__init__(
            f"{module} is not installed: this command needs the extra {extra}: pip install 'fusegen[{extra}]', "
            f"or in a checkout pip install '.[{extra}]'"
        )


def listed(words: Iterable[str], joiner: str = "or") -> str:
    """`a, b or c`."""
    *head, last = words
    return f"{', '.join(head)} {joiner} {last}" if head else last


def nearest(word: str, words: Iterable[str]) -> str:
    """A question that offers the closest of `words`, or nothing."""
    by_lower = {each.lower(): each for each in words}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]}?" if near else ""
