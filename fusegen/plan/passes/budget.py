"""What a spec can ask for and a device, a shape or a number of ranks cannot give: on-chip memory, offsets, splits."""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.errors import Fault
from fusegen.plan.evaluate import Conditions, Region, given_values, regions
from fusegen.plan.expr import evaluate
from fusegen.plan.ir import DTYPE_BYTES, INT32_LIMIT, KernelPlan
from fusegen.plan.stages import Kind, Stage
from fusegen.plan.swizzle import split_fault

KIB = 1024


def spec_faults(plan: KernelPlan) -> Iterator[Fault]:
    """Every fault but those of on-chip memory, each with the field to change."""
    yield from _split_faults(plan)
    yield from _offset_faults(plan)


def offset_fault(region: Region, field: str) -> Fault:
    """Why a region is too large for 32-bit offsets."""
    expected = f"fewer than 2**31 elements in {region.name}, for 32-bit offsets"
    return Fault(field, expected, str(region.elements), "lower a dimension or split the call")


def transfer_fault(plan: KernelPlan, conditions: Conditions, field: str) -> Fault | None:
    """Why a transfer is too large for a 32-bit count of bytes."""
    if plan.host.transfer_bytes is None:
        return None
    size = evaluate(plan.host.transfer_bytes, given_values(plan, conditions))
    if size < INT32_LIMIT:
        return None
    return Fault(field, "transfers of fewer than 2**31 bytes", str(size), "lower the rows of a tile, or a dimension")


def point_conditions(plan: KernelPlan) -> Iterator[tuple[int, Conditions]]:
    """Number of each verification point, with the conditions of each of its rank counts."""
    for index, point in enumerate(plan.verify):
        for ranks in point.ranks:
            cores = max(point.cores, plan.launch.minimum_cores)
            yield index, Conditions(ranks, cores, dict(point.shape))


def _offset_faults(plan: KernelPlan) -> Iterator[Fault]:
    """Every region must have fewer than 2**31 elements at the spec's own verification points."""
    for index, conditions in point_conditions(plan):
        for region in regions(plan, conditions).values():
            if not region.fits:
                yield offset_fault(region, f"verify[{index}].shape, {conditions.ranks} ranks")
        transfer = transfer_fault(plan, conditions, f"verify[{index}].shape")
        if transfer is not None:
            yield transfer


def _split_faults(plan: KernelPlan) -> Iterator[Fault]:
    """The visiting order must reach every rank once, for every rank count that the spec is verified with."""
    for ranks in sorted({ranks for point in plan.verify for ranks in point.ranks}):
        fault = split_fault(ranks=ranks, split=plan.choices.npu_split, field="swizzle.comm.npu_split")
        if fault is not None:
            yield fault


def memory_faults(plan: KernelPlan) -> Iterator[Fault]:
    """Each stage has its tiles twice where it streams them: the next load overlaps the present work (guide 1.1)."""
    found: dict[str, Fault] = {}
    for stage in plan.stages:
        match stage.kind:
            case Kind.MOVE | Kind.ACCUMULATE:
                faults = _moved(plan, stage)
            case Kind.REDUCE:
                faults = _added(plan, stage)
            case Kind.GEMM:
                faults = _gemm(plan, stage)
            case Kind.PUT | Kind.ANNOUNCE:
                continue
        for fault in faults:
            found.setdefault(fault.field, fault)
    yield from found.values()


def _moved(plan: KernelPlan, stage: Stage) -> Iterator[Fault]:
    """Two tiles in the unified buffer: the load of the next one overlaps the store of this one.

    One in a mix kernel, in whose vector code the compiler does not load ahead.
    """
    access = stage.reads[0]
    dtype = plan.buffer(access.region).dtype if plan.is_buffer(access.region) else plan.tensor(access.region).dtype
    what, copies, times = (f"a {dtype} tile", 1, "") if plan.is_mix else (f"two {dtype} tiles", 2, " twice")
    yield from _in_unified_buffer(plan, stage, what, copies * DTYPE_BYTES[dtype], times)


def _added(plan: KernelPlan, stage: Stage) -> Iterator[Fault]:
    """The sum, and the tiles that are added to it, before and after their conversion."""
    access = next(access for access in stage.reads if plan.is_buffer(access.region))
    has_start = any(access.region == "bias" for access in stage.reads)
    size = sum_bytes(plan, plan.buffer(access.region).dtype, has_start=has_start)
    yield from _in_unified_buffer(plan, stage, "the float32 sum and the tiles to add", size, f", {size} bytes each")


def sum_bytes(plan: KernelPlan, dtype: str, *, has_start: bool) -> int:
    """Bytes of the unified buffer for an element of an ordered sum, as the compiler takes them.

    It does not load ahead in the vector code of a mix kernel. A sum that starts with a row, and not with zeros, needs
    less. Measured: python -m benchmarks.memory_budget.
    """
    is_narrow = DTYPE_BYTES[dtype] < DTYPE_BYTES["float32"]
    is_950 = plan.target.family == "950"
    if not plan.is_mix:
        return 12 if is_narrow and is_950 else 24
    return 16 if is_narrow and not is_950 and not has_start else 12


def _in_unified_buffer(plan: KernelPlan, stage: Stage, what: str, element_bytes: int, measured: str) -> Iterator[Fault]:
    constants = dict(plan.constants)
    rows, columns = (constants[axis.tile] for axis in stage.tile)
    available = plan.target.ub_bytes
    row_bytes = element_bytes * columns
    if rows * row_bytes <= available:
        return
    row_field, column_field = TILE_FIELDS[stage.tile[0].tile], TILE_FIELDS[stage.tile[1].tile]
    most = available // row_bytes
    fit = 1 << (most.bit_length() - 1) if most else 0
    yield Fault(
        row_field,
        f"{what} in the {available // KIB} KiB unified buffer of {plan.target.name}",
        f"{rows} x {columns}{measured}: {rows * row_bytes // KIB} KiB",
        f"with {column_field} {columns}, {row_field} can be at most {fit}"
        if fit >= MINIMUM_ROWS[row_field]
        else f"lower {column_field}",
    )


TILE_FIELDS = {
    "TILE_S": "tile.s",
    "TILE_D": "tile.d",
    "TILE_M": "tile.m",
    "TILE_N": "tile.n",
    "COMM_ROWS": "comm_tile.rows",
    "COMM_COLUMNS": "comm_tile.columns",
}
"""The field of the spec that each tile extent comes from."""
MINIMUM_ROWS = {"tile.s": 16, "tile.m": 16, "comm_tile.rows": 1}
"""The fewest rows that the spec allows."""


def _gemm(plan: KernelPlan, stage: Stage) -> Iterator[Fault]:
    """The accumulator in L0C, and two tiles each of A and B in L1."""
    constants = dict(plan.constants)
    m, n, k = (constants[axis.tile] for axis in stage.tile)
    # The compiler for the 950 family keeps the accumulator twice.
    copies = 2 if plan.target.family == "950" else 1
    accumulator = m * n * DTYPE_BYTES["float32"] * copies
    if accumulator > plan.target.l0c_bytes:
        fit = plan.target.l0c_bytes // (m * DTYPE_BYTES["float32"] * copies)
        yield Fault(
            "tile.n",
            f"{'a' if copies == 1 else 'two'} float32 accumulator{'s' * (copies - 1)} in the "
            f"{plan.target.l0c_bytes // KIB} KiB L0C of {plan.target.name}",
            f"{m} x {n}: {accumulator // KIB} KiB",
            f"with tile.m {m}, tile.n can be at most {fit}" if fit >= 16 else "lower tile.m",
        )
    bias = n * DTYPE_BYTES["float32"] if any(access.region == "bias" for access in stage.reads) else 0
    inputs = 2 * k * (m + n) * DTYPE_BYTES[plan.dtype] + bias
    if inputs > plan.target.l1_bytes:
        beside = " and the bias" if bias else ""
        most = (plan.target.l1_bytes - bias) // (2 * (m + n) * DTYPE_BYTES[plan.dtype])
        fit = 1 << (most.bit_length() - 1) if most else 0
        yield Fault(
            "tile.k",
            f"two {plan.dtype} tiles each of A and B{beside} in the {plan.target.l1_bytes // KIB} KiB L1 of "
            f"{plan.target.name}",
            f"{m} x {k} and {k} x {n} twice{f', {n} more' if bias else ''}: {-(-inputs // KIB)} KiB",
            f"with tile.m {m} and tile.n {n}, tile.k can be at most {fit}" if fit >= 16 else "lower tile.m or tile.n",
        )
