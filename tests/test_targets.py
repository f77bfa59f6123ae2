"""The hardware table."""

from __future__ import annotations

import dataclasses

import pytest

from fusegen.errors import UsageError
from fusegen.targets import TARGETS, Target, target

KIB = 1024


def test_a_910b() -> None:
    assert target("Ascend910B3") == Target(
        name="Ascend910B3",
        family="910B",
        ai_cores=20,
        cube_cores=20,
        vector_cores=40,
        ub_bytes=192 * KIB,
        l1_bytes=512 * KIB,
        l0a_bytes=64 * KIB,
        l0b_bytes=64 * KIB,
        l0c_bytes=128 * KIB,
        engines=("mte",),
    )


def test_a_950() -> None:
    device = target("Ascend950DT_9595")
    assert (device.ai_cores, device.vector_cores) == (36, 72)
    assert (device.ub_bytes, device.l0c_bytes) == (248 * KIB, 256 * KIB)
    assert device.engines == ("mte", "udma")


@pytest.mark.parametrize(
    ("ai_cores", "names"),
    [
        (20, {"Ascend910B3", "Ascend910B4", "Ascend910B4-1", "Ascend910_9372", "Ascend910_9362"}),
        (
            24,
            {"Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910_9391", "Ascend910_9392", "Ascend910_9381"},
        ),
        (28, {"Ascend950PR_957c"}),
        (32, {"Ascend950PR_9589", "Ascend950DT_9582"}),
        (36, {"Ascend950PR_9599", "Ascend950DT_9595"}),
    ],
)
def test_core_counts(ai_cores: int, names: set[str]) -> None:
    assert {name for name, device in TARGETS.items() if device.ai_cores == ai_cores} == names


def test_udma_exists_on_the_950_family_only() -> None:
    assert {device.family for device in TARGETS.values() if "udma" in device.engines} == {"950"}
    assert all("mte" in device.engines for device in TARGETS.values())


def test_the_table_cannot_change() -> None:
    with pytest.raises(TypeError):
        TARGETS["Ascend910B3"] = target("Ascend910B4")  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        target("Ascend910B3").ai_cores = 1  # type: ignore[misc]


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        target("Ascend910b33")
    assert str(caught.value) == "target: expected a known target, got Ascend910b33 (did you mean Ascend910B3?)"
