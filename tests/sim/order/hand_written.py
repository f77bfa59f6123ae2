"""Kernels as people write them by hand, in many styles, each with the host code that launches it.

`KERNELS` has them by name. Texts are completed by the PRELUDE of tests/sim/conftest.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

HOST = """

def symmetric(*shape, dtype=torch.float32):
    return ash.aclshmem_create_tensor(list(shape), dtype=dtype, device_id=int(os.environ["LOCAL_RANK"]))


def slots(count, dtype=torch.int64):
    made = symmetric(count, 64 // dtype.itemsize, dtype=dtype)
    made.fill_(0)
    torch.npu.synchronize()
    dist.barrier()
    return made


def inputs(ranks, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, (ranks, *shape), generator=generator).float()


def finish():
    torch.npu.synchronize()
    dist.barrier()

"""


@dataclass(frozen=True)
class Kernel:
    """A module and the machine that it is run on; `is_proved` where the theorem covers it."""

    text: str
    ranks: int = 3
    cores: int = 4
    is_proved: bool = True

    @property
    def options(self) -> dict[str, Any]:
        return {"ranks": self.ranks, "cores": self.cores, "races": True}


TILE_SLOTS = """
@triton.jit
def exchange(a_ptr, c_ptr, peer_mem_ptr, signal_mem_ptr, S, H, D: tl.constexpr, BLOCK_S: tl.constexpr,
             BUFFER_NUM: tl.constexpr):
    rank = dl.rank()
    rank_size = dl.num_ranks()
    vec_id = tl.program_id(0)
    n_role_cores = tl.num_programs(0) // 2
    is_producer = vec_id % 2 == 0
    logical_core_id = vec_id // 2
    num_blocks_s = tl.cdiv(S, BLOCK_S)
    tasks = H
    total_tasks = tasks * rank_size
    rows = tl.arange(0, BLOCK_S)
    columns = tl.arange(0, D)
    for global_id in range(num_blocks_s):
        buffer_id = global_id % BUFFER_NUM
        offset_s = global_id * BLOCK_S + rows
        mask = (offset_s < S)[:, None] & (columns < D)[None, :]
        if is_producer:
            for task_idx in range(logical_core_id, total_tasks, n_role_cores):
                target = task_idx // tasks
                h = task_idx % tasks
                slot = ((buffer_id * rank_size + rank) * tasks + h) * 8
                remote_signal = dl.symm_at(signal_mem_ptr, target)
                token = dl.wait(remote_signal + slot, 1, "sys", "acquire", waitValue=0)
                remote = dl.consume_token(dl.symm_at(peer_mem_ptr, target), token)
                value = tl.load(a_ptr + (target * S + offset_s)[:, None] * H * D + h * D + columns[None, :], mask=mask)
                landing = ((buffer_id * rank_size + rank) * tasks + h) * BLOCK_S * D
                tl.store(remote + landing + rows[:, None] * D + columns[None, :], value, mask=mask)
                libshmem_device.fence()
                dl.notify(signal_mem_ptr + slot, target, 1)
        else:
            for task_idx in range(logical_core_id, total_tasks, n_role_cores):
                source = task_idx // tasks
                h = task_idx % tasks
                slot = ((buffer_id * rank_size + source) * tasks + h) * 8
                token = dl.wait(signal_mem_ptr + slot, 1, "sys", "acquire", waitValue=1)
                local = dl.consume_token(peer_mem_ptr, token)
                landing = ((buffer_id * rank_size + source) * tasks + h) * BLOCK_S * D
                value = tl.load(local + landing + rows[:, None] * D + columns[None, :], mask=mask)
                c_offset = offset_s[:, None] * rank_size * H * D + (source * H + h) * D + columns[None, :]
                tl.store(c_ptr + c_offset, value, mask=mask)
                libshmem_device.fence()
                dl.notify(signal_mem_ptr + slot, rank, 0)


def check(rank, ranks):
    S, H, D, BLOCK_S, BUFFER_NUM = 21, 2, 8, 4, 2
    a = inputs(ranks, ranks * S, H, D)
    peer = symmetric(BUFFER_NUM, ranks, H, BLOCK_S, D)
    signal = slots(BUFFER_NUM * ranks * H)
    c = torch.zeros(S, ranks * H, D).npu()
    for launch in range(2):
        exchange[(available_cores(),)](a[rank].npu(), c, peer, signal, S, H, D=D, BLOCK_S=BLOCK_S,
                                       BUFFER_NUM=BUFFER_NUM)
    finish()
    return difference(c, torch.cat([a[q, rank * S : rank * S + S] for q in range(ranks)], dim=1))
"""

BATCHED = """
@triton.jit
def gather(a_ptr, c_ptr, peer_ptr, signal_ptr, rounds, tiles, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0) // 2
    cores = tl.num_programs(0) // 2
    lanes = tl.arange(0, SIZE)
    if tl.program_id(0) % 2 == 0:
        for r in range(rounds):
            for task in range(core, ranks * tiles, cores):
                slot = (rank * tiles + task % tiles) * 8
                token = dl.wait(dl.symm_at(signal_ptr, task // tiles) + slot, 1, "sys", "acquire", waitValue=2 * r)
                peer = dl.symm_at(dl.consume_token(peer_ptr, token), task // tiles)
                value = tl.load(a_ptr + (r * tiles + task % tiles) * SIZE + lanes)
                tl.store(peer + (rank * tiles + task % tiles) * SIZE + lanes, value)
            libshmem_device.fence()
            for task in range(core, ranks * tiles, cores):
                dl.notify(signal_ptr + (rank * tiles + task % tiles) * 8, task // tiles, 2 * r + 1)
    else:
        for r in range(rounds):
            for task in range(core, ranks * tiles, cores):
                token = dl.wait(signal_ptr + task * 8, 1, "sys", "acquire", waitValue=2 * r + 1)
                peer = dl.consume_token(peer_ptr, token)
                source = task // tiles
                value = tl.load(peer + task * SIZE + lanes)
                tl.store(c_ptr + ((source * rounds + r) * tiles + task % tiles) * SIZE + lanes, value)
            libshmem_device.fence()
            for task in range(core, ranks * tiles, cores):
                dl.notify(signal_ptr + task * 8, rank, 2 * r + 2)


def check(rank, ranks):
    rounds, tiles, size = 3, 4, 16
    a = inputs(ranks, rounds * tiles * size)
    peer = symmetric(ranks, tiles, size)
    signal = slots(ranks * tiles)
    c = torch.zeros(ranks, rounds * tiles * size).npu()
    gather[(available_cores(),)](a[rank].npu(), c, peer, signal, rounds, tiles, SIZE=size)
    finish()
    return difference(c, a)
"""

BARRIER_SINGLE = """
@triton.jit
def gather(a_ptr, c_ptr, peer_ptr, blocks, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = tl.arange(0, SIZE)
    for block in range(blocks):
        for target in range(core, ranks, cores):
            peer = dl.symm_at(peer_ptr, target)
            tl.store(peer + rank * SIZE + lanes, tl.load(a_ptr + block * SIZE + lanes))
        libshmem_device.barrier_all_vec()
        for source in range(core, ranks, cores):
            tl.store(c_ptr + (source * blocks + block) * SIZE + lanes, tl.load(peer_ptr + source * SIZE + lanes))
        libshmem_device.barrier_all_vec()


def check(rank, ranks):
    blocks, size = 3, 32
    a = inputs(ranks, blocks * size)
    peer = symmetric(ranks, size)
    c = torch.zeros(ranks, blocks * size).npu()
    for launch in range(2):
        gather[(available_cores(),)](a[rank].npu(), c, peer, blocks, SIZE=size)
    finish()
    return difference(c, a)
"""

BARRIER_DOUBLE = """
@triton.jit
def gather(a_ptr, c_ptr, peer_ptr, blocks, SIZE: tl.constexpr, BUFFER_NUM: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = tl.arange(0, SIZE)
    for block in range(blocks):
        buffer = peer_ptr + block % BUFFER_NUM * ranks * SIZE
        for target in range(core, ranks, cores):
            tl.store(dl.symm_at(buffer, target) + rank * SIZE + lanes, tl.load(a_ptr + block * SIZE + lanes))
        libshmem_device.barrier_all_vec()
        for source in range(core, ranks, cores):
            tl.store(c_ptr + (source * blocks + block) * SIZE + lanes, tl.load(buffer + source * SIZE + lanes))
    libshmem_device.barrier_all_vec()


def check(rank, ranks):
    blocks, size = 5, 32
    a = inputs(ranks, blocks * size)
    peer = symmetric(2, ranks, size)
    c = torch.zeros(ranks, blocks * size).npu()
    for launch in range(3):
        gather[(available_cores(),)](a[rank].npu(), c, peer, blocks, SIZE=size, BUFFER_NUM=2)
    finish()
    return difference(c, a)
"""

ALL_SLOTS_AT_ONCE = """
@triton.jit
def reduce_scatter(a_ptr, c_ptr, partial_ptr, signal_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = tl.arange(0, SIZE)
    for target in range(core, ranks, cores):
        value = tl.load(a_ptr + target * SIZE + lanes)
        tl.store(dl.symm_at(partial_ptr, target) + rank * SIZE + lanes, value)
        libshmem_device.fence()
        dl.notify(signal_ptr + rank * 8, target, use)
    if core == cores - 1:
        token = dl.wait(signal_ptr, ranks, "sys", "acquire", waitValue=use)
        partial = dl.consume_token(partial_ptr, token)
        total = tl.zeros((SIZE,), dtype=tl.float32)
        for source in range(ranks):
            total += tl.load(partial + source * SIZE + lanes)
        tl.store(c_ptr + lanes, total)


def check(rank, ranks):
    size = 32
    a = inputs(ranks, ranks, size)
    partial = symmetric(ranks, size)
    signal = slots(ranks)
    c = torch.zeros(size).npu()
    error = 0.0
    for use in range(1, 4):
        reduce_scatter[(available_cores(),)]((a[rank] * use).npu(), c, partial, signal, use, SIZE=size)
        finish()
        error = max(error, difference(c, a[:, rank].sum(0) * use))
    return error
"""

RING = """
@triton.jit
def ring_gather(a_ptr, buffer_ptr, signal_ptr, c_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = core * SIZE + tl.arange(0, SIZE)
    stride = tl.num_programs(0) * SIZE
    right = (rank + 1) % ranks
    remote = dl.symm_at(buffer_ptr, right)
    slot = core * ranks * 8
    tl.store(c_ptr + rank * stride + lanes, tl.load(a_ptr + lanes))
    tl.store(remote + rank * stride + lanes, tl.load(a_ptr + lanes))
    libshmem_device.fence()
    dl.notify(signal_ptr + slot + rank * 8, right, use)
    for step in range(1, ranks):
        chunk = (rank + ranks - step) % ranks
        token = dl.wait(signal_ptr + slot + chunk * 8, 1, "sys", "acquire", waitValue=use)
        buffer = dl.consume_token(buffer_ptr, token)
        value = tl.load(buffer + chunk * stride + lanes)
        tl.store(c_ptr + chunk * stride + lanes, value)
        if step < ranks - 1:
            tl.store(remote + chunk * stride + lanes, value)
            libshmem_device.fence()
            dl.notify(signal_ptr + slot + chunk * 8, right, use)


def check(rank, ranks):
    cores, size = available_cores(), 16
    a = inputs(ranks, cores * size)
    buffer = symmetric(ranks, cores * size)
    signal = slots(cores * ranks)
    c = torch.zeros(ranks, cores * size).npu()
    for use in range(1, 4):
        ring_gather[(cores,)](a[rank].npu(), buffer, signal, c, use, SIZE=size)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, a)
"""

TREE = """
@triton.jit
def tree_sum(a_ptr, c_ptr, inbox_ptr, up_ptr, down_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    lanes = tl.arange(0, SIZE)
    total = tl.load(a_ptr + lanes)
    for child in range(2):
        if 2 * rank + 1 + child < ranks:
            token = dl.wait(up_ptr + child * 8, 1, "sys", "acquire")
            inbox = dl.consume_token(inbox_ptr, token)
            total += tl.load(inbox + child * SIZE + lanes)
    if rank > 0:
        parent = (rank - 1) // 2
        child = (rank - 1) % 2
        tl.store(dl.symm_at(inbox_ptr, parent) + child * SIZE + lanes, total)
        libshmem_device.fence()
        dl.notify(up_ptr + child * 8, parent, 1)
        token = dl.wait(down_ptr, 1, "sys", "acquire")
        result = dl.consume_token(inbox_ptr, token)
        total = tl.load(result + 2 * SIZE + lanes)
    for child in range(2):
        if 2 * rank + 1 + child < ranks:
            tl.store(dl.symm_at(inbox_ptr, 2 * rank + 1 + child) + 2 * SIZE + lanes, total)
            libshmem_device.fence()
            dl.notify(down_ptr, 2 * rank + 1 + child, 1)
    tl.store(c_ptr + lanes, total)


def check(rank, ranks):
    size = 32
    a = inputs(ranks, size)
    inbox = symmetric(3, size)
    up = slots(2)
    down = slots(1)
    c = torch.zeros(size).npu()
    tree_sum[(1,)](a[rank].npu(), c, inbox, up, down, SIZE=size)
    finish()
    return difference(c, a.sum(0))
"""

PING_PONG = """
@triton.jit
def ping_pong(ball_ptr, signal_ptr, c_ptr, rounds, SIZE: tl.constexpr):
    rank = libshmem_device.my_pe()
    other = 1 - rank
    lanes = tl.arange(0, SIZE)
    for r in range(rounds):
        if rank == 0:
            tl.store(dl.symm_at(ball_ptr, other) + lanes, lanes + r)
            libshmem_device.fence()
            libshmem_device.signal_op(signal_ptr, r + 1, libshmem_device.ACLSHMEM_SIGNAL_SET, other)
            libshmem_device.signal_wait_until(signal_ptr, libshmem_device.ACLSHMEM_CMP_EQ, r + 1)
            tl.store(c_ptr + r * SIZE + lanes, tl.load(ball_ptr + lanes))
        else:
            libshmem_device.signal_wait_until(signal_ptr, libshmem_device.ACLSHMEM_CMP_EQ, r + 1)
            value = tl.load(ball_ptr + lanes)
            tl.store(c_ptr + r * SIZE + lanes, value)
            tl.store(dl.symm_at(ball_ptr, other) + lanes, value * 2)
            libshmem_device.fence()
            libshmem_device.signal_op(signal_ptr, r + 1, libshmem_device.ACLSHMEM_SIGNAL_SET, other)


def check(rank, ranks):
    rounds, size = 3, 16
    ball = symmetric(size, dtype=torch.int32)
    signal = slots(1, dtype=torch.int32)
    c = torch.zeros(rounds, size, dtype=torch.int32).npu()
    ping_pong[(1,)](ball, signal, c, rounds, SIZE=size)
    finish()
    return difference(c, (torch.arange(size) + torch.arange(rounds)[:, None]) * (2 - rank))
"""

PUTMEM = """
@triton.jit
def broadcast(a_ptr, inbox_ptr, signal_ptr, c_ptr, root, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = tl.arange(0, SIZE)
    if rank == root:
        for target in range(core, ranks, cores):
            if target != rank:
                libshmem_device.putmem(inbox_ptr, a_ptr, SIZE * 4, target)
                dl.notify(signal_ptr, target, use)
        if core == 0:
            tl.store(c_ptr + lanes, tl.load(a_ptr + lanes))
    else:
        part = tl.arange(0, SIZE // 4) + core * (SIZE // 4)
        token = dl.wait(signal_ptr, 1, "sys", "acquire", waitValue=use)
        inbox = dl.consume_token(inbox_ptr, token)
        tl.store(c_ptr + part, tl.load(inbox + part))


def check(rank, ranks):
    size, error = 64, 0.0
    a = inputs(ranks, size)
    inbox = symmetric(size)
    signal = slots(1)
    for use in range(1, ranks + 1):
        c = torch.zeros(size).npu()
        broadcast[(4,)](a[rank].npu(), inbox, signal, c, use - 1, use, SIZE=size)
        finish()
        error = max(error, difference(c, a[use - 1]))
    return error
"""

NON_BLOCKING = """
@triton.jit
def scatter(a_ptr, inbox_ptr, signal_ptr, c_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    if core == 0:
        for step in range(1, ranks):
            target = (rank + step) % ranks
            libshmem_device.putmem_nbi(inbox_ptr + rank * SIZE, a_ptr + target * SIZE, SIZE * 4, target)
        libshmem_device.quiet()
        for step in range(1, ranks):
            target = (rank + step) % ranks
            dl.notify(signal_ptr + rank * 8, target, use)
        tl.store(a_ptr + rank * SIZE + lanes, tl.load(a_ptr + rank * SIZE + lanes) + 1)
    elif core == 1:
        for step in range(1, ranks):
            source = (rank + step) % ranks
            token = dl.wait(signal_ptr + source * 8, 1, "sys", "acquire", waitValue=use)
            inbox = dl.consume_token(inbox_ptr, token)
            tl.store(c_ptr + source * SIZE + lanes, tl.load(inbox + source * SIZE + lanes))


def check(rank, ranks):
    size = 32
    a = inputs(ranks, ranks, size)
    inbox = symmetric(ranks, size)
    signal = slots(ranks)
    c = torch.zeros(ranks, size).npu()
    mine = a[rank].npu()
    for use in range(1, 3):
        scatter[(2,)](mine, inbox, signal, c, use, SIZE=size)
        finish()
    expected = a[:, rank].clone()
    expected[rank] = 0
    return difference(c, expected)
"""

PULL = """
@triton.jit
def pull(a_ptr, window_ptr, ready_ptr, done_ptr, c_ptr, rounds, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    lanes = tl.arange(0, SIZE)
    for r in range(rounds):
        token = dl.wait(done_ptr, ranks, "sys", "acquire", waitValue=r)
        window = dl.consume_token(window_ptr, token)
        tl.store(window + lanes, tl.load(a_ptr + r * SIZE + lanes))
        libshmem_device.fence()
        for target in range(ranks):
            dl.notify(ready_ptr + rank * 8, target, r + 1)
        for source in range(ranks):
            token = dl.wait(ready_ptr + source * 8, 1, "sys", "acquire", waitValue=r + 1)
            theirs = dl.symm_at(dl.consume_token(window_ptr, token), source)
            value = tl.load(theirs + lanes)
            tl.store(c_ptr + (source * rounds + r) * SIZE + lanes, value)
            libshmem_device.fence()
            dl.notify(done_ptr + rank * 8, source, r + 1)


def check(rank, ranks):
    rounds, size = 4, 32
    a = inputs(ranks, rounds * size)
    window = symmetric(size)
    ready = slots(ranks)
    done = slots(ranks)
    c = torch.zeros(ranks, rounds * size).npu()
    pull[(1,)](a[rank].npu(), window, ready, done, c, rounds, SIZE=size)
    finish()
    return difference(c, a)
"""

GETMEM = """
@triton.jit
def fetch(window_ptr, a_ptr, ready_ptr, done_ptr, c_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    if core == 0:
        tl.store(window_ptr + lanes, tl.load(a_ptr + lanes) * use)
        libshmem_device.fence()
        for step in range(1, ranks):
            dl.notify(ready_ptr + rank * 8, (rank + step) % ranks, use)
        for step in range(1, ranks):
            source = (rank + step) % ranks
            token = dl.wait(ready_ptr + source * 8, 1, "sys", "acquire", waitValue=use)
            window = dl.consume_token(window_ptr, token)
            libshmem_device.getmem(c_ptr + source * SIZE, window, SIZE * 4, source)
            dl.notify(done_ptr + rank * 8, source, use)
        for step in range(1, ranks):
            token = dl.wait(done_ptr + (rank + step) % ranks * 8, 1, "sys", "acquire", waitValue=use)
            window_ptr = dl.consume_token(window_ptr, token)


def check(rank, ranks):
    size = 32
    a = inputs(ranks, size)
    window = symmetric(size)
    ready = slots(ranks)
    done = slots(ranks)
    c = torch.zeros(ranks, size).npu()
    for use in range(1, 4):
        fetch[(1,)](window, a[rank].npu(), ready, done, c, use, SIZE=size)
    finish()
    expected = a * 3
    expected[rank] = 0
    return difference(c, expected)
"""

TWO_KERNELS = """
@triton.jit
def send(a_ptr, inbox_ptr, signal_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    target = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    tl.store(dl.symm_at(inbox_ptr, target) + rank * SIZE + lanes, tl.load(a_ptr + target * SIZE + lanes))
    libshmem_device.fence()
    dl.notify(signal_ptr + rank * 8, target, use)


@triton.jit
def receive(inbox_ptr, signal_ptr, c_ptr, use, SIZE: tl.constexpr):
    source = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    token = dl.wait(signal_ptr + source * 8, 1, "sys", "acquire", waitValue=use)
    inbox = dl.consume_token(inbox_ptr, token)
    tl.store(c_ptr + source * SIZE + lanes, tl.load(inbox + source * SIZE + lanes))


def check(rank, ranks):
    size = 32
    a = inputs(ranks, ranks, size)
    inbox = symmetric(ranks, size)
    signal = slots(ranks)
    c = torch.zeros(ranks, size).npu()
    mine = a[rank].npu()
    for use in range(1, 4):
        send[(ranks,)](mine, inbox, signal, use, SIZE=size)
        receive[(ranks,)](inbox, signal, c, use, SIZE=size)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, a[:, rank])
"""

TWO_STREAMS = """
@triton.jit
def send(a_ptr, inbox_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    target = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    tl.store(dl.symm_at(inbox_ptr, target) + rank * SIZE + lanes, tl.load(a_ptr + lanes))
    libshmem_device.barrier_all_vec()


@triton.jit
def double(inbox_ptr, c_ptr, SIZE: tl.constexpr):
    lanes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(c_ptr + lanes, tl.load(inbox_ptr + lanes) * 2)


def check(rank, ranks):
    size = 32
    a = inputs(ranks, size)
    inbox = symmetric(ranks, size)
    c = torch.zeros(ranks, size).npu()
    mine = a[rank].npu()
    compute, communicate = torch.npu.Stream(), torch.npu.Stream()
    sent, used = torch.npu.Event(), torch.npu.Event()
    torch.npu.synchronize()
    for launch in range(3):
        with torch.npu.stream(communicate):
            communicate.wait_event(used)
            send[(ranks,)](mine, inbox, SIZE=size)
            sent.record()
        with torch.npu.stream(compute):
            compute.wait_event(sent)
            double[(ranks,)](inbox, c, SIZE=size)
            used.record()
        compute.synchronize()
        dist.barrier()
    torch.npu.synchronize()
    return difference(c, a * 2)
"""

EVENT_BETWEEN = """
@triton.jit
def fill(x_ptr, value, SIZE: tl.constexpr):
    lanes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(x_ptr + lanes, value)


@triton.jit
def add_one(first_ptr, second_ptr, c_ptr, SIZE: tl.constexpr):
    lanes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(c_ptr + lanes, tl.load(first_ptr + lanes) + 1)


def check(rank, ranks):
    size = 32
    first = symmetric(4 * size)
    second = symmetric(4 * size)
    c = torch.zeros(4 * size).npu()
    side, sent = torch.npu.Stream(), torch.npu.Event()
    torch.npu.synchronize()
    fill[(4,)](first, 1.0, SIZE=size)
    sent.record()
    fill[(4,)](second, 2.0, SIZE=size)
    with torch.npu.stream(side):
        side.wait_event(sent)
        add_one[(4,)](first, second, c, SIZE=size)
    torch.npu.synchronize()
    return difference(c, torch.full((4 * size,), 2.0))
"""

COLLECTIVES_BETWEEN = """
@triton.jit
def partial_sum(a_ptr, partial_ptr, SIZE: tl.constexpr):
    lanes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(partial_ptr + lanes, tl.load(a_ptr + lanes) * 2)


@triton.jit
def scale(partial_ptr, c_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    lanes = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    right = dl.symm_at(partial_ptr, (rank + 1) % dl.num_ranks())
    tl.store(c_ptr + lanes, tl.load(right + lanes))


def check(rank, ranks):
    size = 32
    a = inputs(ranks, 4 * size)
    partial = symmetric(4 * size)
    c = torch.zeros(4 * size).npu()
    for launch in range(2):
        partial_sum[(4,)](a[rank].npu(), partial, SIZE=size)
        dist.all_reduce(partial)
        dist.barrier()
        scale[(4,)](partial, c, SIZE=size)
        dist.barrier()
    torch.npu.synchronize()
    return difference(c, a.sum(0) * 2)
"""

ZEROED_BETWEEN = """
@triton.jit
def push(a_ptr, inbox_ptr, signal_ptr, c_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    for target in range(core, ranks, tl.num_programs(0)):
        tl.store(dl.symm_at(inbox_ptr, target) + rank * SIZE + lanes, tl.load(a_ptr + target * SIZE + lanes))
        libshmem_device.fence()
        dl.notify(signal_ptr + rank * 8, target, 1)
    for source in range(core, ranks, tl.num_programs(0)):
        token = dl.wait(signal_ptr + source * 8, 1, "sys", "acquire", waitValue=1)
        inbox = dl.consume_token(inbox_ptr, token)
        tl.store(c_ptr + source * SIZE + lanes, tl.load(inbox + source * SIZE + lanes))


def check(rank, ranks):
    size = 32
    a = inputs(ranks, ranks, size)
    inbox = symmetric(ranks, size)
    signal = symmetric(ranks, 8, dtype=torch.int64)
    c = torch.zeros(ranks, size).npu()
    mine = a[rank].npu()
    for launch in range(3):
        signal.fill_(0)
        torch.npu.synchronize()
        dist.barrier()
        push[(2,)](mine, inbox, signal, c, SIZE=size)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, a[:, rank])
"""

ATOMICS = """
@triton.jit
def accumulate(a_ptr, sum_ptr, c_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    for target in range(core, ranks, tl.num_programs(0)):
        tl.atomic_add(dl.symm_at(sum_ptr, target) + lanes, tl.load(a_ptr + target * SIZE + lanes))
    libshmem_device.barrier_all_vec()
    if core == 0:
        tl.store(c_ptr + lanes, tl.load(sum_ptr + lanes))


def check(rank, ranks):
    size = 32
    a = inputs(ranks, ranks, size)
    total = symmetric(size)
    c = torch.zeros(size).npu()
    mine = a[rank].npu()
    for launch in range(2):
        total.zero_()
        torch.npu.synchronize()
        dist.barrier()
        accumulate[(2,)](mine, total, c, SIZE=size)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, a[:, rank].sum(0))
"""

SHARED_WORKSPACE = """
@triton.jit
def neighbours(x_ptr, halo_ptr, full_ptr, empty_ptr, c_ptr, launch, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    lanes = tl.arange(0, SIZE)
    for side in range(2):
        other = (rank + (ranks - 1 if side == 0 else 1)) % ranks
        theirs = (1 - side) * 8
        token = dl.wait(empty_ptr + side * 8, 1, "sys", "acquire", waitValue=launch)
        halo = dl.symm_at(dl.consume_token(halo_ptr, token), other)
        tl.store(halo + (1 - side) * SIZE + lanes, tl.load(x_ptr + lanes))
        libshmem_device.fence()
        dl.notify(full_ptr + theirs, other, launch + 1)
    left = dl.wait(full_ptr, 1, "sys", "acquire", waitValue=launch + 1)
    right = dl.wait(full_ptr + 8, 1, "sys", "acquire", waitValue=launch + 1)
    halo = dl.consume_token(dl.consume_token(halo_ptr, left), right)
    tl.store(c_ptr + lanes, tl.load(halo + lanes) + tl.load(halo + SIZE + lanes))
    libshmem_device.fence()
    for side in range(2):
        other = (rank + (ranks - 1 if side == 0 else 1)) % ranks
        dl.notify(empty_ptr + (1 - side) * 8, other, launch + 1)


def check(rank, ranks):
    size = 32
    x = inputs(ranks, size)
    halo = symmetric(2, size)
    full = slots(2)
    empty = slots(2)
    c = torch.zeros(size).npu()
    mine = x[rank].npu()
    for launch in range(4):
        neighbours[(1,)](mine, halo, full, empty, c, launch, SIZE=size)
    finish()
    return difference(c, x[(rank - 1) % ranks] + x[(rank + 1) % ranks])
"""

LEADER = """
@triton.jit
def relay(a_ptr, inbox_ptr, signal_ptr, local_ptr, c_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = tl.arange(0, SIZE)
    if core == 0:
        for target in range(ranks):
            tl.store(dl.symm_at(inbox_ptr, target) + rank * SIZE + lanes, tl.load(a_ptr + lanes))
        libshmem_device.fence()
        for target in range(ranks):
            dl.notify(signal_ptr + rank * 8, target, use)
        token = dl.wait(signal_ptr, ranks, "sys", "acquire", waitValue=use)
        local = dl.consume_token(local_ptr, token)
        for other in range(1, cores):
            dl.notify(local + other * 8, rank, use)
    else:
        token = dl.wait(local_ptr + core * 8, 1, "gpu", "acquire", waitValue=use)
        inbox = dl.consume_token(inbox_ptr, token)
        for source in range(core - 1, ranks, cores - 1):
            tl.store(c_ptr + source * SIZE + lanes, tl.load(inbox + source * SIZE + lanes))


def check(rank, ranks):
    size = 32
    a = inputs(ranks, size)
    inbox = symmetric(ranks, size)
    signal = slots(ranks)
    local = slots(available_cores())
    c = torch.zeros(ranks, size).npu()
    for use in range(1, 3):
        relay[(available_cores(),)](a[rank].npu(), inbox, signal, local, c, use, SIZE=size)
        finish()
    return difference(c, a)
"""

DISSEMINATION = """
@triton.jit
def meet(signal_ptr, rank, ranks, use):
    libshmem_device.fence()
    distance = 1
    step = use % 2 * 4
    while distance < ranks:
        dl.notify(signal_ptr + step * 8, (rank + distance) % ranks, use)
        token = dl.wait(signal_ptr + step * 8, 1, "sys", "acquire", waitValue=use)
        signal_ptr = dl.consume_token(signal_ptr, token)
        distance = distance * 2
        step = step + 1
    libshmem_device.fence()


@triton.jit
def gather(a_ptr, inbox_ptr, signal_ptr, c_ptr, rounds, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    lanes = tl.arange(0, SIZE)
    for r in range(rounds):
        for target in range(ranks):
            tl.store(dl.symm_at(inbox_ptr, target) + rank * SIZE + lanes, tl.load(a_ptr + r * SIZE + lanes))
        meet(signal_ptr, rank, ranks, 2 * r + 1)
        for source in range(ranks):
            tl.store(c_ptr + (source * rounds + r) * SIZE + lanes, tl.load(inbox_ptr + source * SIZE + lanes))
        meet(signal_ptr, rank, ranks, 2 * r + 2)


def check(rank, ranks):
    size, rounds = 32, 3
    a = inputs(ranks, rounds * size)
    inbox = symmetric(ranks, size)
    signal = slots(8)
    c = torch.zeros(ranks, rounds * size).npu()
    gather[(1,)](a[rank].npu(), inbox, signal, c, rounds, SIZE=size)
    finish()
    return difference(c, a)
"""

TOKEN_IN_OFFSET = """
@triton.jit
def shift(a_ptr, inbox_ptr, signal_ptr, c_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = core * SIZE + tl.arange(0, SIZE)
    right = (rank + 1) % ranks
    tl.store(dl.symm_at(inbox_ptr, right) + lanes, tl.load(a_ptr + lanes))
    libshmem_device.fence()
    dl.notify(signal_ptr + core * 8, right, 1)
    token = dl.wait(signal_ptr + core * 8, 1, "sys", "acquire")
    offset = dl.consume_token(core * SIZE, token)
    place = offset + tl.arange(0, SIZE)
    tl.store(c_ptr + lanes, tl.load(inbox_ptr + place))


def check(rank, ranks):
    size = 16
    a = inputs(ranks, 4 * size)
    inbox = symmetric(4 * size)
    signal = slots(4)
    c = torch.zeros(4 * size).npu()
    shift[(4,)](a[rank].npu(), inbox, signal, c, SIZE=size)
    finish()
    return difference(c, a[(rank - 1) % ranks])
"""

MANY_WAITERS = """
@triton.jit
def panels(a_ptr, gathered_ptr, ready_ptr, c_ptr, use, ROWS: tl.constexpr, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = tl.arange(0, SIZE)
    rows = tl.arange(0, ROWS)
    if core < ranks:
        if core != rank:
            libshmem_device.putmem(gathered_ptr + rank * ROWS * SIZE, a_ptr, ROWS * SIZE * 4, core)
        else:
            box = rows[:, None] * SIZE + lanes[None, :]
            tl.store(gathered_ptr + rank * ROWS * SIZE + box, tl.load(a_ptr + box))
            libshmem_device.fence()
        dl.notify(ready_ptr + rank * 8, core, use)
    for row in range(core, ranks * ROWS, cores):
        token = dl.wait(ready_ptr + row // ROWS * 8, 1, "sys", "acquire", waitValue=use)
        gathered = dl.consume_token(gathered_ptr, token)
        tl.store(c_ptr + row * SIZE + lanes, tl.load(gathered + row * SIZE + lanes) * 2)


def check(rank, ranks):
    rows, size = 4, 16
    a = inputs(ranks, rows, size)
    gathered = symmetric(ranks, rows, size)
    ready = slots(ranks)
    c = torch.zeros(ranks, rows, size).npu()
    for use in range(1, 3):
        panels[(4,)](a[rank].npu(), gathered, ready, c, use, ROWS=rows, SIZE=size)
        finish()
    return difference(c, a * 2)
"""

SCATTERED = """
@triton.jit
def permute(a_ptr, index_ptr, inbox_ptr, signal_ptr, c_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    place = tl.load(index_ptr + core * SIZE + lanes)
    for step in range(ranks):
        target = (rank + step) % ranks
        remote = dl.symm_at(inbox_ptr, target)
        value = tl.load(a_ptr + (target * tl.num_programs(0) + core) * SIZE + lanes, mask=lanes % 2 == 0, other=0.0)
        tl.store(remote + rank * SIZE * tl.num_programs(0) + place, value)
        libshmem_device.fence()
        dl.notify(signal_ptr + (rank * tl.num_programs(0) + core) * 8, target, 1)
    for source in range(ranks):
        token = dl.wait(signal_ptr + source * tl.num_programs(0) * 8, 4, "sys", "acquire")
        inbox = dl.consume_token(inbox_ptr + source * tl.num_programs(0) * SIZE, token)
        mine = (lanes * 4 + core) % (SIZE * 4)
        tl.store(c_ptr + source * tl.num_programs(0) * SIZE + mine, tl.load(inbox + mine))


def check(rank, ranks):
    size = 16
    a = inputs(ranks, ranks, 4 * size)
    index = torch.randperm(4 * size, generator=torch.Generator().manual_seed(3)).int()
    inbox = symmetric(ranks, 4 * size)
    signal = slots(ranks * 4)
    c = torch.zeros(ranks, 4 * size).npu()
    permute[(4,)](a[rank].npu(), index.npu(), inbox, signal, c, SIZE=size)
    finish()
    expected = torch.zeros(ranks, 4 * size)
    even = torch.arange(4 * size) % 2 == 0
    expected[:, index.long()] = a[:, rank] * even
    return difference(c, expected)
"""

WORKER_COUNTS = """
@triton.jit
def count(a_ptr, inbox_ptr, arrival_ptr, go_ptr, c_ptr, use, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    lanes = core * SIZE + tl.arange(0, SIZE)
    right = (rank + 1) % ranks
    remote = dl.symm_at(inbox_ptr, right)
    tl.store(remote + lanes, tl.load(a_ptr + lanes))
    libshmem_device.fence()
    dl.notify(arrival_ptr + core * 8, right, use)
    if core == 0:
        arrived = dl.wait(arrival_ptr, cores, "sys", "acquire", waitValue=use)
        dl.notify(dl.consume_token(go_ptr, arrived), rank, use)
    go = dl.wait(go_ptr, 1, "sys", "acquire", waitValue=use)
    inbox = dl.consume_token(inbox_ptr, go)
    back = cores * SIZE - 1 - lanes
    tl.store(c_ptr + lanes, tl.load(inbox + back))


def check(rank, ranks):
    size = 16
    a = inputs(ranks, 4 * size)
    inbox = symmetric(4 * size)
    arrival = slots(4)
    go = slots(1)
    c = torch.zeros(4 * size).npu()
    for use in range(1, 4):
        count[(4,)](a[rank].npu(), inbox, arrival, go, c, use, SIZE=size)
        torch.npu.synchronize()
        dist.barrier()
    return difference(c, a[(rank - 1) % ranks].flip(0))
"""

UDMA_RING = """
@triton.jit
def rotate(recv_ptr, full_ptr, empty_ptr, c_ptr, a_ptr, rounds, SIZE: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    right = (rank + 1) % ranks
    left = (rank + ranks - 1) % ranks
    if core == 0:
        for r in range(rounds):
            ring = r % 2
            token = dl.wait(empty_ptr + ring * 8, 1, "sys", "acquire", waitValue=0)
            recv = dl.consume_token(recv_ptr, token)
            libshmem_device.putmem(recv + ring * SIZE, a_ptr + r * SIZE, SIZE * 4, right)
            dl.notify(empty_ptr + ring * 8, rank, 1)
            dl.notify(full_ptr + ring * 8, right, r + 1)
    else:
        for r in range(rounds):
            ring = r % 2
            token = dl.wait(full_ptr + ring * 8, 1, "sys", "acquire", waitValue=r + 1)
            recv = dl.consume_token(recv_ptr, token)
            tl.store(c_ptr + r * SIZE + lanes, tl.load(recv + ring * SIZE + lanes))
            libshmem_device.fence()
            dl.notify(empty_ptr + ring * 8, left, 0)


def check(rank, ranks):
    rounds, size = 5, 16
    a = inputs(ranks, rounds * size)
    recv = symmetric(2, size)
    full = slots(2)
    empty = slots(2)
    c = torch.zeros(rounds * size).npu()
    rotate[(2,)](recv, full, empty, c, a[rank].npu(), rounds, SIZE=size)
    finish()
    return difference(c, a[(rank - 1) % ranks])
"""

HOST_READS = """
@triton.jit
def push(a_ptr, inbox_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    target = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    tl.store(dl.symm_at(inbox_ptr, target) + rank * SIZE + lanes, tl.load(a_ptr + lanes))


def check(rank, ranks):
    size = 16
    a = inputs(ranks, size)
    inbox = symmetric(ranks, size)
    mine, error = a[rank].npu(), 0.0
    for launch in range(2):
        push[(ranks,)](mine, inbox, SIZE=size)
        dist.barrier()
        got = inbox.clone()
        dist.barrier()
        inbox.fill_(7.0)
        dist.barrier()
        error = max(error, difference(got, a))
    return error
"""

GATHERED_BY_HOSTS = """
@triton.jit
def double(a_ptr, send_ptr, SIZE: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    tl.store(send_ptr + lanes, tl.load(a_ptr + lanes) * 2)


@triton.jit
def add_right(gathered_ptr, c_ptr, SIZE: tl.constexpr):
    rank = dl.rank()
    lanes = tl.arange(0, SIZE)
    right = dl.symm_at(gathered_ptr, (rank + 1) % dl.num_ranks())
    tl.store(c_ptr + lanes, tl.load(gathered_ptr + rank * SIZE + lanes) + tl.load(right + lanes))


def check(rank, ranks):
    size = 16
    a = inputs(ranks, size)
    send = symmetric(size)
    gathered = symmetric(ranks, size)
    c = torch.zeros(size).npu()
    mine = a[rank].npu()
    for launch in range(2):
        double[(1,)](mine, send, SIZE=size)
        dist.all_gather_into_tensor(gathered, send)
        dist.barrier()
        add_right[(1,)](gathered, c, SIZE=size)
        dist.barrier()
    return difference(c, 2 * a[rank] + 2 * a[0])
"""

TICKETS = """
@triton.jit
def last_one_sums(a_ptr, partial_ptr, ticket_ptr, c_ptr, SIZE: tl.constexpr):
    core = tl.program_id(0)
    lanes = tl.arange(0, SIZE)
    ticket = tl.atomic_add(ticket_ptr, 1)
    tl.store(c_ptr + ticket * SIZE + lanes, tl.load(a_ptr + ticket * SIZE + lanes))


def check(rank, ranks):
    size = 16
    a = inputs(ranks, 4 * size)
    ticket = torch.zeros(1, dtype=torch.int32).npu()
    c = torch.zeros(4 * size).npu()
    last_one_sums[(4,)](a[rank].npu(), c, ticket, c, SIZE=size)
    finish()
    return difference(c, a[rank])
"""

MIX_GEMM = """
@triton.jit
def gemm_push(a_ptr, b_ptr, inbox_ptr, signal_ptr, c_ptr, N: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    rows = tl.arange(0, N)
    box = rows[:, None] * N + rows[None, :]
    with al.scope(core_mode="cube"):
        for target in range(core, ranks, tl.num_programs(0)):
            a = tl.load(a_ptr + target * N * N + box)
            b = tl.load(b_ptr + box)
            acc = tl.dot(a, b)
            tl.store(dl.symm_at(inbox_ptr, target) + rank * N * N + box, acc)
            al.sync_block_set("cube", "vector", 2)
    with al.scope(core_mode="vector"):
        for target in range(core, ranks, tl.num_programs(0)):
            al.sync_block_wait("cube", "vector", 2)
            if sub_vec_id() == 0:
                libshmem_device.fence()
                dl.notify(signal_ptr + rank * 8, target, 1)
        for source in range(core * 2 + sub_vec_id(), ranks, 2 * tl.num_programs(0)):
            token = dl.wait(signal_ptr + source * 8, 1, "sys", "acquire")
            inbox = dl.consume_token(inbox_ptr, token)
            tl.store(c_ptr + source * N * N + box, tl.load(inbox + source * N * N + box) * 2)


def check(rank, ranks):
    n = 16
    a = inputs(ranks, ranks, n, n)
    b = inputs(1, n, n, seed=1)[0]
    inbox = symmetric(ranks, n, n)
    signal = slots(ranks)
    c = torch.zeros(ranks, n, n).npu()
    gemm_push[(2,)](a[rank].npu().half(), b.npu().half(), inbox, signal, c, N=n)
    finish()
    return difference(c, 2 * a[:, rank] @ b)
"""

MIX_BARRIER = """
@triton.jit
def gather_gemm(a_ptr, b_ptr, gathered_ptr, c_ptr, N: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    rows = tl.arange(0, N)
    box = rows[:, None] * N + rows[None, :]
    for target in range(core * 2 + sub_vec_id(), ranks, 2 * tl.num_programs(0)):
        tl.store(dl.symm_at(gathered_ptr, target) + rank * N * N + box, tl.load(a_ptr + box))
    libshmem_device.barrier_all()
    for source in range(core, ranks, tl.num_programs(0)):
        acc = tl.dot(tl.load(gathered_ptr + source * N * N + box), tl.load(b_ptr + box))
        tl.store(c_ptr + source * N * N + box, acc)
    libshmem_device.barrier_all()


def check(rank, ranks):
    n = 16
    a = inputs(ranks, n, n)
    b = inputs(1, n, n, seed=1)[0]
    gathered = symmetric(ranks, n, n, dtype=torch.float16)
    c = torch.zeros(ranks, n, n).npu()
    for launch in range(2):
        gather_gemm[(2,)](a[rank].npu().half(), b.npu().half(), gathered, c, N=n)
    finish()
    return difference(c, a @ b)
"""

KERNELS: Final[dict[str, Kernel]] = {
    "all to all, a 0/1 slot for each tile": Kernel(TILE_SLOTS),
    "all gather, fence and notifies after each round": Kernel(BATCHED),
    "barriers around a single buffer": Kernel(BARRIER_SINGLE),
    "barriers and a double buffer": Kernel(BARRIER_DOUBLE),
    "reduce scatter, one wait for all ranks": Kernel(ALL_SLOTS_AT_ONCE),
    "ring all gather": Kernel(RING),
    "sum up a tree and down again": Kernel(TREE, ranks=6),
    "ping-pong by signal_op": Kernel(PING_PONG, ranks=2),
    "broadcast by putmem": Kernel(PUTMEM),
    "scatter by putmem_nbi and quiet": Kernel(NON_BLOCKING),
    "windows that others load from": Kernel(PULL),
    "windows that others getmem from": Kernel(GETMEM),
    "one kernel sends, another receives": Kernel(TWO_KERNELS),
    "two streams with events": Kernel(TWO_STREAMS),
    "an event between two kernels": Kernel(EVENT_BETWEEN),
    "a collective of the hosts between kernels": Kernel(COLLECTIVES_BETWEEN),
    "slots zeroed between launches": Kernel(ZEROED_BETWEEN),
    "atomic sums with a barrier": Kernel(ATOMICS),
    "halo exchange over launches": Kernel(SHARED_WORKSPACE),
    "a leader relays to its other cores": Kernel(LEADER),
    "a barrier by hand": Kernel(DISSEMINATION, ranks=5),
    "a token consumed by an offset": Kernel(TOKEN_IN_OFFSET),
    "many waiters on a slot": Kernel(MANY_WAITERS),
    "scattered places": Kernel(SCATTERED),
    "arrivals counted by one core": Kernel(WORKER_COUNTS),
    "putmem into a ring with credits": Kernel(UDMA_RING, cores=2),
    "hosts read and refill symmetric memory": Kernel(HOST_READS),
    "hosts gather symmetric memory": Kernel(GATHERED_BY_HOSTS),
    "work by tickets": Kernel(TICKETS, is_proved=False),
    "GEMM that pushes tiles, with flags": Kernel(MIX_GEMM, cores=2),
    "AllGather and GEMM with barriers": Kernel(MIX_BARRIER, cores=2),
}
