"""Small kernels to explore, and the exploration of all interleavings that they are held against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from fusegen.sim.explore.run import Exploration, explore_module
from tests.sim.conftest import PRELUDE

MODULE = """
@triton.jit
def kernel(slot_ptr, out_ptr):
    core = tl.program_id(0)
    rank = dl.rank()
{body}


def check(rank, ranks):
    slots = ash.aclshmem_create_tensor([8 * 4], dtype=torch.int64, device_id=rank)
    out = torch.zeros(64, dtype=torch.int64).npu()
    slots.zero_()
    torch.npu.synchronize()
    {meet}
    kernel[({cores},)](slots, out)
    torch.npu.synchronize()
    return 0.0 if out.tolist() == sorted(out.tolist()) else 1.0
"""
"""A kernel on 4 slots a rank, 8 words apart; what it stores into `out` must ascend."""


def cores(*bodies: str) -> str:
    """One text for each core."""
    return "\n".join(f"if core == {core}:\n{indent(dedent(body), '    ')}" for core, body in enumerate(bodies))


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """`small(body, ...)`: the file of a module whose cores do what the bodies say."""

    def write(*bodies: str, meet: str = "dist.barrier()") -> Path:
        text = MODULE.replace("{meet}", meet).replace("{cores}", str(len(bodies)))
        text = text.replace("{body}", indent(cores(*bodies), "    "))
        path = tmp_path / "small.py"
        path.write_text(PRELUDE + text)
        return path

    return write


@pytest.fixture
def explore() -> Callable[..., Exploration]:
    """`explore(path, ranks=, cores=, ...)` of a module without a shape."""

    def run(path: Path, *, ranks: int = 1, cores: int = 4, **options: Any) -> Exploration:
        return explore_module(path, ranks=ranks, cores=cores, shape={}, **options)

    return run
