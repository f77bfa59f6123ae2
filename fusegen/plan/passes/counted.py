"""Signals of a mix kernel: ready slots for any number of readers, and one credit a round from every reader core.

Many cores read one tile (all column tiles of a GEMM read the same rows of A), so no reader may reset its slot: values
number its uses, over two launches in turn. Many cores wait for one credit as well, and nothing else keeps them from
falling behind the reader core that returns it, which may have no work at all: credits have a slot for each round, so
that none is written twice in a launch, and a barrier keeps launches apart.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Sym, cdiv, minimum
from fusegen.plan.facts import Decision
from fusegen.plan.ir import BarrierCover, Buffer, HandOver, KernelPlan, Protocol, Purpose, SignalCover, SlotGroup
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.passes.slots import access_to, cover_edges_of, every_rank, with_stages
from fusegen.plan.stages import (
    AllCores,
    Announce,
    Definition,
    Engine,
    Kind,
    Level,
    Local,
    Peer,
    Stage,
    Tasks,
    Wait,
    Workers,
)

RANK, RANKS, LAUNCH = Sym("rank"), Sym("ranks"), Sym("launch")
BUFFER_NUM = Sym("BUFFER_NUM")
TILE_STORED = 8
"""The one event id that a mix kernel uses: a tile has been stored. The compiler counts its own events from 0."""
MAX_EVENTS = 16


def cover_counted(plan: KernelPlan, buffer: Buffer) -> KernelPlan:
    """Slots for a ring buffer that one stage of each rank writes and one stage of each rank reads."""
    (writer,) = (stage for stage in plan.stages if buffer.name in {access.region for access in stage.writes})
    (reader,) = (stage for stage in plan.stages if buffer.name in {access.region for access in stage.reads})
    ready = SlotGroup(
        buffer.signal,
        Layout(
            (Axis("ring", BUFFER_NUM), *buffer.pieces),
            (("ring", "ready_ring"), ("source_rank", "ready_rank")),
        ),
        buffer.name,
        Purpose.READY,
        _ready_protocol(writer.tasks),
        resetters=(),
    )
    reader_core, reader_cores = reader.workers.base()
    rounds = _rounds(writer.tasks)
    credit = SlotGroup(
        "credit",
        Layout(
            (
                Axis(rounds.name, rounds.extent + BUFFER_NUM),
                Axis("reader_rank", RANKS),
                Axis("reader_core", reader_cores),
            ),
            ((rounds.name, f"credit_{rounds.name}"),),
        ),
        buffer.name,
        Purpose.CREDIT,
        _credit_protocol(rounds),
        resetters=(reader.name,),
    )
    plan = replace(plan, slots=(*plan.slots, ready, credit))
    plan = _writer_side(plan, writer, buffer, ready, credit)
    stages = {reader.name: _reader(reader, buffer, ready, credit, reader_core)}
    plan = with_stages(plan, stages)
    through = "announce" if writer.workers.engine is Engine.CUBE else None
    plan = cover_edges_of(plan, buffer, SignalCover(ready.name, through), SignalCover(credit.name), BarrierCover())
    return replace(plan, decisions=(*plan.decisions, *_decisions(plan, writer, reader)))


def _writer_side(plan: KernelPlan, writer: Stage, buffer: Buffer, ready: SlotGroup, credit: SlotGroup) -> KernelPlan:
    """The writer waits once a round for all credits; what it wrote is announced by itself, or by its vector cores."""
    access, piece = access_to(writer, buffer)
    first = (Sym("ring"), *piece.first)
    readers = RANKS * credit.layout.axes[-1].extent
    zero = Const(0)
    free = credit.protocol.free or zero
    rounds = _rounds(writer.tasks)
    # BUFFER_NUM rounds before; the first rounds look behind the last one.
    before = (Sym(rounds.name) + rounds.extent) % (rounds.extent + BUFFER_NUM)
    wait = Wait(credit.name, Local(), (before, zero, zero), readers, free, buffer.name, Level.ROUND)
    batched = plan.choices.announce == "batched"
    if writer.workers.engine is Engine.VECTOR:
        rank = access.place.rank if isinstance(access.place, Peer) else RANK
        announce = Announce(ready.name, rank, first, ready.protocol.ready, Level.TILE)
        writer = replace(writer, waits=(wait,), announces=(announce,), batched=batched)
        return with_stages(plan, {writer.name: writer})
    each = None if writer.partner else every_rank("target")
    rank = Sym(writer.partner.name) if writer.partner else Sym("target")
    announce = Announce(ready.name, rank, first, ready.protocol.ready, Level.TILE, each=each)
    announcer = replace(
        writer,
        name="announce",
        kind=Kind.ANNOUNCE,
        workers=Workers(Engine.VECTOR, AllCores()),
        tile=(),
        reads=(),
        writes=(),
        definitions=(),
        announces=(announce,),
        batched=batched,
        hand_over=TILE_STORED,
    )
    writer = replace(writer, waits=(wait,), hand_over=TILE_STORED)
    position = plan.stages.index(plan.stage(writer.name)) + 1
    plan = with_stages(plan, {writer.name: writer})
    stages = (*plan.stages[:position], announcer, *plan.stages[position:])
    hand_over = HandOver(writer.name, announcer.name, TILE_STORED)
    constants = (*plan.constants, ("TILE_STORED", TILE_STORED))
    return replace(plan, stages=stages, hand_overs=(*plan.hand_overs, hand_over), constants=constants)


def _reader(stage: Stage, buffer: Buffer, ready: SlotGroup, credit: SlotGroup, core: Sym) -> Stage:
    _, piece = access_to(stage, buffer)
    level = Level.SOURCE if stage.kind is Kind.REDUCE else Level.ITEM
    first = (Sym("ring"), *piece.first)
    wait = Wait(ready.name, Local(), first, piece.count, ready.protocol.ready, buffer.name, level)
    announce = Announce(
        credit.name,
        Sym("source"),
        (Sym(_rounds(stage.tasks).name), RANK, core),
        credit.protocol.credit or Const(0),
        Level.ROUND,
        each=every_rank("source"),
        comment="Credit return: this core has read its share of the round.",
    )
    return replace(stage, waits=(wait,), announces=(announce,))


def _rounds(tasks: Tasks) -> Axis:
    if tasks.round is None:
        raise ValueError("expected rounds: without them no slot is used twice")
    return tasks.round


def _ready_protocol(tasks: Tasks) -> Protocol:
    """Use numbers over two launches in turn: a wait is released by the write of its own use and by no other.

    The next use cannot be announced before every reader core has returned its credit, which it does after its waits.
    """
    rounds = _rounds(tasks)
    uses, turn = Sym("uses"), Sym("turn")
    definitions = (
        Definition("uses", cdiv(rounds.extent - Sym("ring"), BUFFER_NUM)),
        Definition("turn", LAUNCH * uses + Sym(rounds.name) // BUFFER_NUM),
    )
    return Protocol(
        free=None,
        ready=turn + 1,
        credit=None,
        producer_definitions=definitions,
        consumer_definitions=definitions,
        reason=(
            "The uses of a ring position are numbered over two launches, 0 to 2 * uses - 1, and then again: ready\n"
            "becomes turn + 1. Nobody resets it, because many cores wait for one tile."
        ),
    )


def _credit_protocol(rounds: Axis) -> Protocol:
    """One value for a whole launch: the slots that the first rounds wait for, whose buffers are free, stay 0."""
    free = minimum(Sym(rounds.name) // BUFFER_NUM, 1) * (LAUNCH + 1)
    return Protocol(
        free=free,
        ready=LAUNCH + 1,
        credit=LAUNCH + 1,
        producer_definitions=(),
        consumer_definitions=(),
        reason=(
            f"Value of a credit: launch + 1 = that reader core has read its share of the {rounds.name}. It is written\n"
            "once in a launch: a core may return it before a slow writer looks, which must still find it. A writer\n"
            f"waits for the credits of BUFFER_NUM {rounds.label} before; the first ones for slots behind the last, "
            "which stay 0.\n"
            "The barrier that closes a launch keeps launches apart."
        ),
    )


def _decisions(plan: KernelPlan, writer: Stage, reader: Stage) -> tuple[Decision, ...]:
    decisions = [
        Decision(
            "synchronisation",
            "a ready slot for each tile, a credit of each reader core for each round",
            "a tile's readers start when it has arrived; they are many, so none of them may reset its slot",
            "1.3",
        ),
        Decision(
            "slot values",
            "uses of a ready slot are numbered, over two launches in turn; a credit slot is used once in a launch",
            "no wait is released by another use, and no credit is overwritten before a slow writer has seen it",
            "1.3",
        ),
        Decision(
            "credit return",
            f"every core of {reader.name}, once a round, to every rank",
            f"each ring position is reused, after {plan.buffer_num} {writer.tasks.label()}",
            "1.3",
        ),
        Decision(
            "placement",
            f"{writer.name} in a {writer.workers.engine.value} scope, {reader.name} in a "
            f"{reader.workers.engine.value} scope",
            "outside of a scope the cube core and both vector cores execute every wait and notify, "
            "also those that have not done the work",
            "1.3",
        ),
    ]
    if plan.hand_overs:
        decisions.append(
            Decision(
                "hand-over",
                f"{len(plan.hand_overs)} of {MAX_EVENTS} events: the cube core sets it after each tile, "
                "both vector cores wait for it, the first one announces",
                "a vector core has not seen the cube core's store end",
                "1.3",
            )
        )
    return tuple(decisions)
