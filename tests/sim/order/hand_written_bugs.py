# ruff: noqa: E501  edits are whole lines of kernels
"""Bugs in the kernels of `hand_written`: edits of their text, and what the check must say of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Bug:
    """`edits` are texts of a kernel with their replacements, `kinds` the findings that name the cause.

    `text` occurs in the message of one of them.
    """

    kernel: str
    name: str
    kinds: tuple[str, ...]
    text: str
    edits: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.kernel}: {self.name}"


A2A = "all to all, a 0/1 slot for each tile"
BATCHED = "all gather, fence and notifies after each round"
SINGLE = "barriers around a single buffer"
DOUBLE = "barriers and a double buffer"
AT_ONCE = "reduce scatter, one wait for all ranks"
RING = "ring all gather"
TREE = "sum up a tree and down again"
PING_PONG = "ping-pong by signal_op"
PUTMEM = "broadcast by putmem"
NBI = "scatter by putmem_nbi and quiet"
PULL = "windows that others load from"
GETMEM = "windows that others getmem from"
TWO_KERNELS = "one kernel sends, another receives"
STREAMS = "two streams with events"
COLLECTIVE = "a collective of the hosts between kernels"
ZEROED = "slots zeroed between launches"
ATOMICS = "atomic sums with a barrier"
HALO = "halo exchange over launches"
LEADER = "a leader relays to its other cores"
BY_HAND = "a barrier by hand"
OFFSET = "a token consumed by an offset"
WAITERS = "many waiters on a slot"
SCATTERED = "scattered places"
ARRIVALS = "arrivals counted by one core"
CREDITS = "putmem into a ring with credits"
EVENTS = "an event between two kernels"
HOST_READS = "hosts read and refill symmetric memory"
HOST_GATHERS = "hosts gather symmetric memory"
MIX = "GEMM that pushes tiles, with flags"
MIX_BARRIER = "AllGather and GEMM with barriers"

BUGS: Final = [
    Bug(
        A2A,
        "no fence before the notify",
        ("MissingFence",),
        "libshmem_device.fence() between",
        (
            (
                "                libshmem_device.fence()\n                dl.notify(signal_mem_ptr + slot, target, 1)",
                "                dl.notify(signal_mem_ptr + slot, target, 1)",
            ),
        ),
    ),
    Bug(
        A2A,
        "no fence before the credit",
        ("MissingFence",),
        "rank, 0)`",
        (
            (
                "                libshmem_device.fence()\n                dl.notify(signal_mem_ptr + slot, rank, 0)",
                "                dl.notify(signal_mem_ptr + slot, rank, 0)",
            ),
        ),
    ),
    Bug(
        A2A,
        "producer does not wait for the credit",
        ("DataRace", "LostWakeup"),
        "until the reader has returned the credit",
        (
            ('                token = dl.wait(remote_signal + slot, 1, "sys", "acquire", waitValue=0)\n', ""),
            ("dl.consume_token(dl.symm_at(peer_mem_ptr, target), token)", "dl.symm_at(peer_mem_ptr, target)"),
        ),
    ),
    Bug(
        A2A,
        "token not consumed by the consumer",
        ("UnconsumedToken",),
        "was never consumed",
        (("local = dl.consume_token(peer_mem_ptr, token)", "local = peer_mem_ptr"),),
    ),
    Bug(
        A2A,
        "wrong task dealt to producers of later blocks",
        ("LostWakeup", "DataRace"),
        "",
        (
            (
                "for task_idx in range(logical_core_id, total_tasks, n_role_cores):\n                target",
                "for task_idx in range((logical_core_id + global_id // 2) % n_role_cores, total_tasks, n_role_cores):\n                target",
            ),
        ),
    ),
    Bug(
        A2A,
        "both roles return the credit",
        ("DoubleReset", "LostWakeup"),
        "nothing orders the two",
        (
            (
                "            for task_idx in range(logical_core_id, total_tasks, n_role_cores):\n                source",
                "            for task_idx in range(0, total_tasks, 1):\n                source",
            ),
        ),
    ),
    Bug(A2A, "slots four words wide", ("MisalignedSlot",), "", (("* tasks + h) * 8", "* tasks + h) * 4"),)),
    Bug(
        A2A,
        "one ring buffer too few for the slots",
        ("DataRace", "LostWakeup", "DoubleReset"),
        "",
        (("landing = ((buffer_id * rank_size", "landing = ((0 * rank_size"),),
    ),
    Bug(
        BATCHED,
        "fence before the stores",
        ("MissingFence",),
        "before it was announced",
        (
            (
                "            libshmem_device.fence()\n            for task in range(core, ranks * tiles, cores):\n                dl.notify(signal_ptr + (rank",
                "            for task in range(core, ranks * tiles, cores):\n                dl.notify(signal_ptr + (rank",
            ),
        ),
    ),
    Bug(
        BATCHED,
        "notify loop of another step",
        ("DataRace",),
        "relies on what",
        (
            (
                "            libshmem_device.fence()\n            for task in range(core, ranks * tiles, cores):\n                dl.notify(signal_ptr + (rank",
                "            libshmem_device.fence()\n            for task in range(cores - 1 - core, ranks * tiles, cores):\n                dl.notify(signal_ptr + (rank",
            ),
        ),
    ),
    Bug(
        BATCHED,
        "credits without a fence",
        ("MissingFence",),
        "",
        (
            (
                "            libshmem_device.fence()\n            for task in range(core, ranks * tiles, cores):\n                dl.notify(signal_ptr + task",
                "            for task in range(core, ranks * tiles, cores):\n                dl.notify(signal_ptr + task",
            ),
        ),
    ),
    Bug(
        BATCHED,
        "consumer waits for the previous round",
        ("StaleRead", "DataRace", "Deadlock"),
        "",
        (("waitValue=2 * r + 1)", "waitValue=2 * r)"),),
    ),
    Bug(
        SINGLE,
        "one barrier in a round",
        ("DataRace",),
        "until the reader has returned the credit, after it has read, or a barrier",
        (("lanes))\n        libshmem_device.barrier_all_vec()\n\n\n", "lanes))\n\n\n"),),
    ),
    Bug(
        SINGLE,
        "no barrier before the loads",
        ("DataRace", "UninitialisedRead"),
        "",
        (("        libshmem_device.barrier_all_vec()\n        for source", "        for source"),),
    ),
    Bug(
        DOUBLE,
        "launches not closed",
        ("DataRace",),
        "or a barrier",
        (("    libshmem_device.barrier_all_vec()\n\n\ndef check", "\n\ndef check"),),
    ),
    Bug(DOUBLE, "single buffer", ("DataRace",), "or a barrier", (("BUFFER_NUM=2", "BUFFER_NUM=1"),)),
    Bug(
        DOUBLE,
        "stores beside the own block",
        ("DataRace", "UninitialisedRead"),
        "",
        (("+ rank * SIZE + lanes, tl.load(a_ptr", "+ rank * (SIZE - 8) + lanes, tl.load(a_ptr"),),
    ),
    Bug(
        AT_ONCE,
        "waits for one slot too few",
        ("DataRace", "UninitialisedRead"),
        "",
        (("dl.wait(signal_ptr, ranks,", "dl.wait(signal_ptr, ranks - 1,"),),
    ),
    Bug(
        AT_ONCE,
        "no barrier between launches",
        ("DataRace", "LostWakeup"),
        "",
        (("use, SIZE=size)\n        finish()", "use, SIZE=size)"),),
    ),
    Bug(
        AT_ONCE,
        "the same value in every launch",
        ("LostWakeup", "DataRace", "UninitialisedRead"),
        "",
        (
            ("for use in range(1, 4):", "for use in range(1, 4):\n        signal_value = 1"),
            ("signal, use, SIZE", "signal, signal_value, SIZE"),
        ),
    ),
    Bug(
        AT_ONCE,
        "slots never zeroed",
        ("UninitialisedRead", "Deadlock"),
        "",
        (
            ("signal = slots(ranks)", "signal = symmetric(ranks, 8, dtype=torch.int64)"),
            (
                "dl.notify(signal_ptr + rank * 8, target, use)",
                "dl.notify(signal_ptr + rank * 8, target, 0x5a5a5a5a5a5a5a5a)",
            ),
            ("waitValue=use", "waitValue=0x5a5a5a5a5a5a5a5a"),
        ),
    ),
    Bug(
        RING,
        "forwards without a fence",
        ("MissingFence",),
        "",
        (("value)\n            libshmem_device.fence()\n", "value)\n"),),
    ),
    Bug(
        RING,
        "forwards before the chunk has come",
        ("UnconsumedToken",),
        "is never consumed",
        (
            (
                "buffer = dl.consume_token(buffer_ptr, token)\n        value = tl.load(buffer +",
                "value = tl.load(buffer_ptr +",
            ),
        ),
    ),
    Bug(
        RING,
        "one slot for all chunks",
        ("DataRace", "StaleRead"),
        "signal_ptr slot",
        (
            ("slot + rank * 8, right", "slot, right"),
            ("slot + chunk * 8, 1", "slot, 1"),
            ("slot + chunk * 8, right", "slot, right"),
        ),
    ),
    Bug(
        RING,
        "waits for the chunk that it forwards next",
        ("DataRace", "Deadlock"),
        "",
        (("dl.wait(signal_ptr + slot + chunk * 8", "dl.wait(signal_ptr + slot + (chunk + 1) % ranks * 8"),),
    ),
    Bug(
        TREE,
        "children share a landing place",
        ("DataRace",),
        "",
        (
            ("inbox_ptr, parent) + child * SIZE", "inbox_ptr, parent)"),
            ("tl.load(inbox + child * SIZE", "tl.load(inbox"),
        ),
    ),
    Bug(TREE, "children share a slot", ("LostWakeup", "DataRace"), "", (("up_ptr + child * 8", "up_ptr"),)),
    Bug(
        PING_PONG,
        "no fence before signal_op",
        ("MissingFence",),
        "",
        (("lanes + r)\n            libshmem_device.fence()\n", "lanes + r)\n"),),
    ),
    Bug(
        PING_PONG,
        "same value in every round",
        ("LostWakeup", "DataRace"),
        "",
        (("signal_ptr, r + 1,", "signal_ptr, 1,"), ("CMP_EQ, r + 1)", "CMP_EQ, 1)")),
    ),
    Bug(
        PING_PONG,
        "ball sent back before the wait",
        ("DataRace", "StaleRead", "UninitialisedRead"),
        "",
        (
            (
                "            libshmem_device.signal_wait_until(signal_ptr, libshmem_device.ACLSHMEM_CMP_EQ, r + 1)\n            value",
                "            value",
            ),
        ),
    ),
    Bug(
        PUTMEM,
        "putmem_nbi without quiet",
        ("MissingFence",),
        "libshmem_device.quiet() between",
        (("libshmem_device.putmem(", "libshmem_device.putmem_nbi("),),
    ),
    Bug(
        PUTMEM,
        "notify before putmem",
        ("StaleRead",),
        "does not come after this store",
        (
            (
                "                libshmem_device.putmem(inbox_ptr, a_ptr, SIZE * 4, target)\n                dl.notify(signal_ptr, target, use)\n",
                "                dl.notify(signal_ptr, target, use)\n                libshmem_device.putmem(inbox_ptr, a_ptr, SIZE * 4, target)\n",
            ),
        ),
    ),
    Bug(
        PUTMEM,
        "launches not separated",
        ("DataRace", "LostWakeup"),
        "",
        (("        finish()\n", ""), ("        error = max(error, difference(c, a[use - 1]))\n", "")),
    ),
    Bug(
        NBI,
        "fence where quiet is meant",
        ("MissingFence",),
        "libshmem_device.quiet() between",
        (("libshmem_device.quiet()", "libshmem_device.fence()"),),
    ),
    Bug(
        NBI,
        "source changed before quiet",
        ("MissingFence", "DataRace"),
        "quiet",
        (
            (
                "        libshmem_device.quiet()\n        for step",
                "        tl.store(a_ptr + (rank + 1) % ranks * SIZE + lanes, 0.0)\n        libshmem_device.quiet()\n        for step",
            ),
        ),
    ),
    Bug(
        PULL,
        "window refilled before all have read",
        ("DataRace", "LostWakeup"),
        "",
        (("dl.wait(done_ptr, ranks,", "dl.wait(done_ptr, 1,"),),
    ),
    Bug(
        PULL,
        "window refilled at once",
        ("DataRace", "LostWakeup"),
        "",
        (
            (
                '        token = dl.wait(done_ptr, ranks, "sys", "acquire", waitValue=r)\n        window = dl.consume_token(window_ptr, token)\n',
                "        window = window_ptr\n",
            ),
        ),
    ),
    Bug(
        PULL,
        "loads through the pointer without the token",
        ("UnconsumedToken",),
        "",
        (
            (
                "theirs = dl.symm_at(dl.consume_token(window_ptr, token), source)",
                "dl.consume_token(window_ptr, token)\n            theirs = dl.symm_at(window_ptr, source)",
            ),
        ),
    ),
    Bug(
        PULL,
        "done without a fence",
        ("MissingFence",),
        "",
        (("value)\n            libshmem_device.fence()\n", "value)\n"),),
    ),
    Bug(
        GETMEM,
        "getmem_nbi without quiet before the credit",
        ("MissingFence",),
        "quiet",
        (("libshmem_device.getmem(", "libshmem_device.getmem_nbi("),),
    ),
    Bug(
        GETMEM,
        "end without waiting for the readers",
        ("DataRace", "LostWakeup"),
        "",
        (
            (
                '        for step in range(1, ranks):\n            token = dl.wait(done_ptr + (rank + step) % ranks * 8, 1, "sys", "acquire", waitValue=use)\n            window_ptr = dl.consume_token(window_ptr, token)\n',
                "",
            ),
        ),
    ),
    Bug(
        GETMEM,
        "done told before getmem",
        ("DataRace", "StaleRead"),
        "",
        (
            (
                "            libshmem_device.getmem(c_ptr + source * SIZE, window, SIZE * 4, source)\n            dl.notify(done_ptr + rank * 8, source, use)\n",
                "            dl.notify(done_ptr + rank * 8, source, use)\n            libshmem_device.getmem(c_ptr + source * SIZE, window, SIZE * 4, source)\n",
            ),
        ),
    ),
    Bug(
        TWO_KERNELS,
        "launches not separated",
        ("DataRace", "LostWakeup"),
        "",
        (
            ("        torch.npu.synchronize()\n        dist.barrier()\n", ""),
            ("return difference", "finish()\n    return difference"),
        ),
    ),
    Bug(
        TWO_KERNELS,
        "receive without a wait",
        ("DataRace", "UninitialisedRead"),
        "",
        (
            (
                '    token = dl.wait(signal_ptr + source * 8, 1, "sys", "acquire", waitValue=use)\n    inbox = dl.consume_token(inbox_ptr, token)\n',
                "    inbox = inbox_ptr\n",
            ),
        ),
    ),
    Bug(
        STREAMS,
        "compute does not wait for the event",
        ("DataRace", "UninitialisedRead"),
        "",
        (("            compute.wait_event(sent)\n", ""),),
    ),
    Bug(
        STREAMS,
        "event recorded before the kernel",
        ("DataRace", "UninitialisedRead"),
        "",
        (
            (
                "            send[(ranks,)](mine, inbox, SIZE=size)\n            sent.record()\n",
                "            sent.record()\n            send[(ranks,)](mine, inbox, SIZE=size)\n",
            ),
        ),
    ),
    Bug(
        STREAMS,
        "host does not wait for the compute stream",
        ("DataRace",),
        "",
        (("        compute.synchronize()\n", ""),),
    ),
    Bug(
        STREAMS,
        "host reads another stream's result",
        ("DataRace",),
        "",
        (
            ("    torch.npu.synchronize()\n    return", "    return"),
            ("        compute.synchronize()\n        dist.barrier()\n", "        dist.barrier()\n"),
            ("in range(3)", "in range(1)"),
        ),
    ),
    Bug(
        EVENTS,
        "event too early for the second kernel",
        ("DataRace", "UninitialisedRead"),
        "",
        (("tl.load(first_ptr + lanes)", "tl.load(second_ptr + lanes)"),),
    ),
    Bug(
        EVENTS,
        "host fills behind the event only",
        ("DataRace",),
        "host",
        (
            (
                "    torch.npu.synchronize()\n    return",
                "    with torch.npu.stream(side):\n        second.fill_(0.0)\n    torch.npu.synchronize()\n    return",
            ),
        ),
    ),
    Bug(
        COLLECTIVE,
        "no barrier before the next launch",
        ("DataRace",),
        "",
        (
            ("SIZE=size)\n        dist.barrier()\n", "SIZE=size)\n"),
            ("dist.all_reduce(partial)\n        dist.barrier()", "dist.all_reduce(partial.clone())"),
        ),
    ),
    Bug(
        COLLECTIVE,
        "no barrier after the collective",
        ("DataRace",),
        "host at",
        (("        dist.all_reduce(partial)\n        dist.barrier()\n", "        dist.all_reduce(partial)\n"),),
    ),
    Bug(
        COLLECTIVE,
        "collective on another stream",
        ("DataRace",),
        "",
        (
            (
                "        dist.all_reduce(partial)\n",
                "        with torch.npu.stream(torch.npu.Stream()):\n            dist.all_reduce(partial)\n",
            ),
        ),
    ),
    Bug(
        ZEROED,
        "no barrier after zeroing",
        ("LostWakeup",),
        "one may erase the other",
        (
            (
                "        signal.fill_(0)\n        torch.npu.synchronize()\n        dist.barrier()\n",
                "        signal.fill_(0)\n",
            ),
        ),
    ),
    Bug(
        ZEROED,
        "zeroed once only",
        ("DataRace", "LostWakeup"),
        "",
        (
            (
                "        signal.fill_(0)\n        torch.npu.synchronize()\n        dist.barrier()\n",
                "        if launch == 0:\n            signal.fill_(0)\n        torch.npu.synchronize()\n        dist.barrier()\n",
            ),
        ),
    ),
    Bug(ATOMICS, "no barrier before the load", ("DataRace",), "", (("    libshmem_device.barrier_all_vec()\n", ""),)),
    Bug(
        ATOMICS,
        "store instead of an atomic",
        ("DataRace",),
        "",
        (("tl.atomic_add(dl.symm_at(sum_ptr, target) + lanes,", "tl.store(dl.symm_at(sum_ptr, target) + lanes,"),),
    ),
    Bug(
        ATOMICS,
        "sum zeroed without a barrier",
        ("DataRace",),
        "",
        (
            (
                "        total.zero_()\n        torch.npu.synchronize()\n        dist.barrier()\n",
                "        total.zero_()\n",
            ),
        ),
    ),
    Bug(
        HALO,
        "one token of two",
        ("UnconsumedToken",),
        "never consumed",
        (("dl.consume_token(dl.consume_token(halo_ptr, left), right)", "dl.consume_token(halo_ptr, left)"),),
    ),
    Bug(
        HALO,
        "credit before the loads",
        ("StaleRead", "DataRace", "MissingFence"),
        "",
        (
            (
                "    tl.store(c_ptr + lanes, tl.load(halo + lanes) + tl.load(halo + SIZE + lanes))\n    libshmem_device.fence()\n",
                "    libshmem_device.fence()\n",
            ),
            (
                "launch + 1)\n\n\ndef check",
                "launch + 1)\n    tl.store(c_ptr + lanes, tl.load(halo + lanes) + tl.load(halo + SIZE + lanes))\n\n\ndef check",
            ),
        ),
    ),
    Bug(
        HALO,
        "both sides into one landing place",
        ("DataRace",),
        "",
        (("halo + (1 - side) * SIZE + lanes", "halo + lanes"), ("+ tl.load(halo + SIZE + lanes)", "")),
    ),
    Bug(
        LEADER,
        "leader relays without its token",
        ("UnconsumedToken",),
        "",
        (("local = dl.consume_token(local_ptr, token)", "local = local_ptr"),),
    ),
    Bug(
        LEADER,
        "relayed before all have come",
        ("DataRace", "UninitialisedRead"),
        "",
        (("dl.wait(signal_ptr, ranks,", "dl.wait(signal_ptr, 1,"),),
    ),
    Bug(
        LEADER,
        "local slots side by side",
        ("MisalignedSlot", "SlotConflict"),
        "",
        (("local + other * 8", "local + other"), ("local_ptr + core * 8", "local_ptr + core")),
    ),
    Bug(
        BY_HAND,
        "slots of the barrier before",
        ("LostWakeup",),
        "may not have seen its value yet",
        (("step = use % 2 * 4", "step = 0"),),
    ),
    Bug(
        BY_HAND,
        "no fence on the way in",
        ("MissingFence",),
        "",
        (("    libshmem_device.fence()\n    distance", "    distance"),),
    ),
    Bug(
        BY_HAND,
        "no fence on the way out",
        ("UnconsumedToken",),
        "",
        (("        step = step + 1\n    libshmem_device.fence()\n", "        step = step + 1\n"),),
    ),
    Bug(
        BY_HAND,
        "too few steps",
        ("DataRace", "UninitialisedRead"),
        "",
        (("while distance < ranks:", "while distance < 3:"),),
    ),
    Bug(
        OFFSET,
        "offset without the token",
        ("UnconsumedToken",),
        "is not carried by the pointer",
        (("place = offset + tl", "place = core * SIZE + tl"),),
    ),
    Bug(
        WAITERS,
        "slot reset by every waiter",
        ("LostWakeup", "DoubleReset"),
        "",
        (
            (
                "* 2)\n\n\ndef",
                "* 2)\n        libshmem_device.fence()\n        dl.notify(ready_ptr + row // ROWS * 8, rank, 0)\n\n\ndef",
            ),
        ),
    ),
    Bug(
        WAITERS,
        "own block not fenced",
        ("MissingFence",),
        "",
        (("box))\n            libshmem_device.fence()\n", "box))\n"),),
    ),
    Bug(
        SCATTERED,
        "waits for three of four cores",
        ("DataRace", "UninitialisedRead"),
        "",
        (('* 8, 4, "sys"', '* 8, 3, "sys"'),),
    ),
    Bug(SCATTERED, "places that meet", ("DataRace",), "", (("+ place, value)", "+ place // 2, value)"),)),
    Bug(
        ARRIVALS,
        "go without the arrivals",
        ("UnconsumedToken",),
        "",
        (("dl.notify(dl.consume_token(go_ptr, arrived), rank, use)", "dl.notify(go_ptr, rank, use)"),),
    ),
    Bug(
        ARRIVALS,
        "counts one core too few",
        ("DataRace", "UninitialisedRead"),
        "",
        (("arrival_ptr, cores,", "arrival_ptr, cores - 1,"),),
    ),
    Bug(
        ARRIVALS,
        "every core says go",
        ("LostWakeup", "DoubleReset"),
        "",
        (("    if core == 0:\n        arrived", "    if core >= 0:\n        arrived"),),
    ),
    Bug(
        CREDITS,
        "credit marked after the announcement",
        ("LostWakeup",),
        "",
        (
            (
                "            dl.notify(empty_ptr + ring * 8, rank, 1)\n            dl.notify(full_ptr + ring * 8, right, r + 1)\n",
                "            dl.notify(full_ptr + ring * 8, right, r + 1)\n            dl.notify(empty_ptr + ring * 8, rank, 1)\n",
            ),
        ),
    ),
    Bug(
        CREDITS,
        "credit to the wrong neighbour",
        ("LostWakeup", "DoubleReset", "Deadlock", "DataRace"),
        "",
        (("empty_ptr + ring * 8, left, 0)", "empty_ptr + ring * 8, right, 0)"),),
    ),
    Bug(CREDITS, "ring of one buffer", ("DataRace",), "", (("recv + ring * SIZE", "recv"),)),
    Bug(
        HOST_READS,
        "host reads before the others have sent",
        ("DataRace",),
        "",
        (("        dist.barrier()\n        got = inbox.clone()\n", "        got = inbox.clone()\n"),),
    ),
    Bug(
        HOST_READS,
        "host refills while others send",
        ("DataRace",),
        "",
        (("        inbox.fill_(7.0)\n        dist.barrier()\n", "        inbox.fill_(7.0)\n"),),
    ),
    Bug(
        HOST_GATHERS,
        "next collective overwrites what others load",
        ("DataRace",),
        "",
        (
            ("SIZE=size)\n        dist.barrier()\n    return", "SIZE=size)\n    finish()\n    return"),
            (
                "        double[(1,)](mine, send, SIZE=size)\n        dist.all_gather_into_tensor(gathered, send)\n",
                "        double[(1,)](mine, send, SIZE=size)\n        gathered.copy_(gathered * 0 + 1)\n        dist.all_gather_into_tensor(gathered, send)\n",
            ),
        ),
    ),
    Bug(
        HOST_GATHERS,
        "kernel on a stream of its own",
        ("DataRace",),
        "",
        (
            (
                "        add_right[(1,)](gathered, c, SIZE=size)\n        dist.barrier()\n",
                "        with torch.npu.stream(side):\n            add_right[(1,)](gathered, c, SIZE=size)\n        dist.barrier()\n",
            ),
            (
                "    mine = a[rank].npu()\n",
                "    mine = a[rank].npu()\n    side = torch.npu.Stream()\n    torch.npu.synchronize()\n",
            ),
            ("return difference", "torch.npu.synchronize()\n    return difference"),
        ),
    ),
    Bug(
        MIX,
        "no flag between store and notify",
        ("WrongCore",),
        "and not the core that did the work",
        (
            ('            al.sync_block_wait("cube", "vector", 2)\n', ""),
            ('            al.sync_block_set("cube", "vector", 2)\n', ""),
        ),
    ),
    Bug(
        MIX,
        "no fence after the flag",
        ("MissingFence",),
        "",
        (
            (
                "            if sub_vec_id() == 0:\n                libshmem_device.fence()\n",
                "            if sub_vec_id() == 0:\n",
            ),
        ),
    ),
    Bug(
        MIX,
        "both vector cores notify",
        ("WrongCore", "LostWakeup"),
        "",
        (("if sub_vec_id() == 0:", "if sub_vec_id() >= 0:"),),
    ),
    Bug(
        MIX,
        "flag before the store",
        ("DataRace", "StaleRead", "WrongCore"),
        "",
        (
            (
                '            tl.store(dl.symm_at(inbox_ptr, target) + rank * N * N + box, acc)\n            al.sync_block_set("cube", "vector", 2)\n',
                '            al.sync_block_set("cube", "vector", 2)\n            tl.store(dl.symm_at(inbox_ptr, target) + rank * N * N + box, acc)\n',
            ),
        ),
    ),
    Bug(
        MIX_BARRIER,
        "barrier of the vector cores only",
        ("DataRace",),
        "",
        (("    libshmem_device.barrier_all()\n    for", "    libshmem_device.barrier_all_vec()\n    for"),),
    ),
    Bug(
        MIX_BARRIER,
        "launches not closed",
        ("DataRace",),
        "",
        (("acc)\n    libshmem_device.barrier_all()\n", "acc)\n"),),
    ),
]

HARMLESS: Final = [
    (TREE, ("+ 2 * SIZE + lanes", "+ lanes")),  # a sum is stored over the parts that it was computed from
    (
        ZEROED,
        ("c, SIZE=size)\n        torch.npu.synchronize()\n        dist.barrier()\n", "c, SIZE=size)\n"),
    ),  # every slot was waited for
]
"""Edits that leave a kernel right, although they look wrong."""
