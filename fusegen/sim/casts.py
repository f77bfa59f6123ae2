"""Fast casts between floating-point arrays: torch converts half precision with vector instructions, numpy does not."""

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


def to_float32(values: np.ndarray) -> np.ndarray:
    """The values as float32, which holds every half-precision number."""
    return values if values.dtype == _FLOAT32 else cast(values, _FLOAT32)


def cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As `values.astype(dtype)`: a copy, rounded to the nearest, ties to even."""
    pair = {values.dtype, dtype}
    if values.size < _SMALL or not (pair == {_FLOAT16, _FLOAT32} or pair == {_BFLOAT16, _FLOAT32}):
        return values.astype(dtype)
    with torch._C.DisableTorchFunction():
        if dtype == _FLOAT32:
            return _as_tensor(np.ascontiguousarray(values)).to(torch.float32).numpy()
        if dtype == _FLOAT16:
            return _as_tensor(np.ascontiguousarray(values)).to(torch.float16).numpy()
        rounded = _as_tensor(np.ascontiguousarray(values)).to(torch.bfloat16)
        return rounded.view(torch.int16).numpy().view(_BFLOAT16)


def _as_tensor(values: np.ndarray) -> torch.Tensor:
    if values.dtype == _BFLOAT16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values)
