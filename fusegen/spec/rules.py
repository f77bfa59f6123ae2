"""Rules about several fields of one spec. What fits a device's memory is not decided here but by the planner.

A rule names the patterns it applies to by a model that they derive from, and the top-level fields it reads, so that it
can still be asked when other fields of the file are faulty. It returns faults without a place; the loader adds file
and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from fusegen.errors import Fault
from fusegen.spec.fields import Reduction, SpecBase, cores_of
from fusegen.spec.gemm import AllGatherGemm, Gemm, SumGemm
from fusegen.spec.movement import Movement
from fusegen.targets import TARGETS

Model = TypeVar("Model", bound=SpecBase)


@dataclass(frozen=True, slots=True)
class Rule(Generic[Model]):
    """A check of specs of one model, `patterns`, that reads the listed top-level fields and nothing else."""

    patterns: type[Model]
    reads: frozenset[str]
    faults: Callable[[Model], Iterator[Fault]]


def _moves_blocks(spec: SpecBase) -> bool:
    """Whether udma is chosen where it can be: where it cannot, one fault about the transport is enough."""
    return spec.transport == "udma" and not isinstance(spec, Reduction)


def signal_needs_interleaved_roles(spec: Movement) -> Iterator[Fault]:
    """Producers and consumers that wait for each other must be different cores."""
    if spec.sync == "signal" and spec.roles == "shared":
        yield Fault(
            "roles",
            "interleaved, because of sync: signal",
            "shared",
            "with shared roles a producer would wait for credit from the very core that waits",
        )


def merged_blocks_need_signals(spec: Movement) -> Iterator[Fault]:
    """A barrier ends every block for all cores, so blocks cannot be part of one work index."""
    if spec.flatten in ("s", "m") and spec.sync == "barrier":
        yield Fault(
            "flatten",
            "none or auto, because of sync: barrier",
            spec.flatten,
            f"a barrier separates the {spec.flatten.upper()} blocks, so they cannot be worked on at once; "
            "sync: signal allows it",
        )


def batches_need_signals(spec: SpecBase) -> Iterator[Fault]:
    """A barrier announces everything at once: there is nothing to batch."""
    if spec.announce == "batched" and spec.sync == "barrier":
        yield Fault(
            "announce",
            "per_tile, because of sync: barrier",
            "batched",
            "a barrier announces all tiles of a round at once; sync: signal has notifies to batch",
        )


def batches_refuse_merged_blocks(spec: Movement) -> Iterator[Fault]:
    """The notifies of a round come after all its stores, so rounds follow each other."""
    if spec.announce == "batched" and spec.flatten in ("s", "m"):
        yield Fault(
            "flatten",
            "none or auto, because of announce: batched",
            spec.flatten,
            "the notifies of a round come after all its stores, so rounds cannot be merged; announce: per_tile "
            "allows it",
        )


def target_has_the_engine(spec: SpecBase) -> Iterator[Fault]:
    """Only some devices have an engine that moves whole blocks."""
    if _moves_blocks(spec) and spec.transport not in TARGETS[spec.target].engines:
        able = [name for name, target in TARGETS.items() if spec.transport in target.engines]
        yield Fault(
            "target",
            f"a target with {spec.transport}, because of transport: {spec.transport}",
            spec.target,
            f"targets with {spec.transport}: {', '.join(able)}",
        )


def reductions_need_loads(spec: Reduction) -> Iterator[Fault]:
    """Consumers add what they load; an engine that moves blocks adds nothing."""
    if spec.transport == "udma":
        yield Fault(
            "transport",
            f"mte, because of the sum in pattern: {spec.pattern}",
            "udma",
            "consumers load tiles and add them, and whole blocks cannot be reduced on the way: use mte",
        )


def udma_with_barriers_needs_shared_roles(spec: Movement) -> Iterator[Fault]:
    """Between two barriers either all blocks travel or all cores consume."""
    if _moves_blocks(spec) and spec.sync == "barrier" and spec.roles == "interleaved":
        yield Fault(
            "roles",
            "shared, because of transport: udma and sync: barrier",
            "interleaved",
            "all blocks have landed at the one barrier, after which every core consumes; sync: signal overlaps the two",
        )


def udma_with_barriers_has_no_ring(spec: Movement) -> Iterator[Fault]:
    """Every block has a place of its own, which is written once."""
    if _moves_blocks(spec) and spec.sync == "barrier" and spec.buffer_num != 1:
        yield Fault(
            "buffer_num",
            "1, because of transport: udma and sync: barrier",
            str(spec.buffer_num),
            "each block lands once, in a region of its own: there is no ring of buffers",
        )


def gathering_by_udma_has_no_ring(spec: AllGatherGemm) -> Iterator[Fault]:
    """The whole gathered matrix lands in a region of its own."""
    if _moves_blocks(spec) and spec.buffer_num != 1:
        yield Fault(
            "buffer_num",
            "1, because of transport: udma",
            str(spec.buffer_num),
            "the rows of each rank land once, in a region of their own: there is no ring of buffers",
        )


def gathering_at_once_has_no_panels(spec: AllGatherGemm) -> Iterator[Fault]:
    """With a barrier nobody could use a part of the rows before the rest, so they travel as one block."""
    if _moves_blocks(spec) and spec.sync == "barrier" and "pvalue" in spec.model_fields_set:
        yield Fault(
            "pvalue",
            "no pvalue, because of transport: udma and sync: barrier",
            str(spec.pvalue),
            "all rows for a target travel as one block, there are no rounds: leave it out, or choose sync: signal",
        )


def udma_has_no_order_of_tiles(spec: SpecBase) -> Iterator[Fault]:
    """Requests to one rank come from a single core (guide 1.5), so each target rank has a core of its own."""
    if not _moves_blocks(spec):
        return
    comm = spec.swizzle.comm
    advice = "whole blocks travel, each target rank has a core of its own, and all of them start at once"
    if comm.order != "nz":
        yield Fault("swizzle.comm.order", "nz, because of transport: udma", comm.order, advice)
    if comm.npu_split != 1:
        yield Fault("swizzle.comm.npu_split", "1, because of transport: udma", str(comm.npu_split), advice)


def only_nz_splits_ranks(spec: SpecBase) -> Iterator[Fault]:
    """The split is a part of the nz order."""
    comm = spec.swizzle.comm
    if comm.npu_split > 1 and comm.order == "sequential":
        yield Fault(
            "swizzle.comm.npu_split",
            "1, because of swizzle.comm.order: sequential",
            str(comm.npu_split),
            "only the nz order takes turns between groups of ranks",
        )


def ordered_sums_have_no_rank_order(spec: SumGemm) -> Iterator[Fault]:
    """Each tile of an ordered sum reads all ranks in an order that is fixed: there is none to choose."""
    comm = spec.swizzle.comm
    if spec.reduce != "ordered":
        return
    advice = "an ordered sum reads all ranks for each tile, in a fixed order: leave it out, or choose reduce: atomic"
    if comm.order != "nz":
        yield Fault("swizzle.comm.order", "nz, because of reduce: ordered", comm.order, advice)
    if comm.npu_split != 1:
        yield Fault("swizzle.comm.npu_split", "1, because of reduce: ordered", str(comm.npu_split), advice)


def only_nz_has_an_offset(spec: Gemm) -> Iterator[Fault]:
    """The offset is a part of the nz order, and an author who gives one expects it to matter."""
    gemm = spec.swizzle.gemm
    if gemm.order == "row_major" and "offset" in gemm.model_fields_set:
        yield Fault(
            "swizzle.gemm.offset",
            "no offset, because of swizzle.gemm.order: row_major",
            str(gemm.offset),
            "it is the width of the groups of the nz order: leave it out, or choose order: nz",
        )


def comm_rows_divide_the_gemm_tile(spec: Gemm) -> Iterator[Fault]:
    """No communication tile crosses the border of two GEMM tiles."""
    if spec.tile.m % spec.comm_tile.rows:
        yield Fault(
            "comm_tile.rows",
            f"a divisor of tile.m, which is {spec.tile.m}",
            str(spec.comm_tile.rows),
            "a GEMM tile is made of whole communication tiles: lower comm_tile.rows or raise tile.m",
        )


def comm_columns_divide_the_gemm_tile(spec: SumGemm) -> Iterator[Fault]:
    """What is sent is a piece of one computed tile."""
    if spec.tile.n % spec.comm_tile.columns:
        yield Fault(
            "comm_tile.columns",
            f"a divisor of tile.n, which is {spec.tile.n}",
            str(spec.comm_tile.columns),
            "a GEMM tile is made of whole communication tiles: lower comm_tile.columns or raise tile.n",
        )


def every_task_has_a_core(spec: Movement) -> Iterator[Fault]:
    """One core would be a producer without a consumer, or a sender that nobody else helps."""
    for index, point in enumerate(spec.verify):
        yield from too_few_cores(spec, f"verify[{index}].cores", point.cores)


def too_few_cores(spec: SpecBase, field: str, cores: int) -> Iterator[Fault]:
    """A fault of `field` if the roles of the spec cannot be shared out among this number of cores."""
    if not isinstance(spec, Movement):
        return
    interleaved, sends = spec.roles == "interleaved", _moves_blocks(spec)
    fewest = 1 + interleaved + sends
    if cores >= fewest:
        return
    if sends:
        advice = "a core that sends blocks to other ranks needs another one for the own part" + (
            ", and consumers have cores of their own" if interleaved else ""
        )
        yield Fault(field, f"at least {fewest}, because of transport: udma", str(cores), advice)
    else:
        advice = "even cores produce and odd cores consume, so one core alone has no partner"
        yield Fault(field, "at least 2, because of roles: interleaved", str(cores), advice)


def verification_fits_the_target(spec: SpecBase) -> Iterator[Fault]:
    """A run on cores that the device lacks says nothing about the device."""
    available = cores_of(spec, TARGETS[spec.target])
    for index, point in enumerate(spec.verify):
        if point.cores > available:
            expected = f"at most {available}, the {spec.core_kind} cores of {spec.target}"
            yield Fault(f"verify[{index}].cores", expected, str(point.cores))


def verification_points_differ(spec: SpecBase) -> Iterator[Fault]:
    """A repeated point costs time and proves nothing more."""
    for index, point in enumerate(spec.verify):
        first = spec.verify.index(point)
        if first < index:
            yield Fault(
                f"verify[{index}]", "a new verification point", f"a repetition of verify[{first}]", "remove one of them"
            )


RULES: Final[tuple[Rule[Any], ...]] = (
    Rule(Movement, frozenset({"sync", "roles"}), signal_needs_interleaved_roles),
    Rule(Movement, frozenset({"sync", "flatten"}), merged_blocks_need_signals),
    Rule(SpecBase, frozenset({"sync", "announce"}), batches_need_signals),
    Rule(Movement, frozenset({"announce", "flatten"}), batches_refuse_merged_blocks),
    Rule(SpecBase, frozenset({"target", "transport"}), target_has_the_engine),
    Rule(Reduction, frozenset({"pattern", "transport"}), reductions_need_loads),
    Rule(Movement, frozenset({"transport", "sync", "roles"}), udma_with_barriers_needs_shared_roles),
    Rule(Movement, frozenset({"transport", "sync", "buffer_num"}), udma_with_barriers_has_no_ring),
    Rule(AllGatherGemm, frozenset({"transport", "buffer_num"}), gathering_by_udma_has_no_ring),
    Rule(AllGatherGemm, frozenset({"transport", "sync", "pvalue"}), gathering_at_once_has_no_panels),
    Rule(SpecBase, frozenset({"transport", "swizzle"}), udma_has_no_order_of_tiles),
    Rule(SpecBase, frozenset({"swizzle"}), only_nz_splits_ranks),
    Rule(Gemm, frozenset({"swizzle"}), only_nz_has_an_offset),
    Rule(SumGemm, frozenset({"swizzle", "reduce"}), ordered_sums_have_no_rank_order),
    Rule(Gemm, frozenset({"tile", "comm_tile"}), comm_rows_divide_the_gemm_tile),
    Rule(SumGemm, frozenset({"tile", "comm_tile"}), comm_columns_divide_the_gemm_tile),
    Rule(Movement, frozenset({"roles", "transport", "verify"}), every_task_has_a_core),
    Rule(SpecBase, frozenset({"target", "verify"}), verification_fits_the_target),
    Rule(SpecBase, frozenset({"verify"}), verification_points_differ),
)


def broken_rules(spec: SpecBase, known: frozenset[str]) -> list[Fault]:
    """Faults of every rule for this pattern that reads only `known` fields; the other fields need not even exist."""
    return [
        fault
        for rule in RULES
        if isinstance(spec, rule.patterns) and rule.reads <= known
        for fault in rule.faults(spec)
    ]
