"""Hand edits that break a kernel: each is found, and the kernel without it is clean under the same schedules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.cases import Condition, assert_clean, edited, moves_only, rendered, run, small
from tests.plan.plans import A2

Edit = Callable[[str], str]
WRONG = {"WrongValues"}


def replaced(*replacements: tuple[str, str]) -> Edit:
    return lambda text: edited(text, *replacements)


def without(call: str) -> Edit:
    """Each statement that starts with `call` becomes `pass`, over as many lines as its brackets take."""

    pattern = re.compile(re.escape(call).replace(r"\(", r"\(\s*"))

    def edit(text: str) -> str:
        assert pattern.search(text), call
        while found := pattern.search(text):
            last = text.index("(", found.start())
            depth = 1
            while depth:
                last += 1
                depth += {"(": 1, ")": -1}.get(text[last], 0)
            text = text[: found.start()] + "pass" + text[last + 1 :]
        return text

    return edit


def both(*edits: Edit) -> Edit:
    def edit(text: str) -> str:
        for each in edits:
            text = each(text)
        return text

    return edit


@dataclass(frozen=True)
class Case:
    """An edit, what it is found as under at least one of the seeds, and what a message of it says."""

    pattern: str
    edit: Edit
    kinds: set[str]
    message: str
    condition: Condition
    choice: dict[str, Any] = field(default_factory=dict)
    seeds: int = 1


GATHER, SCATTER, REDUCE = "allgather_gemm", "gemm_reduce_scatter", "gemm_allreduce"
RING = Condition(2, 2, (61, 17, 9), "round-robin", 1)
SKEWED = Condition(2, 2, (61, 17, 9), "starving", 3)
SCATTERED = Condition(2, 2, (121, 17, 9), "round-robin", 1)
UDMA = Condition(3, 6, (35, 2, 20), "starving", 3)
UDMA_CHOICE = {"transport": "udma", "sync": "signal", "roles": "interleaved", "flatten": "none", "buffer_num": 2}
NO_WAIT = ("gathered = dl.consume_token(gathered_ptr, token)", "gathered = gathered_ptr")
SENDERS = "for work in range(role_core, put_work, senders):"
CLOSING = r"\n    # Close the launch:[^\n]*\n    libshmem_device\.barrier_all(_vec)?\(\)"


def not_closed(text: str) -> str:
    text, count = re.subn(CLOSING, "", text)
    assert count == 1
    return text


CASES: dict[str, Case] = {
    "credit return": Case(GATHER, without("dl.notify(credit + slot"), {"Deadlock"}, "credit", RING),
    "credit return of sums": Case(SCATTER, without("dl.notify(credit + slot"), {"Deadlock"}, "credit", SCATTERED),
    "ready notify": Case(GATHER, without("dl.notify(ready_ptr"), {"Deadlock"}, "ready_ptr", RING),
    "ready notify of sums": Case(REDUCE, without("dl.notify(ready_ptr"), {"Deadlock"}, "ready_ptr", RING),
    "ready wait": Case(
        GATHER, both(without("token = dl.wait(ready_ptr + slot"), replaced(NO_WAIT)), WRONG, "", SKEWED, seeds=4
    ),
    "credit wait": Case(
        GATHER,
        both(without("token = dl.wait(credit_ptr"), replaced(NO_WAIT)),
        {"Deadlock", *WRONG},
        "",
        SKEWED,
        seeds=4,
    ),
    "launch in ready": Case(
        GATHER,
        replaced(("turn = launch * uses + panel // BUFFER_NUM", "turn = panel // BUFFER_NUM")),
        WRONG,
        "",
        Condition(2, 2, (9, 17, 9), "starving", 3),
        seeds=4,
    ),
    "closing barrier of transfers": Case(
        "reverse_all2all", not_closed, {"Deadlock", *WRONG}, "", UDMA, UDMA_CHOICE, seeds=8
    ),
    "vector scope": Case(
        GATHER, replaced(('with al.scope(core_mode="vector"):', "if True:")), {"Deadlock", *WRONG}, "", SKEWED, seeds=4
    ),
    "cube scope": Case(
        REDUCE, replaced(('with al.scope(core_mode="cube"):', "if True:")), {"Deadlock", *WRONG}, "", SKEWED, seeds=4
    ),
    "hand-over": Case(REDUCE, without("al.sync_block_wait"), {"LeftoverFlag", *WRONG}, "", RING),
    "mapped destination": Case(
        "reverse_all2all",
        replaced(
            (
                "landing_ptr + landing_offset,\n                        a_ptr",
                "dl.symm_at(landing_ptr + landing_offset, target),\n                        a_ptr",
            )
        ),
        {"UdmaRule"},
        "symm_at",
        UDMA,
        UDMA_CHOICE,
    ),
    "two cores for one rank": Case(
        "reverse_all2all",
        replaced((SENDERS, "for work in range(put_work):")),
        {"UdmaRule"},
        "core",
        UDMA,
        UDMA_CHOICE,
    ),
    "ring position": Case(GATHER, replaced(("ring = panel % BUFFER_NUM", "ring = panel")), {"OutOfBounds"}, "", RING),
    "ring position of sums": Case(
        SCATTER,
        replaced(("ring = panel % BUFFER_NUM", "ring = panel")),
        {"OutOfBounds"},
        "",
        SCATTERED,
        {"sync": "barrier"},
    ),
    "tail of rows": Case(
        GATHER,
        replaced(("mask = (m < M)[:, None] & (n < N)[None, :]", "mask = (m < 2 * M)[:, None] & (n < N)[None, :]")),
        {"OutOfBounds", *WRONG},
        "",
        RING,
    ),
    "tail of columns": Case(
        REDUCE,
        replaced(("mask = (m < M)[:, None] & (n < N)[None, :]", "mask = (m < M)[:, None] & (n < N + 9)[None, :]")),
        {"OutOfBounds", *WRONG},
        "",
        RING,
    ),
    "tail of K": Case(
        SCATTER,
        replaced(("(k < K)", "(k < K + 3)")),
        {"OutOfBounds", *WRONG},
        "",
        SCATTERED,
    ),
    "zeroed output": Case(REDUCE, replaced(("out.zero_()", "pass")), {"WrongValues"}, "", RING, {"reduce": "atomic"}),
    "slot stride": Case(
        GATHER, replaced(("SLOT_WORDS = 8", "SLOT_WORDS = 1")), {"MisalignedSlot", "OutOfBounds"}, "slot", RING
    ),
    "slot stride of sums": Case(
        "allreduce",
        replaced(("SLOT_WORDS = 8", "SLOT_WORDS = 1")),
        {"MisalignedSlot", "OutOfBounds"},
        "slot",
        Condition(2, 4, (33, 17), "round-robin", 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_edit_is_found_and_its_twin_is_clean(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    text = rendered(case.pattern, (case.condition,), **small(case.pattern, **case.choice))
    broken = case.edit(text)
    assert broken != text
    kinds, messages = set(), []
    for seed in range(case.seeds):
        assert_clean(run(tmp_path, text, case.pattern, case.condition, seed=seed), exact=moves_only(case.pattern))
        findings = run(tmp_path, broken, case.pattern, case.condition, seed=seed).findings
        kinds |= {finding.kind for finding in findings}
        messages += [finding.message for finding in findings]
    assert kinds & case.kinds, (kinds, messages[:2])
    assert any(case.message in message for message in messages), messages[:2]


def test_a_target_without_udma_is_found(tmp_path: Path) -> None:
    text = rendered("reverse_all2all", (UDMA,), **small("reverse_all2all", **UDMA_CHOICE))
    (finding,) = run(tmp_path, text, "reverse_all2all", UDMA, target=A2).findings
    assert finding.kind == "UdmaRule"
    assert f"{A2}, which has no UDMA" in finding.message
