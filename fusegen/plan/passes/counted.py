"""Signals of a mix kernel: ready slots for any number of readers, and one credit a round from every reader core.

Many cores read one tile (all column tiles of a GEMM read the same rows of A), so no reader may reset its slot. Values
number the uses instead, over four launches in turn, and each reader core returns one credit when it has read its share
of a round.

A wait ends when a slot equals a value: a credit must not change again before every writer core has seen it. A reader
core needs tiles of some writer cores only, and could return credit t + 1 while another writer still waits for t. So
credits of even and of odd uses have slots of their own. Credit t + 2 is written in the slot of credit t, and not before
every writer core with tiles in use t has seen t:

    the reader core has waited for a tile of use t + 1 (cores without a share wait for one, too), hence
    the writer of that tile has seen all credits t + 1, hence
    every reader core has read its share of use t, hence
    every tile of use t has been written, by writer cores that had seen credit t before.

Writer cores without tiles do not wait. Four launches make numbers of uses that share a slot differ even where a launch
uses a ring position once.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Expr, Sym, cdiv
from fusegen.plan.facts import Decision
from fusegen.plan.ir import Buffer, HandOver, KernelPlan, Protocol, Purpose, SignalCover, SlotGroup, SlotValues
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

RANK, RANKS = Sym("rank"), Sym("ranks")
LAUNCHES = 4
"""Launches after which use numbers repeat."""
TILE_STORED = 8
"""The one event id that a mix kernel uses: a tile has been stored. The compiler counts its own events from 0."""
MAX_EVENTS = 16


def cover_counted(plan: KernelPlan, buffer: Buffer) -> KernelPlan:
    """Slots for a ring buffer that one stage of each rank writes and one stage of each rank reads."""
    (writer,) = (stage for stage in plan.stages if buffer.name in {access.region for access in stage.writes})
    (reader,) = (stage for stage in plan.stages if buffer.name in {access.region for access in stage.reads})
    protocol = _protocol(writer.tasks)
    ready = SlotGroup(
        buffer.signal,
        Layout(
            (Axis("ring", Sym("BUFFER_NUM")), *buffer.pieces),
            (("ring", "ready_ring"), ("source_rank", "ready_rank")),
        ),
        buffer.name,
        Purpose.READY,
        protocol,
        resetters=(),
    )
    reader_core, reader_cores = reader.workers.base()
    credit = SlotGroup(
        "credit",
        Layout(
            (
                Axis("ring", Sym("BUFFER_NUM")),
                Axis("parity", Const(2)),
                Axis("reader_rank", RANKS),
                Axis("reader_core", reader_cores),
            ),
            (("ring", "credit_ring"), ("parity", "credit_parity"), ("reader_rank", "credit_rank")),
        ),
        buffer.name,
        Purpose.CREDIT,
        protocol,
        resetters=(reader.name,),
    )
    plan = replace(plan, slots=(*plan.slots, ready, credit))
    plan = _writer_side(plan, writer, buffer, ready, credit)
    stages = {reader.name: _reader(reader, buffer, ready, credit, reader_core)}
    plan = with_stages(plan, stages)
    through = "announce" if writer.workers.engine is Engine.CUBE else None
    plan = cover_edges_of(plan, buffer, SignalCover(ready.name, through), SignalCover(credit.name))
    return replace(plan, decisions=(*plan.decisions, *_decisions(plan, writer, reader)))


def _writer_side(plan: KernelPlan, writer: Stage, buffer: Buffer, ready: SlotGroup, credit: SlotGroup) -> KernelPlan:
    """The writer waits once a round for all credits; what it wrote is announced by itself, or by its vector cores."""
    access, piece = access_to(writer, buffer)
    first = (Sym("ring"), *piece.first)
    readers = RANKS * credit.layout.axes[-1].extent
    zero = Const(0)
    free = credit.protocol.free or zero
    first_credit = (Sym("ring"), (Sym("turn") + 1) % 2, zero, zero)
    wait = Wait(credit.name, Local(), first_credit, readers, free, buffer.name, Level.ROUND)
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
    writer = replace(writer, waits=(wait,), hand_over=TILE_STORED, batched=batched)
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
    own_first: tuple[Expr, ...] = (Sym("ring"), RANK, *(Const(0) for _ in buffer.pieces[1:]))
    begun = Wait(ready.name, Local(), own_first, Const(1), ready.protocol.ready, credit.name, Level.CREDIT)
    announce = Announce(
        credit.name,
        Sym("source"),
        (Sym("ring"), Sym("turn") % 2, RANK, core),
        credit.protocol.credit or Const(0),
        Level.ROUND,
        each=every_rank("source"),
        comment="Credit return: this core has read its share of the round.",
    )
    return replace(stage, waits=(wait, begun), announces=(announce,))


def _protocol(tasks: Tasks) -> Protocol:
    """Use numbers over four launches in turn: a wait is released by the write of its own use and by no other."""
    if tasks.round is None:
        raise ValueError("expected rounds: without them no slot is used twice")
    uses, turn, ring = Sym("uses"), Sym("turn"), Sym("ring")
    definitions = (
        Definition("uses", cdiv(tasks.round.extent - ring, Sym("BUFFER_NUM"))),
        Definition("turn", Sym("launch") * uses + Sym(tasks.round.name) // Sym("BUFFER_NUM")),
    )
    return Protocol(
        values=SlotValues.COUNTED,
        free=turn,
        ready=turn + 1,
        credit=(turn + 1) % (LAUNCHES * uses),
        producer_definitions=definitions,
        consumer_definitions=definitions,
        reason=(
            "Uses of a ring position are numbered: 0 to 4 * uses - 1 over four launches, then again. In use t a\n"
            "writer core with tiles waits until all credits are t, and sets ready to t + 1; a reader core that has\n"
            "read its share sets its credit to t + 1. It can be one use ahead of the slowest writer, but not two,\n"
            "for it has waited for a tile of each use: credits of even and of odd uses have slots of their own."
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
            f"uses are numbered over {LAUNCHES} launches in turn; credits of even and odd uses have slots of their own",
            "a reader core may be one use ahead of a writer that it needs nothing from: its next credit must not hide "
            "the one that this writer waits for",
            "1.3",
        ),
        Decision(
            "credit return",
            f"every core of {reader.name}, once a round, to every rank",
            f"each ring position is reused, after {plan.buffer_num} {writer.tasks.label()} and by the next launch",
            "1.3",
        ),
        Decision(
            "placement",
            ", ".join(f"{stage.name} in a {stage.workers.engine.value} scope" for stage in plan.stages),
            "outside of a scope the cube core and both vector cores execute every wait and notify, "
            "also those that have not done the work",
            "1.3",
        ),
    ]
    if plan.hand_overs:
        decisions.append(
            Decision(
                "hand-over",
                f"{len(plan.hand_overs)} of {MAX_EVENTS} events: the cube core sets it after each "
                f"{'round' if plan.choices.announce == 'batched' else 'tile'}, "
                "both vector cores wait for it, the first one announces",
                "a vector core has not seen the cube core's store end",
                "1.3",
            )
        )
    return tuple(decisions)
