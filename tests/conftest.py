"""Settings for all tests, and a project to run commands in.

Property tests draw the same examples each time and ignore how long one takes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from fusegen.spec.starter import starter

settings.register_profile("fusegen", derandomize=True, deadline=None)
settings.load_profile("fusegen")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the starting spec, not rendered; the current directory is its root."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/starting.yaml").write_text(starter("reverse_all2all"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path
