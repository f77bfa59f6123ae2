"""Small modules with one kernel, and what the vendor's tools make of them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from fusegen.pipeline import build
from fusegen.project import find_project
from fusegen.spec import load_spec
from fusegen.targets import target
from fusegen.vendor.bridge import Bridged, bridge
from fusegen.vendor.compilation import Compilation, Subject, compile_subject
from fusegen.vendor.entry import KernelEntry, parse_entry, read_entry
from fusegen.vendor.front import front
from fusegen.vendor.tools import find_toolchain

GENERATED = Path(__file__).parents[2] / "generated"
SMALL_TILES = ("tile.m=16", "tile.n=32", "tile.k=16", "comm_tile.rows=8", "comm_tile.columns=32", "pvalue=1")
"""Of a mix kernel, so that a small shape has rounds enough for every wait to matter."""
TARGET_910B = "Ascend910B3"
TARGET_950 = "Ascend950PR_9589"
HEAD = """\
import torch
import triton
import triton.language as tl
import triton.language.extra.cann.extension as al
import triton_dist.language as dl
from triton.language.extra.cann.extension import sub_vec_id
from triton_dist.language.extra import libshmem_device

DTYPE = torch.float16


@triton.jit
def kernel(a_ptr, b_ptr, signal_ptr, rank, N, SIZE: tl.constexpr):
"""
FIRST_LINE = HEAD.count("\n") + 1
"""Line of the first statement of a kernel."""
PARAMETERS = {"a_ptr": "*fp16", "b_ptr": "*fp16", "signal_ptr": "*i64", "rank": "i32", "N": "i32"}


def small_module(folder: Path, body: str, *, target_name: str = TARGET_910B, size: int = 64) -> Subject:
    """A vector kernel with that body over a_ptr, b_ptr (float16), signal_ptr, rank, N and SIZE."""
    module = folder / "small.py"
    module.write_text(HEAD + indent(dedent(body).strip("\n"), "    ") + "\n", encoding="utf-8")
    entry = KernelEntry(
        name="kernel",
        kind="vector",
        target=target_name,
        parameters=PARAMETERS,
        constants={"SIZE": size},
        variants=({},),
        options={"multibuffer": True},
        tiles={"ub": ({"field": "tile.m", "constant": "SIZE", "least": 16},)},
    )
    return Subject("small", module, entry, target_name)


def bridged(subject: Subject) -> Bridged:
    """The first variant through front end and bridge."""
    (verdict, *_) = front(subject.module, subject.entry, subject.target)
    assert verdict.ttir is not None, verdict.message
    return bridge(verdict.ttir, target(subject.target), find_toolchain())


def generated(name: str, *, target_name: str | None = None, variants: int = 1) -> Subject:
    """A checked-in module with the first of its variants."""
    module = GENERATED / f"{name}.py"
    entry = read_entry(module)
    entry = entry.model_copy(update={"variants": entry.variants[:variants]})
    return Subject(name, module, entry, target_name or entry.target)


def edited(subject: Subject, folder: Path, *edits: tuple[str, str]) -> Subject:
    """The module of a subject with pieces of its text replaced, each of which it must have."""
    text = subject.module.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    module = folder / subject.module.name
    module.write_text(text, encoding="utf-8")
    return Subject(subject.name, module, subject.entry, subject.target)


def findings(subject: Subject) -> list[str]:
    """What is found, in words."""
    return [finding.shown(subject.module.name) for finding in compiled(subject).findings]


def compiled(subject: Subject) -> Compilation:
    """The compilation of a subject."""
    return compile_subject(subject)


def rendered(name: str, folder: Path, *overrides: str) -> Subject:
    """The module of a spec with some of its fields changed, with all its variants."""
    built = build(load_spec(GENERATED.parent / "specs" / f"{name}.yaml", overrides), find_project(GENERATED))
    module = folder / f"{name}.py"
    module.write_text(built.text, encoding="utf-8")
    return Subject(name, module, parse_entry(built.rendered().kernel), built.plan.target.name)
