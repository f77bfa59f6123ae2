"""Likely causes of a hang, by the tables of guide 2.1: failure timing, and the values at which slots are stuck.

Facts of the launch come first, since they explain any pattern of slots; then values and places that no protocol writes;
then what the slots of each purpose stand at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from fusegen.dumps.evidence import Cause, drift, listed_slots, merged, silent
from fusegen.dumps.model import Dump
from fusegen.dumps.shared import arrival_causes, counted_causes
from fusegen.dumps.tiles import tile_causes
from fusegen.dumps.values import Slot, State


def likely_causes(dumps: Sequence[Dump], slots: Sequence[Slot]) -> tuple[Cause, ...]:
    """Every cause that something in the dumps speaks for, the likeliest first. `slots` are all of all ranks."""
    facts = [*_grid(dumps), *_launches(dumps), *_not_zeroed(slots), *_taskless(slots)]
    hangs = any(dump.hangs for dump in dumps)
    if not hangs and all(slot.at_rest for slot in slots):
        return merged(facts)
    causes = [*facts, *_stuck(dumps[0], slots)]
    if not causes and slots:
        return (silent("no slot shows what the launch waits for"),)
    return merged(causes)


def _grid(dumps: Sequence[Dump]) -> list[Cause]:
    """Guide 2.1: deadlock after increasing the grid."""
    evidence = []
    for dump in dumps:
        programs = dump.total_cores or dump.grid
        counted = "the kernel has counted" if dump.total_cores else "the launcher asks for"
        if programs > dump.cores:
            evidence.append(
                f"rank {dump.rank}: {counted} {programs} programs, the device has {dump.cores} {dump.core_kind}"
            )
        elif programs != dump.grid:
            evidence.append(f"rank {dump.rank}: {counted} {programs} programs, the workspace is made for {dump.grid}")
    advice = "launch one program on each core at most, as many as the workspace has cores: all must be resident at once"
    return [Cause("grid above the cores", tuple(evidence), "2.1", advice)] if evidence else []


def _launches(dumps: Sequence[Dump]) -> list[Cause]:
    """A rank that the others wait for has launched less often."""
    most = max(dump.launches for dump in dumps)
    evidence = tuple(
        f"launches of rank {dump.rank}: {dump.launches}; of others: {most}" for dump in dumps if dump.launches < most
    )
    advice = "every rank must launch equally often: look for a condition around launch, and for an error on that rank"
    return [Cause("a rank did not launch", evidence, "2.1", advice)] if evidence else []


def _not_zeroed(slots: Sequence[Slot]) -> list[Cause]:
    """Guide 2.1: the host has not zeroed the slots, or when others had begun to write them."""
    foreign = [slot for slot in slots if slot.reading.state is State.FOREIGN]
    advice = "zero the slots on every rank (signal.fill_(0)), then meet the other ranks, before the first launch"
    text = "no use of the slot writes its value"
    return [Cause("host zeroing missing", (listed_slots(foreign, text),), "2.1", advice)] if foreign else []


def _taskless(slots: Sequence[Slot]) -> list[Cause]:
    """Guide 2.1: the slot address is not what the host allocates for."""
    strays = [slot for slot in slots if slot.reading.state is State.UNUSED and slot.value]
    return [drift(listed_slots(strays, "no task has this slot"))] if strays else []


def _stuck(dump: Dump, slots: Sequence[Slot]) -> list[Cause]:
    """What the slots of each group stand at; groups without a trace count only where no group has one."""
    known = [slot for slot in slots if slot.reading.state not in (State.FOREIGN, State.UNUSED)]
    groups = {name: [slot for slot in known if slot.group == name] for name in dump.slots}
    found: list[Cause] = []
    if not any(slot.value for slot in slots):
        return [silent(f"every slot is 0 ({', '.join(dump.slots)}), and a launch has not ended")] if slots else []
    for name, group in dump.slots.items():
        own = groups[name]
        if not own or all(slot.at_rest for slot in own):
            continue
        match group.purpose:
            case "tile":
                found += tile_causes(dump, own)
            case "arrived":
                found += arrival_causes(dump, own)
            case "ready":
                credits = [
                    groups[other]
                    for other, each in dump.slots.items()
                    if (each.purpose, each.buffer) == ("credit", group.buffer)
                ]
                found += counted_causes(dump, own, list(chain.from_iterable(credits)))
            case "credit":
                pass
    return found
