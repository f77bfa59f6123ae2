"""What the bridge refuses, by name.

The remedy is in the kernel's text, for the vendor's chain cannot do most of these either.
"""

from __future__ import annotations

from typing import ClassVar

from fusegen.errors import FusegenError


class BridgeRefusal(FusegenError):
    """The kernel has what the bridge cannot carry over faithfully; `line` is that of the generated file, or 0."""

    exit_status: ClassVar[int] = 1
    advice: ClassVar[str] = ""

    def __init__(self, what: str, line: int) -> None:
        self.what = what
        self.line = line
        super().__init__(f"line {line}: {what} ({self.advice})" if self.advice else f"line {line}: {what}")


class PointerChosenByCondition(BridgeRefusal):
    """The adapter crashes on a pointer that comes out of an if or a select."""

    advice = "choose the offset instead, or put the accesses into the branches"


class PointerRebound(BridgeRefusal):
    """The adapter keeps the pointer that a loop starts with, whatever the loop assigns to it."""

    advice = "give the pointer of the loop's body a name of its own"


class TokenOnPointerTensor(BridgeRefusal):
    """consume_token works on one pointer, from which addresses are computed afterwards."""

    advice = "consume the token on the base pointer, then add offsets"


class UnknownMarker(BridgeRefusal):
    """A marker that no step knows, or one that the library's public functions do not have."""


class AddressLost(BridgeRefusal):
    """A distributed operation whose pointer is no address in one of the kernel's arguments."""

    advice = "use a pointer argument plus an offset"


class UsedBeforeDefinition(BridgeRefusal):
    """The adapter moved an address in front of the operation that returns its pointer."""

    advice = "compute the address where it is used"


class ScopeEscape(BridgeRefusal):
    """A value computed by one core type is used where another one runs."""

    advice = "compute it before the scope, or use it inside"


class ScopeMisplaced(BridgeRefusal):
    """Scopes must not be nested, nor open in one block and close in another."""
