"""Spec texts for tests, and the faults that loading them reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from fusegen.errors import SpecError
from fusegen.spec import KernelSpec, load_spec

GOOD: Final = """\
pattern: reverse_all2all
dtype: bfloat16
target: Ascend910B3
transport: mte
sync: signal
buffer_num: 2
tile:
  s: 64
  d: 128
flatten: auto
roles: interleaved
watchdog:
  enabled: true
  timeout_s: 60
verify:
  - ranks: [1, 2]
    cores: 4
    shape: {S: 1, H: 2, D: 3}
"""

PATTERN_LIST: Final = (
    "reverse_all2all, all2all, allgather, reduce_scatter, allreduce, allgather_gemm, gemm_reduce_scatter or "
    "gemm_allreduce"
)
ROWS: Final = "the rows of a tile are a block of S, and Triton blocks are powers of two"
BURST: Final = "a tile row is one MTE burst, and Triton blocks are powers of two: a D that is no multiple is masked"
SYNTAX: Final = "indent with spaces only, and quote a text that holds ': ' or ' #'"

HEADS: Final = "{S: 1, H: 2, D: 3}"
MATRIX: Final = "{M: 5, N: 6}"
PRODUCT: Final = "{M: 5, N: 6, K: 7}"
SHAPES: Final[Mapping[str, str]] = {
    "reverse_all2all": HEADS,
    "all2all": HEADS,
    "allgather": MATRIX,
    "reduce_scatter": MATRIX,
    "allreduce": MATRIX,
    "allgather_gemm": PRODUCT,
    "gemm_reduce_scatter": PRODUCT,
    "gemm_allreduce": PRODUCT,
}
UDMA: Final[Mapping[str, str]] = {"target": "Ascend950PR_9589", "transport": "udma"}


def text_of(pattern: str, **changes: str) -> str:
    """A spec with one line for each field: the required ones in lines 1 to 6, then the others of `changes`."""
    fields = {
        "pattern": pattern,
        "dtype": "float16",
        "target": "Ascend910B3",
        "transport": "mte",
        "sync": "signal",
        "verify": f"[{{ranks: [1, 2], cores: 4, shape: {SHAPES[pattern]}}}]",
    }
    return "".join(f"{field}: {value}\n" for field, value in {**fields, **changes}.items())


def write(text: str | bytes, name: str = "x.yaml") -> Path:
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def spec_of(pattern: str, **changes: str) -> KernelSpec:
    return load_spec(write(text_of(pattern, **changes))).spec


def faults_of(text: str | bytes, *overrides: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(write(text), overrides)
    return str(caught.value).splitlines()
