"""What compositions share: names of the language, choices of a spec, tolerances."""

from __future__ import annotations

from fusegen.plan.expr import Expr, Sym, cdiv, minimum
from fusegen.plan.facts import Dimension, Tolerance, VerifyPoint
from fusegen.plan.ir import Choices, KernelPlan, Launch, LaunchKind
from fusegen.plan.stages import Definition
from fusegen.spec import Gemm, KernelSpec, Movement
from fusegen.targets import target

RANK, RANKS, SHIFT = Sym("rank"), Sym("ranks"), Sym("shift")
TARGET, SOURCE = Sym("target"), Sym("source")
RING, BUFFER_NUM = Sym("ring"), Sym("BUFFER_NUM")
ROWS = Sym("rows")

PUSH_ORDER = "Neighbouring cores write to neighbouring ranks, counted from this one: every link is in use."
PUSH_IN_TURN = "All cores write to one rank, then to the next one, counted from this one."
COPY_ORDER = "In the order in which the other ranks count their targets."
IN_TURN = "One rank after the other, the next one first."

MOVED = Tolerance(0.0, "data is moved, not computed: bit-exact")
_ROUNDING = {"float32": 1e-4, "float16": 1e-3, "bfloat16": 8e-3}
"""What rounding to this type may change, relative and absolute: two units in the last place, as the field accepts."""


def base_plan(
    name: str,
    spec: KernelSpec,
    choices: Choices,
    *,
    kind: LaunchKind,
    summary: str,
    tolerance: Tolerance,
    constants: tuple[tuple[str, int], ...],
    dimensions: tuple[Dimension, ...],
) -> KernelPlan:
    """What a plan takes over from its spec; tensors, buffers, stages and sizes are the composition's work."""
    return KernelPlan(
        name=name,
        pattern=spec.pattern,
        summary=summary,
        description=spec.description or "",
        dtype=spec.dtype,
        target=target(spec.target),
        choices=choices,
        watchdog_seconds=spec.watchdog.timeout_s if spec.watchdog.enabled else None,
        stores_total_cores=spec.debug.total_cores,
        tolerance=tolerance,
        constants=(*constants, *((("NPU_SPLIT", choices.npu_split),) if choices.npu_split > 1 else ())),
        verify=tuple(
            VerifyPoint(point.ranks, point.cores, point.launches, tuple(point.shape.model_dump().items()))
            for point in spec.verify
        ),
        dimensions=dimensions,
        tensors=(),
        buffers=(),
        stages=(),
        launch=Launch(kind, roles=1),
    )


def movement_choices(spec: Movement, reduce: str | None = None) -> Choices:
    """What a vector kernel's spec chooses."""
    return Choices(
        transport=spec.transport,
        sync=spec.sync,
        announce=spec.announce,
        flatten=spec.flatten,
        roles=spec.roles,
        reduce=reduce,
        npu_split=spec.swizzle.comm.npu_split,
        comm_order=spec.swizzle.comm.order,
    )


def gemm_choices(spec: Gemm, reduce: str | None = None) -> Choices:
    """What a mix kernel's spec chooses."""
    return Choices(
        transport=spec.transport,
        sync=spec.sync,
        announce=spec.announce,
        reduce=reduce,
        npu_split=spec.swizzle.comm.npu_split,
        comm_order=spec.swizzle.comm.order,
    )


def rounded(dtype: str) -> Tolerance:
    """The tolerance of a float32 result of unit variance that is rounded to `dtype` once."""
    return Tolerance(_ROUNDING[dtype], f"relative and absolute; {dtype} rounds the result")


def push_target(choices: Choices) -> Definition:
    """The rank that a task writes to, with what its order means."""
    comment = PUSH_IN_TURN if choices.comm_order == "sequential" else PUSH_ORDER
    return Definition("target", (RANK + SHIFT) % RANKS, comment)


def summed(dtype: str, *, reduce: str | None) -> Tolerance:
    """The tolerance of a sum of unit variance whose terms from other ranks are rounded to `dtype` as well."""
    if reduce == "atomic" and dtype != "float32":
        return Tolerance(4 * _ROUNDING[dtype], f"relative and absolute; {dtype} rounds the sum after each rank")
    return Tolerance(2 * _ROUNDING[dtype], f"relative and absolute; {dtype} rounds what each rank adds, and the sum")


RANK_ROWS = Sym("rank_rows")


def chunks(dimension: Expr) -> tuple[Definition, Definition]:
    """Rows of each rank and of this one: like torch.chunk, the last ranks have fewer rows or none."""
    return (
        Definition("rank_rows", cdiv(dimension, RANKS)),
        Definition("own_rows", minimum(RANK_ROWS, dimension - minimum(RANK * RANK_ROWS, dimension))),
    )
