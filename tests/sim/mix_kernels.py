"""Modules with mix kernels that communicate: AllGather+GEMM with barriers, GEMM+ReduceScatter with signals."""

from __future__ import annotations

from textwrap import indent
from typing import Any

SWIZZLE = """
@triton.jit
def gemm_swizzle(work, rows, cols, OFFSET: tl.constexpr):
    group = work // (OFFSET * cols)
    first = group * OFFSET
    height = tl.minimum(rows - first, OFFSET)
    inside = work % (OFFSET * cols)
    return first + inside % height, inside // height
"""

ALLGATHER_GEMM = (
    SWIZZLE
    + """

@triton.jit
def allgather_gemm(a_ptr, b_ptr, c_ptr, gathered_ptr, M, N, K, rounds, BLOCKS: tl.constexpr, RING: tl.constexpr,
                   BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CM: tl.constexpr, CK: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    vector_core = (1 - sub_vec_id()) * cores + core
    vector_cores = 2 * cores
    round_rows = BLOCKS * BM
    comm_rows = tl.cdiv(round_rows, CM)
    comm_cols = tl.cdiv(K, CK)
    cols = tl.cdiv(N, BN)
    for block in range(rounds):
        ring = block % RING
        buffer = gathered_ptr + ring * ranks * round_rows * K
        for work in range(vector_core, ranks * comm_rows * comm_cols, vector_cores):
            target = (rank + work // (comm_rows * comm_cols)) % ranks
            tile = work % (comm_rows * comm_cols)
            offset_m = (tile // comm_cols) * CM + tl.arange(0, CM)
            offset_k = (tile % comm_cols) * CK + tl.arange(0, CK)
            source_m = block * round_rows + offset_m
            inside = (offset_m[:, None] < round_rows) & (offset_k[None, :] < K)
            mask = inside & (source_m[:, None] < M)
            peer = dl.symm_at(buffer, target)
            value = tl.load(a_ptr + source_m[:, None] * K + offset_k[None, :], mask=mask, other=0.0)
            tl.store(peer + (rank * round_rows + offset_m)[:, None] * K + offset_k[None, :], value, mask=inside)
        libshmem_device.barrier_all()
        for work in range(core, ranks * BLOCKS * cols, cores):
            row, col = gemm_swizzle(work, ranks * BLOCKS, cols, 2)
            source = row // BLOCKS
            offset_m = (row % BLOCKS) * BM + tl.arange(0, BM)
            offset_n = col * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for block_k in range(tl.cdiv(K, BK)):
                offset_k = block_k * BK + tl.arange(0, BK)
                a_mask = (offset_m[:, None] < round_rows) & (offset_k[None, :] < K)
                b_mask = (offset_k[:, None] < K) & (offset_n[None, :] < N)
                a_offset = (source * round_rows + offset_m)[:, None] * K + offset_k[None, :]
                a = tl.load(buffer + a_offset, mask=a_mask, other=0.0)
                b = tl.load(b_ptr + offset_k[:, None] * N + offset_n[None, :], mask=b_mask, other=0.0)
                acc = tl.dot(a, b, acc)
            target_m = block * round_rows + offset_m
            mask = (target_m[:, None] < M) & (offset_n[None, :] < N)
            c_offset = (source * M + target_m)[:, None] * N + offset_n[None, :]
            tl.store(c_ptr + c_offset, acc.to(c_ptr.dtype.element_ty), mask=mask)
        {second_barrier}


def heap_bytes(*, ranks, cores):
    return {heap}


def check(rank, ranks):
    M, N, K = {shape}
    generator = torch.Generator().manual_seed(5)
    a = torch.randint(-2, 3, (ranks, M, K), generator=generator).half()
    b = torch.randint(-2, 3, (K, N), generator=generator).half()
    BM, BN, BK, CM, CK, BLOCKS, RING = {tiles}
    rounds = triton.cdiv(M, BM * BLOCKS)
    gathered = ash.aclshmem_create_tensor([RING, ranks, BLOCKS * BM, K], dtype=torch.float16, device_id=rank)
    c = torch.full((ranks * M, N), float("nan"), dtype=torch.float16).npu()
    cores = NPUUtils().get_aicore_num()
    dist.barrier()
    for _ in range({launches}):
        allgather_gemm[(cores,)](a[rank].npu(), b.npu(), c, gathered, M, N, K, rounds, BLOCKS=BLOCKS, RING=RING,
                                 BM=BM, BN=BN, BK=BK, CM=CM, CK=CK)
        torch.npu.synchronize()
        dist.barrier()
    product = a.reshape(-1, K).float() @ b.float()
    return difference(c, product.half())
"""
)


def allgather_gemm(
    *,
    shape: str = "70, 40, 48",
    tiles: str = "16, 16, 16, 8, 32, 1, 2",
    second_barrier: str = "",
    launches: int = 1,
    heap: int = 1 << 20,
) -> str:
    """A module; `tiles` are BM, BN, BK, CM, CK, blocks of BM rows in a round, and the ring."""
    values: dict[str, Any] = {"shape": shape, "tiles": tiles, "launches": launches, "heap": heap}
    text = ALLGATHER_GEMM.replace("{second_barrier}", second_barrier or "pass")
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


CUBE_PHASE = """\
free = use
token = dl.wait(credit_ptr + ring * ranks * vector_cores * SLOT, ranks * vector_cores, "sys", "acquire",
                waitValue=free)
partial = dl.consume_token(partial_ptr, token)
for work in range(core, gemm_work, cores):
    row, col = gemm_swizzle(work, ranks, cols, 2)
    offset_m = block * BM + tl.arange(0, BM)
    offset_n = col * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for block_k in range(tl.cdiv(K, BK)):
        offset_k = block_k * BK + tl.arange(0, BK)
        a_mask = (offset_m[:, None] < M) & (offset_k[None, :] < K)
        b_mask = (offset_k[:, None] < K) & (offset_n[None, :] < N)
        a = tl.load(a_ptr + (row * M + offset_m)[:, None] * K + offset_k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + offset_k[:, None] * N + offset_n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    tile_m = (ring * ranks + row) * BM + tl.arange(0, BM)
    mask = (offset_m[:, None] < M) & (offset_n[None, :] < N)
    offset = tile_m[:, None] * N + offset_n[None, :]
    tl.store(partial + offset, acc.to(partial_ptr.dtype.element_ty), mask=mask)
    al.sync_block_set("cube", "vector", TILE_STORED)
"""

VECTOR_PHASE = """\
ready = use + 1
for work in range(core, gemm_work, cores):
    al.sync_block_wait("cube", "vector", TILE_STORED)
    if sub_vec_id() == 0:
        row, col = gemm_swizzle(work, ranks, cols, 2)
        libshmem_device.fence()
        slot = ((ring * ranks + rank) * cols + col) * SLOT
        dl.notify(ready_ptr + slot, row, ready)
comm_rows = tl.cdiv(BM, CM)
for work in range(vector_core, cols * comm_rows, vector_cores):
    col = work // comm_rows
    offset_m = (work % comm_rows) * CM + tl.arange(0, CM)
    offset_n = col * BN + tl.arange(0, BN)
    total = tl.zeros((CM, BN), dtype=tl.float32)
    target_m = block * BM + offset_m
    mask = (offset_m[:, None] < BM) & (target_m[:, None] < M) & (offset_n[None, :] < N)
    for step in range(ranks):
        source = (rank + step) % ranks
        slot = ((ring * ranks + source) * cols + col) * SLOT
        token = dl.wait(ready_ptr + slot, 1, "sys", "acquire", waitValue=ready)
        partial = dl.consume_token(partial_ptr, token)
        remote = dl.symm_at(partial, source)
        offset = ((ring * ranks + rank) * BM + offset_m)[:, None] * N + offset_n[None, :]
        total += tl.load(remote + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(c_ptr + target_m[:, None] * N + offset_n[None, :], total.to(c_ptr.dtype.element_ty), mask=mask)
"""

CREDITS = """\
libshmem_device.fence()
for source in range(ranks):
    slot = ((ring * ranks + rank) * vector_cores + vector_core) * SLOT
    dl.notify(credit_ptr + slot, source, use + 1)
"""

GEMM_REDUCE = (
    SWIZZLE
    + """
TILE_STORED = 3
SLOT = 8


@triton.jit
def gemm_reduce(a_ptr, b_ptr, c_ptr, partial_ptr, ready_ptr, credit_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
                BK: tl.constexpr, CM: tl.constexpr, RING: tl.constexpr):
    rank = dl.rank()
    ranks = dl.num_ranks()
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    vector_cores = 2 * cores
    vector_core = (1 - sub_vec_id()) * cores + core
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    gemm_work = ranks * cols
{phases}

def heap_bytes(*, ranks, cores):
    return 1 << 22


def check(rank, ranks):
    M, N, K = {shape}
    BM, BN, BK, CM, RING = {tiles}
    generator = torch.Generator().manual_seed(5)
    a = torch.randint(-2, 3, (ranks, ranks * M, K), generator=generator).half()
    b = torch.randint(-2, 3, (ranks, K, N), generator=generator).half()
    cores = NPUUtils().get_aicore_num()
    cols = triton.cdiv(N, BN)
    partial = ash.aclshmem_create_tensor([RING, ranks, BM, N], dtype=torch.float16, device_id=rank)
    ready = ash.aclshmem_create_tensor([RING, ranks, cols, 8], dtype=torch.int64, device_id=rank)
    credit = ash.aclshmem_create_tensor([RING, ranks, 2 * cores, 8], dtype=torch.int64, device_id=rank)
    ready.zero_()
    credit.zero_()
    c = torch.full((M, N), float("nan"), dtype=torch.float16).npu()
    dist.barrier()
    gemm_reduce[(cores,)](a[rank].npu(), b[rank].npu(), c, partial, ready, credit, M, N, K, BM=BM, BN=BN, BK=BK,
                          CM=CM, RING=RING)
    torch.npu.synchronize()
    dist.barrier()
    products = (a.float() @ b.float()).reshape(ranks, ranks, M, N).half().float()
    return difference(c, products[:, rank].sum(0).half())
"""
)


ROUND = """\
for block in range(rows):
    ring = block % RING
    use = block // RING
"""
CUBE = 'with al.scope(core_mode="cube"):\n'
VECTOR = 'with al.scope(core_mode="vector"):\n'
TOLD = 'al.sync_block_set("cube", "vector", TILE_STORED)\n'
AWAITED = 'al.sync_block_wait("cube", "vector", TILE_STORED)\n'


def in_two_scopes() -> str:
    """All rounds of the cube, then all of the vector cores: what the generator emits."""
    return "".join(
        indent(scope + indent(ROUND + indent(phase, " " * 4), " " * 4), " " * 4)
        for scope, phase in ((CUBE, CUBE_PHASE), (VECTOR, VECTOR_PHASE + CREDITS))
    )


def in_scopes_of_a_round() -> str:
    """Two scopes in every round."""
    phases = CUBE + indent(CUBE_PHASE, " " * 4) + VECTOR + indent(VECTOR_PHASE + CREDITS, " " * 4)
    return indent(ROUND + indent(phases, " " * 4), " " * 4)


def credits_outside_of_scopes() -> str:
    """The AIC returns a credit, too, and has not waited for the loads of the vector cores."""
    phases = CUBE + indent(CUBE_PHASE, " " * 4) + VECTOR + indent(VECTOR_PHASE, " " * 4) + CREDITS
    return indent(ROUND + indent(phases, " " * 4), " " * 4)


def without_scopes() -> str:
    """The fence and the notify stand behind the store of the dot result, as in a vector kernel."""
    announce = (
        "libshmem_device.fence()\n"
        "    dl.notify(ready_ptr + ((ring * ranks + rank) * cols + col) * SLOT, row, use + 1)\n"
    )
    cube = CUBE_PHASE.replace(TOLD, announce)
    vector = "ready = use + 1\n" + VECTOR_PHASE[VECTOR_PHASE.index("comm_rows =") :]
    return indent(ROUND + indent(cube + vector + CREDITS, " " * 4), " " * 4)


def gemm_reduce(phases: str | None = None, *, shape: str = "40, 40, 48", tiles: str = "16, 16, 16, 8, 2") -> str:
    """A module; `tiles` are BM, BN, BK, CM and the ring."""
    text = GEMM_REDUCE.replace("{phases}", phases or in_two_scopes())
    return text.replace("{shape}", shape).replace("{tiles}", tiles)
