"""Values of options, what a spec supplies where one is left out, and the outcome of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fusegen.errors import UsageError, listed, nearest

if TYPE_CHECKING:
    from fusegen.sim import RunResult
    from fusegen.spec import KernelSpec

_NUMBER: Final = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class Size:
    """One run: how many ranks, how many cores on each, the tensor sizes by axis, and launches on one workspace."""

    ranks: int
    cores: int
    shape: Mapping[str, int]
    launches: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run: the name of the module, the size it ran with, and what the machine says about it.

    `dumps` are the files that the ranks of a run that hangs have written.
    """

    name: str
    size: Size
    result: RunResult
    dumps: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain data.

        The error is null when no output could be compared, the proof when not checked, the cost when not counted.
        """
        error, proof = self.result.max_abs_err, self.result.proof
        return {
            "spec": self.name,
            "ranks": self.size.ranks,
            "cores": self.size.cores,
            "shape": dict(self.size.shape),
            "launches": self.size.launches,
            "ok": self.result.ok,
            "max_abs_err": error if error is not None and math.isfinite(error) else None,
            "findings": [finding.to_json() for finding in self.result.findings],
            "proved": proof is not None and proof.proved,
            "proof": None if proof is None else str(proof),
            "dumps": list(self.dumps),
            "steps": self.result.steps,
            "tiles": self.result.tiles,
            "wall_s": self.result.wall_s,
            "cost": None if self.result.cost is None else self.result.cost.to_json(),
        }


def parse_shape(text: str) -> dict[str, int]:
    """`S=130,H=3` as a mapping; raises UsageError for anything else, a repeated key included."""
    shape: dict[str, int] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key.isidentifier() or not equals or not _NUMBER.fullmatch(value):
            raise UsageError(
                f"--shape: expected KEY=NUMBER,..., got {part.strip() or 'nothing'} (for example S=130,H=3)"
            )
        if key in shape:
            raise UsageError(f"--shape: expected each key once, got {key} again")
        shape[key] = int(value)
    return shape


def check_shape_keys(shape: Mapping[str, int], keys: tuple[str, ...]) -> None:
    """Raises UsageError unless the shape has exactly the given keys."""
    for key in shape:
        if key not in keys:
            advice = nearest(key, keys) or f"keys: {', '.join(keys)}"
            raise UsageError(f"--shape: expected a known key, got {key} ({advice})")
    if missing := [key for key in keys if key not in shape]:
        raise UsageError(f"--shape: expected {listed(keys, 'and')}, got no {listed(missing)}")


def default_ranks(counts: Sequence[int]) -> int:
    """The first rank count that lets ranks communicate, and 1 only if there is no other."""
    return next((count for count in counts if count > 1), 1)


def size_for(
    spec: KernelSpec, *, ranks: int | None, cores: int | None, shape: Mapping[str, int] | None, launches: int | None
) -> Size:
    """The size of a run. Where the shape is None, the first verification point of the spec supplies what is None.

    With a shape, cores are all of the target's (AI cores for a GEMM, vector cores otherwise) and there is one launch,
    where these are None. Ranks are then the first of that point's rank counts with which ranks communicate. Raises
    UsageError when the shape has other keys than the pattern, or the cores do not suffice for the roles.
    """
    from fusegen.spec.fields import cores_of
    from fusegen.spec.rules import too_few_cores
    from fusegen.targets import TARGETS

    point = spec.verify[0]
    axes = point.shape.model_dump()
    usual_cores, usual_launches = point.cores, point.launches
    if shape is not None:
        check_shape_keys(shape, tuple(axes))
        axes = {axis: shape[axis] for axis in axes}
        usual_cores, usual_launches = cores_of(spec, TARGETS[spec.target]), 1
    size = Size(
        ranks=default_ranks(point.ranks) if ranks is None else ranks,
        cores=usual_cores if cores is None else cores,
        shape=axes,
        launches=usual_launches if launches is None else launches,
    )
    for fault in too_few_cores(spec, "--cores", size.cores):
        raise UsageError(str(fault))
    return size


def size_without_spec(
    *, ranks: int | None, cores: int | None, shape: Mapping[str, int] | None, launches: int | None
) -> Size:
    """The size of a run of a module that no spec belongs to: everything but the launches (1) must be given."""
    if ranks is None or cores is None or shape is None:
        given = {"--ranks": ranks, "--cores": cores, "--shape": shape}
        missing = listed(option for option, value in given.items() if value is None)
        raise UsageError(f"expected --ranks, --cores and --shape for a module without a spec here, got no {missing}")
    return Size(ranks, cores, shape, launches or 1)
