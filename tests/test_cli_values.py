"""What a spec supplies for a run where options leave it out."""

from __future__ import annotations

import pytest
import yaml

from fusegen.cli.values import Size, size_for
from fusegen.errors import UsageError
from fusegen.spec import KernelSpec
from fusegen.spec.model import PATTERNS
from fusegen.spec.starter import starter


def spec_of(pattern: str) -> KernelSpec:
    return PATTERNS[pattern].model_validate(yaml.safe_load(starter(pattern)))


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("all2all", Size(2, 7, {"S": 130, "H": 3, "D": 72}, 3)),
        ("reduce_scatter", Size(2, 7, {"M": 130, "N": 200}, 3)),
        ("gemm_allreduce", Size(2, 3, {"M": 137, "N": 264, "K": 72}, 3)),
    ],
)
def test_the_first_verification_point_supplies_everything(pattern: str, size: Size) -> None:
    assert size_for(spec_of(pattern), ranks=None, cores=None, shape=None, launches=None) == size


@pytest.mark.parametrize("pattern", PATTERNS)
def test_with_a_shape_the_kernel_takes_all_cores_that_it_can_run_on(pattern: str) -> None:
    spec = spec_of(pattern)
    shape = spec.verify[0].shape.model_dump()
    size = size_for(spec, ranks=4, cores=None, shape=shape, launches=None)
    assert size == Size(4, 20 if "gemm" in pattern else 40, shape, 1)


def test_the_axes_of_a_shape_are_those_of_the_pattern() -> None:
    with pytest.raises(UsageError, match=r"^--shape: expected a known key, got S \(keys: M, N, K\)$"):
        size_for(spec_of("allgather_gemm"), ranks=None, cores=None, shape={"S": 1}, launches=None)


def test_one_core_suffices_for_a_gemm_but_not_for_interleaved_roles() -> None:
    assert size_for(spec_of("gemm_allreduce"), ranks=None, cores=1, shape=None, launches=None).cores == 1
    with pytest.raises(UsageError, match="--cores: expected at least 2, because of roles: interleaved, got 1"):
        size_for(spec_of("allreduce"), ranks=None, cores=1, shape=None, launches=None)
