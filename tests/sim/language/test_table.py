"""docs/platform.md lists what there is, tiles have methods, and what cannot be computed is refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusegen.sim import Unsupported, run_module
from fusegen.sim.findings import KernelError
from fusegen.sim.language.functions import FUNCTIONS, METHODS
from fusegen.sim.tiles import Tile
from tests.sim.conftest import PRELUDE

PLATFORM = Path(__file__).parents[3] / "docs" / "platform.md"
LISTED = """
def check(rank, ranks):
    names = {name for name in vars(tl) if not name.startswith("__")} - {"extra"}
    return float(len(names ^ {expected}))
"""


def run(folder: Path, source: str):
    path = folder / "small.py"
    path.write_text(PRELUDE + source, encoding="utf-8")
    return run_module(path, ranks=1, cores=2, shape={})


def names_in_documentation() -> set[str]:
    """All names in the table of builtins, but for what triton.language.math alone has."""
    section = PLATFORM.read_text(encoding="utf-8").split("### triton.language in the simulator")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {"tanh"}


def test_the_documentation_lists_every_builtin(tmp_path: Path) -> None:
    names = names_in_documentation()
    assert len(names) > 90
    assert run(tmp_path, LISTED.replace("{expected}", repr(names))).ok
    assert not run(tmp_path, LISTED.replace("{expected}", repr(names - {"dot"}))).ok


@pytest.mark.parametrize("name", METHODS)
def test_tiles_have_the_method(name: str) -> None:
    assert getattr(Tile, name) is FUNCTIONS[name]


KERNEL = """
@triton.jit
def kernel(x_ptr, y_ptr):
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + place)
    half = x.to(tl.float16)
    tl.store(y_ptr + place, {value})


def check(rank, ranks):
    x = torch.arange(32).reshape(4, 8) * 7 % 32
    y = torch.zeros(4, 8).npu()
    kernel[(1,)](x.int().npu(), y)
    return difference(y, {expected})
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("tl.sort(x)", "x.sort(1).values.float()"),
        ("tl.sort(x, 1, descending=True)", "x.sort(1, descending=True).values.float()"),
        ("tl.flip(x, 1)", "x.flip(1).float()"),
        ("x.flip()", "x.flip(1).float()"),
        ("half.max(1, keep_dims=True) + x.sum(0)", "x.amax(1, keepdim=True) + x.sum(0).float()"),
        ("half.sqrt().floor().abs()", "x.sqrt().floor()"),
        ("tl.math.tanh(half)", "x.half().float().tanh().half().float()"),
        ("x.T.trans(1, 0).cast(tl.float32)", "x.float()"),
        ("tl.where(x.expand_dims(0).reshape(4, 8) > 3, x, half)", "x.float()"),
        (
            "tl.arange(0, 8).to(tl.int8)[None, :] + tl.load(x_ptr + 1).to(tl.uint8)",
            "(torch.arange(8) + 7).expand(4, 8)",
        ),
        ("tl.load(x_ptr + tl.load(x_ptr + 1).to(tl.int8) + place * 0)", "torch.full((4, 8), 49 % 32)"),
    ],
)
def test_values_without_the_interpreter(tmp_path: Path, value: str, expected: str) -> None:
    result = run(tmp_path, KERNEL.replace("{value}", value).replace("{expected}", expected))
    assert [finding.message for finding in result.findings] == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tl.exp(x)", "TypeError: tl.exp: expected floating-point values, got tl.int32"),
        ("tl.clamp(x, 1, 2)", "TypeError: tl.clamp: expected floating-point values, got tl.int32"),
        ("tl.fma(x, x, x)", "TypeError: tl.fma: expected floating-point values, got tl.int32"),
        ("tl.fdiv(x, half)", "TypeError: tl.fdiv: expected floating-point values, got tl.int32"),
        (
            "x // x.to(tl.uint32)",
            "TypeError: /, // and %: expected operands of one signedness, got tl.int32 and tl.uint32",
        ),
        ("half // 2", "TypeError: Triton has no // on floating-point tiles"),
        ("half & 2", "TypeError: &, |, ^ and >>: expected integers or booleans, got tl.float16"),
        ("~half", "TypeError: ~: expected integers or booleans, got a tile of tl.float16"),
        ("x and half", "TypeError: not, and, or: expected tiles of tl.int1, got tl.int32"),
        (
            "x.to(tl.float16, bitcast=True)",
            "ValueError: bitcast: expected a type of 32 bits for tl.int32, got tl.float16",
        ),
        (
            "tl.trans(tl.join(x, x))",
            "ValueError: tl.trans: expected a tile of two axes or an order of axes, got [4, 8, 2]",
        ),
        ("tl.permute(x, 0, 0)", "ValueError: tl.permute: expected an order of 2 axes, got [0, 0]"),
        ("tl.split(x)", "ValueError: tl.split: expected a last axis of extent 2, got shape [4, 8]"),
        (
            "tl.cat(x, x)",
            "ValueError: tl.cat: expected can_reorder=True and tiles of one axis, got False, [4, 8] and [4, 8]",
        ),
        ("tl.join(x, half)", "TypeError: tl.join: expected values of one type, got tl.int32 and tl.float16"),
        ("tl.flip(x, 0)", "ValueError: tl.flip: expected the last axis of [4, 8], got 0"),
        ("tl.sort(x, 0)", "ValueError: tl.sort: expected the last axis of [4, 8], got 0"),
        ("tl.xor_sum(half)", "TypeError: tl.xor_sum: expected integers, got tl.float16"),
        ("tl.argmax(x, None)", "ValueError: a place along an axis: expected an axis, got None"),
        ("tl.load(x_ptr + place, other=1)", "ValueError: tl.load: expected other with a mask only"),
        ("tl.load(x_ptr + place, boundary_check=(0,))", "and boundary_check for block pointers only"),
        ("tl.atomic_and(y_ptr + place, 1)", "TypeError: tl.atomic_and: expected a pointer to integers, got tl.float32"),
        ("tl.make_block_ptr(x_ptr + place, 1, 1, 0, 1, 0)", "TypeError: tl.make_block_ptr: expected a scalar pointer"),
        (
            "tl.make_block_ptr(x_ptr, 1, 1, 0, (1, 1), 0)",
            "expected shape, strides, offsets and block_shape of one length",
        ),
        (
            "tl.advance(tl.make_block_ptr(x_ptr, 1, 1, 0, 1, 0), (1, 1))",
            "ValueError: tl.advance: expected 1 offsets, got 2",
        ),
        (
            "tl.load(tl.make_block_ptr(x_ptr, 1, 1, 0, 1, 0), padding_option='nan')",
            "ValueError: padding_option: expected 'zero' for tl.int32, got 'nan'",
        ),
        (
            "tl.load(tl.make_block_ptr(x_ptr, 1, 1, 0, 1, 0), boundary_check=(1,))",
            "ValueError: boundary_check: expected axes of [1], got [1]",
        ),
        (
            "tl.load(tl.make_block_ptr(x_ptr, 1, 1, 0, 1, 0), mask=True)",
            "ValueError: tl.load: expected boundary_check and padding_option for a block pointer, got a mask",
        ),
        (
            "tl.store(tl.make_block_ptr(y_ptr, 8, 1, 0, 8, 0), 1)",
            "TypeError: tl.store: expected a value of tl.float32 for the block, got tl.int32",
        ),
        (
            "tl.store(tl.make_block_ptr(y_ptr, 8, 1, 0, 8, 0), x.to(tl.float32))",
            "ValueError: tl.store: expected a value of [8], got [4, 8]",
        ),
        ("tl.assume(x.sum() < 3)", "AssertionError: tl.assume: the condition does not hold"),
    ],
)
def test_what_cannot_be_computed_is_a_finding(tmp_path: Path, value: str, message: str) -> None:
    (finding,) = run(tmp_path, KERNEL.replace("{value}", value).replace("{expected}", "x")).findings
    assert isinstance(finding, KernelError)
    assert message in finding.message


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("tl.math.umulhi(x, x)", "triton.language.math.umulhi"),
        ("tl.dot_scaled(x, x)", "triton.language.dot_scaled"),
        ("x.to(tl.float16, 'rtz')", "tl.cast with fp_downcast_rounding 'rtz'"),
    ],
)
def test_what_is_not_supported_raises_by_name(tmp_path: Path, value: str, name: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(name)):
        run(tmp_path, KERNEL.replace("{value}", value).replace("{expected}", "x"))


MIX = """
@triton.jit
def kernel(a_ptr, c_ptr, count_ptr):
    rows = tl.arange(0, 16)
    place = rows[:, None] * 16 + rows[None, :]
    block = tl.make_block_ptr(a_ptr, (16, 16), (16, 1), (0, 0), (16, 16), (1, 0))
    a = tl.load(block)
    product = tl.dot(a, tl.permute(a.cast(tl.float16), (1, 0)))
    top = tl.maximum(product, 0.0) if True and rows is not None else product
    tl.static_print("once", end="")
    tl.store(c_ptr + place, tl.softmax(top).sum(0)[None, :] + tl.zeros_like(product))
    tl.atomic_max(count_ptr, 5)
    tl.atomic_or(count_ptr, 8)


def check(rank, ranks):
    a = torch.randint(-3, 4, (16, 16)).half()
    c, count = torch.zeros(16, 16).npu(), torch.zeros(1, dtype=torch.int32).npu()
    kernel[(1,)](a.npu(), c, count)
    return max(((c.cpu() - 1).abs() > 1e-5).sum().item(), difference(count, [13]))
"""


def test_builtins_of_mix_kernels_run_where_their_role_says(tmp_path: Path) -> None:
    """The AIC loads, permutes and multiplies; the AIVs have the rest, and one of them the atomics."""
    result = run(tmp_path, MIX)
    assert [finding.message for finding in result.findings] == []
    assert result.max_abs_err == 0.0
