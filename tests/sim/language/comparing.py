"""The same kernel on the simulator and in Triton's interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from fusegen.sim import run_module
from tests.sim.conftest import PRELUDE
from tests.sim.language.interpreter import Interpreter

CHECK = """

TYPES = []


def record(value):
    from fusegen.sim.tiles import dense

    TYPES.append(dense(value).dtype.name)


def check(rank, ranks):
    tensors = [tensor.npu() for tensor in torch.load({path!r})]
    kernel[{grid}](*tensors)
    torch.save(([tensor.cpu() for tensor in tensors], TYPES), {path!r})
    return 0.0
"""


@dataclass
class Comparison:
    """Runs kernels in both."""

    interpreter: Interpreter
    folder: Path

    def simulated(
        self, source: str, tensors: list[torch.Tensor], grid: tuple[int, ...] = (1,)
    ) -> tuple[list[torch.Tensor], list[str]]:
        """The tensors after a launch on one rank, and the types that `record` was called with."""
        path = self.folder / "tensors.pt"
        torch.save(tensors, path)
        module = self.folder / "kernel.py"
        module.write_text(PRELUDE + source + CHECK.format(path=str(path), grid=grid), encoding="utf-8")
        result = run_module(module, ranks=1, cores=2, shape={})
        assert [finding.message for finding in result.findings] == [], source
        after, types = torch.load(path)
        return after, types

    def check(
        self, source: str, tensors: list[torch.Tensor], grid: tuple[int, ...] = (1,), *, ulps: int = 0
    ) -> list[torch.Tensor]:
        """Both give the same tensors, but for so many units in the last place, and types; returns the tensors."""
        expected, expected_types = self.interpreter.run(source, [tensor.clone() for tensor in tensors], grid)
        got, types = self.simulated(source, tensors, grid)
        assert types == expected_types, source
        for mine, theirs in zip(got, expected, strict=True):
            assert_close(mine, theirs, ulps, source)
        return got


def assert_close(got: torch.Tensor, expected: torch.Tensor, ulps: int, source: str) -> None:
    """Equal, NaN with NaN, but for so many units in the last place of the expected type."""
    if ulps == 0 or not got.is_floating_point():
        assert torch.equal(got.nan_to_num(nan=12345.0), expected.nan_to_num(nan=12345.0)), (
            f"{source}\n{got}\n{expected}"
        )
        return
    bound = torch.finfo(torch.float32).eps * ulps
    torch.testing.assert_close(
        got, expected, rtol=bound, atol=bound * 1e-3, equal_nan=True, msg=lambda m: f"{source}\n{m}"
    )
