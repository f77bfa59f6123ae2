"""tl.dot and the tile operations around it, in kernels of one rank, against torch."""

from __future__ import annotations

import pytest

from fusegen.sim.errors import Unsplittable
from fusegen.sim.events import Event, TileSent
from tests.sim.checks import assert_exact

HEAD = """
@triton.jit
def swizzle(work, rows, cols, OFFSET: tl.constexpr):
    group = work // (OFFSET * cols)
    first = group * OFFSET
    height = tl.minimum(rows - first, OFFSET)
    inside = work % (OFFSET * cols)
    return first + inside % height, inside // height


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.5 * x)


@triton.jit
def gemm(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    for work in range(tl.program_id(0), rows * cols, tl.num_programs(0)):
        row, col = swizzle(work, rows, cols, 2)
        offset_m = row * BM + tl.arange(0, BM)
        offset_n = col * BN + tl.arange(0, BN)
        mask = (offset_m[:, None] < M) & (offset_n[None, :] < N)
        {start}
        for block_k in range(tl.cdiv(K, BK)):
            offset_k = block_k * BK + tl.arange(0, BK)
            a_mask = (offset_m[:, None] < M) & (offset_k[None, :] < K)
            b_mask = (offset_k[:, None] < K) & (offset_n[None, :] < N)
            a = tl.load(a_ptr + offset_m[:, None] * K + offset_k[None, :], mask=a_mask, other=0.0)
            {load_b}
            acc = tl.dot(a, b, acc)
        {end}
        tl.store(c_ptr + offset_m[:, None] * N + offset_n[None, :], {stored}, mask=mask)


def check(rank, ranks):
    torch.manual_seed(1)
    M, N, K = {shape}
    a = torch.randint(-3, 4, (M, K)).to(torch.{dtype})
    b = torch.randint(-3, 4, (K, N)).to(torch.{dtype})
    bias = torch.randint(-9, 9, (N,)).to(torch.{dtype})
    product = a.float() @ b.float()
    expected = {expected}
    c = torch.full((M, N), float("nan"), dtype=torch.{out}).npu()
    assert NPUUtils().get_aicore_num() == 3
    assert NPUUtils().get_aivector_core_num() == 6
    second = b.T.contiguous() if "trans" in {load_b!r} else b
    gemm[(NPUUtils().get_aicore_num(),)](a.npu(), second.npu(), bias.npu(), c, M, N, K, BM=32, BN=16, BK=64)
    return difference(c, expected.to(torch.{out}))
"""
ZEROS = "acc = tl.zeros((BM, BN), dtype=tl.float32)"
LOAD_B = "b = tl.load(b_ptr + offset_k[:, None] * N + offset_n[None, :], mask=b_mask, other=0.0)"
LOAD_B_TRANSPOSED = (
    "b = tl.trans(tl.load(b_ptr + offset_n[:, None] * K + offset_k[None, :], mask=tl.trans(b_mask), other=0.0))"
)
LOAD_BIAS = "tl.load(bias_ptr + offset_n, mask=offset_n < N, other=0.0)"
CAST = "acc.to(c_ptr.dtype.element_ty)"


def gemm(
    start: str = ZEROS,
    load_b: str = LOAD_B,
    end: str = "pass",
    stored: str = CAST,
    expected: str = "product",
    dtype: str = "float16",
    out: str = "float16",
    shape: str = "70, 40, 130",
) -> str:
    """A module with a tiled GEMM on 3 AI cores; integers make every result exact."""
    values = {"start": start, "load_b": load_b, "end": end, "stored": stored, "expected": expected}
    text = HEAD
    for name, value in {**values, "dtype": dtype, "out": out, "shape": shape}.items():
        text = text.replace(f"{{{name}}}", value).replace(f"{{{name}!r}}", repr(value))
    return text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("schedule", ["round-robin", "random"])
def test_the_product_of_each_type(run_source, dtype: str, schedule: str) -> None:
    assert_exact(run_source(gemm(dtype=dtype, out="float32"), cores=3, schedule=schedule))


@pytest.mark.parametrize(
    "parts",
    [
        {"load_b": LOAD_B_TRANSPOSED},
        {"stored": "acc", "out": "float32"},
        {
            "start": f"acc = tl.broadcast_to({LOAD_BIAS}[None, :], (BM, BN)).to(tl.float32)",
            "expected": "product + bias",
        },
        {"start": f"{ZEROS} + {LOAD_BIAS}[None, :]", "expected": "product + bias"},
        {"end": f"acc += {LOAD_BIAS}[None, :]", "expected": "product + bias"},
        {"end": f"acc = acc + {LOAD_BIAS}[None, :]", "expected": "product + bias"},
        {"end": "acc = leaky_relu(acc)", "expected": "torch.where(product >= 0, product, product / 2)"},
        {"end": "if N > 5:\n            acc = acc * 2", "expected": "product * 2"},
        {"end": "if N < 5:\n            acc = acc * 2", "expected": "product"},
        {"end": "half = acc.to(tl.float16)", "stored": "half + half", "expected": "product + product"},
        {"load_b": f"{LOAD_B}\n            b = b * 2", "expected": "product * 2"},
        {
            "load_b": f"{LOAD_B}\n            a = tl.where(a > 0, a, 0.0)",
            "expected": "a.clamp(min=0).float() @ b.float()",
        },
        {"start": "acc = tl.full((BM, BN), 3, dtype=tl.float32)", "expected": "product + 3"},
        {"stored": "(acc * 0.5 + 1).to(c_ptr.dtype.element_ty)", "expected": "product * 0.5 + 1"},
        {"shape": "64, 32, 0", "expected": "torch.zeros(64, 32)"},
        {"shape": "1, 1, 1"},
    ],
)
@pytest.mark.parametrize("schedule", ["round-robin", "random"])
def test_around_the_dot(run_source, parts: dict[str, str], schedule: str) -> None:
    assert_exact(run_source(gemm(**parts), cores=3, schedule=schedule))


@pytest.mark.parametrize("added", ["acc += tl.dot(a, b)", "acc = tl.dot(a, b) + acc"])
def test_a_sum_of_dots_stays_on_the_cube(run_source, added: str) -> None:
    told: list[Event] = []
    source = gemm().replace("acc = tl.dot(a, b, acc)", added)
    assert_exact(run_source(source, cores=3, observers=[told.append]))
    assert not [event for event in told if isinstance(event, TileSent)]


@pytest.mark.parametrize(
    "loop", ["range(tl.cdiv(K, BK))", "tl.range(0, tl.cdiv(K, BK), num_stages=2)", "tl.static_range(3)"]
)
def test_loops_over_k(run_source, loop: str) -> None:
    assert_exact(run_source(gemm().replace("range(tl.cdiv(K, BK))", loop), cores=3))


@pytest.mark.parametrize("parts", [{"load_b": LOAD_B + "\n            b = b.to(tl.float32)", "expected": "product"}])
def test_operands_of_two_types_are_refused(run_source, parts: dict[str, str]) -> None:
    (finding,) = run_source(gemm(**parts), cores=3).findings
    assert "TypeError: tl.dot: expected a and b of one type, got tl.float16 and tl.float32" in finding.message


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("acc = tl.zeros((BN, BM), dtype=tl.float32)", "tl.dot: expected acc of shape [32, 16], got [16, 32]"),
        (
            "acc = tl.zeros((BM, BN), dtype=tl.float16)",
            "tl.dot: expected acc to be a tile of tl.float32, got tl.float16",
        ),
    ],
)
def test_an_accumulator_that_does_not_fit(run_source, start: str, message: str) -> None:
    (finding,) = run_source(gemm(start=start), cores=3).findings
    assert message in finding.message
    assert "AIC program 0 at small.py:" in finding.message


def test_extents_that_do_not_fit(run_source) -> None:
    source = gemm().replace("acc = tl.dot(a, b, acc)", "acc = tl.dot(b, a, acc)")
    (finding,) = run_source(source, cores=3).findings
    assert "tl.dot: expected a [M, K] and b [K, N], got [64, 16] and [32, 64]" in finding.message


def test_a_dot_that_depends_on_the_vector_core_is_refused(run_source) -> None:
    source = gemm().replace("range(tl.program_id(0),", "range(tl.program_id(0) + sub_vec_id(),")
    with pytest.raises(Unsplittable, match=r"small.py:\d+: tl.dot: expected it to be independent of sub_vec_id"):
        run_source(source, cores=3)


def test_a_hand_over_that_depends_on_the_vector_core_is_refused(run_source) -> None:
    source = gemm(end="if sub_vec_id() == 0:\n            acc = acc + 1")
    with pytest.raises(Unsplittable, match=r"small.py:\d+: acc: expected the hand-over of a tile"):
        run_source(source, cores=3)


def test_a_helper_that_accesses_tiles_is_refused(run_source) -> None:
    source = gemm().replace("inside = work", "tl.store(work, 1)\n    inside = work")
    with pytest.raises(Unsplittable, match=r"small.py:\d+: tl.store: swizzle, which a mix kernel calls, uses it"):
        run_source(source, cores=3)
