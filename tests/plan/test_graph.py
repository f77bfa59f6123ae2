"""The plan as a flowchart: the exact text, and what holds for every spec."""

from __future__ import annotations

import re

import pytest

from fusegen.plan.graph import markdown, mermaid
from tests.plan.plans import SPECS, plan_from

CHART = """\
flowchart LR
    subgraph cores_0["cube cores"]
        stage_gemm["gemm<br/>multiplies tiles"]
    end
    subgraph cores_1["vector cores"]
        stage_announce["announce<br/>announces tiles that the cube core has stored"]
        stage_reduce["reduce<br/>adds the tiles of all ranks"]
    end
    tensor_a[/"a<br/>m x k<br/>float16"/]
    tensor_b[/"b<br/>k x n<br/>float16"/]
    tensor_bias[/"bias<br/>n<br/>float16"/]
    tensor_c[/"c<br/>m x n<br/>float16"/]
    buffer_partial[("partial<br/>ring x row x n<br/>float16")]
    tensor_a --> stage_gemm
    tensor_b --> stage_gemm
    stage_gemm --> buffer_partial
    tensor_bias --> stage_reduce
    stage_reduce --> tensor_c
    buffer_partial -- "slots ready through announce, other ranks" --> stage_reduce
    stage_announce -- "slots ready" --> stage_reduce
    stage_reduce -. "partial is free, 2 rounds later and next launch: slots credit" .-> stage_gemm
    stage_gemm == "event 8, after each tile" ==> stage_announce
"""


def test_the_chart_of_a_kernel_with_a_hand_over() -> None:
    plan = plan_from("gemm_allreduce_mte_signal")
    assert mermaid(plan) == CHART
    assert markdown(plan) == (
        "# gemm_allreduce_mte_signal\n\nGEMM + AllReduce: C = sum over ranks of A @ B + bias.\n\n"
        f"```mermaid\n{CHART}```\n"
    )


def test_stages_of_a_vector_kernel_stand_by_role() -> None:
    lines = mermaid(plan_from("all2all_udma_signal")).splitlines()
    assert lines[1:10] == [
        '    subgraph cores_0["vector cores, core % 2 == 0"]',
        '        stage_pack["pack<br/>moves tiles"]',
        '        stage_put["put<br/>transfers blocks"]',
        '        stage_keep["keep<br/>moves tiles"]',
        "    end",
        '    subgraph cores_1["vector cores, core % 2 == 1"]',
        '        stage_copy_own["copy_own<br/>moves tiles"]',
        '        stage_copy["copy<br/>moves tiles"]',
        "    end",
    ]
    assert "    stage_put -- other ranks --> buffer_landing" in lines
    assert '    stage_copy -. "landing is free, next launch: barrier" .-> stage_put' in lines


def test_what_an_output_starts_from_is_drawn() -> None:
    chart = mermaid(plan_from("gemm_allreduce_mte_barrier", "bias=true"))
    assert '    tensor_bias -. "the launcher copies it" .-> tensor_c\n' in chart


@pytest.mark.parametrize("name", sorted(path.stem for path in SPECS.glob("*.yaml")))
def test_every_arrow_joins_two_nodes_and_every_node_has_an_arrow(name: str) -> None:
    chart = mermaid(plan_from(name))
    nodes = set(re.findall(r"^ +(\w+)(?:\[\"|\[/|\[\()", chart, re.MULTILINE))
    arrows = re.findall(r"^ +(\w+) .*> (\w+)$", chart, re.MULTILINE)
    assert {end for arrow in arrows for end in arrow} == nodes
