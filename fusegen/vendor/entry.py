"""What the manifest says about the kernel of a generated module: all that compiling it needs besides its text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fusegen.errors import UsageError

MANIFEST = "MANIFEST.json"


class TileField(BaseModel):
    """A field of the spec that sets an extent of a tile: the constant with its value, and the least it may be."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str
    constant: str
    least: int


class KernelEntry(BaseModel):
    """A kernel, as its launcher starts it.

    parameters  types of the parameters that are no constants, in triton's spelling: *fp16, i32
    constants   values of the others, the same in every launch
    variants    constants that depend on how the caller's tensors lie: one set for each way
    options     of the launch
    tiles       for each kind of memory (ub, cbuf, cc), the fields that make its tiles smaller, the best one first
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: Literal["vector", "mix"]
    target: str
    parameters: Mapping[str, str]
    constants: Mapping[str, int]
    variants: tuple[Mapping[str, int | bool], ...]
    options: Mapping[str, bool]
    tiles: Mapping[str, tuple[TileField, ...]]

    def constants_of(self, variant: Mapping[str, int | bool]) -> dict[str, int | bool]:
        """Values of all constants in a variant."""
        return {**self.constants, **variant}

    def signature_of(self, variant: Mapping[str, int | bool]) -> dict[str, str]:
        """Types of the parameters that are no constants in a variant."""
        return {name: kind for name, kind in self.parameters.items() if name not in variant}


def read_entry(module: Path) -> KernelEntry:
    """The entry of a module in the manifest beside it. Raises UsageError where there is none."""
    manifest = module.parent / MANIFEST
    try:
        return parse_entry(json.loads(manifest.read_text(encoding="utf-8"))["modules"][module.stem]["kernel"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{module}: expected an entry with its kernel in {manifest}, got none (fusegen render writes it)"
        ) from None


def parse_entry(data: Any) -> KernelEntry:
    """The entry that `data` describes. Raises UsageError for anything else."""
    try:
        return KernelEntry.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{MANIFEST}: expected the description of a kernel, got {place}: {first['msg']}") from None
