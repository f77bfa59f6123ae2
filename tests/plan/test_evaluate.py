"""Occupancy and sizes: the guide's table, and agreement between the planner's numbers and the launcher's text."""

from __future__ import annotations

import ast
import itertools
from math import prod
from typing import Any

import pytest

from fusegen.errors import PlanError
from fusegen.plan.evaluate import Conditions, occupancy, work_split
from fusegen.plan.explain import explain
from fusegen.project import packaged_templates
from fusegen.render.environment import render
from tests.plan.plans import every_combination, plan_of


@pytest.mark.parametrize(
    ("heads", "tasks", "working", "idle", "full"),
    [
        (8, 16, 16, 20, False),
        (12, 24, 24, 12, False),
        (24, 48, 36, 0, True),
        (28, 56, 36, 0, True),
        (32, 64, 36, 0, True),
        (40, 80, 36, 0, True),
        (48, 96, 36, 0, True),
        (56, 112, 36, 0, True),
    ],
)
@pytest.mark.parametrize("flatten", ["none", "s", "auto"])
def test_the_guides_occupancy_table(flatten: str, heads: int, tasks: int, working: int, idle: int, full: bool) -> None:
    found = occupancy(plan_of(flatten=flatten), Conditions(2, 72, {"S": 64, "H": heads, "D": 128}))
    assert (found.total_tasks, found.active_cores, found.idle_cores, found.full) == (tasks, working, idle, full)
    assert found.utilization == working / 36


@pytest.mark.parametrize(("flatten", "tasks"), [("none", 16), ("s", 512), ("auto", 512)])
def test_merging_s_fills_the_cores_that_one_block_leaves_idle(flatten: str, tasks: int) -> None:
    found = occupancy(plan_of(flatten=flatten), Conditions(2, 72, {"S": 2048, "H": 8, "D": 128}))
    assert (found.total_tasks, found.full) == (tasks, flatten != "none")
    assert found.tiles == 512
    # 2 buffers hold 2 S blocks of 16 tiles: 4 of the 36 cores wait for a free slot at any time.
    assert found.tiles_in_flight == 32


@pytest.mark.parametrize(
    ("ranks", "shape", "merged", "carried"),
    [
        # 2 of the 72 S blocks are under way at a time, on 16 ranks: 32 items for 32 cores. Heads stay inside.
        (16, {"S": 64 * 72, "H": 8, "D": 256}, ("block_s",), {"h": 8, "block_d": 2}),
        # 2 blocks for 2 ranks are too few; with 8 heads 32 are exact. D blocks stay inside.
        (2, {"S": 128, "H": 8, "D": 256}, ("block_s", "h"), {"h": 1, "block_d": 2}),
        # With 7 heads 28 are too few: D blocks are merged as well.
        (2, {"S": 128, "H": 7, "D": 256}, ("block_s", "h", "block_d"), {"h": 1, "block_d": 1}),
        # 66 items on 32 cores would leave 30 places of the third wave idle: D blocks are merged as well.
        (1, {"S": 128, "H": 33, "D": 256}, ("block_s", "h", "block_d"), {"h": 1, "block_d": 1}),
        # One head and one D block: nothing to merge but S.
        (2, {"S": 128, "H": 1, "D": 8}, ("block_s",), {"h": 1, "block_d": 1}),
        # One S block.
        (2, {"S": 64, "H": 16, "D": 256}, ("h",), {"h": 1, "block_d": 2}),
    ],
)
def test_auto_merges_one_axis_after_the_other(
    ranks: int, shape: dict[str, int], merged: tuple[str, ...], carried: dict[str, int]
) -> None:
    found = occupancy(plan_of(flatten="auto"), Conditions(ranks, 64, shape))
    assert found.carried == carried
    assert found.merged == merged


def launcher_functions(text: str) -> dict[str, Any]:
    """The size functions of a rendered module, compiled without the imports that it needs on a device."""

    class Triton:
        cdiv = staticmethod(lambda left, right: -(-left // right))

    names = {"work_split", "symmetric_elements", "slot_axes"}
    tree = ast.parse(text)
    tree.body = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant))
    ]
    scope: dict[str, Any] = {"triton": Triton}
    exec(compile(tree, "launcher", "exec"), scope)
    return scope


SHAPES = [
    dict(zip("SHD", sizes, strict=True)) for sizes in itertools.product((1, 63, 64, 130), (1, 3, 8), (1, 72, 128, 300))
]


@pytest.mark.parametrize(
    "changes",
    [c for c in every_combination() if c["buffer_num"] in (1, 3)],
    ids=lambda c: "-".join(map(str, c.values())),
)
def test_the_launcher_computes_what_the_planner_explains(changes: dict[str, Any]) -> None:
    plan = plan_of(**changes)
    launcher = launcher_functions(render(plan, packaged_templates()))
    roles = 1 if changes["roles"] == "shared" else 2
    for shape, ranks, cores in itertools.product(SHAPES, (1, 3, 8), (2, 7, 40)):
        conditions = Conditions(ranks, cores, shape)
        explanation = explain(plan, conditions)
        elements = launcher["symmetric_elements"](**shape, ranks=ranks, cores=cores)
        assert elements["peer"] == explanation.buffers[0]["elements"]
        if plan.slots:
            (slots,) = explanation.slots
            assert elements["signal"] == slots["count"] * 8
            axes = launcher["slot_axes"](**shape, ranks=ranks, cores=cores)["signal"]
            assert axes == slots["axes"]
            assert prod(axes.values()) * 64 == slots["bytes"]
        if changes["flatten"] == "auto":
            carried = launcher["work_split"](**shape, ranks=ranks, role_cores=cores // roles)
            assert carried == explanation.occupancy["carried"]
        else:
            assert work_split(plan, conditions) == {"h": 1, "block_d": 1}


def test_an_empty_shape_has_no_work_and_no_launch() -> None:
    explanation = explain(plan_of(), Conditions(2, 8, {"S": 0, "H": 4, "D": 128}))
    assert explanation.occupancy["total_tasks"] == 0
    assert explanation.occupancy["tiles"] == 0
    assert explanation.launch["grid"] == 0
    assert explanation.launch["rounds"] == 0


def test_barriers_of_a_launch_are_counted() -> None:
    def count(roles: str, buffer_num: int) -> int:
        plan = plan_of(sync="barrier", flatten="none", roles=roles, buffer_num=buffer_num)
        launch = explain(plan, Conditions(2, 8, {"S": 300, "H": 4, "D": 128})).launch
        assert launch["rounds"] == 5
        return int(launch["barriers"])

    assert [count("shared", n) for n in (1, 2, 3)] == [10, 6, 6]
    assert [count("interleaved", n) for n in (1, 2, 3)] == [10, 6, 6]


def test_conditions_that_the_launcher_refuses_are_refused_together() -> None:
    with pytest.raises(PlanError) as caught:
        explain(plan_of(), Conditions(16, 1, {"S": 2**16, "H": 16, "D": 128}))
    assert [str(fault) for fault in caught.value.faults] == [
        "shape: expected fewer than 2**31 elements in a, for 32-bit offsets, got 2147483648 "
        "(lower a dimension or split the call)",
        "shape: expected fewer than 2**31 elements in c, for 32-bit offsets, got 2147483648 "
        "(lower a dimension or split the call)",
        "cores: expected at least 2, got 1 (each role needs a core of its own: push, copy)",
    ]
