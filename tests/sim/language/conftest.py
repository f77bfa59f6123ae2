"""Triton's interpreter, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sim.language.comparing import Comparison
from tests.sim.language.interpreter import Interpreter


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    with Interpreter() as interpreter:
        yield Comparison(interpreter, tmp_path_factory.mktemp("kernels"))
