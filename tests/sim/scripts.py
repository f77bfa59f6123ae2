"""Scripts written by a test, and how they run."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from fusegen.sim.script import ScriptResult, simulate_script

PRELUDE = """\
import os
import sys

import shmem as ash
import torch
import torch.distributed as dist
import torch_npu
import triton
import triton.language as tl
import triton_dist.language as dl

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.npu.set_device(RANK)
dist.init_process_group("hccl", init_method="env://", rank=RANK, world_size=RANKS)

"""
"""What most scripts start with."""


def run_script(folder: Path, text: str, *arguments: str, prelude: str = PRELUDE, **options: Any) -> ScriptResult:
    """Run PRELUDE and a script."""
    path = folder / "script.py"
    path.write_text(prelude + textwrap.dedent(text))
    return simulate_script(path, arguments, **{"ranks": 2, "cores": 4, **options})


def assert_clean(result: ScriptResult) -> None:
    """No findings."""
    found = [str(finding) for finding in result.findings]
    assert found == [], found
