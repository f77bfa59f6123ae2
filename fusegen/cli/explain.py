"""fusegen explain: what the planner chose and why, and what it amounts to for given ranks, cores and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusegen.cli.base import echo_json, json_option, note_cores, project_options
from fusegen.cli.values import check_shape_keys, default_ranks, parse_shape
from fusegen.errors import UsageError, listed
from fusegen.project import Project

if TYPE_CHECKING:
    from fusegen.plan.evaluate import Conditions
    from fusegen.plan.ir import KernelPlan
    from fusegen.spec import KernelSpec


@click.command()
@click.argument("spec")
@click.option("--ranks", type=click.IntRange(1, 16), help="Number of ranks.")
@click.option("--cores", type=click.IntRange(1), help="Cores that the kernel is launched on.  [default: the target's]")
@click.option("--role-cores", type=click.IntRange(1), help="Cores of each role, instead of --cores.")
@click.option("--shape", metavar="K=V,...", help="Tensor sizes, for example S=130,H=3,D=72.")
@click.option("--set", "overrides", multiple=True, metavar="K=V", help="Change the spec for this plan: tile.d=64.")
@click.option("--swizzle", is_flag=True, help="Also show in which order the loops visit ranks and GEMM tiles.")
@click.option(
    "--graph",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the plan as a Mermaid flowchart: FILE.mmd, or FILE.md with the chart in it.",
)
@json_option
@project_options
def explain(
    project: Project,
    spec: str,
    ranks: int | None,
    cores: int | None,
    role_cores: int | None,
    shape: str | None,
    overrides: tuple[str, ...],
    swizzle: bool,
    graph: Path | None,
    as_json: bool,
) -> None:
    """Show what the planner decides for a spec, and why.

    The plan also says what memory and slots it needs, what orders its stages, and how it fills the cores.

    The first verification point of the spec supplies ranks and shape where the options leave them out. --cores counts
    vector cores for a vector kernel, AI cores for a mix kernel, one that multiplies.
    """
    from fusegen.pipeline import plan_spec
    from fusegen.plan.explain import explain as evaluate
    from fusegen.plan.visiting import visiting_of
    from fusegen.render.files import replace_file
    from fusegen.spec import load_spec

    if cores is not None and role_cores is not None:
        raise UsageError("expected --cores or --role-cores, got both of them")
    drawn = None if graph is None else _graph_text(graph)
    loaded = load_spec(project.find_spec(spec), overrides)
    plan = plan_spec(loaded)
    given = None if shape is None else parse_shape(shape)
    conditions = _conditions(plan, loaded.spec, ranks=ranks, cores=cores, role_cores=role_cores, shape=given)
    explanation = evaluate(plan, conditions)
    visiting = visiting_of(plan, conditions) if swizzle else None
    note_cores(plan, conditions.cores, "AI" if plan.is_mix else "vector")
    if graph is not None and drawn is not None:
        replace_file(graph, drawn(plan))
    if as_json:
        document = explanation.as_json()
        if visiting is not None:
            document["swizzle"] = visiting.as_json()
        if graph is not None:
            document["graph"] = str(graph)
        echo_json(document)
        return
    from fusegen.cli.explain_report import print_explanation
    from fusegen.cli.swizzle_report import print_visiting

    print_explanation(explanation)
    if visiting is not None:
        click.echo()
        print_visiting(visiting)
    if graph is not None:
        click.echo(f"\nwrote {graph}")


def _graph_text(path: Path) -> Callable[[KernelPlan], str]:
    """What makes the text of a file with this suffix; raises UsageError for another suffix."""
    from fusegen.plan.graph import markdown, mermaid

    makers = {".mmd": mermaid, ".md": markdown}
    if path.suffix not in makers:
        raise UsageError(f"--graph: expected a file that ends in {listed(makers)}, got {path}")
    return makers[path.suffix]


def _conditions(
    plan: KernelPlan,
    spec: KernelSpec,
    *,
    ranks: int | None,
    cores: int | None,
    role_cores: int | None,
    shape: Mapping[str, int] | None,
) -> Conditions:
    """Options, then the spec's first verification point for ranks and shape, and the target's cores."""
    from fusegen.plan.evaluate import Conditions
    from fusegen.spec import cores_of

    point = spec.verify[0]
    axes = point.shape.model_dump()
    if shape is not None:
        check_shape_keys(shape, tuple(axes))
    launched = cores if role_cores is None else role_cores * plan.launch.roles
    return Conditions(
        ranks=default_ranks(point.ranks) if ranks is None else ranks,
        cores=cores_of(spec, plan.target) if launched is None else launched,
        shape={axis: (shape or axes)[axis] for axis in axes},
    )
