"""What the manifest says about a kernel, so that it can be compiled without its spec: types, constants, options."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from fusegen.plan.ir import KernelPlan, Tensor
from fusegen.plan.passes.budget import MINIMUM_ROWS, TILE_FIELDS
from fusegen.plan.stages import Kind
from fusegen.render.lower import parameters

TRITON_TYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "int32": "i32", "int64": "i64"}
GEMM_FIELDS: Final = {"BLOCK_M": "tile.m", "BLOCK_N": "tile.n", "BLOCK_K": "tile.k"}
SMALLEST_TILE: Final = 16
"""The least value of tile fields that MINIMUM_ROWS does not name."""


def kernel_entry(plan: KernelPlan) -> dict[str, Any]:
    """The kernel as its launcher starts it, as plain data.

    `variants` are the ways in which matrices may lie, with the strides that are 1 then and so become constants. `tiles`
    has the fields that decide how much of a memory (ub, cbuf, cc) is used, the one to lower first in front.
    """
    pointers = _pointer_types(plan)
    return {
        "name": f"{plan.pattern}_kernel",
        "kind": plan.launch.kind.value,
        "target": plan.target.name,
        "parameters": {each.name: pointers.get(each.name, "i32") for each in parameters(plan)},
        "constants": dict(plan.constants),
        "variants": _variants(plan),
        "options": {"multibuffer": True} | ({"enable_auto_bind_sub_block": False} if plan.is_mix else {}),
        "tiles": _tiles(plan),
    }


def _pointer_types(plan: KernelPlan) -> dict[str, str]:
    dtypes = {tensor.name: tensor.converted or tensor.dtype for tensor in plan.tensors}
    dtypes |= {buffer.name: buffer.dtype for buffer in plan.buffers}
    dtypes |= {group.name: "int64" for group in plan.slots}
    dtypes |= {"total_cores": "int32"} if plan.stores_total_cores else {}
    return {f"{name}_ptr": f"*{TRITON_TYPES[dtype]}" for name, dtype in dtypes.items()}


def _variants(plan: KernelPlan) -> list[dict[str, Any]]:
    ways = [_ways(tensor) for tensor in plan.tensors if tensor.turned]
    return [{name: value for way in chosen for name, value in way.items()} for chosen in product(*ways)]


def _ways(tensor: Tensor) -> list[dict[str, Any]]:
    """A matrix with contiguous rows, and one with contiguous columns."""
    row, column = tensor.strides
    return [{str(tensor.turned): False, column: 1}, {str(tensor.turned): True, row: 1}]


def _tiles(plan: KernelPlan) -> dict[str, list[dict[str, Any]]]:
    tiles: dict[str, list[dict[str, Any]]] = {}
    for stage in plan.stages:
        names = [axis.tile for axis in stage.tile]
        if stage.kind is Kind.GEMM:
            m, n, k = (_field(name, GEMM_FIELDS) for name in names)
            tiles |= {"cc": [n, m], "cbuf": [k, n, m]}
        elif set(names) <= TILE_FIELDS.keys() and stage.kind not in (Kind.PUT, Kind.ANNOUNCE):
            tiles["ub"] = [_field(name, TILE_FIELDS) for name in names]
    return tiles


def _field(constant: str, fields: dict[str, str]) -> dict[str, Any]:
    field = fields[constant]
    least = MINIMUM_ROWS.get(field, SMALLEST_TILE)
    return {"field": field, "constant": constant, "least": least}
