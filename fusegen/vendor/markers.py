"""Markers: calls without a meaning of their own that carry the language extensions through the vendor's front end.

Neither the front end nor the adapter knows distributed operations, `al.scope` or `al.sync_block_*`. Each becomes an
impure `tt.extern_elementwise`, which both leave where it is; its symbol says what it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LIBRARY: Final = "fusegen_marker"
"""Library name of the markers: no other call has it."""
SCOPE_BEGIN: Final = "scope_begin"
SCOPE_END: Final = "scope_end"
BLOCK_SET: Final = "sync_block_set"
BLOCK_WAIT: Final = "sync_block_wait"
SUB_BLOCK: Final = "sub_vec_id"
ARGUMENT: Final = "argument"
"""Attribute with the number of the kernel argument that stands for the pointer which a marker returns."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What a marker stands for: a symbol of the shared-memory library or a name above, and its static attributes."""

    symbol: str
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The marker as the symbol of its call."""
        return "|".join([self.symbol, *(f"{key}={value}" for key, value in self.attributes.items())])


def marker(text: str) -> Marker:
    """The marker of a symbol."""
    symbol, *attributes = text.split("|")
    return Marker(symbol, {key: value for key, _, value in (each.partition("=") for each in attributes)})
