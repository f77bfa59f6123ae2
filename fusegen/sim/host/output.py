"""What the processes of a run print: whole lines, each with the rank that printed it."""

from __future__ import annotations

from collections.abc import Callable
from io import TextIOBase
from typing import TextIO


class RankLines(TextIOBase):
    """Writes to `stream` with `[rank N] ` before every line; `rank` says who is writing.

    Lines of several ranks never mix: a line is written when it is complete, or by `finish`.
    """

    def __init__(self, stream: TextIO, *, rank: Callable[[], int]) -> None:
        self._stream = stream
        self._rank = rank
        self._unfinished: dict[int, str] = {}

    def write(self, text: str) -> int:
        rank = self._rank()
        *lines, rest = (self._unfinished.pop(rank, "") + text).split("\n")
        for line in lines:
            self._stream.write(f"[rank {rank}] {line}\n")
        if rest:
            self._unfinished[rank] = rest
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def finish(self) -> None:
        """Write what the ranks have printed after their last line break."""
        for rank, text in sorted(self._unfinished.items()):
            self._stream.write(f"[rank {rank}] {text}\n")
        self._unfinished.clear()
        self._stream.flush()
