"""Occupancy and sizes: the guide's table, and agreement between the planner's numbers and the launcher's text."""

from __future__ import annotations

import ast
import itertools
from math import prod
from typing import Any

import pytest

from fusegen.errors import PlanError
from fusegen.plan.evaluate import Conditions, given_values, occupancy, regions, rounds_of, work_split
from fusegen.plan.explain import explain
from fusegen.plan.ir import DTYPE_BYTES
from fusegen.project import packaged_templates
from fusegen.render.environment import render
from tests.plan.plans import BASES, choice_id, every_choice, every_combination, plan_for, plan_of


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
            assert elements["signal"] == explanation.slots["count"] * 8
            axes = launcher["slot_axes"](**shape, ranks=ranks, cores=cores)["signal"]
            assert axes == explanation.slots["axes"]
            assert prod(axes.values()) * 64 == explanation.slots["bytes"]
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


@pytest.mark.parametrize(
    ("pattern", "choice"),
    [(p, c) for p in BASES for c in every_choice(p) if c["buffer_num"] in (1, 3)],
    ids=lambda value: value if isinstance(value, str) else choice_id(value),
)
def test_regions_are_as_large_as_the_launcher_allocates(pattern: str, choice: dict[str, Any]) -> None:
    """And slots have the axes that the planner explains."""
    plan = plan_for(pattern, **choice)
    launcher = launcher_functions(render(plan, packaged_templates()))
    sizes = {"M": (1, 37), "N": (1, 65), "K": (40,), "S": (1, 130), "H": (3,), "D": (1, 300)}
    shapes = itertools.product(*(sizes[dimension.name] for dimension in plan.dimensions))
    for extents, ranks, cores in itertools.product(shapes, (1, 3), (3, 8)):
        shape = {dimension.name: extent for dimension, extent in zip(plan.dimensions, extents, strict=True)}
        found = regions(plan, Conditions(ranks, cores, shape))
        allocated = launcher["symmetric_elements"](**shape, ranks=ranks, cores=cores)
        assert allocated == {each.name: found[each.name].elements for each in plan.host.allocations}
        for name, region in found.items():
            dtype = next((a.dtype for a in plan.host.allocations if a.name == name), None) or plan.tensor(name).dtype
            assert region.bytes == region.elements * DTYPE_BYTES[dtype]
        if plan.slots:
            axes = launcher["slot_axes"](**shape, ranks=ranks, cores=cores)
            assert {name: 8 * prod(each.values()) for name, each in axes.items()} == {
                group.name: allocated[group.name] for group in plan.slots
            }


@pytest.mark.parametrize(
    ("pattern", "changes", "ranks", "shape", "tasks", "tiles"),
    [
        # 2 tile rows in a panel, 3 columns of tiles, of every rank; 150 rows are 10 tiles, hence 5 panels.
        ("allgather_gemm", {}, 4, {"M": 150, "N": 72, "K": 40}, 24, 120),
        # Without rounds all tiles of all ranks are dealt at once.
        ("allgather_gemm", {"transport": "udma", "buffer_num": 1}, 4, {"M": 150, "N": 72, "K": 40}, 120, 120),
        # 150 rows on 4 ranks are 38 each: 3 tiles of them in 2 panels, the last one has one tile row.
        ("gemm_reduce_scatter", {}, 4, {"M": 150, "N": 72, "K": 40}, 24, 36),
        ("gemm_allreduce", {}, 4, {"M": 150, "N": 72, "K": 40}, 6, 30),
        ("gemm_allreduce", {"sync": "barrier"}, 1, {"M": 1, "N": 1, "K": 1}, 1, 1),
    ],
)
def test_occupancy_of_a_mix_kernel_is_that_of_its_cube_cores(
    pattern: str, changes: dict[str, Any], ranks: int, shape: dict[str, int], tasks: int, tiles: int
) -> None:
    for cores in (1, 8, 20):
        found = occupancy(plan_for(pattern, **changes), Conditions(ranks, cores, shape))
        assert (found.total_tasks, found.tiles, found.role_cores) == (tasks, tiles, cores)
        assert found.active_cores == min(tasks, cores)
        assert found.full == (tasks >= cores)
        assert found.carried == {"tile_row": 1, "block_n": 1}


@pytest.mark.parametrize(("rows", "expected"), [(150, 5), (32, 1), (33, 2), (0, 0)])
def test_rounds_of_a_launch(rows: int, expected: int) -> None:
    shape = {"M": rows, "N": 72, "K": 40}
    assert rounds_of(plan_for("gemm_allreduce"), Conditions(3, 2, shape)) == expected
    udma = plan_for("allgather_gemm", transport="udma", buffer_num=1)
    assert rounds_of(udma, Conditions(3, 2, shape)) == (1 if rows else 0)


def test_a_share_is_as_large_as_that_of_the_first_rank() -> None:
    """The last ranks have fewer rows, or none; the first one has the most."""
    plan = plan_for("reduce_scatter")
    conditions = Conditions(4, 4, {"M": 9, "N": 10})
    own = [given_values(plan, conditions, rank)["own_rows"] for rank in range(4)]
    assert own == [3, 3, 3, 0]
    assert regions(plan, conditions)["c"].elements == 30
