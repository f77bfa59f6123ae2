"""The catalogue: what users of such kernels get wrong, where each fits, and how it must be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tests.seeded_bugs import barriers, host, indices, mix, signals, transfers
from tests.seeded_bugs.conditions import CONDITIONS, SMALL_TILES, Condition
from tests.seeded_bugs.module import Module
from tests.seeded_bugs.rows import Mutant, Row, row

GEMMS = tuple(spec for spec in CONDITIONS if "gemm" in spec)
BARRIER_KERNELS = tuple(spec for spec in GEMMS if spec.endswith("_barrier"))
GROUPED = {"constants": {**SMALL_TILES, "PVALUE": 2, "SWIZZLE_OFFSET": 2}, "shape": {"M": 100, "N": 72, "K": 24}}
"""More than one group of columns, the last one with fewer columns, and more than one row of tiles."""
WAVES = {"constants": {**SMALL_TILES, "COMM_ROWS": 8}, "ranks": 3}
"""Work indices reach twice their divisors."""

IDLE_CORES: dict[str, Mapping[str, Any]] = {
    "allgather_gemm_mte_signal": {"cores": 5},
    "gemm_allreduce_mte_signal": {"cores": 3},
    "gemm_reduce_scatter_mte_signal": {"cores": 5},
}
"""More cores than a round has work for: these return credits, too."""

ONE_SLOT = {"constants": {**SMALL_TILES, "COMM_ROWS": 32}, "shape": {"M": 84, "N": 20, "K": 24}}
"""The next slot belongs to another rank."""

NOTIFIED_AFTER = "a notify follows every wait whose token is consumed, whatever pointer it has"
PLACED_ALIKE = "it has no signal, and the compiler gives its loads and stores to the same cores without it"
NOT_READ = "the ring has room for whole tiles, and nobody reads the rows beyond the tail"
READ_LAST = "vector cores read last: when those of all ranks have met, so has every store"
STRICTER = "the slot that it waits for is free later than the one that it needs, and always comes free"

ROWS: tuple[Row, ...] = (
    row("credit return removed", "2.1", "Deadlock", signals.credit_return_removed),
    row("two resetters", "1.3", "DoubleReset", signals.two_resetters),
    row("reset before the read", "1.3", "DataRace WrongCore DoubleReset Deadlock", signals.reset_before_read),
    row("fence removed", "1.3", "MissingFence", signals.fence_removed),
    row("fence after the notify", "1.3", "MissingFence", signals.fence_after_notify),
    row("notify before the store", "1.3", "StaleRead DataRace UninitialisedRead", signals.notify_before_store),
    row("notify removed", "2.1", "Deadlock", signals.notify_removed),
    row("notify loop shorter than the store loop", "2.1", "Deadlock", signals.notify_loop_too_short),
    row("notify to the wrong rank", "2.1", "Deadlock DataRace", signals.notify_to_wrong_rank),
    row("token not consumed", "2.1", "UnconsumedToken LostWakeup", signals.token_not_consumed, changes=IDLE_CORES),
    row(
        "token not carried by the pointer",
        "2.1",
        "UnconsumedToken LostWakeup",
        signals.token_not_carried,
        harmless={(spec, "dl.consume_token(credit_ptr"): NOTIFIED_AFTER for spec in IDLE_CORES},
    ),
    row("wait for data removed", "1.3", "DataRace LostWakeup", signals.data_wait_removed, changes=IDLE_CORES),
    row("wait for the credit removed", "1.3", "DataRace LostWakeup", signals.credit_wait_removed),
    row(
        "wait on the wrong slot",
        "2.1",
        "DataRace Deadlock OutOfBounds",
        signals.wait_on_wrong_slot,
        changes={spec: ONE_SLOT for spec in IDLE_CORES},
    ),
    row(
        "wait on the wrong buffer",
        "1.1",
        "DataRace Deadlock",
        signals.wait_on_wrong_buffer,
        harmless={("reduce_scatter_mte_signal", "dl.wait(remote_signal"): STRICTER},
    ),
    row("wait on the wrong rank", "2.1", "DataRace Deadlock", signals.wait_on_wrong_rank, changes=IDLE_CORES),
    row("wait for the value of the use before", "2.1", "DataRace Deadlock", signals.wait_value_of_use_before),
    row("values of uses alike", "2.1", "DataRace", signals.values_of_uses_alike),
    row("credit parity forgotten", "2.1", "DataRace Deadlock LostWakeup", signals.credit_parity_forgotten),
    row("slot of one word", "1.3", "MisalignedSlot OutOfBounds", signals.slot_of_one_word),
    row("host zeroing removed", "2.1", "Deadlock UninitialisedRead", host.zeroing_removed),
    row("host zeroing without the rank barrier", "2.1", "UninitialisedRead LostWakeup", host.zeroing_not_met),
    row("barrier removed", "1.1", "DataRace", barriers.barrier_removed),
    row("launch not closed", "1.1", "DataRace", barriers.launch_not_closed),
    row(
        "barrier of vector cores only",
        "1.1",
        "DataRace",
        barriers.barrier_of_vector_cores,
        harmless={
            ("gemm_allreduce_mte_barrier", "closing"): READ_LAST,
            ("gemm_reduce_scatter_mte_barrier", "closing"): READ_LAST,
        },
    ),
    row("barrier in a branch", "2.1", "Deadlock", barriers.barrier_in_branch),
    row("barrier in the first round only", "1.1", "DataRace", barriers.barrier_once),
    row("barrier before the writes", "1.1", "DataRace", barriers.barrier_before_writes),
    row("barrier after the reads", "1.1", "DataRace", barriers.barrier_after_reads),
    row("one buffer for one barrier", "1.1", "DataRace", barriers.one_buffer_for_one_barrier),
    row("core returns early", "2.1", "Deadlock", barriers.core_returns_early),
    row("grid above the cores", "2.1", "Deadlock OutOfBounds", barriers.grid_above_cores),
    row("stride of another grid", "2.1", "Deadlock WrongValues", barriers.stride_of_other_grid),
    row("put to a mapped address", "1.5", "UdmaRule", transfers.put_to_mapped_address),
    row("put from two cores to one rank", "1.5", "UdmaRule", transfers.put_from_two_cores),
    row("put to the own rank", "1.5", "UdmaRule Deadlock", transfers.put_to_own_rank),
    row("put to another rank than the signal", "1.5", "UdmaRule DataRace", transfers.put_to_other_rank),
    row(
        "put not awaited",
        "1.5",
        "MissingFence",
        transfers.put_not_awaited,
        harmless={("allgather_gemm_udma_barrier", ""): "the barrier that follows completes all transfers"},
    ),
    row("put of elements for bytes", "1.5", "WrongValues UninitialisedRead", transfers.put_in_elements),
    row("put beyond the tail", "1.5", "OutOfBounds DataRace", transfers.put_beyond_tail),
    row("local memory for remote", "2.1", "DataRace WrongValues", transfers.local_for_remote),
    row("private tensor mapped", "2.1", "NotSymmetric", transfers.private_tensor_mapped),
    row("notify of a mapped address", "2.1", "NotSymmetric", transfers.notify_of_mapped_address),
    row("rank not modulo", "1.4", "InvalidPeer OutOfBounds WrongValues", transfers.rank_not_modulo),
    row("rank order without bijection", "1.4", "Deadlock DataRace WrongValues UdmaRule", transfers.ranks_twice),
    row(
        "scope removed",
        "2.1",
        "WrongCore Deadlock UdmaRule",
        mix.scope_removed,
        changes={"allgather_gemm_udma_barrier": {"ranks": 4}},
        harmless={
            **{
                (spec, f'al.scope(core_mode="{core}") around loads'): PLACED_ALIKE
                for spec in BARRIER_KERNELS
                for core in ("vector", "cube")
            },
            (
                "allgather_gemm_udma_signal",
                'al.scope(core_mode="cube") around dl.wait',
            ): "vector cores wait, too, for what comes in any case: a wait takes nothing away",
        },
    ),
    row("flag not awaited", "2.1", "WrongCore", mix.flag_not_awaited),
    row("flag not set", "2.1", "Deadlock", mix.flag_not_set),
    row("flag set before the store", "2.1", "WrongCore MissingFence", mix.flag_set_before_store),
    row("flags of different events", "2.1", "Deadlock", mix.flags_of_other_event),
    row("sender and receiver of a flag mixed up", "2.1", "Deadlock LeftoverFlag", mix.flags_turned),
    row("event used twice", "2.1", "LeftoverFlag", mix.event_used_twice),
    row("both vector cores signal", "1.3", "WrongCore", mix.both_vector_cores_signal),
    row(
        "vector cores take the same share",
        "1.3",
        "WrongCore DataRace DoubleReset WrongValues UdmaRule",
        mix.vector_cores_alike,
    ),
    row("ring not modulo", "1.1", "OutOfBounds", indices.ring_not_modulo),
    row("access to the other buffer", "1.1", "DataRace StaleRead WrongCore", indices.access_to_other_buffer),
    row("strides of the user's tensor", "2.1", "OutOfBounds WrongValues", indices.strides_of_user),
    row(
        "mask dropped",
        "2.1",
        "OutOfBounds DataRace WrongValues UninitialisedRead",
        indices.mask_dropped,
        changes={
            # A ring buffer that no round fills.
            spec: {"shape": {"M": 52, "N": 40, "K": 24}}
            for spec in ("allgather_gemm_mte_barrier", "allgather_gemm_mte_signal")
        },
        harmless={
            (spec, f"({side})[:, None] in mask = ({side})[:, None] & (n < N)[None, :] for tl.store(partial"): NOT_READ
            for spec, side in {
                "gemm_allreduce_mte_barrier": "m < M",
                "gemm_allreduce_mte_signal": "m < M",
                "gemm_reduce_scatter_mte_barrier": "m < stop",
                "gemm_reduce_scatter_mte_signal": "m < stop",
            }.items()
        },
    ),
    row(
        "tail not counted",
        "2.1",
        "WrongValues Deadlock",
        indices.tail_not_counted,
        # No block at all would be an error of another kind.
        changes={"allgather_gemm_mte_signal": {"shape": {"M": 84, "N": 40, "K": 40}}},
    ),
    row(
        "swizzle without bijection",
        "1.4",
        "WrongValues Deadlock DataRace OutOfBounds",
        indices.tiles_twice,
        changes={"all2all_mte_signal": {"ranks": 4}, **{spec: GROUPED for spec in GEMMS}},
    ),
    row(
        "index product wraps",
        "2.1",
        "IntegerOverflow",
        indices.division_by_reciprocal,
        changes={
            **{spec: WAVES for spec in GEMMS if "udma" not in spec},
            "reduce_scatter_mte_signal": {"shape": {"M": 130, "N": 300}},
            "reverse_all2all_mte_barrier": {"shape": {"S": 130, "H": 3, "D": 72}},
        },
    ),
    row("sum overwritten", "3.3", "DataRace WrongValues", indices.sum_overwritten),
    row("sum added to what is there", "3.3", "WrongValues", indices.sum_added_to_rest),
    row("output not zeroed", "3.3", "WrongValues", host.output_not_zeroed),
    row("rank raises alone", "2.1", "LeakedCollective", host.rank_raises_alone),
    row("rank raises without agreement", "2.1", "LeakedCollective", host.rank_raises_without_agreement),
    row("launch counter forgotten", "2.1", "DataRace Deadlock", host.launch_counter_forgotten),
    row("allocation too small", "2.1", "OutOfBounds", host.allocation_too_small),
    row("rows taken as dense", "2.1", "WrongValues OutOfBounds", host.rows_taken_as_dense),
)


def condition_of(bug: Row, spec: str) -> Condition:
    """What the mutants of a row run under, and the module without the bug."""
    return replace(CONDITIONS[spec], **bug.changes.get(spec, {}))


@cache
def _module(text: str) -> Module:
    return Module(text)


def sites(bug: Row, spec: str) -> list[Mutant]:
    """Every place in a spec's module at which the row fits."""
    condition = condition_of(bug, spec)
    found = bug.sites(_module(condition.source(spec)))
    return [Mutant(bug.name, spec, site.label, site.text, condition, bug.kinds) for site in found]


def mutants(bug: Row, spec: str) -> list[Mutant]:
    """Those places at which something is wrong with the mutant."""
    return [each for each in sites(bug, spec) if bug.why_harmless(each) is None]
