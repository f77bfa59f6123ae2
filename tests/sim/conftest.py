"""Modules to simulate: the generated ones, mutants of them, and small ones written by a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import RunResult, run_module

GENERATED = Path(__file__).parents[2] / "generated"

PRELUDE = """\
from contextlib import contextmanager
import os
import time
from pathlib import Path

import numpy as np
import shmem as ash
import torch
import torch.distributed as dist
import torch_npu
import triton
import triton.language as tl
import triton.language.extra.cann.extension as al
import triton_dist.language as dl
from triton.backends.ascend.driver import NPUUtils
from triton.language.extra.cann.extension import sub_vec_id
from triton_dist.language.extra import libshmem_device

TOLERANCE = 0.0
ENGINES = ash.OpEngineType.MTE | ash.OpEngineType.UDMA


@contextmanager
def process_group(heap):
    rank, ranks, device = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.npu.set_device(device)
    dist.init_process_group(backend="hccl")
    attributes = ash.InitAttr()
    attributes.my_rank, attributes.n_ranks, attributes.local_mem_size = rank, ranks, heap
    attributes.ip_port = f"tcp://{os.environ['ASH_MASTER_ADDR']}:{os.environ['ASH_MASTER_PORT']}"
    attributes.option_attr.data_op_engine_type = ENGINES
    assert ash.aclshmem_init(attributes) == 0
    yield
    ash.aclshmem_finalize()
    dist.destroy_process_group()


def available_cores():
    return NPUUtils().get_aivector_core_num()


def heap_bytes(*, ranks, cores):
    return 1 << 20


def self_check(*, launches=1, seed=0, dump_dir=Path(".")):
    return check(dist.get_rank(), dist.get_world_size())


def difference(got, expected):
    got, expected = got.cpu(), torch.as_tensor(expected)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    error = (got.double() - expected.double()).abs().nan_to_num(nan=float("inf"))
    return error.max().item() if error.numel() else 0.0


"""
"""The contract of a generated module, for a test that defines `check(rank, ranks) -> error` and its kernels.

A test may define ENGINES, the engines that process_group initialises.
"""


@pytest.fixture
def signal_module() -> Path:
    return GENERATED / "reverse_all2all_mte_signal.py"


@pytest.fixture
def barrier_module() -> Path:
    return GENERATED / "reverse_all2all_mte_barrier.py"


@pytest.fixture
def mutant(tmp_path: Path) -> Callable[..., Path]:
    """`mutant(path, (old, new), ...)`: a copy of a module with texts replaced, each of which must occur."""

    def write(path: Path, *edits: tuple[str, str]) -> Path:
        text = path.read_text()
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        result = tmp_path / path.name
        result.write_text(text)
        return result

    return write


@pytest.fixture
def without_line(tmp_path: Path) -> Callable[[Path, str], Path]:
    """`without_line(path, start)`: a copy of a module without its one line that starts so."""

    def write(path: Path, start: str) -> Path:
        lines = path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.strip().startswith(start)]
        assert len(kept) == len(lines) - 1, start
        result = tmp_path / path.name
        result.write_text("".join(kept))
        return result

    return write


@pytest.fixture
def run_source(tmp_path: Path) -> Callable[..., RunResult]:
    """`run_source(text, ranks=, cores=, ...)`: run a module made of PRELUDE and `text`."""

    def run(text: str, *, ranks: int = 1, cores: int = 4, **options: Any) -> RunResult:
        path = tmp_path / "small.py"
        path.write_text(PRELUDE + text)
        return run_module(path, ranks=ranks, cores=cores, shape={}, **options)

    return run
