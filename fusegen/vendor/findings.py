"""What is wrong with a kernel, as values: each with the line of the generated file and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    kind     CompilationError, NotBridged, AdapterError, MemoryOverflow, LostDoubleBuffering, CompilerError, WrongCore,
             MissingCall, WrongOrder or WrongSignature
    message  what was expected and what was got
    line     of the generated file, 0 where there is none to point at
    source   that line
    advice   what to change, or nothing
    """

    kind: str
    message: str
    line: int = 0
    source: str = ""
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "kind": self.kind,
            "message": self.message,
            "line": self.line,
            "source": self.source,
            "advice": self.advice,
        }

    def shown(self, filename: str) -> str:
        """The finding in words, with its place in the generated file."""
        place = f" at {filename}:{self.line}: `{self.source}`" if self.line else ""
        return f"{self.kind}: {self.message}{place}" + (f" ({self.advice})" if self.advice else "")
