"""Rules about several fields of one spec. What fits a device's memory is not decided here but by the planner.

A rule names the top-level fields it reads, so that it can still be asked when other fields of the file are faulty. It
returns faults without a place; the loader adds file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from fusegen.errors import Fault
from fusegen.spec.model import KernelSpec
from fusegen.targets import TARGETS


@dataclass(frozen=True, slots=True)
class Rule:
    """A check that reads the listed top-level fields and nothing else; it applies to patterns that have all of them."""

    reads: frozenset[str]
    faults: Callable[[KernelSpec], Iterator[Fault]]


def signal_needs_interleaved_roles(spec: KernelSpec) -> Iterator[Fault]:
    """Producers and consumers that wait for each other must be different cores."""
    if spec.sync == "signal" and spec.roles == "shared":
        yield Fault(
            "roles",
            "interleaved, because of sync: signal",
            "shared",
            "with shared roles a producer would wait for credit from the very core that waits",
        )


def flattening_s_needs_signals(spec: KernelSpec) -> Iterator[Fault]:
    """A barrier ends every S block for all cores, so S blocks cannot be part of one work index."""
    if spec.flatten == "s" and spec.sync == "barrier":
        yield Fault(
            "flatten",
            "none or auto, because of sync: barrier",
            "s",
            "a barrier separates the S blocks, so they cannot be worked on at once; sync: signal allows it",
        )


def interleaved_roles_need_two_cores(spec: KernelSpec) -> Iterator[Fault]:
    """One core would be a producer without a consumer."""
    for index, point in enumerate(spec.verify):
        yield from too_few_cores(spec, f"verify[{index}].cores", point.cores)


def too_few_cores(spec: KernelSpec, field: str, cores: int) -> Iterator[Fault]:
    """A fault of `field` if the roles of the spec cannot be shared out among this number of cores."""
    if spec.roles == "interleaved" and cores < 2:
        advice = "even cores produce and odd cores consume, so one core alone has no partner"
        yield Fault(field, "at least 2, because of roles: interleaved", str(cores), advice)


def verification_fits_the_target(spec: KernelSpec) -> Iterator[Fault]:
    """A run on cores that the device lacks says nothing about the device."""
    available = TARGETS[spec.target].vector_cores
    for index, point in enumerate(spec.verify):
        if point.cores > available:
            expected = f"at most {available}, the vector cores of {spec.target}"
            yield Fault(f"verify[{index}].cores", expected, str(point.cores))


def verification_points_differ(spec: KernelSpec) -> Iterator[Fault]:
    """A repeated point costs time and proves nothing more."""
    for index, point in enumerate(spec.verify):
        first = spec.verify.index(point)
        if first < index:
            yield Fault(
                f"verify[{index}]", "a new verification point", f"a repetition of verify[{first}]", "remove one of them"
            )


RULES: Final[tuple[Rule, ...]] = (
    Rule(frozenset({"sync", "roles"}), signal_needs_interleaved_roles),
    Rule(frozenset({"sync", "flatten"}), flattening_s_needs_signals),
    Rule(frozenset({"roles", "verify"}), interleaved_roles_need_two_cores),
    Rule(frozenset({"target", "verify"}), verification_fits_the_target),
    Rule(frozenset({"verify"}), verification_points_differ),
)


def broken_rules(spec: KernelSpec, known: frozenset[str]) -> list[Fault]:
    """Faults of every rule that reads only `known` fields; the other fields of `spec` need not even exist."""
    return [fault for rule in RULES if rule.reads <= known for fault in rule.faults(spec)]
