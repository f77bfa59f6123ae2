"""Cover edges with signal slots: what a slot stands for, which values it takes, who waits, who resets (guide 1.3).

Which protocol a buffer gets follows from its shape:

    in a vector kernel, with a ring     one slot for each piece, whose consumer returns the credit
    in a mix kernel, with a ring        ready slots for any number of readers, credits once a round (passes.counted)
    without a ring                      arrival slots that are never reset, and a barrier that closes the launch
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.plan.expr import Const, Expr, Sym, cdiv
from fusegen.plan.facts import Decision
from fusegen.plan.ir import (
    SLOT_WORDS,
    Buffer,
    KernelPlan,
    Protocol,
    Purpose,
    SignalCover,
    SlotGroup,
    SlotValues,
)
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.passes.barriers import CLOSE_WHOLE
from fusegen.plan.passes.counted import cover_counted
from fusegen.plan.passes.slots import access_to, cover_edges_of, every_rank, with_stages
from fusegen.plan.program import Barrier, Node, Rounds, Run, Scope, When
from fusegen.plan.stages import (
    Announce,
    Definition,
    Kind,
    Level,
    Local,
    Peer,
    Role,
    Stage,
    Tasks,
    Wait,
)

RANK = Sym("rank")
CREDIT_COMMENT = "Credit return: the slot is free for its next use, in this launch or in the next one."


def cover_with_signals(plan: KernelPlan) -> KernelPlan:
    """Give every buffer its slots, and the stages their waits and announcements."""
    plan = replace(plan, constants=(*plan.constants, ("SLOT_WORDS", SLOT_WORDS)))
    for buffer in plan.buffers:
        if buffer.ring is None:
            plan = _cover_arrivals(plan, buffer)
        elif plan.is_mix:
            plan = cover_counted(plan, buffer)
        else:
            plan = _cover_tiles(plan, buffer)
    decisions = (_announcing(plan), _close(plan))
    return replace(plan, program=_program(plan), decisions=(*plan.decisions, *decisions))


def _program(plan: KernelPlan) -> tuple[Node, ...]:
    """Producers and consumers side by side: by role in a vector kernel, by core type in a mix kernel."""
    groups: tuple[tuple[Stage, ...], ...]
    if plan.is_mix:
        engines = dict.fromkeys(stage.workers.engine for stage in plan.stages)
        groups = tuple(tuple(s for s in plan.stages if s.workers.engine is engine) for engine in engines)
        nodes: tuple[Node, ...] = tuple(Scope(stages[0].workers.engine, _in_rounds(stages)) for stages in groups)
    else:
        roles = range(plan.launch.roles)
        groups = tuple(tuple(s for s in plan.stages if s.workers.selection == Role(i, len(roles))) for i in roles)
        nodes = tuple(When(role, None, _in_rounds(stages)) for role, stages in enumerate(groups))
    if any(buffer.ring is None for buffer in plan.buffers):
        nodes = (*nodes, Barrier(CLOSE_WHOLE))
    return nodes


def _in_rounds(stages: tuple[Stage, ...]) -> tuple[Node, ...]:
    """Neighbouring stages that are not merged over rounds share a loop over rounds."""
    nodes: list[Node] = []
    for stage in stages:
        tasks = stage.tasks
        if tasks.round is None or tasks.merged_rounds:
            nodes.append(Run(stage.name))
        elif nodes and isinstance(nodes[-1], Rounds) and nodes[-1].axis == tasks.round:
            nodes[-1] = replace(nodes[-1], body=(*nodes[-1].body, Run(stage.name)))
        else:
            nodes.append(Rounds(tasks.round, 0, (Run(stage.name),)))
    return tuple(nodes)


def _cover_tiles(plan: KernelPlan, buffer: Buffer) -> KernelPlan:
    """One slot for each piece that a ring buffer holds: it announces the tile, and its reset returns the credit."""
    writers = [stage for stage in plan.stages if buffer.name in {access.region for access in stage.writes}]
    readers = [stage for stage in plan.stages if buffer.name in {access.region for access in stage.reads}]
    (writer,), (reader,) = writers, readers
    protocol = _use_numbers(writer.tasks) if writer.tasks.merged_rounds else _free_and_ready()
    prefix = "" if buffer.signal == "signal" else f"{buffer.signal}_"
    names = (("ring", f"{prefix}ring_slots"), ("source_rank", f"{prefix}rank_slots"))
    axes = (Axis("ring", Sym("BUFFER_NUM")), *buffer.pieces)
    layout = Layout(axes, tuple((a, b) for a, b in names if a in {axis.name for axis in axes[:-1]}))
    group = SlotGroup(buffer.signal, layout, buffer.name, Purpose.TILE, protocol, resetters=(reader.name,))
    batched = plan.choices.announce == "batched"
    stages = {
        writer.name: _tile_writer(writer, buffer, group, batched=batched),
        reader.name: _tile_reader(reader, buffer, group, batched=batched),
    }
    plan = with_stages(replace(plan, slots=(*plan.slots, group)), stages)
    plan = cover_edges_of(plan, buffer, SignalCover(group.name), SignalCover(group.name))
    return replace(plan, decisions=(*plan.decisions, *_tile_decisions(plan, group, writer.tasks)))


def _tile_writer(stage: Stage, buffer: Buffer, group: SlotGroup, *, batched: bool) -> Stage:
    access, piece = access_to(stage, buffer)
    first = (Sym("ring"), *piece.first)
    rank = access.place.rank if isinstance(access.place, Peer) else RANK
    free, ready = group.protocol.free or Const(0), group.protocol.ready
    wait = Wait(group.name, access.place, first, piece.count, free, buffer.name, Level.TILE)
    announce = Announce(group.name, rank, first, ready, Level.TILE)
    return replace(
        stage, waits=(*stage.waits, wait), announces=(*stage.announces, announce), batched=stage.batched or batched
    )


def _tile_reader(stage: Stage, buffer: Buffer, group: SlotGroup, *, batched: bool) -> Stage:
    _, piece = access_to(stage, buffer)
    first = (Sym("ring"), *piece.first)
    credit = group.protocol.credit or Const(0)
    every_source = stage.kind is Kind.REDUCE
    level = Level.SOURCE if every_source else Level.TILE
    wait = Wait(group.name, Local(), first, piece.count, group.protocol.ready, buffer.name, level)
    each = every_rank("source") if every_source else None
    announce = Announce(group.name, RANK, first, credit, Level.TILE, each=each, comment=CREDIT_COMMENT)
    return replace(stage, waits=(*stage.waits, wait), announces=(*stage.announces, announce), batched=batched)


def _cover_arrivals(plan: KernelPlan, buffer: Buffer) -> KernelPlan:
    """One slot for each piece of a region that is written once in a launch: never reset, any number of waiters."""
    names = tuple((axis.name, f"{buffer.signal}_{axis.name.removesuffix('_rank')}") for axis in buffer.pieces[:-1])
    protocol = Protocol(
        values=SlotValues.LAUNCH,
        free=None,
        ready=Sym("launch") + 1,
        credit=None,
        producer_definitions=(),
        consumer_definitions=(),
        reason=(
            f"Value of a slot of {buffer.signal}: launch + 1 = the block is there. It is never reset: the value of\n"
            "the launch before differs, and the barrier that closes a launch keeps launches apart."
        ),
    )
    group = SlotGroup(buffer.signal, Layout(buffer.pieces, names), buffer.name, Purpose.ARRIVED, protocol, resetters=())
    stages: dict[str, Stage] = {}
    for stage in plan.stages:
        if any(access.region == buffer.name for access in stage.writes):
            stages[stage.name] = _arrival_writer(plan, stage, buffer, group)
        elif any(access.region == buffer.name for access in stage.reads):
            _, piece = access_to(stage, buffer)
            level = Level.TILE if stage.kind is Kind.PUT else Level.ITEM
            wait = Wait(group.name, Local(), piece.first, piece.count, protocol.ready, buffer.name, level)
            stages[stage.name] = replace(stage, waits=(*stage.waits, wait))
    plan = with_stages(replace(plan, slots=(*plan.slots, group)), stages)
    plan = cover_edges_of(plan, buffer, SignalCover(group.name), None)
    decision = Decision(
        f"slots of {buffer.name}",
        "[" + ", ".join(axis.name for axis in buffer.pieces) + "], set once in a launch, never reset",
        "a wait does not consume a signal: where nothing is written again, any number of readers may wait on one slot",
        "1.3",
    )
    return replace(plan, decisions=(*plan.decisions, decision))


def _arrival_writer(plan: KernelPlan, stage: Stage, buffer: Buffer, group: SlotGroup) -> Stage:
    """Transfers announce each block when putmem has returned; stores after all tiles of a piece and a fence."""
    access, piece = access_to(stage, buffer)
    rank = access.place.rank if isinstance(access.place, Peer) else RANK
    put = stage.kind is Kind.PUT
    announce = Announce(
        group.name,
        rank,
        piece.first,
        group.protocol.ready,
        Level.TILE if put else Level.ITEM,
        each=piece.each,
        fence=not put,
        comment="putmem returns when the block has arrived: no fence is needed." if put else "",
    )
    batched = not put and plan.choices.announce == "batched"
    return replace(stage, announces=(*stage.announces, announce), batched=batched)


def _announcing(plan: KernelPlan) -> Decision:
    sends = any(stage.kind is Kind.PUT for stage in plan.stages)
    if plan.choices.announce == "batched":
        return Decision(
            "announcing",
            "batched: all stores of a round, one fence, all notifies",
            "both loops have the same bounds, so every store is announced; one fence serves a round",
            "2.1",
        )
    return Decision(
        "announcing",
        "piece by piece: store, fence, notify" + ("; putmem, notify" if sends else ""),
        "a reader can start as soon as its own tile is there",
        "1.3",
    )


def _close(plan: KernelPlan) -> Decision:
    if any(buffer.ring is None for buffer in plan.buffers):
        return Decision(
            "launch close",
            "a barrier after the last tile",
            "the next launch writes regions whose readers return no credit",
            "2.1",
        )
    return Decision(
        "launch close",
        "none",
        "until a slower rank has read, the next launch waits for its credits",
        "2.1",
    )


def _tile_decisions(plan: KernelPlan, slots: SlotGroup, tasks: Tasks) -> tuple[Decision, ...]:
    rounds = tasks.label()
    (resetter,) = slots.resetters
    return (
        Decision(
            "synchronisation",
            "a signal slot for each tile",
            "a consumer needs the tiles that it reads, not all of them: no core waits for the slowest producer",
            "1.3",
        ),
        Decision(
            "slot layout",
            "[" + ", ".join(axis.name for axis in slots.layout.axes) + "], 64 bytes each",
            "cores that write different words of one 64-byte line lose writes",
            "1.3",
        ),
        Decision(
            "credit return",
            f"{resetter} returns every slot",
            f"each ring position is reused, after {plan.buffer_num} {rounds} and by the next launch; "
            "the stage that read the tile is the one resetter",
            "1.3",
        ),
        Decision(
            "slot values",
            "use numbers: 2 * use is free, 2 * use + 1 is ready, 0 again after the last use"
            if tasks.merged_rounds
            else "0 is free, 1 is ready",
            _values_reason(rounds, merged=tasks.merged_rounds),
            "1.3",
        ),
    )


def _values_reason(rounds: str, *, merged: bool) -> str:
    """Why 0 and 1 are, or are not, enough to tell the uses of a slot apart."""
    if merged:
        return (
            f"{rounds} that share a ring position go to different cores: with 0 and 1 the later one's producer could "
            "take the zero that the earlier one still waits for"
        )
    return "the same core works on a slot in every round, so its uses follow each other"


def _free_and_ready() -> Protocol:
    """0 and 1: enough where one producer core and one consumer core work on a slot, use after use."""
    return Protocol(
        values=SlotValues.PLAIN,
        free=Const(0),
        ready=Const(1),
        credit=Const(0),
        producer_definitions=(),
        consumer_definitions=(),
        reason="Value of a slot: 0 = free, the producer may write; 1 = the tile is there.",
    )


def _use_numbers(tasks: Tasks) -> Protocol:
    """Numbered uses: every wait of a launch has a value of its own, so it cannot be released by another use's write."""
    if tasks.round is None:
        raise ValueError("expected rounds: without them no slot is used twice")
    use, uses, ring = Sym("use"), Sym("uses"), Sym("ring")
    use_definition = Definition("use", Sym(tasks.round.name) // Sym("BUFFER_NUM"))
    uses_definition = Definition("uses", cdiv(tasks.round.extent - ring, Sym("BUFFER_NUM")))
    credit: Expr = (use + 1) % uses * 2
    return Protocol(
        values=SlotValues.NUMBERED,
        free=2 * use,
        ready=2 * use + 1,
        credit=credit,
        producer_definitions=(use_definition,),
        consumer_definitions=(use_definition, uses_definition),
        reason=(
            "Values of a slot in use number u of a launch: 2 * u, the producer may write; 2 * u + 1, the tile is\n"
            f"there; 0 again after the last use. Plain 0 and 1 would not do: cores of {tasks.label()} that share\n"
            "a ring buffer would wait for the same zero, and a later one's producer could take it first."
        ),
    )
