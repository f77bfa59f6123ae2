"""From a generated module to findings, on one page.

front -> bridge -> compile_linalg -> core_facts -> findings, for each way in which the caller's tensors may lie
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fusegen.targets import Target, target
from fusegen.vendor.bridge import Bridged, bridge
from fusegen.vendor.bridge.refusals import BridgeRefusal
from fusegen.vendor.compiler import CompilerVerdict, Overflow, compile_linalg
from fusegen.vendor.entry import KernelEntry
from fusegen.vendor.facts import MEMORIES, CoreFacts, core_facts
from fusegen.vendor.findings import Finding
from fusegen.vendor.front import FrontVerdict, front
from fusegen.vendor.placement import meant_calls, memory_line, placement_findings
from fusegen.vendor.tools import Toolchain, ToolFailed, find_toolchain

CHECKED: Final = (
    "types and shapes, by the vendor's front end",
    "on-chip memory, double buffering and the split into core functions, by the vendor's compiler",
    "names, operands and core types of distributed calls, by fusegen",
)
NOT_CHECKED: Final = (
    "hivmc, which makes the object file, is not in the wheel",
    "the grid and the order of memory accesses",
)
NOT_CHECKED_950: Final = (
    "the vendor's lowering of distributed operations: this compiler for 950 predates them, so that calls of external "
    "functions stand for those that return something",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What to compile: a module's name, its file, its entry in the manifest, and the target.

    `planner` is what the planner says about memory when it was told to go on: faults in words.
    """

    name: str
    module: Path
    entry: KernelEntry
    target: str
    planner: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BridgedVariant:
    """One variant in front of the compiler, or the finding that stopped it."""

    variant: Mapping[str, int | bool]
    bridged: Bridged | None
    finding: Finding | None


@dataclass(frozen=True, slots=True)
class VariantVerdict:
    """One variant: constants by which it differs, facts of its core functions, notes of the compiler, findings."""

    variant: Mapping[str, int | bool]
    cores: tuple[CoreFacts, ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Compilation:
    """A module compiled for a target, in all its variants."""

    subject: Subject
    module_sha256: str
    variants: tuple[VariantVerdict, ...]

    @property
    def ok(self) -> bool:
        """True without findings."""
        return not any(variant.findings for variant in self.variants)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all variants, each once."""
        return tuple(dict.fromkeys(each for variant in self.variants for each in variant.findings))

    def to_json(self) -> dict[str, Any]:
        """The compilation as plain data."""
        device = target(self.subject.target)
        return {
            "spec": self.subject.name,
            "target": device.name,
            "ok": self.ok,
            "planner": list(self.subject.planner),
            "findings": [finding.to_json() for finding in self.findings],
            "variants": [
                {
                    "constants": dict(variant.variant),
                    "cores": [core.to_json(device) for core in variant.cores],
                    "notes": list(variant.notes),
                    "findings": [finding.to_json() for finding in variant.findings],
                }
                for variant in self.variants
            ],
            "checked": list(CHECKED),
            "not_checked": list(not_checked(device)),
        }


def not_checked(device: Target) -> tuple[str, ...]:
    """What a compilation for this device does not say."""
    return NOT_CHECKED + (NOT_CHECKED_950 if device.family == "950" else ())


def bridge_subject(subject: Subject, tools: Toolchain) -> Iterator[BridgedVariant]:
    """Every variant through the front end and the bridge."""
    answers = front(subject.module, subject.entry, subject.target)
    for variant, answer in zip(subject.entry.variants, answers, strict=True):
        yield BridgedVariant(variant, *_bridged(answer, target(subject.target), tools))


def compile_subject(subject: Subject) -> Compilation:
    """Compile every variant. Raises VendorToolsMissing without the wheels, ToolFailed when the front end crashes."""
    tools = find_toolchain()
    text = subject.module.read_text(encoding="utf-8")
    variants = tuple(_located(_compiled(subject, text, each, tools), text) for each in bridge_subject(subject, tools))
    return Compilation(subject, hashlib.sha256(text.encode()).hexdigest(), variants)


def _bridged(answer: FrontVerdict, device: Target, tools: Toolchain) -> tuple[Bridged | None, Finding | None]:
    if answer.ttir is None:
        return None, Finding("CompilationError", answer.message, answer.line)
    try:
        return bridge(answer.ttir, device, tools), None
    except BridgeRefusal as refusal:
        what = f"{type(refusal).__name__}: {refusal.what}"
        return None, Finding("NotBridged", what, refusal.line, advice=refusal.advice)
    except ToolFailed as failure:
        return None, Finding("AdapterError", str(failure), failure.line)


def _compiled(subject: Subject, text: str, each: BridgedVariant, tools: Toolchain) -> VariantVerdict:
    if each.bridged is None:
        return VariantVerdict(each.variant, (), (), (each.finding,) if each.finding else ())
    verdict = compile_linalg(each.bridged.lowered, target(subject.target), subject.entry.options, tools)
    cores = core_facts(verdict.final) if verdict.final is not None else ()
    findings = (*_compiler_findings(subject, text, verdict), *_fact_findings(subject.entry, text, each.variant, cores))
    return VariantVerdict(each.variant, cores, verdict.notes, findings)


def _compiler_findings(subject: Subject, text: str, verdict: CompilerVerdict) -> Iterator[Finding]:
    entry = subject.entry
    if verdict.overflow is not None:
        yield _overflow_finding(entry, text, verdict.overflow, subject.target)
    elif verdict.final is None:
        yield from (Finding("CompilerError", message, line) for line, message in verdict.errors)
    if memory := verdict.lost_double_buffering:
        tiles = entry.tiles.get(memory, ())
        message = (
            f"expected double buffers in the {MEMORIES[memory]} of {subject.target}, got single ones: the compiler has "
            "given up loading ahead to make the kernel fit"
        )
        advice = f"halve {tiles[0].field}" if tiles else ""
        yield Finding("LostDoubleBuffering", message, memory_line(text, entry.name, memory), advice=advice)


def _overflow_finding(entry: KernelEntry, text: str, overflow: Overflow, device: str) -> Finding:
    memory = MEMORIES[overflow.memory]
    return Finding(
        "MemoryOverflow",
        f"{overflow.memory} overflow: expected at most {overflow.available} bytes of {memory} on {device}, "
        f"got {overflow.required}",
        memory_line(text, entry.name, overflow.memory),
        advice=_advice(entry, overflow),
    )


def _advice(entry: KernelEntry, overflow: Overflow) -> str:
    """The largest power of two that fits when memory grows with the field, for the first field that may be so small."""
    fields = entry.tiles.get(overflow.memory, ())
    for each in fields:
        present = entry.constants[each.constant]
        most = present * overflow.available // overflow.required
        fit = 1 << (most.bit_length() - 1) if most else 0
        if fit >= each.least:
            return f"lower {each.field} from {present} to at most {fit}"
    return f"lower {' and '.join(each.field for each in fields)}" if fields else ""


def _fact_findings(
    entry: KernelEntry, text: str, variant: Mapping[str, int | bool], cores: tuple[CoreFacts, ...]
) -> Iterator[Finding]:
    if not cores:
        return
    meant = meant_calls(text, entry.name, entry.constants_of(variant), is_mix=entry.kind == "mix")
    yield from placement_findings(meant, cores)
    for core in cores:
        for call in core.calls:
            if call.fault:
                yield Finding("WrongSignature", f"{core.core}: {call.fault}")


def _located(verdict: VariantVerdict, text: str) -> VariantVerdict:
    """The verdict with the source of each finding's line."""
    lines = text.splitlines()
    return replace(
        verdict,
        findings=tuple(
            replace(finding, source=lines[finding.line - 1].strip()) if 0 < finding.line <= len(lines) else finding
            for finding in verdict.findings
        ),
    )
