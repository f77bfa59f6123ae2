"""The part of triton.language that only computes. `FUNCTIONS` is the table of what is supported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fusegen.sim import dtypes
from fusegen.sim.dtypes import DType
from fusegen.sim.errors import Unsupported
from fusegen.sim.integers import counter
from fusegen.sim.language import elementwise, reductions, shapes
from fusegen.sim.tiles import Tile, dense


class constexpr:  # the name is Triton's
    """tl.constexpr: an annotation; calling it gives the value itself."""

    def __new__(cls, value: Any) -> Any:
        return value


class Namespace:
    """A part of the language with a name of its own; Unsupported, by name, for what its table does not have."""

    def __init__(self, name: str, table: Mapping[str, Any]) -> None:
        self._name = name
        vars(self).update(table)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"{self._name}.{name}")


def static_assert(condition: bool, message: str = "") -> None:
    """AssertionError unless a compile-time condition holds."""
    if not condition:
        raise AssertionError(f"tl.static_assert: {message}")


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """print, which Triton does when it compiles: here whenever the kernel comes by."""
    print(*values, sep=sep, end=end, file=file, flush=flush)


def assume(condition: Any) -> None:
    """AssertionError for what the compiler was told and is not so."""
    if not dense(condition).data.all():
        raise AssertionError("tl.assume: the condition does not hold")


def static_range(arg1: int, arg2: int | None = None, step: int = 1) -> Any:
    """tl.static_range: an unrolled loop."""
    return range(*_bounds(arg1, arg2, step))


def loop_range(arg1: int, arg2: int | None = None, step: int = 1, **_: Any) -> Any:
    """tl.range: its options (num_stages, ...) guide the compiler and change no result."""
    return counter(*_bounds(arg1, arg2, step))


def _bounds(arg1: int, arg2: int | None, step: int) -> tuple[int, int, int]:
    return (0, arg1, step) if arg2 is None else (arg1, arg2, step)


def hint(value: Any, *_: Any) -> Any:
    """multiple_of, max_contiguous and such: promises to the compiler, not checked."""
    return value


MATH: Final[Mapping[str, Any]] = {
    "abs": elementwise.absolute,
    "ceil": elementwise.unary("ceil", np.ceil),
    "cos": elementwise.unary("cos", np.cos),
    "div_rn": elementwise.fdiv,
    "erf": elementwise.unary("erf", elementwise.erf),
    "exp": elementwise.unary("exp", np.exp),
    "exp2": elementwise.unary("exp2", np.exp2),
    "fdiv": elementwise.fdiv,
    "floor": elementwise.unary("floor", np.floor),
    "fma": elementwise.fma,
    "log": elementwise.unary("log", np.log),
    "log2": elementwise.unary("log2", np.log2),
    "rsqrt": elementwise.unary("rsqrt", elementwise.rsqrt),
    "sin": elementwise.unary("sin", np.sin),
    "sqrt": elementwise.unary("sqrt", np.sqrt),
    "sqrt_rn": elementwise.unary("sqrt_rn", np.sqrt),
}
"""triton.language.math, all of which triton.language has too."""

_TANH: Final = elementwise.unary("math.tanh", np.tanh)

FUNCTIONS: Final[Mapping[str, Any]] = {
    **{dtype.name: dtype for dtype in dtypes.ALL},
    **MATH,
    "PropagateNan": elementwise.PropagateNan,
    "arange": shapes.arange,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "associative_scan": reductions.associative_scan,
    "assume": assume,
    "broadcast": shapes.broadcast,
    "broadcast_to": shapes.broadcast_to,
    "cast": shapes.cast,
    "cat": shapes.cat,
    "cdiv": elementwise.cdiv,
    "clamp": elementwise.clamp,
    "constexpr": constexpr,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum,
    "dtype": DType,
    "expand_dims": shapes.expand_dims,
    "flip": shapes.flip,
    "full": shapes.full,
    "interleave": shapes.interleave,
    "join": shapes.join,
    "math": Namespace("triton.language.math", {**MATH, "tanh": _TANH}),
    "max": reductions.maximum_of,
    "max_constancy": hint,
    "max_contiguous": hint,
    "maximum": elementwise.maximum,
    "min": reductions.minimum_of,
    "minimum": elementwise.minimum,
    "multiple_of": hint,
    "permute": shapes.permute,
    "pointer_type": dtypes.PointerType,
    "range": loop_range,
    "ravel": shapes.ravel,
    "reduce": reductions.reduce,
    "reshape": shapes.reshape,
    "sigmoid": elementwise.unary("sigmoid", elementwise.logistic),
    "softmax": reductions.softmax,
    "sort": reductions.sort,
    "split": shapes.split,
    "static_assert": static_assert,
    "static_print": static_print,
    "static_range": static_range,
    "sum": reductions.sum_of,
    "tensor": Tile,
    "trans": shapes.trans,
    "view": shapes.view,
    "where": elementwise.where,
    "xor_sum": reductions.xor_sum,
    "zeros": shapes.zeros,
    "zeros_like": shapes.zeros_like,
}

METHODS: Final = (
    *("abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt", "sigmoid", "sin", "sqrt", "cdiv"),
    *("argmax", "argmin", "max", "min", "sum", "xor_sum", "reduce", "associative_scan", "cumprod", "cumsum", "softmax"),
    *("cast", "expand_dims", "flip", "permute", "ravel", "sort", "split", "trans", "view"),
)
"""Functions that are methods of tiles too; reshape, broadcast_to and to are those of the class itself."""


def _define_methods() -> None:
    for name in METHODS:
        setattr(Tile, name, FUNCTIONS[name])


_define_methods()
