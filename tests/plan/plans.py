"""Specs for planner tests, made in memory: a small valid one for each pattern, and every choice that it can make."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusegen.plan import KernelPlan, make_plan
from fusegen.spec import KernelSpec, ReverseAll2All, load_spec
from fusegen.spec.model import PATTERNS
from fusegen.spec.rules import broken_rules

SPECS = Path(__file__).parents[2] / "specs"
A2, A5 = "Ascend910B3", "Ascend950PR_9589"

_HEADS = {"verify": [{"ranks": [1, 2, 3, 5, 8], "cores": 7, "shape": {"S": 130, "H": 3, "D": 72}}]}
_ROWS = {
    "tile": {"m": 16, "n": 32},
    "verify": [{"ranks": [1, 2, 3, 5, 8], "cores": 7, "shape": {"M": 150, "N": 72}}],
}
_GEMM = {
    "tile": {"m": 16, "n": 32, "k": 16},
    "comm_tile": {"rows": 8, "columns": 16},
    "pvalue": 2,
    "verify": [{"ranks": [1, 2, 3, 5, 8], "cores": 3, "shape": {"M": 150, "N": 72, "K": 40}}],
}
BASES: dict[str, dict[str, Any]] = {
    "reverse_all2all": _HEADS,
    "all2all": _HEADS,
    "allgather": _ROWS,
    "reduce_scatter": _ROWS,
    "allreduce": _ROWS,
    "allgather_gemm": _GEMM,
    "gemm_reduce_scatter": _GEMM,
    "gemm_allreduce": _GEMM,
}
MIX = ("allgather_gemm", "gemm_reduce_scatter", "gemm_allreduce")
OPTIONS: dict[str, tuple[Any, ...]] = {
    "transport": ("mte", "udma"),
    "sync": ("barrier", "signal"),
    "announce": ("per_tile", "batched"),
    "reduce": ("ordered", "atomic"),
    "roles": ("shared", "interleaved"),
    "flatten": ("none", "s", "m", "auto"),
    "buffer_num": (1, 2, 3, 4),
}
_AXIS = {"reverse_all2all": "s", "all2all": "s", "allgather": "m", "reduce_scatter": "m", "allreduce": "m"}


def spec_for(pattern: str, **changes: Any) -> KernelSpec:
    """The pattern's base spec with some fields changed; UDMA brings the target that has it."""
    common = {"dtype": "bfloat16", "transport": "mte", "sync": "signal", "watchdog": {"enabled": False}}
    fields = {"pattern": pattern, **common, **BASES[pattern], **changes}
    fields.setdefault("target", A5 if fields["transport"] == "udma" else A2)
    if (fields["transport"], fields["sync"]) == ("udma", "barrier") and "pvalue" not in changes:
        fields.pop("pvalue", None)  # all rows travel at once
    return PATTERNS[pattern].model_validate(fields)


def plan_for(pattern: str, **changes: Any) -> KernelPlan:
    """The plan of the pattern's base spec with some fields changed."""
    return make_plan("kernel", spec_for(pattern, **changes))


def every_choice(pattern: str) -> list[dict[str, Any]]:
    """All legal combinations of the pattern's options and ring depths."""
    return [choice for choice in every_product(pattern) if is_legal(pattern, choice)]


def every_product(pattern: str) -> list[dict[str, Any]]:
    """All combinations of the pattern's options, legal or not."""
    options = {name: values for name, values in OPTIONS.items() if name in PATTERNS[pattern].model_fields}
    if "flatten" in options:
        options["flatten"] = ("none", _AXIS[pattern], "auto")
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


def is_legal(pattern: str, choice: Mapping[str, Any]) -> bool:
    """True when no rule of the spec refuses the choice."""
    spec = spec_for(pattern, **choice)
    return not broken_rules(spec, frozenset(type(spec).model_fields))


def choice_id(choice: Mapping[str, Any]) -> str:
    """A readable name of a choice, for test ids: mte-signal-per_tile-interleaved-auto-2."""
    return "-".join(str(value) for value in choice.values())


BASE: dict[str, Any] = {
    "pattern": "reverse_all2all",
    "dtype": "bfloat16",
    "target": A2,
    "transport": "mte",
    "sync": "signal",
    **_HEADS,
}


def plan_of(**changes: Any) -> KernelPlan:
    """The plan of a reverse All2All over MTE with some fields changed."""
    return make_plan("kernel", ReverseAll2All(**{**BASE, **changes}))


def plan_from(name: str, *changes: str) -> KernelPlan:
    """The plan of a spec in specs/, with changes such as `tile.d=64`."""
    loaded = load_spec(SPECS / f"{name}.yaml", changes)
    return make_plan(loaded.name, loaded.spec)


def every_combination() -> list[dict[str, Any]]:
    """All legal choices of sync, roles, flattening and ring depth of a reverse All2All over MTE."""
    return [
        {"sync": sync, "roles": roles, "flatten": flatten, "buffer_num": buffer_num}
        for sync, roles, flatten, buffer_num in itertools.product(
            ("barrier", "signal"), ("shared", "interleaved"), ("none", "s", "auto"), (1, 2, 3, 4)
        )
        if not (sync == "signal" and roles == "shared") and not (sync == "barrier" and flatten == "s")
    ]
