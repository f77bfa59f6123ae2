"""Floating-point arrays as torch tensors, for what torch does with vector instructions and numpy does not."""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np
import torch

_FLOAT16: Final = np.dtype(np.float16)
_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
_FLOAT32: Final = np.dtype(np.float32)
_SMALL: Final = 1024
"""Elements below which numpy is as fast."""


def cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As `values.astype(dtype)`: a copy, rounded to the nearest, ties to even."""
    pair = {values.dtype, dtype}
    if values.size < _SMALL or not (pair == {_FLOAT16, _FLOAT32} or pair == {_BFLOAT16, _FLOAT32}):
        return values.astype(dtype)
    with torch._C.DisableTorchFunction():
        if dtype == _BFLOAT16:
            return _as_tensor(values).to(torch.bfloat16).view(torch.int16).numpy().view(_BFLOAT16)
        return _as_tensor(values).to(torch.float32 if dtype == _FLOAT32 else torch.float16).numpy()


def cast_if_needed(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As `cast`, but the same array where it has the type already."""
    if values.dtype == dtype:
        return values
    with np.errstate(invalid="ignore", over="ignore"):
        return cast(values, dtype)


def multiply(left: np.ndarray, right: np.ndarray, acc: np.ndarray | None) -> np.ndarray:
    """left [M, K] @ right [K, N] + acc [M, N] in float32; the operands are of half precision or float32."""
    with torch._C.DisableTorchFunction():
        a, b = _as_tensor(left).to(torch.float32), _as_tensor(right).to(torch.float32)
        return (torch.mm(a, b) if acc is None else torch.addmm(_as_tensor(acc), a, b)).numpy()


def _as_tensor(values: np.ndarray) -> torch.Tensor:
    """The array as a tensor that shares its memory where it can."""
    if not values.flags.writeable or not values.flags.c_contiguous:
        values = values.copy(order="C")
    if values.dtype == _BFLOAT16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values)
