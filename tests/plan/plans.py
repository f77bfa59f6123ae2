"""Specs for planner tests, made in memory."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from fusegen.plan import KernelPlan, make_plan
from fusegen.spec import ReverseAll2All, load_spec

SPECS = Path(__file__).parents[2] / "specs"

BASE: dict[str, Any] = {
    "pattern": "reverse_all2all",
    "dtype": "bfloat16",
    "target": "Ascend910B3",
    "transport": "mte",
    "sync": "signal",
    "verify": [{"ranks": [1, 2, 3, 5, 8], "cores": 7, "shape": {"S": 130, "H": 3, "D": 72}}],
}


def plan_of(**changes: Any) -> KernelPlan:
    """The plan of the base spec with some fields changed."""
    return make_plan("kernel", ReverseAll2All(**{**BASE, **changes}))


def plan_from(name: str, *changes: str) -> KernelPlan:
    """The plan of a spec in specs/, with changes such as `tile.d=64`."""
    loaded = load_spec(SPECS / f"{name}.yaml", changes)
    return make_plan(loaded.name, loaded.spec)


def every_combination() -> list[dict[str, Any]]:
    """All legal choices of sync, roles, flattening and ring depth."""
    return [
        {"sync": sync, "roles": roles, "flatten": flatten, "buffer_num": buffer_num}
        for sync, roles, flatten, buffer_num in itertools.product(
            ("barrier", "signal"), ("shared", "interleaved"), ("none", "s", "auto"), (1, 2, 3, 4)
        )
        if not (sync == "signal" and roles == "shared") and not (sync == "barrier" and flatten == "s")
    ]
