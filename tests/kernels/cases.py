"""Kernels with small tiles, so that small shapes have many blocks: rings come round and tails are everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusegen.plan import make_plan
from fusegen.project import packaged_templates
from fusegen.render.environment import render
from fusegen.sim import RunResult, run_module
from fusegen.sim.events import Observer
from fusegen.sim.findings import Finding, UdmaRule
from fusegen.sim.schedule import ScheduleName
from tests.plan.plans import MIX, spec_for

TILE = 16
AXES = {
    "reverse_all2all": ("S", "H", "D"),
    "all2all": ("S", "H", "D"),
    "allgather": ("M", "N"),
    "reduce_scatter": ("M", "N"),
    "allreduce": ("M", "N"),
    "allgather_gemm": ("M", "N", "K"),
    "gemm_reduce_scatter": ("M", "N", "K"),
    "gemm_allreduce": ("M", "N", "K"),
}
SCATTERED = ("reduce_scatter", "gemm_reduce_scatter")
SUMS = (*SCATTERED, "allreduce", "gemm_allreduce")
SMALL: dict[tuple[str, ...], dict[str, Any]] = {
    ("S", "H", "D"): {"tile": {"s": TILE, "d": TILE}},
    ("M", "N"): {"tile": {"m": TILE, "n": TILE}},
    ("M", "N", "K"): {
        "tile": {"m": TILE, "n": TILE, "k": TILE},
        "comm_tile": {"rows": 8, "columns": TILE},
        "pvalue": 1,
    },
}
"""Fields of a spec with small tiles, by the axes of the pattern."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a kernel runs under. `shape` is in the order of the pattern's axes; odd launches are met, hence 3."""

    ranks: int
    cores: int
    shape: tuple[int, ...]
    schedule: ScheduleName = "random"
    launches: int = 3

    def named(self, pattern: str) -> dict[str, int]:
        """The shape by the names of its axes."""
        return dict(zip(AXES[pattern], self.shape, strict=True))


def minimum_cores(choice: Mapping[str, Any]) -> int:
    """Interleaved roles need two cores, and a role that sends blocks one more for the own part."""
    return (2 if choice.get("roles") == "interleaved" else 1) + (choice.get("transport") == "udma")


def small(pattern: str, **changes: Any) -> dict[str, Any]:
    """The changes on top of small tiles."""
    return {**SMALL[AXES[pattern]], **changes}


def rendered(pattern: str, conditions: tuple[Condition, ...], **changes: Any) -> str:
    """The module for a spec that is verified under these conditions."""
    verify = [{"ranks": [each.ranks], "cores": each.cores, "shape": each.named(pattern)} for each in conditions]
    spec = spec_for(pattern, **changes, verify=verify)
    return render(make_plan("kernel", spec), packaged_templates())


def edited(text: str, *replacements: tuple[str, str]) -> str:
    """The text with pieces replaced, as a careless hand would; every piece must be there."""
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    return text


def run(
    folder: Path,
    text: str,
    pattern: str,
    condition: Condition,
    *,
    seed: int = 0,
    target: str | None = None,
    observers: tuple[Observer, ...] = (),
) -> RunResult:
    """Run a module's self-check; the seed is for the inputs and for the schedule."""
    module = folder / "kernel.py"
    module.write_text(text)
    return run_module(
        module,
        ranks=condition.ranks,
        cores=condition.cores,
        shape=condition.named(pattern),
        launches=condition.launches,
        seed=seed,
        schedule=condition.schedule,
        target=target,
        observers=observers,
    )


def assert_clean(result: RunResult, *, exact: bool, split_blocks: bool = False) -> None:
    """No findings; wrong values would be one. What is moved and not computed keeps every bit.

    split_blocks   small tiles make the blocks that UDMA moves between two barriers small as well: those may be found
    """
    findings = [each for each in result.findings if not (split_blocks and is_split_block(each))]
    assert [str(each) for each in findings] == []
    assert result.max_abs_err is not None
    if exact:
        assert result.max_abs_err == 0.0


def is_split_block(finding: Finding) -> bool:
    """True for the advice to move several small blocks as a large one."""
    return isinstance(finding, UdmaRule) and finding.rule == "whole block"


def moves_only(pattern: str) -> bool:
    """True when the pattern computes nothing."""
    return pattern not in (*MIX, *SUMS)
