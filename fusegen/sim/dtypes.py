"""Element types of the device language, their numpy twins, and Triton's rules for mixing them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import ml_dtypes
import numpy as np
import torch

Kind = Literal["bool", "uint", "int", "float"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type such as tl.float16; compared by identity."""

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype

    def is_floating(self) -> bool:
        return self.kind == "float"

    def is_int(self) -> bool:
        return self.kind in ("int", "uint")

    def is_int_signed(self) -> bool:
        return self.kind == "int"

    def is_int_unsigned(self) -> bool:
        return self.kind in ("uint", "bool")

    def is_bool(self) -> bool:
        return self.kind == "bool"

    def is_fp16(self) -> bool:
        return self is float16

    def is_bf16(self) -> bool:
        return self is bfloat16

    def is_fp32(self) -> bool:
        return self is float32

    def is_fp64(self) -> bool:
        return self is float64

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def primitive_bitwidth(self) -> int:
        return self.bits

    @property
    def scalar(self) -> DType:
        return self

    def __repr__(self) -> str:
        return f"tl.{self.name}"


@dataclass(frozen=True, slots=True)
class PointerType:
    """The type of a pointer; `element_ty` is what kernels cast to before a store."""

    element_ty: DType


int1: Final = DType("int1", "bool", 1, np.dtype(np.bool_))
int8: Final = DType("int8", "int", 8, np.dtype(np.int8))
int16: Final = DType("int16", "int", 16, np.dtype(np.int16))
int32: Final = DType("int32", "int", 32, np.dtype(np.int32))
int64: Final = DType("int64", "int", 64, np.dtype(np.int64))
uint8: Final = DType("uint8", "uint", 8, np.dtype(np.uint8))
uint16: Final = DType("uint16", "uint", 16, np.dtype(np.uint16))
uint32: Final = DType("uint32", "uint", 32, np.dtype(np.uint32))
uint64: Final = DType("uint64", "uint", 64, np.dtype(np.uint64))
float16: Final = DType("float16", "float", 16, np.dtype(np.float16))
bfloat16: Final = DType("bfloat16", "float", 16, np.dtype(ml_dtypes.bfloat16))
float32: Final = DType("float32", "float", 32, np.dtype(np.float32))
float64: Final = DType("float64", "float", 64, np.dtype(np.float64))

ALL: Final = (
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
)

_FROM_TORCH: Final[dict[torch.dtype, DType]] = {
    torch.bool: int1,
    torch.int8: int8,
    torch.int16: int16,
    torch.int32: int32,
    torch.int64: int64,
    torch.uint8: uint8,
    torch.uint16: uint16,
    torch.uint32: uint32,
    torch.uint64: uint64,
    torch.float16: float16,
    torch.bfloat16: bfloat16,
    torch.float32: float32,
    torch.float64: float64,
}
_SMALLEST_FLOAT32: Final = 2.0**-126
_LARGEST_FLOAT32: Final = (2 - 2.0**-23) * 2.0**127
_KIND_ORDER: Final[dict[Kind, int]] = {"bool": 0, "uint": 1, "int": 1, "float": 2}


def from_torch(dtype: torch.dtype) -> DType | None:
    """The device type of a tensor's dtype; None where the device language has none."""
    return _FROM_TORCH.get(dtype)


def of_constant(value: bool | int | float, partner: DType) -> DType:
    """The type that a constant takes beside a value of type `partner`: the partner's unless of a higher kind.

    A constant that its partner's type cannot hold wraps.
    """
    kind: Kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    return partner if _KIND_ORDER[kind] <= _KIND_ORDER[partner.kind] else of_number(value)


def of_number(value: bool | int | float) -> DType:
    """The type of a number that stands alone, or that a variable holds."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return int32
        return uint32 if 2**31 <= value < 2**32 else int64
    magnitude = abs(value)
    is_single = not math.isfinite(value) or magnitude == 0 or _SMALLEST_FLOAT32 <= magnitude <= _LARGEST_FLOAT32
    return float32 if is_single else float64


def promote(left: DType, right: DType, *, division: bool = False) -> DType:
    """The type in which Triton computes `left` op `right`; half precision divides in float32."""
    for wide in (float64, float32):
        if wide in (left, right):
            return wide
    if left.kind == "float" or right.kind == "float":
        if division:
            return float32
        if float16 in (left, right):
            return float16
        return bfloat16 if left is right else float32
    if left.is_int_signed() == right.is_int_signed():
        return left if left.bits > right.bits else right
    unsigned, signed = (left, right) if left.is_int_unsigned() else (right, left)
    return unsigned if unsigned.bits >= signed.bits else signed
