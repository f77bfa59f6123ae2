"""Without the wheels the command says what to install; with them, a tool that fails says why."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from fusegen.vendor import tools
from fusegen.vendor.entry import KernelEntry
from fusegen.vendor.front import front
from fusegen.vendor.tools import ToolFailed, VendorToolsMissing, find_toolchain, run, tool_versions
from tests.commands import fusegen_, refused
from tests.vendor.kernels import generated

INSTALL = "pip install 'fusegen[vendor]', or in a checkout pip install '.[vendor]'"


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    present = tools.find_spec

    def find_spec(name: str) -> ModuleSpec | None:
        return None if name in names else present(name)

    monkeypatch.setattr(tools, "find_spec", find_spec)


def test_versions_are_the_pinned_ones() -> None:
    assert tool_versions() == {"triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0"}


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (("triton",), f"triton-ascend is not installed: this command needs the extra vendor: {INSTALL}"),
        (("ascendnpuir",), f"ascendnpu-ir is not installed: this command needs the extra vendor: {INSTALL}"),
        (
            ("triton", "ascendnpuir"),
            f"triton-ascend and ascendnpu-ir are not installed: this command needs the extra vendor: {INSTALL}",
        ),
    ],
)
def test_missing_wheels_are_told(hidden: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, *hidden)
    with pytest.raises(VendorToolsMissing) as caught:
        find_toolchain()
    assert str(caught.value) == message
    assert refused("compile", str(generated("allgather_mte_signal").module)) == message


def test_a_python_without_a_wheel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "triton")
    monkeypatch.setattr(sys, "version_info", (3, 13, 1))
    with pytest.raises(VendorToolsMissing) as caught:
        find_toolchain()
    assert str(caught.value) == (
        "triton-ascend is not installed: this command needs the extra vendor, and triton-ascend has no wheel for "
        f"Python 3.13: {INSTALL} with Python 3.11"
    )


def test_another_triton_is_no_toolchain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = ModuleSpec("triton", None, origin=str(tmp_path / "triton/__init__.py"))
    monkeypatch.setattr(tools, "find_spec", lambda name: other)
    with pytest.raises(VendorToolsMissing, match="triton-ascend and ascendnpu-ir are not installed"):
        find_toolchain()


def test_a_tool_that_fails_says_why() -> None:
    with pytest.raises(ToolFailed) as caught:
        find_toolchain().read_ttir("no module")
    assert str(caught.value) == (
        "triton-adapter-opt ended with status 1: custom op 'no' is unknown (tried 'builtin.no' as well)"
    )
    with pytest.raises(ToolFailed, match="false ended with status 1"):
        run(Path("/bin/false"), [])


def test_a_front_end_that_crashes_says_so(tmp_path: Path) -> None:
    entry: KernelEntry = generated("allgather_mte_signal").entry
    with pytest.raises(ToolFailed, match="the front end of triton-ascend ended with status 1: FileNotFoundError"):
        front(tmp_path / "missing.py", entry, entry.target)


def test_compiling_does_not_bring_triton_into_this_process() -> None:
    """The simulator's stand-ins have the names of the vendor's packages."""
    before = set(sys.modules)
    result = fusegen_("compile", str(generated("allgather_mte_signal").module), "--jobs", "1", "--json")
    assert result.exit_code == 0, result.stderr
    assert not {name for name in set(sys.modules) - before if name.split(".")[0] in ("triton", "triton_dist")}
