"""Each feature of the device language, in a small kernel, against numpy or torch."""

from __future__ import annotations

from typing import Any

import pytest

from fusegen.sim import Unsupported
from tests.sim.checks import assert_exact

LAUNCH = """
def check(rank, ranks):
    x = torch.arange({size}, dtype=torch.{dtype}).npu()
    y = torch.zeros({size}, dtype=torch.{out}).npu()
    kernel[({grid},)](x, y, {size}, BLOCK=16)
    return difference(y, expected(x.cpu()))
"""


def kernel_test(body: str, expected: str, *, size: int = 50, dtype: str = "int32", out: str = "", grid: int = 1) -> str:
    """A module whose kernel has `body` and whose output must be `expected`, an expression over the input `x`."""
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return (
        "@triton.jit\ndef kernel(x_ptr, y_ptr, size, BLOCK: tl.constexpr):\n"
        + lines
        + f"\n\ndef expected(x):\n    return {expected}\n"
        + LAUNCH.format(size=size, dtype=dtype, out=out or dtype, grid=grid)
    )


COPY = """
for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
    index = start + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + index, mask=index < size{other})
    tl.store(y_ptr + index, {value}, mask=index < size)
"""


def elementwise(value: str, expected: str, **options: Any) -> str:
    return kernel_test(COPY.format(value=value, other=""), expected, **options)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("value + 1", "x + 1"),
        ("3 - value * 2", "3 - x * 2"),
        ("value // 7 + value % 7", "x // 7 + x % 7"),
        ("(value - 20) // 7", "torch.div(x - 20, 7, rounding_mode='trunc')"),
        ("(value - 20) % 7", "torch.fmod(x - 20, 7)"),
        ("value << 2", "x << 2"),
        ("(value >> 1) & 5 | 8 ^ 3", "(x >> 1) & 5 | 8 ^ 3"),
        ("tl.where(value < 9, value, -value)", "torch.where(x < 9, x, -x)"),
        ("tl.where((value > 3) & ~(value > 30), 1, 0)", "((x > 3) & ~(x > 30)).int()"),
        ("tl.minimum(value, 7) + tl.maximum(value, 40)", "x.clamp(max=7) + x.clamp(min=40)"),
        ("tl.abs(value - 25)", "(x - 25).abs()"),
        ("tl.cdiv(value, 4)", "(x + 3) // 4"),
        ("value + tl.arange(0, 1)", "x"),
        ("(value == 3) | (value != value)", "(x == 3).int()"),
        ("tl.full([BLOCK], 3, tl.int32) + tl.zeros([BLOCK], tl.int32)", "torch.full_like(x, 3)"),
        ("value.to(tl.int64) * 3", "x * 3"),
        ("(index * 3 % 5).to(tl.int32)", "x * 3 % 5"),
        ("index // 3 * 2", "x // 3 * 2"),
        ("tl.multiple_of(index, 16) * 1", "x"),
        ("tl.where(index % 2 == 0, index, 0)", "torch.where(x % 2 == 0, x, 0)"),
        ("tl.cast(value / 4, tl.int32)", "x // 4"),
    ],
)
@pytest.mark.parametrize("grid", [1, 3])
def test_integer_tiles(run_source, value: str, expected: str, grid: int) -> None:
    assert_exact(run_source(elementwise(value, expected, grid=grid)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("value * 2 + 1", "x * 2 + 1"),
        ("value - 0.5", "x - 0.5"),
        ("value / 8", "(x.float() / 8).to(x.dtype)"),
        ("-value", "-x"),
        ("tl.sqrt(value.to(tl.float32))", "x.double().sqrt().to(x.dtype)"),
        ("tl.where(index < 4, value, 1.5)", "torch.where(torch.arange(50) < 4, x, 1.5)"),
        ("value.to(tl.float32).to(y_ptr.dtype.element_ty)", "x"),
    ],
)
def test_float_tiles(run_source, value: str, expected: str, dtype: str) -> None:
    assert_exact(run_source(elementwise(value, expected, dtype=dtype)))


def test_exponentials_are_close_to_torch(run_source) -> None:
    source = elementwise(
        "tl.exp(value / 50) + tl.log(value + 1) + tl.sigmoid(value)", "torch.zeros_like(x)", dtype="float32"
    )
    source = source.replace("torch.zeros_like(x)", "(x / 50).exp() + (x + 1).log() + x.sigmoid()")
    result = run_source(source)
    assert result.max_abs_err is not None
    assert result.max_abs_err < 1e-6


def test_other_fills_excluded_lanes(run_source) -> None:
    body = """
index = tl.arange(0, BLOCK)
value = tl.load(x_ptr + index, mask=index < 5, other=-1)
tl.store(y_ptr + index, value)
"""
    assert_exact(run_source(kernel_test(body, "torch.where(x < 5, x, -1)", size=16)))


def test_a_used_excluded_lane_shows(run_source) -> None:
    body = """
index = tl.arange(0, BLOCK)
tl.store(y_ptr + index, tl.load(x_ptr + index, mask=index < 5))
"""
    result = run_source(kernel_test(body, "x", size=16, dtype="float32"))
    assert not result.ok
    assert result.max_abs_err == float("inf")


def test_gather_by_loaded_index(run_source) -> None:
    body = """
index = tl.arange(0, BLOCK)
reversed = 15 - tl.load(x_ptr + index)
tl.store(y_ptr + index, tl.load(x_ptr + reversed) * 2)
"""
    assert_exact(run_source(kernel_test(body, "x.flip(0) * 2", size=16)))


def test_disjoint_mask(run_source) -> None:
    body = """
index = tl.arange(0, BLOCK)
mask = (index < 3) | (index >= 14)
tl.store(y_ptr + index, tl.load(x_ptr + index, mask=mask, other=0), mask=mask)
"""
    assert_exact(run_source(kernel_test(body, "torch.where((x < 3) | (x >= 14), x, 0)", size=16)))


def test_scalar_masks(run_source) -> None:
    body = """
index = tl.arange(0, BLOCK)
tl.store(y_ptr + index, tl.load(x_ptr + index, mask=size > 3) + tl.load(x_ptr + 99, mask=size < 3, other=5), mask=1)
tl.store(y_ptr + index, 7, mask=size == 0)
tl.store(y_ptr + 3, 8, mask=size == 16)
tl.store(y_ptr + 99, 8, mask=False)
"""
    assert_exact(run_source(kernel_test(body, "torch.where(x == 3, 8, x + 5)", size=16)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("value + 1000", "(x.int() + 1000).to(torch.int8)"),
        ("value + 100", "x + 100"),
        ("value + size * 20", "x.int() + 1000"),
        ("tl.minimum(value, 7) * 100", "x.clamp(max=7).int() * 100"),
        ("value.to(tl.int64) * 5000000000", "x.long() * 5000000000"),
        ("index * 2 + value", "torch.arange(50) * 2 + x"),
    ],
)
def test_narrow_integers_take_constants_and_widen_beside_variables(run_source, value: str, expected: str) -> None:
    source = elementwise(value, expected, dtype="int8", out="int64")
    assert_exact(run_source(source))


def test_two_dimensional_tile_and_transpose(run_source) -> None:
    body = """
row = tl.arange(0, 4)
column = tl.arange(0, 4)
tile = tl.load(x_ptr + row[:, None] * 4 + column[None, :])
tl.store(y_ptr + column[:, None] * 4 + row[None, :], tl.trans(tile) + tl.expand_dims(row, 0) * 0)
"""
    assert_exact(
        run_source(
            kernel_test(body, "x.view(4, 4).T.contiguous().view(-1)", size=16).replace("tl.trans(tile)", "tile.T")
        )
    )


def test_reductions(run_source) -> None:
    body = """
tile = tl.load(x_ptr + tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :])
row = tl.arange(0, 4)
tl.store(y_ptr + row, tl.sum(tile, axis=1))
tl.store(y_ptr + 4 + row, tl.max(tile, axis=0))
tl.store(y_ptr + 8, tl.min(tile) + tl.sum(tile))
tl.store(y_ptr + 12 + row, tl.argmax(tile, axis=1))
"""
    expected = (
        "torch.cat([x.view(4, 4).sum(1), x.view(4, 4).amax(0), x.sum()[None], torch.zeros(3), torch.full((4,), 3)])"
    )
    assert_exact(run_source(kernel_test(body, expected, size=16)))


def test_scalar_loads_loops_and_helpers(run_source) -> None:
    source = """
STEP = 3


@triton.jit
def doubled(value, times: tl.constexpr = 2):
    return value * times


@triton.jit
def kernel(x_ptr, y_ptr, n, COUNT: tl.constexpr):
    total = 0
    for i in range(n):
        total += tl.load(x_ptr + i)
    for i in tl.static_range(COUNT):
        total = total + i
    for i in tl.range(0, n, STEP, num_stages=2):
        if i >= 6:
            total += 100
    remaining = n
    while remaining > 0:
        remaining -= 1
        total += 1
    tl.static_assert(COUNT == 4, "count")
    if tl.program_id(0) == 1 and total > 0:
        tl.store(y_ptr, doubled(total))
        tl.store(y_ptr + 1, tl.cdiv(n, 4) + tl.minimum(n, 3) + tl.maximum(n, 3))
        tl.store(y_ptr + 2, tl.num_programs(0))


def check(rank, ranks):
    x = torch.arange(10, dtype=torch.int32).npu()
    y = torch.zeros(3, dtype=torch.int32, device="npu")
    kernel[lambda meta: (meta["COUNT"] // 2,)](x, y, 10, COUNT=4, num_warps=4)
    return difference(y, [2 * (45 + 6 + 200 + 10), 3 + 3 + 10, 2])
"""
    assert_exact(run_source(source))


def test_atomic_add_counts_every_lane(run_source) -> None:
    body = """
index = tl.arange(0, BLOCK)
tl.atomic_add(y_ptr + index // 8, tl.load(x_ptr + index))
old = tl.atomic_add(y_ptr + 2, 5)
tl.store(y_ptr + 3, old + 1)
"""
    assert_exact(run_source(kernel_test(body, "torch.tensor([28, 92, 5, 1] + [0] * 12)", size=16)))


def test_scalar_types(run_source) -> None:
    """A 64-bit scalar stays one; a float argument is a float32; None and bool pass through."""
    source = """
@triton.jit
def kernel(y_ptr, big, factor, nothing, flag):
    if nothing is None and flag:
        tl.store(y_ptr, big * 4 % 1000)
        tl.store(y_ptr + 1, (tl.program_id(0) + 1).to(tl.int64) * 2147483647 * 2)
        tl.store(y_ptr + 2, (factor * 10).to(tl.int64))


def check(rank, ranks):
    y = torch.zeros(3, dtype=torch.int64).npu()
    kernel[(1,)](y, 3_000_000_007, 0.75, None, True)
    return difference(y, [3_000_000_007 * 4 % 1000, 4294967294, 7])
"""
    assert_exact(run_source(source))


def test_constants_are_exact(run_source) -> None:
    """What Triton computes when it compiles has no width."""
    source = """
HUGE = 1 << 40


@triton.jit
def kernel(y_ptr, SIZE: tl.constexpr):
    half = SIZE * 65536 * 65536
    tl.store(y_ptr, half // 65536 // 65536 + HUGE // (1 << 38) + (0 - 7) % 4)


def check(rank, ranks):
    y = torch.zeros(1, dtype=torch.int32).npu()
    kernel[(1,)](y, SIZE=8)
    return difference(y, [8 + 4 + 1])
"""
    assert_exact(run_source(source))


def test_pointer_casts(run_source) -> None:
    source = """
@triton.jit
def kernel(x_ptr):
    words = x_ptr.to(tl.pointer_type(tl.int64))
    tl.store(words + 1, 7)


def check(rank, ranks):
    x = torch.zeros(4, dtype=torch.int32).npu()
    kernel[(1,)](x)
    return difference(x, [0, 0, 7, 0])
"""
    assert_exact(run_source(source))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("tl.histogram(x_ptr, 4)", "triton.language.histogram: expected a builtin"),
        ("dl.extern_call()", "triton_dist.language.extern_call: expected a builtin"),
        ("libshmem_device.putmem_signal()", "triton_dist.language.extra.libshmem_device.putmem_signal: expected"),
    ],
)
def test_unsupported_builtins_raise_by_name(run_source, body: str, name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        run_source(kernel_test(body, "x"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tl.arange(0, 12)", "ValueError: tl.arange: expected a range of a power of two, got 0 to 12"),
        ("tl.static_assert(BLOCK == 8, 'block')", "AssertionError: tl.static_assert: block"),
        ("tl.device_assert(size < 3, 'size')", "AssertionError: tl.device_assert: size"),
        ("undefined + 1", "NameError: name 'undefined' is not defined"),
        (
            "dl.notify(x_ptr, 0, 1)",
            "TypeError: dl.notify: expected a pointer to int64, uint64 or int32, got tl.float32",
        ),
        ("x = tl.arange(0, 8)\nif x < 3:\n    pass", "TypeError: a tile has no truth value"),
    ],
)
def test_illegal_kernels_are_findings(run_source, body: str, message: str) -> None:
    result = run_source(kernel_test(body, "x", dtype="float32"))
    (finding,) = result.findings
    assert finding.kind == "KernelError"
    assert message in finding.message
    assert "rank 0 core 0 AIV program 0 at small.py:" in finding.message


def test_notify_add_is_refused(run_source) -> None:
    source = kernel_test("dl.notify(x_ptr, 0, 1, sig_op='add')", "x", dtype="int64")
    (finding,) = run_source(source).findings
    assert "dl.notify: expected sig_op 'set', got 'add'" in finding.message
