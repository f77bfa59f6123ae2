"""Which core executes what, read from the rendered text of every mix kernel: nothing else knows the final placement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pytest

from fusegen.plan import KernelPlan
from fusegen.project import packaged_templates
from fusegen.render.environment import render
from tests.plan.defects import without_scopes
from tests.plan.plans import MIX, choice_id, every_choice, plan_for

ALL = [(pattern, choice) for pattern in MIX for choice in every_choice(pattern)]
CHOICES = [pytest.param(pattern, choice, id=f"{pattern}-{choice_id(choice)}") for pattern, choice in ALL]
HANDED = [
    pytest.param(pattern, choice, id=f"{pattern}-{choice_id(choice)}")
    for pattern, choice in ALL
    if pattern != "allgather_gemm" and choice["sync"] == "signal"
]
"""Kernels in which the cube core writes what other ranks read."""
SCOPED = {"wait", "notify", "fence", "symm_at", "consume_token", "putmem", "dot", "load", "store", "atomic_add"}
"""Calls that only one core type may execute: what is outside of scopes runs on the cube core and the vector cores."""


@dataclass(frozen=True)
class Site:
    """A call, and the blocks around it, outer ones first: heads of scopes, loops and conditions."""

    name: str
    text: str
    around: tuple[str, ...]
    line: int

    @property
    def scope(self) -> str | None:
        """Core type of the scope around the call."""
        modes = [head.split('"')[1] for head in self.around if head.startswith("with al.scope")]
        assert len(modes) <= 1, "scopes do not nest"
        return modes[0] if modes else None

    @property
    def loops(self) -> tuple[str, ...]:
        """Heads of the loops around the call."""
        return tuple(head for head in self.around if head.startswith("for "))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions around the call."""
        return tuple(head for head in self.around if head.startswith("if "))


def sites(text: str) -> list[Site]:
    """Calls of the kernel in the order of the text."""
    (kernel,) = (
        node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name.endswith("_kernel")
    )
    return sorted(_below(kernel.body, ()), key=lambda site: site.line)


def _below(statements: list[ast.stmt], around: tuple[str, ...]) -> Iterator[Site]:
    for statement in statements:
        match statement:
            case ast.With(items=[item], body=body):
                yield from _below(body, (*around, f"with {ast.unparse(item)}".replace("'", '"')))
            case ast.For(target=target, iter=iterable, body=body):
                yield from _calls(iterable, around)
                yield from _below(body, (*around, f"for {ast.unparse(target)} in {ast.unparse(iterable)}"))
            case ast.If(test=test, body=body, orelse=orelse):
                yield from _calls(test, around)
                yield from _below(body, (*around, f"if {ast.unparse(test)}"))
                yield from _below(orelse, (*around, f"if not {ast.unparse(test)}"))
            case _:
                yield from _calls(statement, around)


def _calls(node: ast.AST, around: tuple[str, ...]) -> Iterator[Site]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
            yield Site(name, ast.unparse(call), around, call.lineno)


@lru_cache(maxsize=1)
def _text(plan: KernelPlan) -> str:
    return render(plan, packaged_templates())


def calls(plan: KernelPlan, *names: str) -> list[Site]:
    """Calls of these names in the kernel of a plan."""
    return [site for site in sites(_text(plan)) if site.name in names]


@pytest.mark.parametrize("extra", [{}, {"bias": True, "out_dtype": "float32"}], ids=["", "bias"])
@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_every_call_stands_where_it_may(pattern: str, choice: dict[str, Any], extra: dict[str, Any]) -> None:
    plan = plan_for(pattern, **choice, **extra)
    assert placement_faults(plan) == []
    assert [site.scope for site in calls(plan, "dot")] == ["cube"]
    assert calls(plan, "barrier_all_vec") == []
    assert bool(calls(plan, "barrier_all")) == (choice["sync"] == "barrier" or choice["transport"] == "udma")
    vector_work = {"allgather_gemm": "putmem" if choice["transport"] == "udma" else "symm_at"}.get(pattern, "symm_at")
    assert {site.scope for site in calls(plan, vector_work)} == {"vector"}


def placement_faults(plan: KernelPlan) -> list[str]:
    """Calls of a mix kernel that a wrong core, or a core too many, would execute."""
    found = []
    for site in sites(_text(plan)):
        if site.name in SCOPED and site.scope is None:
            found.append(f"{site.text} outside of scopes")
        if site.name == "dot" and site.scope != "cube":
            found.append(f"{site.text} in a {site.scope} scope")
        if site.name in ("barrier_all", "barrier_all_vec") and (site.scope or site.conditions):
            found.append(f"{site.text} on some cores only")
        if site.name == "sync_block_set" and site.scope != "cube":
            found.append(f"{site.text} in a {site.scope} scope")
        if site.name == "sync_block_wait" and (site.scope != "vector" or site.conditions):
            found.append(f"{site.text} on some vector cores only")
        if site.name == "putmem" and site.scope == "cube":
            found.append(f"{site.text} in a cube scope")
    return found


@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_what_would_be_wrong_without_scopes_is_found(pattern: str, choice: dict[str, Any]) -> None:
    """The check above on a plan whose program has lost its scopes."""
    plan = plan_for(pattern, **choice)
    without = replace(plan, program=without_scopes(plan.program))
    faults = placement_faults(without)
    assert any("dot(" in fault for fault in faults)
    handed = choice["sync"] == "signal" and pattern != "allgather_gemm"
    assert any("sync_block_wait" in fault for fault in faults) == handed


@pytest.mark.parametrize(("pattern", "choice"), HANDED)
def test_the_cube_core_hands_each_tile_over(pattern: str, choice: dict[str, Any]) -> None:
    plan = plan_for(pattern, **choice)
    (sent,), (received,) = calls(plan, "sync_block_set"), calls(plan, "sync_block_wait")
    # One set behind the store of each tile, or of all tiles of a round, one wait for it, in loops with the same bounds.
    batched = choice["announce"] == "batched"
    assert sent.loops == received.loops
    assert len(sent.loops) == (1 if batched else 2), "the rounds, and the work loop for each tile"
    assert received.conditions == ()
    # A core without tiles does not wait for the round; its work loop would be empty.
    assert sent.conditions == (() if batched else ("if core < gemm_work",))
    (stored,) = (site for site in calls(plan, "store") if site.scope == "cube")
    assert batched or stored.around == sent.around
    assert stored.line < sent.line
    arguments = "('cube', 'vector', TILE_STORED)"
    assert (sent.text, received.text) == (f"al.sync_block_set{arguments}", f"al.sync_block_wait{arguments}")
    assert "\nTILE_STORED = 8  # event" in _text(plan)


@pytest.mark.parametrize(("pattern", "choice"), HANDED)
def test_one_vector_core_announces_behind_a_fence(pattern: str, choice: dict[str, Any]) -> None:
    plan = plan_for(pattern, **choice)
    (received,) = calls(plan, "sync_block_wait")
    (notify,) = (site for site in calls(plan, "notify") if site.text.startswith("dl.notify(ready_ptr"))
    fences = [site for site in calls(plan, "fence") if site.conditions]
    assert notify.scope == "vector"
    assert notify.conditions == ("if sub_vec_id() == 0",)
    (fence,) = fences
    assert fence.conditions == notify.conditions
    assert received.line < fence.line < notify.line
    if choice["announce"] == "batched":
        assert fence.loops == received.loops[:1], "one fence for all tiles of a round"
        assert notify.loops[: len(received.loops)] == received.loops, "notifies in the bounds of the stores"
    else:
        assert fence.loops == received.loops
    # Every other announcement is the core's own: both vector cores make it.
    others = [site for site in calls(plan, "notify") if site is not notify and site.line != notify.line]
    assert others
    assert all(site.conditions == () for site in others)


@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_the_cube_core_never_announces_tiles(pattern: str, choice: dict[str, Any]) -> None:
    """Its only notifies are credits of what it has read; a fence of the vector cores does not cover its stores."""
    for site in calls(plan_for(pattern, **choice), "notify"):
        if site.scope == "cube":
            assert site.text.startswith("dl.notify(credit + slot")
            assert pattern == "allgather_gemm"


@pytest.mark.parametrize(("pattern", "choice"), CHOICES)
def test_what_is_read_was_waited_for(pattern: str, choice: dict[str, Any]) -> None:
    """A token is consumed right behind each wait, in the same blocks."""
    plan = plan_for(pattern, **choice)
    waits, consumed = calls(plan, "wait"), calls(plan, "consume_token")
    assert [site.around for site in waits] == [site.around for site in consumed]
    assert all(wait.line < token.line for wait, token in zip(waits, consumed, strict=True))
    assert bool(waits) == (choice["sync"] == "signal")
