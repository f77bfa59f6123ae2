"""Fused kernels as people write them by hand, with launches that follow each other without a barrier where they may.

`FUSED` has them by name. Texts are completed by HOST and by the PRELUDE of tests/sim/conftest.py.
"""

from __future__ import annotations

from typing import Final

from tests.sim.order.hand_written import Kernel

PARITY = """
@triton.jit
def gather(a_ptr, c_ptr, peer_ptr, flag_ptr, launch, N, BLOCK: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    parity = launch % 2
    blocks = tl.cdiv(N, BLOCK)
    mine = peer_ptr + parity * ranks * N
    offs = tl.arange(0, BLOCK)
    if pid < ranks:
        dst = dl.symm_at(mine, pid) + rank * N
        for b in range(blocks):
            cols = b * BLOCK + offs
            mask = cols < N
            tl.store(dst + cols, tl.load(a_ptr + cols, mask=mask), mask=mask)
        libshmem_device.fence()
        dl.notify(flag_ptr + (parity * ranks + rank) * 8, pid, launch)
    for task in range(pid, ranks * blocks, num):
        src = task // blocks
        cols = task % blocks * BLOCK + offs
        mask = cols < N
        token = dl.wait(flag_ptr + (parity * ranks + src) * 8, 1, "sys", "acquire", waitValue=launch)
        got = dl.consume_token(mine, token)
        tl.store(c_ptr + src * N + cols, tl.load(got + src * N + cols, mask=mask), mask=mask)


def check(rank, ranks):
    n = 21
    a = inputs(ranks, n)
    peer = symmetric(2, ranks, n)
    flags = slots(2 * ranks)
    c = torch.zeros(ranks, n).npu()
    for launch in range(1, 5):
        gather[(available_cores(),)](a[rank].npu(), c, peer, flags, launch, n, BLOCK=8)
    finish()
    return difference(c, a)
"""

BATCHED_SUM = """
@triton.jit
def all_reduce(x_ptr, out_ptr, part_ptr, ready_ptr, launch, tiles, TILE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, TILE)
    for step in range(ranks):
        dst = (rank + step) % ranks
        remote = dl.symm_at(part_ptr, dst)
        for task_idx in range(pid, tiles, num):
            tile = tl.load(x_ptr + task_idx * TILE + lanes)
            tl.store(remote + (task_idx * ranks + rank) * TILE + lanes, tile)
    libshmem_device.fence()
    for step in range(ranks):
        dst = (rank + step) % ranks
        for task_idx in range(pid, tiles, num):
            dl.notify(ready_ptr + (task_idx * ranks + rank) * 8, dst, launch)
    for task_idx in range(num - 1 - pid, tiles, num):
        token = dl.wait(ready_ptr + task_idx * ranks * 8, ranks, "sys", "acquire", waitValue=launch)
        part = dl.consume_token(part_ptr, token) + task_idx * ranks * TILE
        acc = tl.load(part + lanes)
        for src in range(1, ranks):
            acc += tl.load(part + src * TILE + lanes)
        tl.store(out_ptr + task_idx * TILE + lanes, acc)
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    tiles, tile = 6, 16
    x = inputs(ranks, tiles * tile)
    part = symmetric(tiles, ranks, tile)
    ready = slots(tiles * ranks)
    out = torch.zeros(tiles * tile).npu()
    for launch in range(1, 4):
        all_reduce[(available_cores(),)](x[rank].npu(), out, part, ready, launch, tiles, TILE=tile)
    finish()
    return difference(out, x.sum(0))
"""

ATOMIC_SCATTER = """
@triton.jit
def reduce_scatter(x_ptr, acc_ptr, out_ptr, N: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, N)
    for task in range(pid, ranks * 2, num):
        dst = (task + rank) % ranks
        half = task // ranks
        value = tl.load(x_ptr + (dst * 2 + half) * N + lanes)
        tl.atomic_add(dl.symm_at(acc_ptr, dst) + half * N + lanes, value)
    libshmem_device.barrier_all_vec()
    for half in range(pid, 2, num):
        tl.store(out_ptr + half * N + lanes, tl.load(acc_ptr + half * N + lanes))
        tl.store(acc_ptr + half * N + lanes, tl.zeros((N,), dtype=tl.float32))
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    n = 16
    x = inputs(ranks, ranks, 2 * n)
    acc = symmetric(2, n)
    acc.zero_()
    torch.npu.synchronize()
    dist.barrier()
    out = torch.zeros(2 * n).npu()
    for launch in range(3):
        reduce_scatter[(available_cores(),)](x[rank].npu(), acc, out, N=n)
    finish()
    return difference(out, x[:, rank].sum(0))
"""

TWO_SHOT = """
@triton.jit
def all_reduce(x_ptr, heap_ptr, out_ptr, CHUNK: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, CHUNK)
    # Phase 1: scatter the parts, each rank sums its own chunk.
    for i in range(pid, ranks, num):
        dst = (rank + i) % ranks
        tl.store(dl.symm_at(heap_ptr, dst) + rank * CHUNK + lanes, tl.load(x_ptr + dst * CHUNK + lanes))
    libshmem_device.barrier_all_vec()
    if pid == 0:
        total = tl.zeros((CHUNK,), dtype=tl.float32)
        for src in range(ranks):
            total += tl.load(heap_ptr + src * CHUNK + lanes)
        tl.store(out_ptr + rank * CHUNK + lanes, total)
    libshmem_device.barrier_all_vec()
    # Phase 2: the same memory now carries the sums.
    if pid == 0:
        mine = tl.load(out_ptr + rank * CHUNK + lanes)
        for i in range(ranks):
            dst = (rank + i) % ranks
            tl.store(dl.symm_at(heap_ptr, dst) + rank * CHUNK + lanes, mine)
    libshmem_device.barrier_all_vec()
    for src in range(pid, ranks, num):
        if src != rank:
            tl.store(out_ptr + src * CHUNK + lanes, tl.load(heap_ptr + src * CHUNK + lanes))
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    chunk = 16
    x = inputs(ranks, ranks * chunk)
    heap = symmetric(ranks, chunk)
    out = torch.zeros(ranks * chunk).npu()
    for launch in range(2):
        all_reduce[(available_cores(),)](x[rank].npu(), heap, out, CHUNK=chunk)
    finish()
    return difference(out, x.sum(0))
"""

IDLE_NOTIFY = """
@triton.jit
def exchange(a_ptr, c_ptr, land_ptr, done_ptr, launch, rows, W: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, W)
    land = land_ptr + launch % 2 * ranks * rows * W
    done = done_ptr + launch % 2 * ranks * num * 8
    for dst in range(ranks):
        remote = dl.symm_at(land, dst)
        for row in range(pid, rows, num):
            tl.store(remote + (rank * rows + row) * W + lanes, tl.load(a_ptr + (dst * rows + row) * W + lanes))
        libshmem_device.fence()
        dl.notify(done + (rank * num + pid) * 8, dst, launch + 1)
    for src in range(pid, ranks, num):
        token = dl.wait(done + src * num * 8, num, "sys", "acquire", waitValue=launch + 1)
        land = dl.consume_token(land, token)
        for row in range(rows):
            tl.store(c_ptr + (src * rows + row) * W + lanes, tl.load(land + (src * rows + row) * W + lanes))


def check(rank, ranks):
    rows, w = 3, 8
    a = inputs(ranks, ranks, rows, w)
    land = symmetric(2, ranks, rows, w)
    done = slots(2 * ranks * available_cores())
    c = torch.zeros(ranks, rows, w).npu()
    for launch in range(4):
        exchange[(available_cores(),)](a[rank].npu(), c, land, done, launch, rows, W=w)
    finish()
    return difference(c, a[:, rank])
"""

COUNTED_ROUNDS = """
@triton.jit
def stream(a_ptr, c_ptr, ring_ptr, full_ptr, free_ptr, launch, rounds, W: tl.constexpr, DEPTH: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    lanes = tl.arange(0, W)
    base = launch * rounds
    half = tl.num_programs(0) // 2
    if pid < half:
        for dst in range(pid, ranks, half):
            for r in range(rounds):
                seq = base + r
                slot = (seq % DEPTH * ranks + dst) * 8
                token = dl.wait(free_ptr + slot, 1, "sys", "acquire", waitValue=tl.maximum(seq - DEPTH + 1, 0))
                ring = dl.symm_at(dl.consume_token(ring_ptr, token), dst)
                tile = tl.load(a_ptr + (dst * rounds + r) * W + lanes)
                tl.store(ring + (seq % DEPTH * ranks + rank) * W + lanes, tile)
                libshmem_device.fence()
                dl.notify(full_ptr + (seq % DEPTH * ranks + rank) * 8, dst, seq + 1)
    else:
        for src in range(pid - half, ranks, half):
            for r in range(rounds):
                seq = base + r
                place = seq % DEPTH * ranks + src
                token = dl.wait(full_ptr + place * 8, 1, "sys", "acquire", waitValue=seq + 1)
                ring = dl.consume_token(ring_ptr, token)
                tl.store(c_ptr + (src * rounds + r) * W + lanes, tl.load(ring + place * W + lanes))
                libshmem_device.fence()
                dl.notify(free_ptr + (seq % DEPTH * ranks + rank) * 8, src, seq + 1)


def check(rank, ranks):
    rounds, w, depth = 5, 8, 2
    a = inputs(ranks, ranks, rounds * w)
    ring = symmetric(depth, ranks, w)
    full = slots(depth * ranks)
    free = slots(depth * ranks)
    c = torch.zeros(ranks, rounds * w).npu()
    for launch in range(3):
        stream[(available_cores(),)](a[rank].npu(), c, ring, full, free, launch, rounds, W=w, DEPTH=depth)
    finish()
    return difference(c, a[:, rank])
"""

INT32_SLOTS = """
@triton.jit
def push_left(a_ptr, c_ptr, box_ptr, ready_ptr, taken_ptr, launch, W: tl.constexpr):
    me = libshmem_device.my_pe()
    n = libshmem_device.n_pes()
    pid = tl.program_id(0)
    left = (me + n - 1) % n
    right = (me + 1) % n
    lanes = pid * W + tl.arange(0, W)
    libshmem_device.signal_wait_until(taken_ptr + pid * 16, libshmem_device.ACLSHMEM_CMP_EQ, launch)
    tl.store(dl.symm_at(box_ptr, left) + lanes, tl.load(a_ptr + lanes) + launch)
    libshmem_device.fence()
    libshmem_device.signal_op(ready_ptr + pid * 16, launch + 1, libshmem_device.ACLSHMEM_SIGNAL_SET, left)
    libshmem_device.signal_wait_until(ready_ptr + pid * 16, libshmem_device.ACLSHMEM_CMP_EQ, launch + 1)
    tl.store(c_ptr + lanes, tl.load(box_ptr + lanes))
    libshmem_device.fence()
    libshmem_device.signal_op(taken_ptr + pid * 16, launch + 1, libshmem_device.ACLSHMEM_SIGNAL_SET, right)


def check(rank, ranks):
    w = 8
    cores = available_cores()
    a = inputs(ranks, cores * w)
    box = symmetric(cores * w)
    ready = slots(cores, dtype=torch.int32)
    taken = slots(cores, dtype=torch.int32)
    c = torch.zeros(cores * w).npu()
    for launch in range(3):
        push_left[(cores,)](a[rank].npu(), c, box, ready, taken, launch, W=w)
    finish()
    return difference(c, a[(rank + 1) % ranks] + 2)
"""

ROOT = """
@triton.jit
def reduce_broadcast(a_ptr, c_ptr, in_ptr, out_ptr, up_ptr, down_ptr, launch, W: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    lanes = pid * W + tl.arange(0, W)
    width = tl.num_programs(0) * W
    if rank != 0:
        tl.store(dl.symm_at(in_ptr, 0) + rank * width + lanes, tl.load(a_ptr + lanes))
        libshmem_device.fence()
        dl.notify(up_ptr + (pid * ranks + rank) * 8, 0, launch)
    else:
        total = tl.load(a_ptr + lanes)
        for src in range(1, ranks):
            token = dl.wait(up_ptr + (pid * ranks + src) * 8, 1, "sys", "acquire", waitValue=launch)
            box = dl.consume_token(in_ptr, token)
            total += tl.load(box + src * width + lanes)
        for dst in range(ranks):
            tl.store(dl.symm_at(out_ptr, dst) + lanes, total)
        libshmem_device.fence()
        for dst in range(ranks):
            dl.notify(down_ptr + pid * 8, dst, launch)
    token = dl.wait(down_ptr + pid * 8, 1, "sys", "acquire", waitValue=launch)
    out = dl.consume_token(out_ptr, token)
    tl.store(c_ptr + lanes, tl.load(out + lanes))
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    cores, w = available_cores(), 8
    a = inputs(ranks, cores * w)
    inbox = symmetric(ranks, cores * w)
    out = symmetric(cores * w)
    up = slots(cores * ranks)
    down = slots(cores)
    c = torch.zeros(cores * w).npu()
    for launch in range(1, 4):
        reduce_broadcast[(cores,)](a[rank].npu(), c, inbox, out, up, down, launch, W=w)
    finish()
    return difference(c, a.sum(0))
"""

OWN_WINDOW = """
@triton.jit
def publish_and_fetch(a_ptr, c_ptr, window_ptr, stage_ptr, W: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, W)
    for part in range(pid, 4, num):
        tl.store(window_ptr + part * W + lanes, tl.load(a_ptr + part * W + lanes) * 2)
    libshmem_device.barrier_all_vec()
    for src in range(pid, ranks, num):
        if src == rank:
            for part in range(4):
                tl.store(c_ptr + (src * 4 + part) * W + lanes, tl.load(window_ptr + part * W + lanes))
        else:
            libshmem_device.getmem(stage_ptr + src * 4 * W, window_ptr, 4 * W * 4, src)
            for part in range(4):
                tl.store(c_ptr + (src * 4 + part) * W + lanes, tl.load(stage_ptr + (src * 4 + part) * W + lanes))
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    w = 8
    a = inputs(ranks, 4 * w)
    window = symmetric(4 * w)
    stage = torch.zeros(ranks, 4 * w).npu()
    c = torch.zeros(ranks, 4 * w).npu()
    for launch in range(3):
        publish_and_fetch[(3,)](a[rank].npu(), c, window, stage, W=w)
    finish()
    return difference(c, a * 2)
"""

WORKSPACES = """
class Workspace:
    def __init__(self, ranks, n):
        self.peer = symmetric(ranks, n)
        self.flags = slots(ranks)
        self.launches = 0


@triton.jit
def gather(a_ptr, c_ptr, peer_ptr, flag_ptr, use, N: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, N)
    for dst in range(pid, ranks, num):
        tl.store(dl.symm_at(peer_ptr, dst) + rank * N + lanes, tl.load(a_ptr + lanes))
        libshmem_device.fence()
        dl.notify(flag_ptr + rank * 8, dst, use)
    for src in range(pid, ranks, num):
        token = dl.wait(flag_ptr + src * 8, 1, "sys", "acquire", waitValue=use)
        peer = dl.consume_token(peer_ptr, token)
        tl.store(c_ptr + src * N + lanes, tl.load(peer + src * N + lanes))


def launch(a, workspace, c, n):
    workspace.launches += 1
    gather[(2,)](a, c, workspace.peer, workspace.flags, workspace.launches, N=n)


def check(rank, ranks):
    n = 16
    a, b = inputs(ranks, n), inputs(ranks, n, seed=1)
    spaces = [Workspace(ranks, n) for _ in range(2)]
    c, d = torch.zeros(ranks, n).npu(), torch.zeros(ranks, n).npu()
    mine, other = a[rank].npu(), b[rank].npu()
    for step in range(3):
        launch(mine, spaces[0], c, n)
        launch(other, spaces[1], d, n)
    finish()
    return max(difference(c, a), difference(d, b))
"""

SIDE_STREAM = """
@triton.jit
def scale(x_ptr, y_ptr, W: tl.constexpr):
    lanes = tl.program_id(0) * W + tl.arange(0, W)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes) * 3)


@triton.jit
def spread(y_ptr, land_ptr, W: tl.constexpr):
    rank = dl.rank()
    lanes = tl.arange(0, W)
    for dst in range(tl.program_id(0), dl.num_ranks(), tl.num_programs(0)):
        tl.store(dl.symm_at(land_ptr, dst) + rank * W + lanes, tl.load(y_ptr + lanes))
    libshmem_device.barrier_all_vec()


@triton.jit
def collect(land_ptr, c_ptr, W: tl.constexpr):
    lanes = tl.program_id(0) * W + tl.arange(0, W)
    tl.store(c_ptr + lanes, tl.load(land_ptr + lanes) + 1)


def check(rank, ranks):
    w = 16
    x = inputs(ranks, w)
    land = symmetric(ranks, w)
    y = torch.zeros(w).npu()
    c = torch.zeros(ranks, w).npu()
    mine = x[rank].npu()
    side = torch.npu.Stream()
    scaled, landed = torch.npu.Event(), torch.npu.Event()
    torch.npu.synchronize()
    for launch in range(2):
        scale[(1,)](mine, y, W=w)
        scaled.record()
        with torch.npu.stream(side):
            side.wait_event(scaled)
            spread[(2,)](y, land, W=w)
            landed.record()
        torch.npu.current_stream().wait_event(landed)
        collect[(ranks,)](land, c, W=w)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, x * 3 + 1)
"""

ZERO_AFTER = """
@triton.jit
def exchange(a_ptr, c_ptr, box_ptr, flag_ptr, W: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    lanes = tl.arange(0, W)
    if pid == 0:
        for i in range(ranks):
            dst = (rank + i) % ranks
            tl.store(dl.symm_at(box_ptr, dst) + rank * W + lanes, tl.load(a_ptr + dst * W + lanes))
        libshmem_device.fence()
        for i in range(ranks):
            dl.notify(flag_ptr + rank * 8, (rank + i) % ranks, 1)
    else:
        for src in range(pid - 1, ranks, tl.num_programs(0) - 1):
            token = dl.wait(flag_ptr + src * 8, 1, "sys", "acquire")
            box = dl.consume_token(box_ptr, token)
            tl.store(c_ptr + src * W + lanes, tl.load(box + src * W + lanes))


def check(rank, ranks):
    w = 8
    a = inputs(ranks, ranks, w)
    box = symmetric(ranks, w)
    flags = slots(ranks)
    c = torch.zeros(ranks, w).npu()
    mine = a[rank].npu()
    for step in range(3):
        exchange[(3,)](mine, c, box, flags, W=w)
        flags.zero_()
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, a[:, rank])
"""

ON_SIDE_STREAM = """
@triton.jit
def exchange(a_ptr, c_ptr, box_ptr, flag_ptr, W: tl.constexpr):
    rank = dl.rank()
    dst = tl.program_id(0)
    lanes = tl.arange(0, W)
    tl.store(dl.symm_at(box_ptr, dst) + rank * W + lanes, tl.load(a_ptr + dst * W + lanes))
    libshmem_device.fence()
    dl.notify(flag_ptr + rank * 8, dst, 1)
    token = dl.wait(flag_ptr + dst * 8, 1, "sys", "acquire")
    box = dl.consume_token(box_ptr, token)
    tl.store(c_ptr + dst * W + lanes, tl.load(box + dst * W + lanes))


def check(rank, ranks):
    w = 8
    a = inputs(ranks, ranks, w)
    box = symmetric(ranks, w)
    flags = symmetric(ranks, 8, dtype=torch.int64)
    c = torch.zeros(ranks, w).npu()
    mine = a[rank].npu()
    side = torch.npu.Stream()
    for step in range(2):
        flags.fill_(0)
        side.wait_stream(torch.npu.current_stream())
        dist.barrier()
        with torch.npu.stream(side):
            exchange[(ranks,)](mine, c, box, flags, W=w)
        torch.npu.current_stream().wait_stream(side)
        dist.barrier()
    return difference(c, a[:, rank])
"""

GEMM_AR_BARRIER = """
@triton.jit
def gemm_all_reduce(a_ptr, b_ptr, part_ptr, c_ptr, tiles, N: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    r = tl.arange(0, N)
    box = r[:, None] * N + r[None, :]
    for tile in range(pid, tiles, num):
        acc = tl.dot(tl.load(a_ptr + tile * N * N + box), tl.load(b_ptr + box))
        tl.store(part_ptr + tile * N * N + box, acc)
    libshmem_device.barrier_all()
    for tile in range(pid * 2 + sub_vec_id(), tiles, num * 2):
        total = tl.load(dl.symm_at(part_ptr, rank) + tile * N * N + box)
        for step in range(1, ranks):
            total += tl.load(dl.symm_at(part_ptr, (rank + step) % ranks) + tile * N * N + box)
        tl.store(c_ptr + tile * N * N + box, total)
    libshmem_device.barrier_all()


def check(rank, ranks):
    n, tiles = 16, 5
    a = inputs(ranks, tiles, n, n)
    b = inputs(1, n, n, seed=1)[0]
    part = symmetric(tiles, n, n)
    c = torch.zeros(tiles, n, n).npu()
    for launch in range(2):
        gemm_all_reduce[(2,)](a[rank].npu().half(), b.npu().half(), part, c, tiles, N=n)
    finish()
    return difference(c, a.sum(0) @ b)
"""

GEMM_AR_SIGNAL = """
@triton.jit
def gemm_all_reduce(a_ptr, b_ptr, stage_ptr, land_ptr, flag_ptr, c_ptr, launch, tiles, N: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    r = tl.arange(0, N)
    box = r[:, None] * N + r[None, :]
    half = sub_vec_id() * (N // 2) * N + tl.arange(0, N // 2)[:, None] * N + r[None, :]
    parity = launch % 2
    land = land_ptr + parity * ranks * tiles * N * N
    flags = flag_ptr + parity * tiles * 2 * ranks * 8
    with al.scope(core_mode="cube"):
        b = tl.load(b_ptr + box)
        for tile in range(pid, tiles, num):
            ring = tile // num % 2
            if tile // num >= 2:
                al.sync_block_wait("vector", "cube", 4 + ring)
            acc = tl.dot(tl.load(a_ptr + tile * N * N + box), b)
            tl.store(stage_ptr + (pid * 2 + ring) * N * N + box, acc)
            al.sync_block_set("cube", "vector", 2 + ring)
    with al.scope(core_mode="vector"):
        for tile in range(pid, tiles, num):
            ring = tile // num % 2
            al.sync_block_wait("cube", "vector", 2 + ring)
            part = tl.load(stage_ptr + (pid * 2 + ring) * N * N + half)
            if tile + 2 * num < tiles:
                al.sync_block_set("vector", "cube", 4 + ring)
            for step in range(ranks):
                dst = (rank + step) % ranks
                tl.store(dl.symm_at(land, dst) + (tile * ranks + rank) * N * N + half, part)
            libshmem_device.fence()
            for step in range(ranks):
                slot = ((tile * 2 + sub_vec_id()) * ranks + rank) * 8
                dl.notify(flags + slot, (rank + step) % ranks, launch + 1)
        for tile in range(pid, tiles, num):
            slot = (tile * 2 + sub_vec_id()) * ranks * 8
            token = dl.wait(flags + slot, ranks, "sys", "acquire", waitValue=launch + 1)
            got = dl.consume_token(land, token)
            total = tl.load(got + tile * ranks * N * N + half)
            for src in range(1, ranks):
                total += tl.load(got + (tile * ranks + src) * N * N + half)
            tl.store(c_ptr + tile * N * N + half, total)


def check(rank, ranks):
    n, tiles, cores = 16, 7, 2
    a = inputs(ranks, tiles, n, n)
    b = inputs(1, n, n, seed=1)[0]
    stage = torch.zeros(cores, 2, n, n).npu()
    land = symmetric(2, tiles, ranks, n, n)
    flags = slots(2 * tiles * 2 * ranks)
    c = torch.zeros(tiles, n, n).npu()
    for launch in range(3):
        gemm_all_reduce[(cores,)](a[rank].npu().half(), b.npu().half(), stage, land, flags, c, launch, tiles, N=n)
    finish()
    return difference(c, a.sum(0) @ b)
"""

DISPATCH = """
@triton.jit
def dispatch(tokens_ptr, splits_ptr, land_ptr, meta_ptr, ready_ptr, out_ptr, got_ptr, use, CAP: tl.constexpr,
             W: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    num = tl.num_programs(0)
    lanes = tl.arange(0, W)
    for dst in range(pid, ranks, num):
        first = tl.load(splits_ptr + dst)
        count = tl.load(splits_ptr + dst + 1) - first
        remote = dl.symm_at(land_ptr, dst) + rank * CAP * W
        for i in range(count):
            tl.store(remote + i * W + lanes, tl.load(tokens_ptr + (first + i) * W + lanes))
        tl.store(dl.symm_at(meta_ptr, dst) + rank * 16, count)
        libshmem_device.fence()
        dl.notify(ready_ptr + rank * 8, dst, use)
    for src in range(num - 1 - pid, ranks, num):
        token = dl.wait(ready_ptr + src * 8, 1, "sys", "acquire", waitValue=use)
        meta = dl.consume_token(meta_ptr, token)
        land = dl.consume_token(land_ptr, token)
        count = tl.load(meta + src * 16)
        tl.store(got_ptr + src * 16, count)
        for i in range(count):
            tl.store(out_ptr + (src * CAP + i) * W + lanes, tl.load(land + (src * CAP + i) * W + lanes))
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    cap, w = 4, 8
    sizes = (torch.arange(ranks)[:, None] + torch.arange(ranks)[None, :]) % cap
    tokens = inputs(ranks, ranks * cap, w)
    splits = torch.cat([torch.zeros(ranks, 1), sizes.cumsum(1)], dim=1).int()
    land = symmetric(ranks, cap, w)
    meta = symmetric(ranks, 16, dtype=torch.int32)
    ready = slots(ranks)
    out = torch.zeros(ranks, cap, w).npu()
    got = torch.zeros(ranks, 16, dtype=torch.int32).npu()
    for use in range(1, 3):
        dispatch[(available_cores(),)](tokens[rank].npu(), splits[rank].npu(), land, meta, ready, out, got, use,
                                       CAP=cap, W=w)
    finish()
    expected = torch.zeros(ranks, cap, w)
    for src in range(ranks):
        first, end = splits[src, rank].item(), splits[src, rank + 1].item()
        expected[src, : end - first] = tokens[src, first:end]
    return max(difference(out, expected), difference(got[:, 0], sizes[:, rank]))
"""

RING_REDUCE = """
@triton.jit
def arrived(flag_ptr, inbox_ptr, value):
    token = dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=value)
    return dl.consume_token(inbox_ptr, token)


@triton.jit
def ring_reduce_scatter(x_ptr, inbox_ptr, full_ptr, free_ptr, out_ptr, launch, W: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    pid = tl.program_id(0)
    width = tl.num_programs(0) * W
    lanes = pid * W + tl.arange(0, W)
    right = (rank + 1) % ranks
    left = (rank + ranks - 1) % ranks
    steps = ranks - 1
    chunk = (rank + ranks - 1) % ranks
    total = tl.load(x_ptr + chunk * width + lanes)
    for step in range(steps):
        use = launch * steps + step
        inbox = arrived(free_ptr + pid * 8, inbox_ptr, use)
        tl.store(dl.symm_at(inbox, right) + lanes, total)
        libshmem_device.fence()
        dl.notify(full_ptr + pid * 8, right, use + 1)
        chunk = (chunk + ranks - 1) % ranks
        inbox = arrived(full_ptr + pid * 8, inbox_ptr, use + 1)
        total = tl.load(inbox + lanes) + tl.load(x_ptr + chunk * width + lanes)
        libshmem_device.fence()
        dl.notify(free_ptr + pid * 8, left, use + 1)
    tl.store(out_ptr + lanes, total)


def check(rank, ranks):
    cores, w = available_cores(), 8
    x = inputs(ranks, ranks, cores * w)
    inbox = symmetric(cores * w)
    full = slots(cores)
    free = slots(cores)
    out = torch.zeros(cores * w).npu()
    for launch in range(3):
        ring_reduce_scatter[(cores,)](x[rank].npu(), inbox, full, free, out, launch, W=w)
    finish()
    return difference(out, x[:, rank].sum(0))
"""

UDMA_BLOCKS = """
@triton.jit
def reverse(a_ptr, c_ptr, land_ptr, flag_ptr, use, S: tl.constexpr, H, D: tl.constexpr, BLOCK: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    vec = tl.program_id(0)
    core = vec // 2
    cores = tl.num_programs(0) // 2
    blocks = tl.cdiv(S, BLOCK)
    rows = tl.arange(0, BLOCK)
    cols = tl.arange(0, D)
    if vec % 2 == 0:
        for target in range(core, ranks, cores):
            for block in range(blocks):
                count = min(BLOCK, S - block * BLOCK)
                place = (rank * S + block * BLOCK) * H * D
                source = a_ptr + (target * S + block * BLOCK) * H * D
                if target != rank:
                    libshmem_device.putmem(land_ptr + place, source, count * H * D * 4, target)
                    dl.notify(flag_ptr + (block * ranks + rank) * 8, target, use)
    else:
        for task in range(core, ranks * H, cores):
            source = task // H
            h = task % H
            for block in range(blocks):
                s = block * BLOCK + rows
                mask = (s < S)[:, None] & (cols < D)[None, :]
                index = s[:, None] * H * D + h * D + cols[None, :]
                if source == rank:
                    tile = tl.load(a_ptr + rank * S * H * D + index, mask=mask)
                else:
                    token = dl.wait(flag_ptr + (block * ranks + source) * 8, 1, "sys", "acquire", waitValue=use)
                    land = dl.consume_token(land_ptr, token)
                    tile = tl.load(land + source * S * H * D + index, mask=mask)
                tl.store(c_ptr + s[:, None] * ranks * H * D + (source * H + h) * D + cols[None, :], tile, mask=mask)


def check(rank, ranks):
    S, H, D, block = 11, 2, 8, 4
    a = inputs(ranks, ranks * S, H, D)
    land = symmetric(ranks, S, H, D)
    flags = slots(-(-S // block) * ranks)
    c = torch.zeros(S, ranks * H, D).npu()
    mine = a[rank].npu()
    for use in range(1, 4):
        reverse[(available_cores(),)](mine, c, land, flags, use, S=S, H=H, D=D, BLOCK=block)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, torch.cat([a[q, rank * S : rank * S + S] for q in range(ranks)], dim=1))
"""

FUSED: Final[dict[str, Kernel]] = {
    "all gather, buffers and flags by launch parity": Kernel(PARITY, cores=5),
    "all reduce, all stores and then all notifies": Kernel(BATCHED_SUM),
    "reduce scatter by atomics that clears its sums": Kernel(ATOMIC_SCATTER),
    "all reduce in two phases in one memory": Kernel(TWO_SHOT),
    "cores without work notify": Kernel(IDLE_NOTIFY, cores=5),
    "slots that count launches and rounds": Kernel(COUNTED_ROUNDS),
    "neighbours with int32 signals": Kernel(INT32_SLOTS, cores=3),
    "rank 0 sums for all": Kernel(ROOT, cores=2),
    "own window and getmem from others": Kernel(OWN_WINDOW),
    "two workspaces in turn": Kernel(WORKSPACES),
    "communication on a side stream": Kernel(SIDE_STREAM),
    "slots zeroed after each launch": Kernel(ZERO_AFTER),
    "slots zeroed on one stream for a kernel on another": Kernel(ON_SIDE_STREAM),
    "GEMM and all reduce with barriers": Kernel(GEMM_AR_BARRIER, cores=2),
    "GEMM and all reduce with scopes, flags and signals": Kernel(GEMM_AR_SIGNAL, cores=2),
    "dispatch of as many rows as the data says": Kernel(DISPATCH),
    "ring reduce scatter with one inbox": Kernel(RING_REDUCE, cores=2),
    "reverse all to all by putmem of whole blocks": Kernel(UDMA_BLOCKS, cores=6),
}
