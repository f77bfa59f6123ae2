"""What findings say about bugs seeded into generated kernels, whatever the schedule brings.

The kernels without the bugs are clean and proved under the same conditions. That every such bug is found wherever it
can be made is what tests/seeded_bugs is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fusegen.sim import run_module

GENERATED = Path(__file__).parents[3] / "generated"

TILES: dict[str, Any] = {"ranks": 2, "cores": 7, "launches": 2, "shape": {"S": 330, "H": 2, "D": 72}}
ROUNDS: dict[str, Any] = {"ranks": 2, "cores": 7, "launches": 3, "shape": {"S": 130, "H": 2, "D": 72}}
BLOCKS: dict[str, Any] = {"ranks": 3, "cores": 9, "launches": 3, "shape": {"S": 130, "H": 2, "D": 72}}
PANELS: dict[str, Any] = {"ranks": 2, "cores": 3, "launches": 3, "shape": {"M": 130, "N": 264, "K": 72}}

CONDITIONS: dict[str, dict[str, Any]] = {
    "reverse_all2all_mte_signal": TILES,
    "reverse_all2all_mte_barrier": ROUNDS,
    "all2all_udma_signal": BLOCKS,
    "gemm_allreduce_mte_signal": PANELS,
    "allgather_gemm_mte_signal": PANELS,
}

FENCE = "libshmem_device.fence()\n"
PRODUCE = "dl.notify(signal_ptr + slot, target, 2 * use + 1)\n"
CREDIT = "dl.notify(signal_ptr + slot, rank, (use + 1) % uses * 2)\n"
COMMENT = "# Credit return: the slot is free for its next use, in this launch or in the next one.\n"
STORE = "tl.store(peer + peer_offset, tile, mask=mask)\n"
LOAD = "tile = tl.load(peer + peer_offset, mask=mask)\n"
WAIT_EMPTY = 'token = dl.wait(remote_signal + slot, 1, "sys", "acquire", waitValue=2 * use)\n'
ZEROED = "        self.signal.fill_(0)\n        torch.npu.synchronize()\n        dist.barrier()\n"
SET = 'al.sync_block_set("cube", "vector", TILE_STORED)\n'
TAKE = 'al.sync_block_wait("cube", "vector", TILE_STORED)\n'
CLOSE = "\n    libshmem_device.barrier_all_vec()\n\n"
ANY_CORE = "    if ranks > 0:\n"
IN = " " * 20
"""Indentation of what is done for one tile."""


@dataclass(frozen=True)
class Mutant:
    """A module with texts replaced, the finding that this must cause, and a part of its message."""

    name: str
    module: str
    kind: str
    text: str
    edits: tuple[tuple[str, str], ...]


MUTANTS = [
    Mutant(
        "producer fence removed",
        "reverse_all2all_mte_signal",
        "MissingFence",
        f"expected {FENCE.strip()} between the two, before the notify at reverse_all2all_mte_signal.py:",
        ((IN + FENCE + IN + PRODUCE, IN + PRODUCE),),
    ),
    Mutant(
        "consumer fence removed",
        "reverse_all2all_mte_signal",
        "MissingFence",
        "(use + 1) % uses * 2)` on signal_ptr slot ",
        ((IN + FENCE + IN + COMMENT, ""),),
    ),
    Mutant(
        "notify before the fence",
        "reverse_all2all_mte_signal",
        "MissingFence",
        "no fence has completed the first before it was announced",
        ((IN + FENCE + IN + PRODUCE, IN + PRODUCE + IN + FENCE),),
    ),
    Mutant(
        "notify before the store",
        "reverse_all2all_mte_signal",
        "StaleRead",
        "the reader relies on the notify at reverse_all2all_mte_signal.py:",
        ((IN + STORE + IN + FENCE + IN + PRODUCE, IN + FENCE + IN + PRODUCE + IN + STORE),),
    ),
    Mutant(
        "consumer's token not consumed",
        "reverse_all2all_mte_signal",
        "UnconsumedToken",
        "waitValue=2 * use + 1)` was never consumed",
        (("peer = dl.consume_token(peer_ptr, token)", "peer = peer_ptr"),),
    ),
    Mutant(
        "producer's token not used",
        "reverse_all2all_mte_signal",
        "UnconsumedToken",
        "waitValue=2 * use)` is not carried by the pointer",
        (("tl.store(peer + peer_offset", "tl.store(remote_peer + peer_offset"),),
    ),
    Mutant(
        "consumer's token not used",
        "reverse_all2all_mte_signal",
        "UnconsumedToken",
        "access to peer_ptr through what it returns (guide 2.1)",
        ((LOAD, "tile = tl.load(peer_ptr + peer_offset, mask=mask)\n"),),
    ),
    Mutant(
        "producer's wait removed",
        "reverse_all2all_mte_signal",
        "LostWakeup",
        "may not have seen its value yet",
        ((WAIT_EMPTY, "pass\n"), ("dl.consume_token(remote_peer, token)", "remote_peer")),
    ),
    Mutant(
        "reset before the read",
        "reverse_all2all_mte_signal",
        "DataRace",
        "expected a wait before the store until the reader has returned the credit, after it has read",
        ((IN + CREDIT, ""), (IN + LOAD, IN + CREDIT + IN + LOAD)),
    ),
    Mutant(
        "two resetters",
        "reverse_all2all_mte_signal",
        "DoubleReset",
        "one may erase the other; expected exactly one core that waits for the slot and resets it (guide 1.3)",
        (
            (
                "    else:\n        for work in range(role_core, total_work",
                "    else:\n        for work in range(role_core // 2, total_work",
            ),
        ),
    ),
    Mutant(
        "zeroing without a rank barrier",
        "reverse_all2all_mte_signal",
        "UninitialisedRead",
        "nothing orders it after the zeroing of the slot; expected fill_(0) by the host of that rank",
        ((ZEROED, ZEROED.replace("        dist.barrier()\n", "")),),
    ),
    Mutant(
        "plain 0 and 1 in slots that several uses share",
        "reverse_all2all_mte_signal",
        "DataRace",
        "too; expected values that tell the uses of the slot apart (guide 2.1)",
        (("2 * use + 1", "1"), ("waitValue=2 * use", "waitValue=0"), ("(use + 1) % uses * 2", "0")),
    ),
    Mutant(
        "closing barrier removed",
        "reverse_all2all_mte_barrier",
        "DataRace",
        "a wait before the store until the reader has returned the credit, after it has read, or a barrier",
        ((CLOSE, "\n    pass\n\n"),),
    ),
    Mutant(
        "fence before a signal to the put removed",
        "all2all_udma_signal",
        "MissingFence",
        "`libshmem_device.putmem(` reads",
        (
            (
                "                libshmem_device.fence()\n                dl.notify(packed",
                "                dl.notify(packed",
            ),
        ),
    ),
    Mutant(
        "put that does not wait",
        "all2all_udma_signal",
        "MissingFence",
        "no quiet has completed the first before it was announced; expected libshmem_device.quiet() between the two",
        (("libshmem_device.putmem(", "libshmem_device.putmem_nbi("),),
    ),
    Mutant(
        "fence of the core that signals for another removed",
        "gemm_allreduce_mte_signal",
        "MissingFence",
        "`dl.notify(ready_ptr + slot, target, turn + 1)` on ready_ptr slot 0 (ring 0, source_rank 0,",
        (("== 0:\n                    libshmem_device.fence()\n", "== 0:\n"),),
    ),
    Mutant(
        "flags removed",
        "gemm_allreduce_mte_signal",
        "WrongCore",
        "and not the core that did the work; expected the signal from rank",
        ((" " * 20 + SET, ""), (" " * 16 + TAKE, "")),
    ),
    Mutant(
        "wait for the flag removed",
        "gemm_allreduce_mte_signal",
        "WrongCore",
        "or sync_block_set by it and sync_block_wait before (guide 2.1)",
        ((" " * 16 + TAKE, ""),),
    ),
    Mutant(
        "both AIVs signal",
        "gemm_allreduce_mte_signal",
        "WrongCore",
        "expected al.scope(core_mode=...) around it, for the core that does the work",
        (("if sub_vec_id() == 0:", "if sub_vec_id() >= 0:"),),
    ),
    Mutant(
        "scope of the vector cores removed",
        "allgather_gemm_mte_signal",
        "WrongCore",
        "one may erase the other",
        (('    with al.scope(core_mode="vector"):\n', ANY_CORE),),
    ),
]


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("bug", MUTANTS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(mutant: Any, bug: Mutant, schedule: str) -> None:
    path = mutant(GENERATED / f"{bug.module}.py", *bug.edits)
    result = run_module(path, **CONDITIONS[bug.module], schedule=schedule, seed=3, races=True)
    messages = [str(finding) for finding in result.findings]
    assert any(message.startswith(f"{bug.kind}: ") and bug.text in message for message in messages), messages
    assert result.proof is not None
    assert not result.proof.proved


@pytest.mark.parametrize("module", sorted(CONDITIONS))
def test_without_the_bugs_the_kernels_are_proved(module: str) -> None:
    result = run_module(GENERATED / f"{module}.py", **CONDITIONS[module], schedule="random", seed=3, races=True)
    assert [str(finding) for finding in result.findings] == []
    assert result.proof is not None
    assert result.proof.proved, str(result.proof)


@pytest.mark.parametrize(
    ("module", "edit", "changes"),
    [
        # 4 rounds in a ring of 2: the next launch starts in the buffer that the last round has left alone.
        (
            "reverse_all2all_mte_barrier",
            (CLOSE, "\n    pass\n\n"),
            {"shape": {"S": 200, "H": 2, "D": 72}},
        ),
    ],
)
def test_what_is_not_needed_is_not_missed(mutant: Any, module: str, edit: tuple[str, str], changes: Any) -> None:
    path = mutant(GENERATED / f"{module}.py", edit)
    result = run_module(path, **CONDITIONS[module] | changes, schedule="random", seed=3, races=True)
    assert [str(finding) for finding in result.findings] == []
    assert result.proof is not None
    assert result.proof.proved, str(result.proof)
