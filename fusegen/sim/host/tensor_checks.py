"""What collectives ask of tensors, and how they combine them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.distributed as dist

from fusegen.sim.errors import Unsupported

Reduction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_REDUCTIONS: Final[dict[Any, Reduction]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.PRODUCT: torch.mul,
}


def reduction_of(name: str, op: Any) -> Reduction:
    """The elementwise operation of a ReduceOp."""
    if op not in _REDUCTIONS:
        raise Unsupported(f"torch.distributed.{name} with {op}")
    return _REDUCTIONS[op]


def op_name(op: Any) -> str:
    """`SUM`."""
    return str(op).rpartition(".")[2]


def reduced(reduction: Reduction, tensors: list[torch.Tensor]) -> torch.Tensor:
    """((rank 0 + rank 1) + rank 2) + ...: every step is rounded to the type of the tensors."""
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total = reduction(total, tensor)
    return total


def check_contiguous(name: str, **tensors: torch.Tensor) -> None:
    """ValueError, for collective `name`, unless every tensor is contiguous; they are called by their roles."""
    for role, tensor in tensors.items():
        if not tensor.is_contiguous():
            strides = tensor.stride()
            raise ValueError(f"{name}: expected a contiguous tensor as {role}, got strides {strides}")


def check_whole(name: str, role: str, whole: torch.Tensor, part_role: str, part: torch.Tensor, ranks: int) -> None:
    """ValueError unless `whole` has room for one `part` of each rank, along axis 0 or along an axis before it."""
    check_contiguous(name, **{role: whole, part_role: part})
    shape = tuple(part.shape)
    rows, *rest = shape or (1,)
    allowed = ((ranks * rows, *rest), (ranks, *shape))
    if tuple(whole.shape) not in allowed or whole.dtype != part.dtype:
        raise ValueError(
            f"{name}: expected {allowed[0]} {part.dtype} as {role} for {ranks} ranks with {shape} as {part_role}, "
            f"got {tuple(whole.shape)} {whole.dtype}"
        )


def size_of(tensor: torch.Tensor) -> str:
    """`of (2, 3) torch.float16`."""
    return f"of {tuple(tensor.shape)} {tensor.dtype}"


def check_list(name: str, role: str, tensors: list[torch.Tensor], like: torch.Tensor, ranks: int) -> None:
    """ValueError unless there is one tensor for each rank, of the shape and type of `like`, which the other end has."""
    if len(tensors) != ranks:
        raise ValueError(f"{name}: expected {ranks} {role}s, one for each rank, got {len(tensors)}")
    for index, tensor in enumerate(tensors):
        if (tensor.shape, tensor.dtype) != (like.shape, like.dtype):
            raise ValueError(f"{name}: expected a tensor {size_of(like)} as {role} {index}, got one {size_of(tensor)}")
    check_contiguous(name, tensor=like)
