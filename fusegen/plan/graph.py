"""A plan as a Mermaid flowchart: stages by the cores that run them, the regions between them, what orders them.

Solid arrows carry data, labelled with what a reader waits for; dotted ones say when memory is written again; thick
ones hand over inside an AI core. The text depends on the plan alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.plan.explain import cover_text
from fusegen.plan.ir import Buffer, Edge, EdgeKind, KernelPlan, SignalCover, Tensor, TensorRole
from fusegen.plan.layout import Axis
from fusegen.plan.outline import DOES, group_text
from fusegen.plan.stages import Peer, Stage


def mermaid(plan: KernelPlan) -> str:
    """The flowchart's text, for a file of its own."""
    return "\n".join(("flowchart LR", *(f"    {line}" for line in _lines(plan)))) + "\n"


def markdown(plan: KernelPlan) -> str:
    """The flowchart in a Markdown document."""
    return f"# {plan.name}\n\n{plan.summary}\n\n```mermaid\n{mermaid(plan)}```\n"


def _lines(plan: KernelPlan) -> Iterator[str]:
    yield from _groups(plan)
    for tensor in plan.tensors:
        yield f'tensor_{tensor.name}[/"{_region(tensor, tensor.axes)}"/]'
    for buffer in plan.buffers:
        yield f'buffer_{buffer.name}[("{_region(buffer, buffer.layout.axes)}")]'
    yield from _initial(plan)
    for stage in plan.stages:
        yield from _accesses(plan, stage)
    for edge in plan.edges:
        if edge.kind is EdgeKind.FORWARD:
            yield from _forward(plan, edge)
    yield from _backward(plan)
    for each in plan.hand_overs:
        yield f'stage_{each.sender} == "event {each.event}, after each tile" ==> stage_{each.receiver}'


def _groups(plan: KernelPlan) -> Iterator[str]:
    """Stages that run on the same cores stand together."""
    for number, group in enumerate(dict.fromkeys(group_text(plan, stage) for stage in plan.stages)):
        yield f'subgraph cores_{number}["{group}"]'
        for stage in plan.stages:
            if group_text(plan, stage) == group:
                yield f'    stage_{stage.name}["{stage.name}<br/>{DOES[stage.kind]}"]'
        yield "end"


def _region(region: Tensor | Buffer, axes: tuple[Axis, ...]) -> str:
    return f"{region.name}<br/>{' x '.join(axis.name for axis in axes)}<br/>{region.dtype}"


def _accesses(plan: KernelPlan, stage: Stage) -> Iterator[str]:
    """Tensors in and out, and buffers that are written; how a buffer is read is an edge's business."""
    for access in stage.reads:
        if not plan.is_buffer(access.region):
            yield f"tensor_{access.region} --> stage_{stage.name}"
    for access in stage.writes:
        if plan.is_buffer(access.region):
            where = " -- other ranks --> " if isinstance(access.place, Peer) else " --> "
            yield f"stage_{stage.name}{where}buffer_{access.region}"
        else:
            yield f"stage_{stage.name} --> tensor_{access.region}"


def _initial(plan: KernelPlan) -> Iterator[str]:
    """What the output starts from, before the kernel adds to it."""
    for tensor in plan.tensors:
        if tensor.role is TensorRole.INITIAL:
            (output,) = (each.name for each in plan.tensors if each.role is TensorRole.OUTPUT)
            yield f'tensor_{tensor.name} -. "the launcher copies it" .-> tensor_{output}'


def _forward(plan: KernelPlan, edge: Edge) -> Iterator[str]:
    """How a buffer is read, and what the reader waits for."""
    (access,) = (each for each in plan.stage(edge.target).reads if each.region == edge.buffer)
    where = ", other ranks" if isinstance(access.place, Peer) else ""
    yield f'buffer_{edge.buffer} -- "{cover_text(edge.cover)}{where}" --> stage_{edge.target}'
    if isinstance(edge.cover, SignalCover) and edge.cover.through is not None:
        yield f'stage_{edge.cover.through} -- "slots {edge.cover.slots}" --> stage_{edge.target}'


def _backward(plan: KernelPlan) -> Iterator[str]:
    """When a buffer is written again: one arrow for what the same cover orders."""
    uses: dict[tuple[str, str, str, str], list[str]] = {}
    for edge in plan.edges:
        if edge.kind is EdgeKind.BACKWARD:
            when = "next launch" if edge.across_launches else f"{edge.distance} round{'s'[: edge.distance > 1]} later"
            uses.setdefault((edge.source, edge.target, edge.buffer, cover_text(edge.cover)), []).append(when)
    for (source, target, buffer, cover), times in uses.items():
        yield f'stage_{source} -. "{buffer} is free, {" and ".join(times)}: {cover}" .-> stage_{target}'
