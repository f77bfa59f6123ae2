"""The proof of one run against the exploration of all: kernels without bugs, and with the seeded ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import Replay, run_module
from fusegen.sim.explore.run import explore_module
from tests.kernels.cases import Condition, rendered, small
from tests.sim.order.test_mutants import GENERATED, MUTANTS, Mutant

HEADS = (40, 3, 16)
ROWS = (40, 24)
PRODUCT = (40, 16, 16)

CLEAN: list[tuple[str, Condition, dict[str, Any]]] = [
    *(
        ("reverse_all2all", Condition(ranks, 2, (shape, 2, 16), launches=2), {"sync": sync, "buffer_num": depth})
        for ranks, shape in ((2, 24), (2, 56), (3, 24))
        for sync, depth in (("signal", 1), ("signal", 2), ("signal", 3), ("barrier", 2))
    ),
    ("all2all", Condition(2, 2, HEADS, launches=2), {"buffer_num": 2}),
    ("all2all", Condition(3, 3, HEADS, launches=2), {"transport": "udma"}),
    ("all2all", Condition(2, 2, HEADS, launches=2), {"sync": "barrier"}),
    ("allgather", Condition(3, 2, ROWS, launches=2), {"buffer_num": 1}),
    ("allgather", Condition(2, 3, ROWS, launches=2), {"transport": "udma"}),
    ("reduce_scatter", Condition(2, 2, ROWS, launches=2), {"buffer_num": 2}),
    ("reduce_scatter", Condition(3, 2, ROWS, launches=1), {"buffer_num": 1}),
    ("allreduce", Condition(2, 2, ROWS, launches=2), {"buffer_num": 2}),
    ("allgather_gemm", Condition(2, 2, PRODUCT, launches=2), {}),
    ("allgather_gemm", Condition(2, 2, PRODUCT, launches=2), {"sync": "barrier"}),
    ("gemm_reduce_scatter", Condition(2, 2, PRODUCT, launches=2), {}),
    ("gemm_reduce_scatter", Condition(2, 2, PRODUCT, launches=2), {"sync": "barrier"}),
    ("gemm_allreduce", Condition(2, 2, PRODUCT, launches=2), {}),
    ("gemm_allreduce", Condition(2, 2, PRODUCT, launches=2), {"sync": "barrier"}),
]


def options(pattern: str, condition: Condition) -> dict[str, Any]:
    fields = {name: asdict(condition)[name] for name in ("ranks", "cores", "launches")}
    return fields | {"shape": condition.named(pattern)}


@pytest.mark.parametrize(("pattern", "condition", "choice"), CLEAN, ids=str)
def test_a_proved_kernel_has_one_order(
    tmp_path: Path, pattern: str, condition: Condition, choice: dict[str, Any]
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(rendered(pattern, (condition,), **small(pattern, **choice)))
    one = run_module(path, schedule="random", races=True, **options(pattern, condition))
    every = explore_module(path, **options(pattern, condition))
    assert [str(shown.finding) for shown in every.findings] == []
    assert one.proof is not None
    assert one.proof.proved
    assert (every.complete, every.orders, every.runs) == (True, 1, 1)


BUGGY: dict[str, tuple[str, Condition]] = {
    "reverse_all2all_mte_signal": ("reverse_all2all", Condition(2, 4, (130, 2, 16), launches=2)),
    "reverse_all2all_mte_barrier": ("reverse_all2all", Condition(2, 2, (130, 2, 16), launches=2)),
    "all2all_udma_signal": ("all2all", Condition(2, 3, (130, 2, 16), launches=2)),
    "gemm_allreduce_mte_signal": ("gemm_allreduce", Condition(2, 1, (130, 16, 16), launches=2)),
    "allgather_gemm_mte_signal": ("allgather_gemm", Condition(2, 1, (130, 16, 16), launches=2)),
    "gemm_reduce_scatter_mte_barrier": ("gemm_reduce_scatter", Condition(2, 2, (130, 16, 16), launches=2)),
}
"""Pattern and bounds of the modules with seeded bugs: tiles are 64 rows, so that there are 2 or 3 rounds."""

LIMIT = 10
UNWATCHED = ("WATCHDOG_SECONDS = 60.0", "WATCHDOG_SECONDS = None")
"""Hosts that poll for a minute of virtual time make deadlocks slow."""

HARMLESS = ("plain 0 and 1 in slots that several uses share",)
"""Bugs that these bounds do not reach: each slot has one use in flight."""

REORDERED = {
    "producer's wait removed": "StaleRead",
    "consumer's wait removed": "Deadlock",
    "two resetters": "Deadlock",
    "closing barrier of a put removed": "Deadlock",
    "one value for all launches": "WrongValues",
    "flags removed": "Deadlock",
    "wait for the flag removed": "Deadlock",
    "both AIVs signal": "WrongCore",
    "scope of the vector cores removed": "WrongCore",
    "scope of the cube core removed": "LostWakeup",
}
"""Bugs that leave several orders, and a kind that one of the first has."""


@pytest.mark.parametrize("bug", MUTANTS, ids=lambda bug: bug.name)
def test_exploring_and_the_proof_of_one_run_agree(mutant: Any, bug: Mutant) -> None:
    path = mutant(GENERATED / f"{bug.module}.py", *bug.edits, UNWATCHED)
    under = options(*BUGGY[bug.module])
    one = run_module(path, schedule="random", races=True, **under)
    every = explore_module(path, limit=LIMIT, **under)
    kinds = {shown.finding.kind for shown in every.findings}
    assert one.proof is not None
    assert one.proof.proved == (bug.name in HARMLESS)
    assert (every.complete and not kinds) == (bug.name in HARMLESS)
    assert bool(one.findings) == bool(kinds)
    assert (every.orders > 1) == (bug.name in REORDERED)
    assert REORDERED.get(bug.name, "") in {"", *kinds}
    if bug.name not in REORDERED:
        assert every.complete


def test_a_module_is_explored_as_it_is_run(mutant: Any) -> None:
    """The schedule of a finding shows it again; a target, nodes and inputs are passed on."""
    path = mutant(GENERATED / "all2all_udma_signal.py", ("launch + 1", "1"), UNWATCHED)
    under = options(*BUGGY["all2all_udma_signal"]) | {"seed": 3, "target": "Ascend950PR_9589", "ranks_per_node": 1}
    every = explore_module(path, limit=4, **under)
    assert every.findings
    for shown in every.findings:
        again = run_module(path, schedule=Replay(shown.schedule), races=True, **under)
        assert shown.finding in again.findings
    assert explore_module(path, limit=4, **under) == every
