"""Tiles that go back and forth between AIC and AIVs: every value is computed once and ends where it is used."""

from __future__ import annotations

import pytest

from tests.sim.checks import assert_exact

KERNEL = """
@triton.jit
def scaled(x, FACTOR: tl.constexpr):
    return x * FACTOR


@triton.jit
def low_and_high(x):
    return tl.minimum(x, 8.0), tl.maximum(x, 8.0)


@triton.jit
def kernel(x_ptr, y_ptr, count, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)
    index = row[:, None] * SIZE + row[None, :]
    {body}


def check(rank, ranks):
    x = torch.randint(-2, 3, (16, 16), generator=torch.Generator().manual_seed(3)).half()
    y = torch.full((3, 16, 16), -1.0).npu()
    kernel[(2,)](x.npu(), y, 3, SIZE=16)
    torch.npu.synchronize()
    x, expected = x.float(), torch.full((3, 16, 16), -1.0)
    {expected}
    return difference(y, expected)
"""
LOAD = "a = tl.load(x_ptr + index)\n"
SQUARE = LOAD + "acc = tl.dot(a, a)\n"
STORE = "tl.store(y_ptr + index, {})\n"
SECOND = "tl.store(y_ptr + 256 + index, {})\n"

CASES = {
    "stored by the cube and used by the vector cores": (
        SQUARE + STORE.format("acc") + SECOND.format("acc + 1"),
        "expected[0] = x @ x; expected[1] = x @ x + 1",
    ),
    "a loaded tile that is copied and multiplied": (
        SQUARE + STORE.format("a") + SECOND.format("acc"),
        "expected[0] = x; expected[1] = x @ x",
    ),
    "rescaled in every turn": (
        LOAD
        + "acc = tl.zeros((SIZE, SIZE), dtype=tl.float32)\nfor _ in range(count):\n"
        + "    acc = acc * 0.5\n    acc = tl.dot(a, a, acc)\n"
        + STORE.format("acc"),
        "expected[0] = (x @ x) * 1.75",
    ),
    "fed back through the vector cores": (
        LOAD
        + "value = a\nfor _ in range(count):\n    acc = tl.dot(a, value)\n"
        + "    value = tl.minimum(tl.maximum(acc, -3.0), 3.0).to(tl.float16)\n"
        + STORE.format("value"),
        "value = x\n    for _ in range(3):\n        value = (x @ value).clamp(-3, 3)\n    expected[0] = value",
    ),
    "zeros that nobody multiplies": (
        SQUARE + STORE.format("tl.zeros((SIZE, SIZE), dtype=tl.float32)"),
        "expected[0] = 0",
    ),
    "zeros for both": (
        LOAD
        + "zero = tl.zeros((SIZE, SIZE), dtype=tl.float32)\nacc = tl.dot(a, a, zero)\n"
        + STORE.format("zero")
        + SECOND.format("acc")
        + "tl.store(y_ptr + 512 + index, zero + 5)",
        "expected[0] = 0; expected[1] = x @ x; expected[2] = 5",
    ),
    "several assignments in one": (
        "a, b = tl.load(x_ptr + index), tl.load(x_ptr + index)\nacc = tl.dot(a, b)\n" + STORE.format("acc"),
        "expected[0] = x @ x",
    ),
    "chosen by a condition": (
        SQUARE + "chosen = acc if count > 2 else acc * 2\n" + STORE.format("chosen"),
        "expected[0] = x @ x",
    ),
    "changed on one of two paths": (
        SQUARE + "if count > 2:\n    acc = acc + 1\nelse:\n    acc = tl.dot(a, a, acc)\n" + STORE.format("acc"),
        "expected[0] = x @ x + 1",
    ),
    "multiplied again on the other of two paths": (
        SQUARE + "if count < 2:\n    acc = acc + 1\nelse:\n    acc = tl.dot(a, a, acc)\n" + STORE.format("acc"),
        "expected[0] = 2 * (x @ x)",
    ),
    "a helper for tiles": (SQUARE + STORE.format("scaled(acc, 3)"), "expected[0] = 3 * (x @ x)"),
    "a helper with two tiles": (
        SQUARE + "low, high = low_and_high(acc)\n" + STORE.format("low") + SECOND.format("high"),
        "expected[0] = (x @ x).clamp(max=8); expected[1] = (x @ x).clamp(min=8)",
    ),
    "reduced": (
        SQUARE + "largest = tl.max(acc, axis=1)\n" + STORE.format("acc - largest[:, None]"),
        "expected[0] = x @ x - (x @ x).max(1, keepdim=True).values",
    ),
    "under another name": (
        SQUARE + "first = acc\nacc = tl.dot(a, a, acc)\n" + STORE.format("first + 0") + SECOND.format("acc"),
        "expected[0] = x @ x; expected[1] = 2 * (x @ x)",
    ),
    "transposed after the dot": (SQUARE + STORE.format("tl.trans(acc)"), "expected[0] = (x @ x).T"),
    "transposed and added": (SQUARE + STORE.format("acc.T + acc"), "expected[0] = (x @ x).T + x @ x"),
    "broadcast to an accumulator": (
        LOAD + "start = tl.load(x_ptr + row)[None, :].to(tl.float32)\n"
        "acc = tl.dot(a, a, tl.broadcast_to(start, (SIZE, SIZE)))\n" + STORE.format("acc"),
        "expected[0] = x @ x + x[:1]",
    ),
    "gathered by a loaded index": (
        "place = tl.load(x_ptr + row).to(tl.int32) + 2\n"
        "b = tl.load(x_ptr + place[:, None] * SIZE + row[None, :])\nacc = tl.dot(b, b)\n" + STORE.format("acc"),
        "b = x[(x[0] + 2).long()]; expected[0] = b @ b",
    ),
    "masked by a loaded condition": (
        SQUARE + "tl.store(y_ptr + index, acc, mask=tl.load(x_ptr + index) > 0)",
        "expected[0] = torch.where(x > 0, x @ x, -1)",
    ),
    "a scalar from memory": (
        "turns = tl.load(y_ptr).to(tl.int32) + 3\n"
        + LOAD
        + "acc = tl.zeros((SIZE, SIZE), dtype=tl.float32)\nlibshmem_device.barrier_all()\nfor _ in range(turns):\n"
        + "    acc = tl.dot(a, a, acc)\n"
        + SECOND.format("acc"),
        "expected[1] = 2 * (x @ x)",
    ),
    "an early return": (
        LOAD + "if count == 3:\n    " + STORE.format("tl.dot(a, a)") + "    return\n" + SECOND.format("tl.dot(a, a)"),
        "expected[0] = x @ x",
    ),
    "a while loop": (
        LOAD + "turn = 0\nacc = tl.zeros((SIZE, SIZE), dtype=tl.float32)\nwhile turn < count:\n"
        "    turn += 1\n    if turn == 2:\n        continue\n    acc += tl.dot(a, a)\n" + STORE.format("acc"),
        "expected[0] = 2 * (x @ x)",
    ),
}


def kernel(body: str, expected: str) -> str:
    """A module with one kernel; `x` is 16 x 16, `y` has three such tiles of -1."""
    return KERNEL.replace("{expected}", expected).replace("{body}", body.strip().replace("\n", "\n    "))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_a_value_arrives_where_it_is_used(run_source, name: str, seed: int) -> None:
    assert_exact(run_source(kernel(*CASES[name]), cores=2, schedule="random", seed=seed))


def test_every_case_has_a_dot_on_the_cube(run_source) -> None:
    """A case in which nothing is a mix kernel would prove nothing."""
    assert all("tl.dot" in body for body, _ in CASES.values())
