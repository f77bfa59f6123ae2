"""From a plan to the views that templates see: every expression becomes text, in the dialect of its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from fusegen.plan.expr import KERNEL, Expr, Sym, symbols, text
from fusegen.plan.ir import KernelPlan, PlanDefect, Tensor, TensorRole
from fusegen.plan.layout import Axis
from fusegen.plan.passes.counted import LAUNCHES
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When, walk
from fusegen.plan.stages import Call, Definition, Granularity, Kind, Peer, Role, Stage, VectorCores
from fusegen.plan.tasks import carried, round_definitions, work_loop
from fusegen.render.context import KernelView, Line, NodeView, Parameter
from fusegen.render.host import host_view
from fusegen.render.host_context import ModuleView
from fusegen.render.stages import Lowering, stage_view
from fusegen.render.words import binding_line, closed

CONSTANT_COMMENTS = {
    "SLOT_WORDS": "int64 words of a signal slot: each slot has a 64-byte cache line of its own",
    "PVALUE": "GEMM tile rows of each rank in a panel: one round of communication",
    "SWIZZLE_OFFSET": "columns of GEMM tiles in a group",
    "NPU_SPLIT": "neighbouring cores address ranks that are ranks // NPU_SPLIT apart",
    "TILE_STORED": "event: the cube core has stored a tile",
    "ELEMENT_BYTES": "bytes of an element of A: transfers count bytes",
}


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
        kernel=_kernel_view(plan),
        host=host_view(plan),
    )


def _facts(plan: KernelPlan) -> str:
    choices = plan.choices
    rounds = "between rounds" if any(buffer.ring for buffer in plan.buffers) else "between stages"
    sync = "a signal for each tile" if choices.sync == "signal" else f"barriers {rounds}"
    ring = f"{plan.buffer_num} buffers" if plan.buffer_num > 1 else "one buffer"
    storage = f" and a ring of {ring}" if any(buffer.ring for buffer in plan.buffers) else ""
    return f"{plan.dtype} over {choices.transport.upper()} with {sync}{storage}, planned for {plan.target.name}."


def _kernel_view(plan: KernelPlan) -> KernelView:
    needed = _needed(plan)
    reasons = dict.fromkeys(group.protocol.reason for group in plan.slots)
    calls = {b.function for stage in plan.stages for b in work_loop(plan, stage).bindings if isinstance(b, Call)}
    has_vector_core = any(isinstance(stage.workers.selection, VectorCores) for stage in plan.stages)
    return KernelView(
        name=f"{plan.pattern}_kernel",
        parameters=tuple(parameters(plan)),
        general=(
            "rank",
            "ranks",
            *(("launch",) if plan.host.numbers_launch else ()),
            *(d.name for d in plan.dimensions),
        ),
        constants=(*(name for name, _ in plan.constants), *(t.turned for t in plan.tensors if t.turned)),
        roles=plan.launch.roles,
        role_comment=_role_comment(plan),
        has_vector_core=has_vector_core,
        stores_total_cores=plan.stores_total_cores,
        is_mix=plan.is_mix,
        uses_dl=bool(plan.slots) or any(_maps(stage) for stage in plan.stages),
        needs_scope=any(isinstance(node, Scope) for node in walk(plan.program))
        or (plan.is_mix and plan.stores_total_cores),
        prologue=tuple(binding_line(d) for d in plan.definitions if d.name in needed),
        notes=tuple(line for reason in reasons for line in reason.splitlines()),
        rows=tuple(_rows(plan)),
        program=_node_views(plan, plan.program, 0),
        helpers=tuple(sorted(calls)),
    )


def _maps(stage: Stage) -> bool:
    """True when the stage maps another rank's memory."""
    mapped = any(isinstance(access.place, Peer) for access in (*stage.reads, *stage.writes))
    return mapped and stage.kind is not Kind.PUT


def _needed(plan: KernelPlan) -> frozenset[str]:
    """Every name that the text of any stage or round uses, and what those names are made of."""
    names: frozenset[str] = frozenset()
    for stage in plan.stages:
        names |= Lowering(plan, stage).needed()
        if stage.kind is not Kind.PUT:
            names |= {axis.tile for axis in stage.tile}
        if stage.hand_over is not None:
            names |= {"TILE_STORED"}
        if stage.waits or stage.announces:
            names |= {"SLOT_WORDS"}
        if stage.kind is Kind.PUT:
            names |= {"ELEMENT_BYTES"}
        names = closed(names, round_definitions(plan, stage))
        if stage.tasks.round is not None:
            names |= symbols(stage.tasks.round.extent)
        for binding in work_loop(plan, stage).bindings:
            if isinstance(binding, Call):
                names |= frozenset().union(*(symbols(argument) for argument in binding.arguments))
    return closed(names, plan.definitions)


def parameters(plan: KernelPlan) -> list[Parameter]:
    """Parameters of the kernel in their order, without its constants."""
    tensors = [tensor for tensor in plan.tensors if tensor.role is not TensorRole.INITIAL]
    found = [Parameter(f"{tensor.name}_ptr", _tensor_comment(tensor)) for tensor in tensors]
    found += [
        Parameter(f"{buffer.name}_ptr", f"symmetric [{_extents(a.extent for a in buffer.layout.axes)}]")
        for buffer in plan.buffers
    ]
    found += [
        Parameter(
            f"{slots.name}_ptr",
            f"symmetric [{_extents((*(a.extent for a in slots.layout.axes), Sym('SLOT_WORDS')))}], int64",
        )
        for slots in plan.slots
    ]
    if plan.stores_total_cores:
        found.append(Parameter("total_cores_ptr", "[1], int32: the programs of the launch, for the launcher"))
    found += [Parameter("rank"), Parameter("ranks")]
    if plan.host.numbers_launch:
        found.append(Parameter("launch", f"launches on this workspace before this one, modulo {LAUNCHES}"))
    found += [Parameter(dimension.name, dimension.meaning) for dimension in plan.dimensions]
    found += [Parameter(stride) for tensor in tensors if not tensor.contiguous for stride in tensor.strides]
    tasks = plan.stages[0].tasks
    if tasks.granularity is Granularity.FILL:
        found += [Parameter(carried(axis), f"{axis.label} in a work item") for axis in tasks.items]
    return found


def _tensor_comment(tensor: Tensor) -> str:
    shape = ", ".join(text(axis.extent, KERNEL) for axis in tensor.axes)
    layout = "contiguous" if tensor.contiguous or len(tensor.axes) == 1 else "contiguous rows"
    if tensor.turned:
        layout = f"contiguous columns where {tensor.turned}, else rows"
    return f"[{shape}], of this rank, {layout}" + (f", {tensor.converted}" if tensor.converted else "")


def _role_comment(plan: KernelPlan) -> str:
    if plan.launch.roles == 1:
        return ""
    first, second = (
        ", ".join(s.name for s in plan.stages if s.workers.selection == Role(index, plan.launch.roles))
        for index in range(plan.launch.roles)
    )
    return f"Even cores: {first}; odd cores: {second}. An odd number gives the even ones one core more."


def _rows(plan: KernelPlan) -> list[Line]:
    """Positions inside of a tile that are the same for all tiles."""
    found: dict[str, str] = {}
    for stage in plan.stages:
        for axis in stage.tile if stage.kind is not Kind.PUT else ():
            if axis.local and not symbols(axis.offset) and text(axis.offset, KERNEL) == "0":
                found[axis.local] = f"tl.arange(0, {axis.tile})"
    return [Line(name, value) for name, value in found.items()]


def _extents(extents: Iterable[Expr]) -> str:
    return ", ".join(text(extent, KERNEL) for extent in extents)


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
    match node:
        case Rounds(axis, more, body):
            variable = "step" if more else axis.name
            return NodeView(
                "block",
                head=f"for {variable} in range({text(axis.extent + more, KERNEL)}):",
                definitions=() if more else tuple(binding_line(d) for d in _body_definitions(plan, body)),
                body=_node_views(plan, body, more),
            )
        case Scope(engine, body):
            return NodeView(
                "block", head=f'with al.scope(core_mode="{engine.value}"):', body=_node_views(plan, body, extra)
            )
        case When(role, lag, body) if lag is None:
            return NodeView("block", head=f"if role == {role}:", body=_node_views(plan, body, 0))
        case When(role, lag, body):
            lag = lag or 0
            axis = _round_of(plan, body)
            # step runs from 0 to rounds + extra - 1: only the bound that it can break is tested.
            conditions = [f"role == {role}"]
            conditions += [f"step >= {lag}"] if lag else []
            conditions += [f"step < {text(axis.extent + lag, KERNEL)}"] if lag < extra else []
            definitions = [Line(axis.name, text(Sym("step") - lag, KERNEL))]
            definitions += [binding_line(d) for d in _body_definitions(plan, body)]
            return NodeView(
                "block",
                head=f"if {' and '.join(conditions)}:",
                definitions=tuple(definitions),
                body=_node_views(plan, body, 0),
            )
        case Barrier(reason):
            call = "barrier_all" if plan.is_mix else "barrier_all_vec"
            return NodeView("barrier", comment=tuple(reason.splitlines()), call=f"libshmem_device.{call}()")
        case Run(name):
            return NodeView("run", stage=stage_view(plan, plan.stage(name)))
        case _:
            assert_never(node)


def _round_of(plan: KernelPlan, body: tuple[Node, ...]) -> Axis:
    """The rounds of the stages in `body`."""
    (axis,) = {plan.stage(node.stage).tasks.round for node in body if isinstance(node, Run)}
    if axis is None:
        raise PlanDefect(f"{plan.name}: a stage without rounds cannot lag")
    return axis


def _body_definitions(plan: KernelPlan, body: tuple[Node, ...]) -> tuple[Definition, ...]:
    """What the stages below need of the round, each name once."""
    found: dict[str, Definition] = {}
    needed: frozenset[str] = frozenset()
    pending = list(body)
    while pending:
        node = pending.pop(0)
        match node:
            case Run(name):
                stage = plan.stage(name)
                found |= {d.name: d for d in round_definitions(plan, stage)}
                needed |= Lowering(plan, stage).needed()
            case When(_, None, inner) | Scope(_, inner):
                pending += inner
            case _:
                pass
    used = closed(needed, tuple(found.values()))
    return tuple(definition for name, definition in found.items() if name in used)
