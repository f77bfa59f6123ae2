"""Why nobody can go on: the blocked actors, and the likely causes by the tables of guide section 2.1.

Each rule is a function from the scene to a Cause or None. `RULES` has them from the most to the least specific; a
report lists the causes that apply in this order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from fusegen.sim.actors import Actor, BarrierWait, CollectiveWait, FlagWait, Sleep, SlotWait, StreamWait, TileWait
from fusegen.sim.findings import Blocked, Cause, Deadlock, Finding, MissingReset
from fusegen.sim.heap import POISON_BYTE
from fusegen.sim.machine import Machine
from fusegen.sim.meetings import arrivals, barrier_incomplete, flag_not_set, signal_outside_of_scope
from fusegen.sim.memory import Memory
from fusegen.sim.scene import Scene, StuckSlot, stuck_slot
from fusegen.sim.signals import SlotRecord

SHOWN_ACTORS: Final = 8
SHOWN_SLOTS: Final = 4
GUIDE_DEADLOCK: Final = "2.1"
GUIDE_CREDIT: Final = "1.3"
CREDIT_MISSING: Final = "credit return missing"


def diagnose(scene: Scene) -> Deadlock:
    """The finding for a machine in which some actors wait and none can run."""
    causes = tuple(cause for rule in RULES if (cause := rule(scene)) is not None)
    blocked = tuple(_blocked(scene, actor) for actor in scene.blocked[:SHOWN_ACTORS])
    hidden = len(scene.blocked) - len(blocked)
    lines = [f"{len(scene.blocked)} actors wait and none can go on"]
    lines += [f"likely cause: {cause}" for cause in causes]
    lines += [str(entry) for entry in blocked]
    lines += (
        [f"and {hidden} more: {'; '.join(_grouped(scene.machine, scene.blocked[SHOWN_ACTORS:]))}"] if hidden else []
    )
    return Deadlock("\n".join(lines), blocked=blocked, blocked_count=len(scene.blocked), causes=causes)


def waits_of(machine: Machine) -> list[str]:
    """What the blocked actors wait for, one entry for each line of code."""
    return _grouped(machine, machine.blocked())


def _grouped(machine: Machine, actors: list[Actor]) -> list[str]:
    counts = Counter((_role(actor), str(machine.location_of(actor))) for actor in actors)
    return [
        f"{role if number == 1 else f'{number} x {role}'} at {line}" for (role, line), number in sorted(counts.items())
    ]


def _role(actor: Actor) -> str:
    """What an actor waits for, without the details that differ between actors at one line."""
    match actor.waiting:
        case CollectiveWait(name=name):
            return f"rank {actor.name.rank} host in {name}"
        case StreamWait():
            return f"rank {actor.name.rank} host for its stream"
        case BarrierWait():
            return f"rank {actor.name.rank} program in a device barrier"
        case FlagWait() as flag:
            return f"rank {actor.name.rank} program for the flag of {flag}"
        case TileWait(sender=sender):
            return f"rank {actor.name.rank} program for a tile of the {sender} core"
        case _:
            return f"rank {actor.name.rank} program on a slot"


def _blocked(scene: Scene, actor: Actor) -> Blocked:
    location = scene.machine.location_of(actor)
    match actor.waiting:
        case SlotWait() as wait:
            stuck = stuck_slot(actor, wait, scene.names)
            text = f"{stuck} to become {stuck.wanted}, it is {stuck.actual}"
            return Blocked(actor.name, location, text, slot=stuck.slot, wanted=stuck.wanted, actual=stuck.actual)
        case BarrierWait() as barrier:
            return Blocked(actor.name, location, f"a device barrier ({arrivals(scene, barrier)})")
        case FlagWait() as flag:
            return Blocked(actor.name, location, f"the flag of {flag}")
        case TileWait(sender=sender):
            return Blocked(actor.name, location, f"a tile of the {sender} core of its AI core")
        case CollectiveWait(name=name):
            return Blocked(actor.name, location, f"the other ranks in {name}")
        case _:
            return Blocked(actor.name, location, "the kernels on its stream")


def residency(scene: Scene) -> Cause | None:
    """Guide 2.1: deadlock after increasing the grid."""
    for host in scene.hosts:
        for kernel in host.device.running:
            if kernel.started < kernel.programs:
                first, last = kernel.started, kernel.programs - 1
                waiting = f"programs {first} to {last} start" if first < last else f"program {first} starts"
                text = (
                    f"rank {host.rank} launched {kernel.programs} programs of {kernel.name} on "
                    f"{host.device.cores_for(kernel)} cores: {waiting} only when others end, which wait for them"
                )
                return Cause("residency", text, GUIDE_DEADLOCK)
    return None


def _is_poison(stuck: StuckSlot) -> bool:
    """The slot is as fresh symmetric memory is."""
    return stuck.record is None and stuck.actual == int.from_bytes(bytes([POISON_BYTE]) * stuck.word_bytes, "little")


def slots_not_zeroed(scene: Scene) -> Cause | None:
    """Guide 2.1: the host missed to zero the signal memory."""
    advice = (
        "the host must zero the slots (signal.fill_(0)), then meet the other ranks in a barrier, "
        "before the first launch"
    )
    for stuck in scene.stuck:
        untouched = stuck.record is None and stuck.lost is None and not stuck.memory.has_plain_stores
        if untouched and stuck.actual != 0:
            content = "the content of fresh symmetric memory" if _is_poison(stuck) else "which no program has written"
            return Cause(
                "host zeroing missing", f"{stuck} holds {stuck.actual:#x}, {content}: {advice}", GUIDE_DEADLOCK
            )
    for memory in _signal_memories(scene):
        for address, value in memory.taken.items():
            slot = f"{memory.name} {scene.names.at(memory, address)} on rank {memory.rank}"
            text = f"a wait took {value} in {slot} for a signal, which no program had written: {advice}"
            return Cause("host zeroing missing", text, GUIDE_DEADLOCK)
    return None


def notify_lost(scene: Scene) -> Cause | None:
    """Guide 2.1: a rank zeroed its slots when others had begun to notify them."""
    for stuck in scene.stuck:
        lost = stuck.lost
        if lost is not None and lost.value == stuck.wanted:
            text = (
                f"{stuck} is {stuck.actual}, although {lost.writer.name} notified {lost.value} at "
                f"{scene.machine.location(lost.code, lost.line)}: the host zeroed the slot after it was notified: "
                "ranks must meet in a barrier after zeroing"
            )
            return Cause("zeroed after a notify", text, GUIDE_DEADLOCK)
    return None


def signal_erased(scene: Scene) -> Cause | None:
    """Guide 2.1: hangs when a slot is reused, since a second reset erased the signal."""
    for stuck in scene.stuck:
        record = stuck.record
        if record is not None and record.erased is not None and record.erased.value == stuck.wanted:
            erased = record.erased
            first, then = (scene.machine.location(each.code, each.line) for each in (erased, record))
            text = (
                f"{stuck}: {erased.writer.name} notified {erased.value} at {first}, and before any wait had seen it "
                f"{record.writer.name} set the slot to {record.value} at {then}: "
                "the slot has more than one resetter, or is reset at the wrong time"
            )
            return Cause("signal erased", text, f"{GUIDE_CREDIT}, {GUIDE_DEADLOCK}")
    return None


def wrong_credit(scene: Scene) -> Cause | None:
    """A producer waits for a credit, and the slot's last credit has another value."""
    signals = scene.signals
    for stuck in scene.stuck:
        record, where = stuck.record, scene.machine.location_of(stuck.actor)
        is_producer = where is not None and where.line in signals.credit_lines - signals.data_lines
        if is_producer and record is not None and not record.announces:
            text = (
                f"{stuck} holds {record.value}, the credit that {record.writer.name} returned at "
                f"{scene.machine.location(record.code, record.line)}, but {stuck.actor.name} waits for {stuck.wanted}"
            )
            return Cause("credit of another value", text, f"{GUIDE_CREDIT}, {GUIDE_DEADLOCK}")
    return None


def missing_reset(scene: Scene, deadlock: Deadlock) -> Finding | None:
    """The finding for a deadlock whose likeliest cause is that a consumer has not reset what it has read."""
    if not deadlock.causes or deadlock.causes[0].name != CREDIT_MISSING:
        return None
    owed = [each for each in _read_and_not_reset(scene) if _waits_for_credit(scene, each[0]) and _has_gone_on(each[1])]
    if not owed:
        return None
    stuck, record = owed[0]
    reader = record.seen_by[-1].name
    expected = f"a notify of {stuck.wanted} by {reader}, which has read the slot, after a fence"
    reads = scene.machine.location(*record.seen_at) if record.seen_at else None
    message = (
        f"waits for {stuck} to become {stuck.wanted}, and it holds {stuck.actual}: {reader} has read it at {reads} "
        f"and nobody has reset it; expected {expected} (guide {GUIDE_CREDIT})"
    )
    return MissingReset(
        message,
        other=reader,
        other_location=reads,
        tensor=stuck.memory.name,
        rank=stuck.memory.rank,
        slot=stuck.slot,
        wanted=stuck.wanted,
        actual=stuck.actual,
        expected=expected,
        guide=GUIDE_CREDIT,
    ).at(stuck.actor.name, scene.machine.location_of(stuck.actor))


def _waits_for_credit(scene: Scene, stuck: StuckSlot) -> bool:
    """The actor waits as a producer does: its line has been ended by credits, and never by an announcement."""
    where = scene.machine.location_of(stuck.actor)
    return where is not None and where.line in scene.signals.credit_lines - scene.signals.data_lines


def _has_gone_on(record: SlotRecord) -> bool:
    """The last reader does not wait for a first tile, after which it could still reset what it has read."""
    wait = record.seen_by[-1].waiting
    if not isinstance(wait, SlotWait):
        return True
    awaited = [wait.memory.records.get(address) for address in wait.addresses()]
    return all(each is not None and each.announces and each.seen_by for each in awaited)


def _read_and_not_reset(scene: Scene) -> list[tuple[StuckSlot, SlotRecord]]:
    """Slots that hold an announcement which somebody else than their waiter has seen."""
    return [
        (stuck, record)
        for stuck in scene.stuck
        if (record := stuck.announcement) and record.seen_by and stuck.actor not in record.seen_by
    ]


def credit_not_returned(scene: Scene) -> Cause | None:
    """Guide 2.1: a consumer has read the slot, nobody reset it, and its producer waits for the reset."""
    read = _read_and_not_reset(scene)
    if not read:
        return None
    stuck, record = read[0]
    reader = record.seen_by[-1]
    others = len({(id(stuck.memory), stuck.slot.index) for stuck, _ in read}) - 1
    more = f"; {others} more such slots" if others else ""
    text = (
        f"{stuck} still holds {stuck.actual}, which {record.writer.name} wrote at "
        f"{scene.machine.location(record.code, record.line)} and {reader.name} has waited for; nobody set the slot to "
        f"{stuck.wanted}, for which {stuck.actor.name} waits ({scene.where(reader)}{more})"
    )
    return Cause(CREDIT_MISSING, text, f"{GUIDE_CREDIT}, {GUIDE_DEADLOCK}")


def announcement_not_read(scene: Scene) -> Cause | None:
    """Guide 2.1, stuck at a ready value: the consumer did not wait, so it returns no credit either."""
    unread = [(stuck, record) for stuck in scene.stuck if (record := stuck.announcement) and not record.seen_by]
    if not unread:
        return None
    stuck, record = unread[0]
    text = (
        f"{stuck} holds {stuck.actual}, written by {record.writer.name} at "
        f"{scene.machine.location(record.code, record.line)}, and no wait has seen it, so no credit comes back: "
        "no consumer waits on this slot for this value, or not yet"
    )
    return Cause("announcement without waiter", text, GUIDE_DEADLOCK)


def producer_silent(scene: Scene) -> Cause | None:
    """Guide 2.1, stuck at the old value: nobody notified this slot; a neighbour may have got the value instead."""
    silent = [stuck for stuck in scene.stuck if not (stuck.announcement or stuck.lost or _is_poison(stuck))]
    if wrong_credit(scene) or signal_erased(scene):
        return None
    if not silent:
        return None
    stuck = min(silent, key=lambda stuck: stuck.wanted)  # later uses of the slot wait for larger values
    record = stuck.record
    since = f" since {record.writer.name} at {scene.machine.location(record.code, record.line)}" if record else ""
    text = (
        f"{stuck} is still {stuck.actual}{since}; "
        f"nobody notified the value {stuck.wanted} that {stuck.actor.name} waits for"
    )
    stray = [entry for memory in _signal_memories(scene) for entry in _unread(scene, memory, stuck.wanted)]
    if stray:
        more = f" and {len(stray) - SHOWN_SLOTS} more" if len(stray) > SHOWN_SLOTS else ""
        text += (
            f". {', '.join(stray[:SHOWN_SLOTS])}{more} got {stuck.wanted}, and nobody has waited for it: "
            "if one of them was meant, the slot address differs between notify and wait"
        )
    return Cause("producer did not notify", text, GUIDE_DEADLOCK)


def _signal_memories(scene: Scene) -> list[Memory]:
    """The memories that somebody waits on and their peers, each once."""
    memories = {id(peer): peer for stuck in scene.stuck for peer in stuck.memory.peers or (stuck.memory,)}
    return list(memories.values())


def _unread(scene: Scene, memory: Memory, value: int) -> list[str]:
    """Slots of a memory that hold `value` from a notify that no wait has seen."""
    return [
        f"{scene.names.at(memory, address)} on rank {memory.rank}"
        for address, record in sorted(memory.records.items())
        if record.value == value and not record.seen_by
    ]


def rank_behind(scene: Scene) -> Cause | None:
    """A rank that launched fewer kernels than others, and is not in a kernel now."""
    most = max(host.device.launched for host in scene.hosts)
    running = {actor.name.rank: actor for actor in scene.machine.actors if actor.is_host}
    behind = [
        f"rank {host.rank} launched {host.device.launched} kernels where others launched {most} "
        f"({scene.where(running[host.rank]) if host.rank in running else 'its host has ended'})"
        for host in scene.hosts
        if host.device.launched < most and not host.device.running
    ]
    return Cause("a rank does not take part", "; ".join(behind), GUIDE_DEADLOCK) if behind else None


def rank_absent(scene: Scene) -> Cause | None:
    """A rank whose host ended early, or does nothing, while somebody waits."""
    if rank_behind(scene):
        return None
    running = {actor.name.rank: actor for actor in scene.machine.actors if actor.is_host}
    watchdogs = {failure.actor.name.rank for failure in scene.machine.failures}  # they raised because of the deadlock
    absent = []
    for host in scene.hosts:
        if host.rank not in running and host.rank not in watchdogs:
            absent.append(f"rank {host.rank} host has ended")
        elif host.rank in running and isinstance(running[host.rank].waiting, Sleep) and _only_hosts(scene):
            absent.append(f"rank {host.rank} host sleeps or polls at {scene.machine.location_of(running[host.rank])}")
    return Cause("a rank does not take part", "; ".join(absent), GUIDE_DEADLOCK) if absent else None


def _only_hosts(scene: Scene) -> bool:
    return all(actor.is_host for actor in scene.blocked)


RULES: Final[tuple[Callable[[Scene], Cause | None], ...]] = (
    residency,
    rank_behind,
    signal_outside_of_scope,
    slots_not_zeroed,
    notify_lost,
    signal_erased,
    wrong_credit,
    credit_not_returned,
    barrier_incomplete,
    flag_not_set,
    producer_silent,
    announcement_not_read,
    rank_absent,
)
