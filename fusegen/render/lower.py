"""From a plan to the views that templates see: every expression becomes text, in the dialect of its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from fusegen.plan.expr import KERNEL, Binary, Const, Expr, Op, Sym, symbols, text
from fusegen.plan.ir import Access, Definition, Granularity, KernelPlan, Peer, SlotGroup, Stage, TileAxis
from fusegen.plan.program import Barrier, Node, Rounds, Run, When
from fusegen.plan.tasks import buffer_coordinates, carried, round_definitions, slot_coordinates, work_loop
from fusegen.render.context import (
    AccessView,
    AxisView,
    ItemView,
    KernelView,
    Line,
    NodeView,
    Parameter,
    SignalView,
    StageView,
)
from fusegen.render.host import host_view
from fusegen.render.host_context import ModuleView

CREDIT_COMMENT = "Credit return: the slot is free for its next use, in this launch or in the next one."
BROADCAST = ("[:, None]", "[None, :]")
"""How a vector along each of the two tile axes becomes a factor of a tile-shaped expression."""
CONSTANT_COMMENTS = {"SLOT_WORDS": "int64 words of a signal slot: each slot has a 64-byte cache line of its own"}


def module_view(plan: KernelPlan) -> ModuleView:
    """The view of a plan that has passed every pass."""
    return ModuleView(
        name=plan.name,
        pattern=plan.pattern,
        summary=plan.summary,
        description=plan.description,
        facts=_facts(plan),
        watchdog="None" if plan.watchdog_seconds is None else repr(float(plan.watchdog_seconds)),
        tolerance=Line("TOLERANCE", repr(plan.tolerance.value), (plan.tolerance.reason,)),
        constants=tuple(
            Line(name, str(value), (CONSTANT_COMMENTS[name],) if name in CONSTANT_COMMENTS else ())
            for name, value in plan.constants
        ),
        kernel=_kernel_view(plan, plan.launch.roles),
        host=host_view(plan),
    )


def _facts(plan: KernelPlan) -> str:
    sync = "a signal for each tile" if plan.sync == "signal" else "barriers between rounds"
    ring = f"{plan.buffer_num} buffers" if plan.buffer_num > 1 else "one buffer"
    return (
        f"{plan.dtype} over {plan.transport.upper()} with {sync} and a ring of {ring}, planned for {plan.target.name}."
    )


def _kernel_view(plan: KernelPlan, roles: int) -> KernelView:
    tasks = plan.stages[0].tasks
    parameters = [
        Parameter(f"{tensor.name}_ptr", f"[{', '.join(text(axis.extent, KERNEL) for axis in tensor.axes)}], {what}")
        for tensor, what in ((t, "of this rank, any strides") for t in plan.tensors)
    ]
    parameters += [
        Parameter(f"{buffer.name}_ptr", f"symmetric [{_extents(a.extent for a in buffer.layout.axes)}]")
        for buffer in plan.buffers
    ]
    parameters += [
        Parameter(
            f"{slots.name}_ptr",
            f"symmetric [{_extents((*(a.extent for a in slots.layout.axes), Sym('SLOT_WORDS')))}], int64",
        )
        for slots in plan.slots
    ]
    parameters += [Parameter("rank"), Parameter("ranks")]
    parameters += [Parameter(dimension.name, dimension.meaning) for dimension in plan.dimensions]
    parameters += [Parameter(stride) for tensor in plan.tensors for stride in tensor.strides]
    if tasks.granularity is Granularity.FILL:
        parameters += [Parameter(carried(axis), f"{axis.label} in a work item") for axis in tasks.items]
    return KernelView(
        name=f"{plan.pattern}_kernel",
        parameters=tuple(parameters),
        constants=tuple(name for name, _ in plan.constants),
        roles=roles,
        role_comment=_role_comment(plan, roles),
        prologue=tuple(_line(definition) for definition in plan.definitions),
        notes=tuple(line for slots in plan.slots for line in slots.protocol.reason.splitlines()),
        rows=tuple(_axis_view(axis) for axis in plan.stages[0].tile if axis.local),
        program=_node_views(plan, plan.program, 0),
    )


def _role_comment(plan: KernelPlan, roles: int) -> str:
    if roles == 1:
        return ""
    first, second = (stage.name for stage in plan.stages)
    return f"Even cores {first}, odd cores {second}. An odd number of cores gives the first role one core more."


def _extents(extents: Iterable[Expr]) -> str:
    return ", ".join(text(extent, KERNEL) for extent in extents)


def _line(definition: Definition) -> Line:
    return Line(definition.name, text(definition.value, KERNEL), tuple(definition.comment.splitlines()))


def _node_views(plan: KernelPlan, nodes: tuple[Node, ...], extra: int) -> tuple[NodeView, ...]:
    """The nodes one below the other; what the last of two roles does follows what the first does after an `else`."""
    views = [_node_view(plan, node, extra) for node in nodes]
    for index, pair in enumerate(pairwise(nodes)):
        match pair:
            case (When(0, None), When(1, None)) if plan.launch.roles == 2:
                views[index + 1] = replace(views[index + 1], head="else:")
            case _:
                pass
    return tuple(views)


def _node_view(plan: KernelPlan, node: Node, extra: int) -> NodeView:
    """`extra` is that of the surrounding rounds, which count in `step` where stages lag, else in the round itself."""
    round_axis = plan.stages[0].tasks.round
    match node:
        case Rounds(more, body):
            variable = "step" if more else round_axis.name
            return NodeView(
                "block",
                head=f"for {variable} in range({text(round_axis.extent + more, KERNEL)}):",
                definitions=() if more else tuple(_line(d) for d in _body_definitions(plan, body)),
                body=_node_views(plan, body, more),
            )
        case When(role, lag, body):
            conditions = [f"role == {role}"]
            definitions: list[Line] = []
            if lag is not None:
                # step runs from 0 to rounds + extra - 1: only the bound that it can break is tested.
                conditions += [f"step >= {lag}"] if lag else []
                conditions += [f"step < {text(round_axis.extent + lag, KERNEL)}"] if lag < extra else []
                definitions.append(Line(round_axis.name, text(Sym("step") - lag, KERNEL)))
                definitions += [_line(d) for d in _body_definitions(plan, body)]
            return NodeView(
                "block",
                head=f"if {' and '.join(conditions)}:",
                definitions=tuple(definitions),
                body=_node_views(plan, body, 0),
            )
        case Barrier(reason):
            return NodeView("barrier", comment=tuple(reason.splitlines()))
        case Run(name):
            return NodeView("run", stage=_stage_view(plan, plan.stage(name)))
        case _:
            assert_never(node)


def _body_definitions(plan: KernelPlan, body: tuple[Node, ...]) -> tuple[Definition, ...]:
    """What the stages below need of the round, each name once."""
    found: dict[str, Definition] = {}
    pending = list(body)
    while pending:
        node = pending.pop(0)
        match node:
            case Run(name):
                found |= {d.name: d for d in round_definitions(plan, plan.stage(name))}
            case When(_, None, inner):
                pending += inner
            case _:
                pass
    return tuple(found.values())


def _stage_view(plan: KernelPlan, stage: Stage) -> StageView:
    loop = work_loop(plan, stage)
    (read,), (write,) = stage.reads, stage.writes
    return StageView(
        kind=stage.kind,
        sync=plan.sync,
        core=loop.core.name,
        total=loop.total.name,
        cores=loop.cores.name,
        definitions=tuple(_line(definition) for definition in loop.definitions),
        items=tuple(ItemView(i.name, text(i.first, KERNEL), text(i.stop, KERNEL)) for i in loop.items),
        tile=tuple(_axis_view(axis) for axis in stage.tile),
        read=_access_view(plan, stage, read),
        write=_access_view(plan, stage, write),
        guarded=_access_view(plan, stage, write if plan.is_source(stage) else read),
        signal=_signal_view(plan, stage, plan.slots[0]) if plan.slots else None,
    )


def _axis_view(axis: TileAxis) -> AxisView:
    return AxisView(axis.index, axis.block, axis.tile, text(axis.extent, KERNEL), axis.local)


def _access_view(plan: KernelPlan, stage: Stage, access: Access) -> AccessView:
    remote = access.place.rank.name if isinstance(access.place, Peer) else None
    is_buffer = any(buffer.name == access.region for buffer in plan.buffers)
    if is_buffer:
        terms = plan.buffer(access.region).layout.offset(buffer_coordinates(plan, access))
    else:
        strides = plan.tensor(access.region).strides
        terms = tuple((c, Sym(stride)) for c, stride in zip(access.coordinates, strides, strict=True))
    bound = is_buffer and (remote is not None or bool(plan.slots))
    parameter = f"{access.region}_ptr"
    return AccessView(
        region=access.region,
        pointer=access.region if bound else parameter,
        offset=" + ".join(_term(stage, coordinate, stride) for coordinate, stride in terms),
        symmetric=parameter if bound else None,
        remote=remote,
    )


def _term(stage: Stage, coordinate: Expr, stride: Expr) -> str:
    """`coordinate * stride`; a coordinate along a tile axis is broadcast to the tile's shape."""
    for axis, broadcast in zip(stage.tile, BROADCAST, strict=True):
        if symbols(coordinate) & {axis.index, axis.local}:
            vector = text(coordinate, KERNEL)
            vector = f"{vector}{broadcast}" if isinstance(coordinate, Sym) else f"({vector}){broadcast}"
            if stride == Const(1):
                return vector
            return text(Binary(Op.MUL, Sym("vector"), stride), KERNEL, {"vector": vector})
    return text(coordinate * stride, KERNEL)


def _signal_view(plan: KernelPlan, stage: Stage, slots: SlotGroup) -> SignalView:
    offset: Expr = Const(0)
    for coordinate, stride in slots.layout.offset(slot_coordinates(plan, stage, slots)):
        offset = offset + coordinate * stride
    producing = plan.is_source(stage)
    protocol = slots.protocol
    partner = stage.partner.name
    return SignalView(
        region=slots.name,
        slot=text(offset * Sym("SLOT_WORDS"), KERNEL),
        remote=partner if producing else None,
        wait_value=text(protocol.free if producing else protocol.ready, KERNEL),
        notify_rank=partner if producing else "rank",
        notify_value=text(protocol.ready if producing else protocol.credit, KERNEL),
        notify_comment="" if producing else CREDIT_COMMENT,
    )
