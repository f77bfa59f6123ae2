# ruff: noqa: E501  edits are whole lines of kernels
"""Bugs in the kernels of `hand_written_fused`, and edits that only look like bugs."""

from __future__ import annotations

from typing import Final

from tests.sim.order.hand_written_bugs import Bug

FUSED_BUGS: Final = [
    Bug(
        "all gather, buffers and flags by launch parity",
        "flags not by parity",
        ("LostWakeup",),
        "may not have seen its value yet",
        (("(parity * ranks + rank) * 8", "rank * 8"), ("(parity * ranks + src) * 8", "src * 8")),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "data not by parity",
        ("DataRace",),
        "until the reader has returned the credit",
        (("mine = peer_ptr + parity * ranks * N", "mine = peer_ptr"),),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "flag value is the parity",
        ("UninitialisedRead", "DataRace"),
        "",
        (("pid, launch)", "pid, parity)"), ("waitValue=launch)", "waitValue=parity)")),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "wait for own rank's flag",
        ("DataRace",),
        "",
        (("(parity * ranks + src) * 8, 1", "(parity * ranks + rank) * 8, 1"),),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "no fence after the last store",
        ("MissingFence",),
        "libshmem_device.fence() between",
        (
            ("        libshmem_device.fence()\n        dl.notify", "        dl.notify"),
            (
                "        for b in range(blocks):\n",
                "        for b in range(blocks):\n            libshmem_device.fence()\n",
            ),
        ),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "token on another parity pointer",
        ("UnconsumedToken",),
        "is not carried by the pointer",
        (("got = dl.consume_token(mine, token)", "dl.consume_token(peer_ptr, token)\n        got = mine"),),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "launches counted from the zero of fresh slots",
        ("UninitialisedRead", "DataRace"),
        "",
        (("range(1, 5)", "range(0, 4)"),),
    ),
    Bug(
        "all gather, buffers and flags by launch parity",
        "tail block lost",
        ("WrongValues",),
        "expected an error of at most 0",
        (("blocks = tl.cdiv(N, BLOCK)", "blocks = N // BLOCK"),),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "notify loop one task short",
        ("Deadlock",),
        "",
        (
            (
                "        for task_idx in range(pid, tiles, num):\n            dl.notify",
                "        for task_idx in range(pid, tiles - 1, num):\n            dl.notify",
            ),
        ),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "notifies the tasks of another core",
        ("DataRace",),
        "",
        (
            (
                "        for task_idx in range(pid, tiles, num):\n            dl.notify",
                "        for task_idx in range((pid + 1) % num, tiles, num):\n            dl.notify",
            ),
        ),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "no closing barrier",
        ("DataRace", "LostWakeup"),
        "",
        (("acc)\n    libshmem_device.barrier_all_vec()", "acc)"),),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "barrier in a conditional",
        ("Deadlock",),
        "",
        (
            (
                "acc)\n    libshmem_device.barrier_all_vec()",
                "acc)\n    if pid < 2:\n        libshmem_device.barrier_all_vec()",
            ),
        ),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "waits for one rank too few",
        ("DataRace",),
        "",
        (("ranks * 8, ranks, ", "ranks * 8, ranks - 1, "),),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "slots transposed by the producer",
        ("DataRace",),
        "",
        (("ready_ptr + (task_idx * ranks + rank) * 8", "ready_ptr + (rank * tiles + task_idx) * 8"),),
    ),
    Bug(
        "all reduce, all stores and then all notifies",
        "fence after notifies",
        ("MissingFence",),
        "",
        (
            ("    libshmem_device.fence()\n    for step", "    for step"),
            ("dst, launch)\n", "dst, launch)\n    libshmem_device.fence()\n"),
        ),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "no barrier before the sums are loaded",
        ("DataRace",),
        "",
        (("value)\n    libshmem_device.barrier_all_vec()\n", "value)\n"),),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "no barrier after clearing",
        ("DataRace",),
        "",
        (("dtype=tl.float32))\n    libshmem_device.barrier_all_vec()", "dtype=tl.float32))"),),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "cleared by another core than the reader",
        ("DataRace",),
        "",
        (
            (
                "        tl.store(acc_ptr + half * N + lanes, tl.zeros",
                "        tl.store(acc_ptr + (1 - half) * N + lanes, tl.zeros",
            ),
        ),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "not cleared",
        ("WrongValues",),
        "",
        (("        tl.store(acc_ptr + half * N + lanes, tl.zeros((N,), dtype=tl.float32))\n", ""),),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "host does not zero",
        ("UninitialisedRead",),
        "",
        (("    acc.zero_()\n", ""),),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "host zeroes without a rank barrier",
        ("DataRace",),
        "",
        (
            (
                "    acc.zero_()\n    torch.npu.synchronize()\n    dist.barrier()\n",
                "    acc.zero_()\n    torch.npu.synchronize()\n",
            ),
        ),
    ),
    Bug(
        "reduce scatter by atomics that clears its sums",
        "host zeroes on another stream",
        ("DataRace",),
        "a host that has waited for the stream",
        (
            (
                "    acc.zero_()\n    torch.npu.synchronize()\n    dist.barrier()\n",
                "    with torch.npu.stream(torch.npu.Stream()):\n        acc.zero_()\n    dist.barrier()\n",
            ),
        ),
    ),
    Bug(
        "all reduce in two phases in one memory",
        "no barrier between the purposes",
        ("DataRace",),
        "",
        (("lanes, total)\n    libshmem_device.barrier_all_vec()\n", "lanes, total)\n"),),
    ),
    Bug(
        "all reduce in two phases in one memory",
        "no last barrier",
        ("DataRace",),
        "",
        (
            (
                "heap_ptr + src * CHUNK + lanes))\n    libshmem_device.barrier_all_vec()",
                "heap_ptr + src * CHUNK + lanes))",
            ),
        ),
    ),
    Bug(
        "cores without work notify",
        "idle cores do not notify",
        ("Deadlock",),
        "nobody notified the value",
        (
            (
                "        libshmem_device.fence()\n        dl.notify(done",
                "        libshmem_device.fence()\n        if pid < rows:\n            dl.notify(done",
            ),
        ),
    ),
    Bug(
        "cores without work notify",
        "waits for working cores but one",
        ("DataRace",),
        "",
        (("num * 8, num, ", "num * 8, rows - 1, "),),
    ),
    Bug(
        "cores without work notify",
        "land not by parity",
        ("DataRace",),
        "",
        (("land = land_ptr + launch % 2 * ranks * rows * W", "land = land_ptr"),),
    ),
    Bug(
        "cores without work notify",
        "done not by parity",
        ("LostWakeup",),
        "",
        (("done = done_ptr + launch % 2 * ranks * num * 8", "done = done_ptr"),),
    ),
    Bug(
        "cores without work notify",
        "slots too few on the host",
        ("OutOfBounds",),
        "slot 18",
        (("slots(2 * ranks * available_cores())", "slots(2 * ranks * rows)"),),
    ),
    Bug(
        "slots that count launches and rounds",
        "credit off by one",
        ("LostWakeup",),
        "",
        (("tl.maximum(seq - DEPTH + 1, 0)", "tl.maximum(seq - DEPTH, 0)"),),
    ),
    Bug(
        "slots that count launches and rounds",
        "value restarts with each launch",
        ("Deadlock",),
        "",
        (("base = launch * rounds", "base = 0"),),
    ),
    Bug(
        "slots that count launches and rounds",
        "ring by round, values by sequence",
        ("DataRace", "LostWakeup"),
        "",
        (
            ("place = seq % DEPTH * ranks + src", "place = r % DEPTH * ranks + src"),
            ("ring + (seq % DEPTH * ranks + rank) * W", "ring + (r % DEPTH * ranks + rank) * W"),
            ("full_ptr + (seq % DEPTH * ranks + rank) * 8", "full_ptr + (r % DEPTH * ranks + rank) * 8"),
        ),
    ),
    Bug(
        "slots that count launches and rounds",
        "credit on wrong ring slot",
        ("LostWakeup",),
        "",
        (
            (
                "free_ptr + (seq % DEPTH * ranks + rank) * 8, src",
                "free_ptr + ((seq + 1) % DEPTH * ranks + rank) * 8, src",
            ),
        ),
    ),
    Bug(
        "slots that count launches and rounds",
        "ring deeper than allocated",
        ("OutOfBounds",),
        "",
        (("W=w, DEPTH=depth", "W=w, DEPTH=depth + 1"),),
    ),
    Bug(
        "slots that count launches and rounds",
        "credit before copy",
        ("DataRace",),
        "",
        (
            (
                "                tl.store(c_ptr + (src * rounds + r) * W + lanes, tl.load(ring + place * W + lanes))\n                libshmem_device.fence()\n                dl.notify(free_ptr + (seq % DEPTH * ranks + rank) * 8, src, seq + 1)",
                "                libshmem_device.fence()\n                dl.notify(free_ptr + (seq % DEPTH * ranks + rank) * 8, src, seq + 1)\n                tl.store(c_ptr + (src * rounds + r) * W + lanes, tl.load(ring + place * W + lanes))",
            ),
        ),
    ),
    Bug(
        "neighbours with int32 signals",
        "eight words per int32 slot",
        ("MisalignedSlot",),
        "does not start a 64-byte slot",
        (("pid * 16", "pid * 8"),),
    ),
    Bug(
        "neighbours with int32 signals",
        "taken to the left",
        ("LostWakeup", "DataRace"),
        "",
        (("ACLSHMEM_SIGNAL_SET, right)", "ACLSHMEM_SIGNAL_SET, left)"),),
    ),
    Bug(
        "neighbours with int32 signals",
        "no taken wait",
        ("DataRace", "LostWakeup"),
        "",
        (
            (
                "    libshmem_device.signal_wait_until(taken_ptr + pid * 16, libshmem_device.ACLSHMEM_CMP_EQ, launch)\n",
                "",
            ),
        ),
    ),
    Bug(
        "neighbours with int32 signals",
        "no fence before taken",
        ("MissingFence",),
        "",
        (
            (
                "lanes))\n    libshmem_device.fence()\n    libshmem_device.signal_op(taken",
                "lanes))\n    libshmem_device.signal_op(taken",
            ),
        ),
    ),
    Bug(
        "rank 0 sums for all",
        "root reads one sender early",
        ("DataRace",),
        "",
        (
            (
                "for src in range(1, ranks):\n            token = dl.wait(up_ptr + (pid * ranks + src) * 8",
                "for src in range(1, ranks):\n            token = dl.wait(up_ptr + (pid * ranks + 1) * 8",
            ),
        ),
    ),
    Bug(
        "rank 0 sums for all",
        "root does not tell itself",
        ("Deadlock",),
        "",
        (
            (
                "for dst in range(ranks):\n            dl.notify(down_ptr",
                "for dst in range(1, ranks):\n            dl.notify(down_ptr",
            ),
        ),
    ),
    Bug(
        "rank 0 sums for all",
        "root returns early before barrier",
        ("Deadlock",),
        "",
        (
            (
                "    libshmem_device.barrier_all_vec()\n\n\ndef check",
                "    if rank != 0:\n        libshmem_device.barrier_all_vec()\n\n\ndef check",
            ),
        ),
    ),
    Bug(
        "own window and getmem from others",
        "barrier of some sources only",
        ("UninitialisedRead", "DataRace"),
        "",
        (
            (
                "    libshmem_device.barrier_all_vec()\n    for src in range(pid, ranks, num):\n",
                "    for src in range(pid, ranks, num):\n        if src == (rank + 1) % ranks:\n            libshmem_device.barrier_all_vec()\n",
            ),
        ),
    ),
    Bug(
        "own window and getmem from others",
        "no closing barrier",
        ("DataRace",),
        "",
        (("lanes))\n    libshmem_device.barrier_all_vec()\n\n\n", "lanes))\n\n\n"),),
    ),
    Bug(
        "own window and getmem from others",
        "getmem_nbi no quiet",
        ("MissingFence",),
        "libshmem_device.quiet() between",
        (("libshmem_device.getmem(", "libshmem_device.getmem_nbi("),),
    ),
    Bug(
        "own window and getmem from others",
        "bytes as elements",
        ("WrongValues",),
        "",
        (("4 * W * 4, src", "4 * W, src"),),
    ),
    Bug(
        "two workspaces in turn",
        "one workspace for both",
        ("DataRace", "LostWakeup"),
        "",
        (("launch(other, spaces[1], d, n)", "launch(other, spaces[0], d, n)"),),
    ),
    Bug(
        "two workspaces in turn",
        "second workspace shares the flags",
        ("DataRace", "LostWakeup"),
        "",
        (
            (
                "spaces = [Workspace(ranks, n) for _ in range(2)]",
                "spaces = [Workspace(ranks, n) for _ in range(2)]\n    spaces[1].flags = spaces[0].flags",
            ),
        ),
    ),
    Bug(
        "two workspaces in turn",
        "second workspace shares the data",
        ("DataRace",),
        "",
        (
            (
                "spaces = [Workspace(ranks, n) for _ in range(2)]",
                "spaces = [Workspace(ranks, n) for _ in range(2)]\n    spaces[1].peer = spaces[0].peer",
            ),
        ),
    ),
    Bug(
        "communication on a side stream",
        "side does not wait",
        ("DataRace",),
        "",
        (("            side.wait_event(scaled)\n", ""),),
    ),
    Bug(
        "communication on a side stream",
        "event recorded on the wrong stream",
        ("UninitialisedRead", "DataRace"),
        "",
        (("            landed.record()\n", "        landed.record()\n"),),
    ),
    Bug(
        "communication on a side stream",
        "no host barrier between",
        ("DataRace",),
        "",
        (
            (
                "        torch.npu.synchronize()\n        dist.barrier()\n    return",
                "        torch.npu.synchronize()\n    dist.barrier()\n    return",
            ),
        ),
    ),
    Bug(
        "communication on a side stream",
        "event recorded before the kernel",
        ("DataRace",),
        "",
        (
            (
                "        scale[(1,)](mine, y, W=w)\n        scaled.record()\n",
                "        scaled.record()\n        scale[(1,)](mine, y, W=w)\n",
            ),
        ),
    ),
    Bug(
        "slots zeroed after each launch",
        "zeroed before the launch, behind the barrier",
        ("LostWakeup",),
        "",
        (
            (
                "        exchange[(3,)](mine, c, box, flags, W=w)\n        flags.zero_()\n        torch.npu.synchronize()\n        dist.barrier()\n",
                "        dist.barrier()\n        flags.zero_()\n        exchange[(3,)](mine, c, box, flags, W=w)\n        torch.npu.synchronize()\n",
            ),
        ),
    ),
    Bug("slots zeroed after each launch", "not zeroed", ("DataRace",), "", (("        flags.zero_()\n", ""),)),
    Bug(
        "slots zeroed after each launch",
        "zeroed on a stream of its own",
        ("LostWakeup", "UninitialisedRead", "DataRace"),
        "",
        (
            (
                "        flags.zero_()\n",
                "        with torch.npu.stream(torch.npu.Stream()):\n            flags.zero_()\n",
            ),
        ),
    ),
    Bug(
        "slots zeroed after each launch",
        "barrier then zero",
        ("LostWakeup",),
        "",
        (
            (
                "        flags.zero_()\n        torch.npu.synchronize()\n        dist.barrier()\n",
                "        torch.npu.synchronize()\n        dist.barrier()\n        flags.zero_()\n",
            ),
        ),
    ),
    Bug(
        "slots zeroed after each launch",
        "zeroes all slots but one",
        ("DataRace",),
        "",
        (("        flags.zero_()\n", "        flags[1:].zero_()\n"),),
    ),
    Bug(
        "GEMM and all reduce with barriers",
        "no first barrier",
        ("UninitialisedRead", "DataRace"),
        "",
        (("acc)\n    libshmem_device.barrier_all()\n", "acc)\n"),),
    ),
    Bug(
        "GEMM and all reduce with barriers",
        "barrier of the vector cores only",
        ("UninitialisedRead", "DataRace"),
        "",
        (("acc)\n    libshmem_device.barrier_all()\n", "acc)\n    libshmem_device.barrier_all_vec()\n"),),
    ),
    Bug(
        "GEMM and all reduce with barriers",
        "both vector cores same tile",
        ("WrongValues",),
        "",
        (("range(pid * 2 + sub_vec_id(), tiles, num * 2)", "range(pid * 2, tiles, num * 2)"),),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "no back-pressure",
        ("DataRace",),
        "",
        (
            ('            if tile // num >= 2:\n                al.sync_block_wait("vector", "cube", 4 + ring)\n', ""),
            (
                '            if tile + 2 * num < tiles:\n                al.sync_block_set("vector", "cube", 4 + ring)\n',
                "",
            ),
        ),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "free before load",
        ("DataRace",),
        "",
        (
            (
                '            part = tl.load(stage_ptr + (pid * 2 + ring) * N * N + half)\n            if tile + 2 * num < tiles:\n                al.sync_block_set("vector", "cube", 4 + ring)\n',
                '            if tile + 2 * num < tiles:\n                al.sync_block_set("vector", "cube", 4 + ring)\n            part = tl.load(stage_ptr + (pid * 2 + ring) * N * N + half)\n',
            ),
        ),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "one slot for both halves",
        ("WrongCore",),
        "a slot for each of the two vector cores",
        (
            ("(tile * 2 + sub_vec_id()) * ranks + rank", "(tile * 2) * ranks + rank"),
            ("slot = (tile * 2 + sub_vec_id()) * ranks * 8", "slot = (tile * 2) * ranks * 8"),
        ),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "flag set before the store",
        ("DataRace",),
        "",
        (
            (
                '            tl.store(stage_ptr + (pid * 2 + ring) * N * N + box, acc)\n            al.sync_block_set("cube", "vector", 2 + ring)\n',
                '            al.sync_block_set("cube", "vector", 2 + ring)\n            tl.store(stage_ptr + (pid * 2 + ring) * N * N + box, acc)\n',
            ),
        ),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "one stage buffer",
        ("DataRace",),
        "",
        (("(pid * 2 + ring) * N * N", "(pid * 2) * N * N"),),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "unbalanced free flags",
        ("LeftoverFlag",),
        "is still set when the launch ends",
        (
            (
                "            if tile + 2 * num < tiles:\n                al.sync_block_set",
                "            if tile + num < tiles:\n                al.sync_block_set",
            ),
        ),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "no scope for vector",
        ("WrongCore",),
        "al.scope(core_mode=...)",
        (('    with al.scope(core_mode="vector"):\n', "    if True:\n"),),
    ),
    Bug(
        "GEMM and all reduce with scopes, flags and signals",
        "parity lost in land",
        ("DataRace",),
        "",
        (("land = land_ptr + parity * ranks * tiles * N * N", "land = land_ptr"),),
    ),
    Bug(
        "dispatch of as many rows as the data says",
        "count sent outside of the fence",
        ("MissingFence",),
        "",
        (
            (
                "        tl.store(dl.symm_at(meta_ptr, dst) + rank * 16, count)\n        libshmem_device.fence()\n",
                "        libshmem_device.fence()\n        tl.store(dl.symm_at(meta_ptr, dst) + rank * 16, count)\n",
            ),
        ),
    ),
    Bug(
        "dispatch of as many rows as the data says",
        "count read without the token",
        ("UnconsumedToken",),
        "",
        (("meta = dl.consume_token(meta_ptr, token)", "meta = meta_ptr"),),
    ),
    Bug(
        "dispatch of as many rows as the data says",
        "counts side by side",
        ("SlotConflict",),
        "a line of its own for each",
        (("+ rank * 16, count)", "+ rank, count)"), ("meta + src * 16", "meta + src")),
    ),
    Bug(
        "dispatch of as many rows as the data says",
        "no closing barrier",
        ("DataRace", "LostWakeup"),
        "",
        (("lanes))\n    libshmem_device.barrier_all_vec()\n\n\n", "lanes))\n\n\n"),),
    ),
    Bug(
        "dispatch of as many rows as the data says",
        "reads a row too many",
        ("UninitialisedRead",),
        "",
        (
            (
                "        for i in range(count):\n            tl.store(out_ptr",
                "        for i in range(count + 1):\n            tl.store(out_ptr",
            ),
        ),
    ),
    Bug(
        "ring reduce scatter with one inbox",
        "no free wait",
        ("DataRace", "LostWakeup"),
        "",
        (("        inbox = arrived(free_ptr + pid * 8, inbox_ptr, use)\n", "        inbox = inbox_ptr\n"),),
    ),
    Bug(
        "ring reduce scatter with one inbox",
        "helper drops the token",
        ("UnconsumedToken", "LostWakeup"),
        "was never consumed",
        (("    return dl.consume_token(inbox_ptr, token)", "    return inbox_ptr"),),
    ),
    Bug(
        "ring reduce scatter with one inbox",
        "free to the right",
        ("LostWakeup", "DataRace"),
        "",
        (("dl.notify(free_ptr + pid * 8, left", "dl.notify(free_ptr + pid * 8, right"),),
    ),
    Bug(
        "ring reduce scatter with one inbox",
        "launch count without steps",
        ("LostWakeup",),
        "",
        (("use = launch * steps + step", "use = launch + step"),),
    ),
    Bug(
        "ring reduce scatter with one inbox",
        "free without fence",
        ("MissingFence",),
        "",
        (("lanes)\n        libshmem_device.fence()\n        dl.notify(free", "lanes)\n        dl.notify(free"),),
    ),
    Bug(
        "ring reduce scatter with one inbox",
        "free before load",
        ("DataRace",),
        "",
        (
            (
                "        total = tl.load(inbox + lanes) + tl.load(x_ptr + chunk * width + lanes)\n        libshmem_device.fence()\n        dl.notify(free_ptr + pid * 8, left, use + 1)\n",
                "        libshmem_device.fence()\n        dl.notify(free_ptr + pid * 8, left, use + 1)\n        total = tl.load(inbox + lanes) + tl.load(x_ptr + chunk * width + lanes)\n",
            ),
        ),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "host barrier missing",
        ("DataRace", "LostWakeup"),
        "",
        (
            (
                "        torch.npu.synchronize()\n        dist.barrier()\n    return",
                "    torch.npu.synchronize()\n    dist.barrier()\n    return",
            ),
        ),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "putmem to a mapped address",
        ("UdmaRule",),
        "symmetric address of the own rank",
        (("putmem(land_ptr + place", "putmem(dl.symm_at(land_ptr, target) + place"),),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "two cores push to one rank",
        ("UdmaRule",),
        "from one core",
        (
            (
                "            for block in range(blocks):\n                count",
                "            for block in range(blocks):\n                pass\n            for block in range(blocks):\n                count",
            ),
            ("for target in range(core, ranks, cores):", "for target in range(0, ranks, 1):"),
        ),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "bytes of another type",
        ("UninitialisedRead",),
        "",
        (("count * H * D * 4", "count * H * D * 2"),),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "waits for first block only",
        ("StaleRead",),
        "does not come after this store",
        (("(block * ranks + source) * 8, 1", "(0 * ranks + source) * 8, 1"),),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "full block on the tail",
        ("OutOfBounds",),
        "expected 0 to 2111",
        (("count = min(BLOCK, S - block * BLOCK)", "count = BLOCK"),),
    ),
    Bug(
        "reverse all to all by putmem of whole blocks",
        "own part to itself by putmem",
        ("UdmaRule",),
        "move data inside a rank",
        (("if target != rank:", "if target >= 0:"),),
    ),
    Bug(
        "slots zeroed on one stream for a kernel on another",
        "zeroed on a stream that nobody waits for",
        ("LostWakeup", "UninitialisedRead", "DataRace"),
        "one stream for both, or one that waits for the other",
        (
            (
                "        flags.fill_(0)\n",
                "        with torch.npu.stream(torch.npu.Stream()):\n            flags.fill_(0)\n",
            ),
        ),
    ),
    Bug(
        "slots zeroed on one stream for a kernel on another",
        "zeroed before the kernel of the step before is over",
        ("LostWakeup", "UninitialisedRead", "DataRace"),
        "",
        (
            (
                "        torch.npu.current_stream().wait_stream(side)\n        dist.barrier()\n",
                "        dist.barrier()\n",
            ),
            ("    return difference", "    torch.npu.synchronize()\n    return difference"),
        ),
    ),
    Bug(
        "slots zeroed on one stream for a kernel on another",
        "zeroed behind the collective",
        ("LostWakeup",),
        "",
        (
            ("        dist.barrier()\n        with", "        with"),
            ("        flags.fill_(0)\n        side", "        dist.barrier()\n        flags.fill_(0)\n        side"),
        ),
    ),
    Bug(
        "two workspaces in turn",
        "zeroed again on a stream of its own",
        ("LostWakeup", "UninitialisedRead"),
        "",
        (
            (
                "    mine, other = a[rank].npu(), b[rank].npu()\n",
                "    mine, other = a[rank].npu(), b[rank].npu()\n    with torch.npu.stream(torch.npu.Stream()):\n        spaces[0].flags.zero_()\n",
            ),
        ),
    ),
]

FUSED_HARMLESS: Final = [
    (
        "rank 0 sums for all",
        "out + lanes))\n    libshmem_device.barrier_all_vec()",
        "out + lanes))",
    ),  # who sends the parts of the next launch has read the sum of this one
    (
        "GEMM and all reduce with barriers",
        "total)\n    libshmem_device.barrier_all()\n",
        "total)\n    libshmem_device.barrier_all_vec()\n",
    ),  # the next launch starts after all of this one on its rank
    (
        "communication on a side stream",
        "        torch.npu.synchronize()\n        dist.barrier()\n    return",
        "        dist.barrier()\n    torch.npu.synchronize()\n    return",
    ),  # the barrier starts after the stream's work, which waits for the side stream
    (
        "slots zeroed on one stream for a kernel on another",
        "        side.wait_stream(torch.npu.current_stream())\n        dist.barrier()\n",
        "        dist.barrier()\n",
    ),  # the barrier lets the host wait for the zeroing
]
"""Edits that leave a kernel right, although they look wrong: kernel, old text, new text."""
