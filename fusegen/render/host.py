"""From a plan to the view of the host half: sizes, workspace, launcher and self-check of the module."""

from __future__ import annotations

from typing import assert_never

from fusegen.plan.expr import HOST, Expr, substitute, symbols, text
from fusegen.plan.ir import (
    KernelPlan,
    Launch,
    LaunchKind,
    PlanDefect,
    SlotGroup,
    Tensor,
    TensorRole,
)
from fusegen.plan.layout import Axis
from fusegen.plan.passes.counted import LAUNCHES
from fusegen.plan.stages import Definition, Granularity
from fusegen.plan.tasks import LAST_WAVE
from fusegen.render.context import Line
from fusegen.render.host_context import AllocationView, CoresView, HostView, SlotGroupView, SplitView, TensorView

SPLIT_CONSTANT = "NPU_SPLIT"
"""The constant that holds `Host.npu_split`."""
ZERO = "zero"
OUT = "out"
"""What the kernel writes: the output, or memory with contiguous rows that is copied to it."""
ADDED_TO = "The kernel adds to {} with atomics: what {} holds before is part of the result."


def host_view(plan: KernelPlan) -> HostView:
    """The view of a plan that has passed every pass."""
    dimensions = tuple(dimension.name for dimension in plan.dimensions)
    (output,) = (tensor for tensor in plan.tensors if tensor.role is TensorRole.OUTPUT)
    inputs = tuple(tensor for tensor in plan.tensors if tensor is not output)
    if any(tensor.dtype != plan.dtype for tensor in inputs):
        raise PlanDefect(f"inputs: expected {plan.dtype}, got {[tensor.dtype for tensor in inputs]}")
    out_dtype = "DTYPE" if output.dtype == plan.dtype else "OUT_DTYPE"
    empty, empty_note = _empty(plan, inputs, output)
    return HostView(
        dimensions=dimensions,
        dims=", ".join(dimensions),
        parameters=", ".join(f"{dimension}: int" for dimension in dimensions),
        dtypes=tuple(
            Line(constant, f"torch.{dtype}")
            for constant, dtype in {"DTYPE": plan.dtype, out_dtype: output.dtype}.items()
        ),
        engines=" | ".join(f"ash.OpEngineType.{engine}" for engine in plan.host.engines),
        crosses_nodes=plan.host.engines != ("MTE",),
        cores=_cores_view(plan.launch),
        inputs=tuple(_tensor_view(tensor, "DTYPE") for tensor in inputs),
        output=_tensor_view(output, out_dtype),
        definitions=_shape_definitions(plan),
        documentation=_documentation(plan, inputs, output),
        allocations=tuple(
            AllocationView(
                allocation.name,
                text(allocation.elements, HOST),
                "DTYPE" if allocation.dtype == plan.dtype else f"torch.{allocation.dtype}",
                allocation.zeroed,
            )
            for allocation in plan.host.allocations
        ),
        slots=tuple(_slot_group_view(plan, slots) for slots in plan.slots),
        work_split=_split_view(plan),
        arguments=tuple(_arguments(plan)),
        prepared=tuple(_prepared(inputs)),
        turns=any(tensor.turned for tensor in inputs),
        copies_rows=any(not tensor.contiguous and not tensor.converted for tensor in inputs),
        numbers_launch=plan.host.numbers_launch,
        checks_total_cores=plan.stores_total_cores,
        sync=plan.choices.sync,
        buffer_num="BUFFER_NUM" if "BUFFER_NUM" in dict(plan.constants) else "1",
        rounds=_rounds(plan),
        phases=LAUNCHES,
        transfer_bytes=None if plan.host.transfer_bytes is None else text(plan.host.transfer_bytes, HOST),
        initial=_initial(plan, output),
        empty=empty,
        empty_note=empty_note,
        split=SPLIT_CONSTANT if plan.host.npu_split > 1 else None,
    )


def _tensor_view(tensor: Tensor, dtype: str) -> TensorView:
    extents = [text(axis.extent, HOST) for axis in tensor.axes]
    shape = ", ".join(extents) if len(extents) > 1 else f"{extents[0]},"
    return TensorView(tensor.name, shape, dtype, tensor.contiguous)


def _shape_definitions(plan: KernelPlan) -> tuple[Line, ...]:
    """The plan's definitions that shapes of tensors need, themselves or through others, in the plan's order."""
    names = plan.names
    needed: set[str] = set()
    pending = {name for tensor in plan.tensors for axis in tensor.axes for name in symbols(axis.extent)}
    while pending:
        name = pending.pop()
        if name in names and name not in needed:
            needed.add(name)
            pending |= symbols(names[name])
    return tuple(_line(definition) for definition in plan.definitions if definition.name in needed)


def _line(definition: Definition) -> Line:
    return Line(definition.name, text(definition.value, HOST), tuple(definition.comment.splitlines()))


def _documentation(plan: KernelPlan, inputs: tuple[Tensor, ...], output: Tensor) -> tuple[str, ...]:
    """A line for each tensor of the launcher, in columns."""
    width = max(len(tensor.name) for tensor in (*inputs, output))
    lines = []
    for tensor in (*inputs, output):
        axes = ", ".join(_documented_extent(plan, axis) for axis in tensor.axes)
        strides = f"any strides, copied unless {_fitting(tensor)}"
        what = "; where to write, a new tensor if not given" if tensor is output else ""
        lines.append(f"{tensor.name:{width}}  [{axes}], {strides}{what}")
    return tuple(lines)


def _fitting(tensor: Tensor) -> str:
    if tensor.contiguous or len(tensor.axes) == 1:
        return "contiguous"
    return "rows or columns are contiguous" if tensor.turned else "rows are contiguous"


def _documented_extent(plan: KernelPlan, axis: Axis) -> str:
    """An extent that differs between ranks has a formula that would say less than words."""
    differs = "rank" in symbols(substitute(axis.extent, plan.names))
    return f"own {axis.label or 'rows'}" if differs else text(axis.extent, HOST)


def _cores_view(launch: Launch) -> CoresView:
    match launch.kind:
        case LaunchKind.VECTOR:
            kind, query, fact = "vector cores", "get_aivector_core_num", "vector_cores"
        case LaunchKind.MIX:
            kind, query, fact = "AI cores", "get_aicore_num", "ai_cores"
        case _:
            assert_never(launch.kind)
    every_role = ", and every role needs a core" if launch.roles > 1 else ""
    return CoresView(
        kind=kind,
        query=query,
        fact=fact,
        minimum=launch.minimum_cores,
        reason=f"Programs wait for each other: all must be resident{every_role}.",
        workers=f"cores // {launch.roles}" if launch.roles > 1 else "cores",
    )


def _slot_group_view(plan: KernelPlan, slots: SlotGroup) -> SlotGroupView:
    axes = tuple(Line(axis.name, _of_shape(plan, axis.extent)) for axis in slots.layout.axes)
    return SlotGroupView(slots.name, slots.purpose.value, slots.protocol.values.value, slots.buffer, axes)


def _rounds(plan: KernelPlan) -> str:
    """Rounds of a launch, 1 where nothing is done in rounds."""
    extents = [stage.tasks.round.extent for stage in plan.stages if stage.tasks.round is not None]
    return _of_shape(plan, extents[0]) if extents else "1"


def _of_shape(plan: KernelPlan, expr: Expr) -> str:
    """An expression without names that only the kernel defines."""
    return text(substitute(expr, plan.names), HOST)


def _arguments(plan: KernelPlan) -> list[str]:
    """Arguments of the kernel, in the order of its parameters."""
    tensors = [tensor for tensor in plan.tensors if tensor.role is not TensorRole.INITIAL]
    arguments = [OUT if tensor.role is TensorRole.OUTPUT else tensor.name for tensor in tensors]
    arguments += [f"workspace.{allocation.name}" for allocation in plan.host.allocations]
    arguments += ["workspace.total_cores"] if plan.stores_total_cores else []
    arguments += ["rank", "ranks"]
    arguments += ["phase"] if plan.host.numbers_launch else []
    arguments += [dimension.name for dimension in plan.dimensions]
    arguments += [_strides(tensor) for tensor in tensors if tensor.strides and not tensor.contiguous]
    tasks = plan.stages[0].tasks
    if tasks.granularity is Granularity.FILL:
        arguments += [f'carried["{axis.name}"]' for axis in tasks.items]
    arguments += [f"{name}={name}" for name, _ in plan.constants]
    return arguments + [f"{tensor.turned}={tensor.name}_turned" for tensor in tensors if tensor.turned]


def _strides(tensor: Tensor) -> str:
    """Strides of the axes that have one in the kernel."""
    name = OUT if tensor.role is TensorRole.OUTPUT else tensor.name
    return f"*{name}.stride()" if len(tensor.strides) == len(tensor.axes) else f"*{name}.stride()[:-1]"


def _prepared(inputs: tuple[Tensor, ...]) -> list[Line]:
    """How each input becomes what the kernel can read."""
    lines = []
    for tensor in inputs:
        if tensor.role is TensorRole.INITIAL:
            continue
        name = tensor.name
        if tensor.turned:
            lines.append(Line(f"{name}, {name}_turned", f"_oriented({name})"))
        elif tensor.converted:
            lines.append(Line(name, f"{name}.to(torch.{tensor.converted}).contiguous()"))
        elif tensor.contiguous:
            lines.append(Line(name, f"{name}.contiguous()", ("Whole blocks of it move by UDMA.",)))
        else:
            lines.append(Line(name, f"_with_dense_rows({name})"))
    return lines


def _initial(plan: KernelPlan, output: Tensor) -> Line | None:
    if plan.host.initial is None:
        return None
    comment = ADDED_TO.format(output.name, output.name)
    return Line(OUT, _filled(OUT, plan.host.initial), (comment,))


def _filled(output: str, source: str) -> str:
    """The statement that fills the output with zeros, or every row of it with a tensor of one row."""
    return f"{output}.zero_()" if source == ZERO else f"{output}.copy_({source}.expand({output}.shape))"


def _empty(plan: KernelPlan, inputs: tuple[Tensor, ...], output: Tensor) -> tuple[str, str]:
    """What the launcher returns for a shape with a zero in it, and how the documentation puts it.

    A dimension that the output does not have is one that the kernel sums over: without it, sums are empty.
    """
    shape = {name for axis in output.axes for name in symbols(substitute(axis.extent, plan.names))}
    if {dimension.name for dimension in plan.dimensions} <= shape:
        return output.name, "is a no-op"
    rows = [tensor.name for tensor in inputs if len(tensor.axes) < len(output.axes)]
    source = plan.host.initial or (rows[0] if rows else ZERO)
    value = f"has `{source}` in every row" if source != ZERO else "is zero"
    statement = _filled(output.name, source)
    return statement, f"launches nothing: `{output.name}` {value}"


def _split_view(plan: KernelPlan) -> SplitView | None:
    tasks = plan.stages[0].tasks
    if tasks.granularity is Granularity.TILE:
        return None
    if tasks.round is None or tasks.rank is None:
        raise PlanDefect(f"{plan.stages[0].name}: expected rounds and ranks in tasks that fill the cores")
    merged = tasks.merged_rounds
    return SplitView(
        rounds=_of_shape(plan, tasks.round.extent) if merged else None,
        items=text(tasks.rank.extent, HOST),
        axes=tuple(Line(axis.name, _of_shape(plan, axis.extent)) for axis in tasks.items),
        last_wave=LAST_WAVE,
        whole=f"all tiles of one of the {tasks.round.label} for one of the {tasks.rank.label}",
        countable="of those that the ring lets be under way" if merged else "in each round",
    )
