"""Each builtin that computes, over tiles and over scalars, has the value and type that Triton's interpreter gives."""

from __future__ import annotations

import pytest
import torch

from fusegen.sim import dtypes
from fusegen.sim.language.functions import FUNCTIONS
from tests.sim.language.builtins_table import NOT_IN_THE_INTERPRETER, SCALAR, TILE, TILES_ALONE, ULPS
from tests.sim.language.comparing import Comparison

HEAD = """
@triton.jit
def larger(left, right):
    return tl.maximum(left, right)


@triton.jit
def kernel(x_ptr, y_ptr, h_ptr, k_ptr, out_ptr):
"""
TILES = """
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + place)
    y = tl.load(y_ptr + place)
    h = tl.load(h_ptr + place)
    k = tl.load(k_ptr + place)
    row = tl.load(x_ptr + tl.arange(0, 8))[None, :]
    m = k > 3
"""
SCALARS = """
    for i in range(32):
        x = tl.load(x_ptr + i)
        y = tl.load(y_ptr + i)
        h = tl.load(h_ptr + i)
        k = tl.load(k_ptr + i)
        m = k > 3
"""


def tile_kernel(name: str) -> str:
    body = ""
    for number, (expression, elements) in enumerate(TILE[name]):
        body += f"    result = {expression}\n    record(result)\n"
        flat = "result" if elements == 1 else "tl.ravel(result)"
        places = "" if elements == 1 else f" + tl.arange(0, {elements})"
        body += f"    tl.store(out_ptr + {128 * number}{places}, {flat})\n"
    return HEAD + TILES + body


def scalar_kernel(name: str) -> str:
    body = ""
    for number, expression in enumerate(SCALAR[name]):
        body += f"        result = {expression}\n        record(result)\n"
        body += f"        tl.store(out_ptr + {128 * number} + i, result)\n"
    return HEAD + SCALARS + body


@pytest.fixture(scope="module")
def tensors() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(32, generator=generator) * 2
    half = (torch.randn(32, generator=generator) * 4).half()
    k = torch.randint(0, 8, (32,), generator=generator, dtype=torch.int32)
    return [y.abs() + 0.125, y, half, k, torch.zeros(512, dtype=torch.float64)]


@pytest.mark.parametrize("name", sorted(TILE))
def test_over_tiles(comparison: Comparison, tensors: list[torch.Tensor], name: str) -> None:
    comparison.check(tile_kernel(name), tensors, ulps=ULPS.get(name, 0))


@pytest.mark.parametrize("name", sorted(SCALAR))
def test_over_scalars(comparison: Comparison, tensors: list[torch.Tensor], name: str) -> None:
    comparison.check(scalar_kernel(name), tensors, ulps=ULPS.get(name, 0))


def test_every_builtin_is_compared() -> None:
    no_values = {"PropagateNan", "assume", "constexpr", "dtype", "pointer_type", "range", "tensor"}
    no_values |= {"static_assert", "static_print", "static_range", *(dtype.name for dtype in dtypes.ALL)}
    assert set(TILE) == set(FUNCTIONS) - no_values - NOT_IN_THE_INTERPRETER
    assert set(TILE) - set(SCALAR) == TILES_ALONE
