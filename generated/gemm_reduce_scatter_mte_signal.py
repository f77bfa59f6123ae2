"""GEMM + ReduceScatter: C = this rank's rows of the sum over ranks of A @ B.

A communication tile is added as soon as all ranks have announced theirs.

float16 over MTE with a signal for each tile and a ring of 2 buffers, planned for Ascend910B3.
Rendered by fusegen from gemm_reduce_scatter_mte_signal.yaml.
To change it, change the spec and render again: edits made here are lost.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import shmem as ash
import torch
import torch.distributed as dist
import torch_npu  # noqa: F401  registers the npu device
import triton
import triton.language as tl
import triton.language.extra.cann.extension as al
import triton_dist.language as dl
from triton.backends.ascend.driver import NPUUtils
from triton.language.extra.cann.extension import sub_vec_id
from triton_dist.language.extra import libshmem_device

KERNEL = "gemm_reduce_scatter_mte_signal"
DTYPE = torch.float16
BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 256
COMM_ROWS = 8
COMM_COLUMNS = 256
PVALUE = 4  # GEMM tile rows of each rank in a panel: one round of communication
BUFFER_NUM = 2
SWIZZLE_OFFSET = 7  # columns of GEMM tiles in a group
SLOT_WORDS = 8  # int64 words of a signal slot: each slot has a 64-byte cache line of its own
TILE_STORED = 8  # event: the cube core has stored a tile
WATCHDOG_SECONDS = 60.0
TOLERANCE = 0.002  # relative and absolute; float16 rounds what each rank adds, and the sum


@triton.jit
def gemm_swizzle(index, rows, columns, OFFSET: tl.constexpr):
    """Row and column of tile `index`, from 0 to below rows * columns.

    Columns come in groups of OFFSET, whose columns of B stay in L2 while the rows go by. Odd groups go from the last
    row to the first: the rows of A at the turning point are still in L2.
    """
    group = index // (rows * OFFSET)
    inside = index % (rows * OFFSET)
    width = tl.minimum(OFFSET, columns - group * OFFSET)  # the last group has the columns that are left
    row = inside // width
    row += group % 2 * (rows - 1 - 2 * row)  # mirrored in odd groups
    return row, group * OFFSET + inside % width


# Sizes and ranks must not become constants: with each new one the kernel would be compiled again.
@triton.jit(do_not_specialize=["rank", "ranks", "launch", "M", "N", "K"])
def gemm_reduce_scatter_kernel(
    a_ptr,  # [M, K], of this rank, contiguous columns where A_TURNED, else rows
    b_ptr,  # [K, N], of this rank, contiguous columns where B_TURNED, else rows
    c_ptr,  # [own_rows, N], of this rank, contiguous rows
    partial_ptr,  # symmetric [BUFFER_NUM, ranks, panel_rows, N]
    ready_ptr,  # symmetric [BUFFER_NUM, ranks, PVALUE, blocks_n, SLOT_WORDS], int64
    credit_ptr,  # symmetric [BUFFER_NUM, 2, ranks, vector_cores, SLOT_WORDS], int64
    rank,
    ranks,
    launch,  # launches on this workspace before this one, modulo 4
    M,  # rows of A
    N,  # columns of B
    K,  # columns of A on one rank
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    COMM_ROWS: tl.constexpr,
    COMM_COLUMNS: tl.constexpr,
    PVALUE: tl.constexpr,
    BUFFER_NUM: tl.constexpr,
    SWIZZLE_OFFSET: tl.constexpr,
    SLOT_WORDS: tl.constexpr,
    TILE_STORED: tl.constexpr,
    A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr,
):
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    # AIV 1 of every AI core comes first, then AIV 0.
    vector_core = (1 - sub_vec_id()) * cores + core

    vector_cores = 2 * cores
    rank_rows = tl.cdiv(M, ranks)
    own_rows = tl.minimum(rank_rows, M - tl.minimum(rank * rank_rows, M))
    panel_rows = PVALUE * BLOCK_M
    panels = tl.cdiv(rank_rows, panel_rows)
    tiles_m = tl.cdiv(rank_rows, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    blocks_k = tl.cdiv(K, BLOCK_K)
    tile_comm_rows = BLOCK_M // COMM_ROWS
    tile_comm_columns = BLOCK_N // COMM_COLUMNS
    comm_blocks_n = tl.cdiv(N, COMM_COLUMNS)
    partial_rank = panel_rows * N
    partial_ring = ranks * partial_rank
    ready_rank = PVALUE * blocks_n
    ready_ring = ranks * ready_rank
    credit_rank = vector_cores
    credit_parity = ranks * credit_rank
    credit_ring = 2 * credit_parity

    # Uses of a ring position are numbered: 0 to 4 * uses - 1 over four launches, then again. In use t a
    # writer core with tiles waits until all credits are t, and sets ready to t + 1; a reader core that has
    # read its share sets its credit to t + 1. It can be one use ahead of the slowest writer, but not two,
    # for it has waited for a tile of each use: credits of even and of odd uses have slots of their own.
    with al.scope(core_mode="cube"):
        for panel in range(panels):
            ring = panel % BUFFER_NUM
            uses = tl.cdiv(panels - ring, BUFFER_NUM)
            turn = launch * uses + panel // BUFFER_NUM
            panel_tiles = tl.minimum(tiles_m - panel * PVALUE, PVALUE)
            gemm_work = panel_tiles * blocks_n * ranks
            if core < gemm_work:
                token = dl.wait(
                    credit_ptr + (ring * credit_ring + (turn + 1) % 2 * credit_parity) * SLOT_WORDS,
                    ranks * vector_cores,
                    "sys",
                    "acquire",
                    waitValue=turn,
                )
                partial = dl.consume_token(partial_ptr, token)
                for work in range(core, gemm_work, cores):
                    row, block_n = gemm_swizzle(work, ranks * panel_tiles, blocks_n, SWIZZLE_OFFSET)
                    # The rows of the next rank first and the own ones last: ranks wait for different ones.
                    owner = (rank + 1 + row // panel_tiles) % ranks
                    tile_row = row % panel_tiles
                    stop = tl.minimum((owner + 1) * rank_rows, M)
                    row_in_panel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
                    m = owner * rank_rows + panel * panel_rows + row_in_panel
                    n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
                    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
                    for block_k in range(blocks_k):
                        k = block_k * BLOCK_K + tl.arange(0, BLOCK_K)
                        if A_TURNED:
                            a_offset = k[:, None] * stride_ak + m[None, :] * stride_am
                            a_tile = tl.trans(
                                tl.load(a_ptr + a_offset, mask=(k < K)[:, None] & (m < stop)[None, :], other=0.0)
                            )
                        else:
                            a_offset = m[:, None] * stride_am + k[None, :] * stride_ak
                            a_tile = tl.load(a_ptr + a_offset, mask=(m < stop)[:, None] & (k < K)[None, :], other=0.0)
                        if B_TURNED:
                            b_offset = n[:, None] * stride_bn + k[None, :] * stride_bk
                            b_tile = tl.trans(
                                tl.load(b_ptr + b_offset, mask=(n < N)[:, None] & (k < K)[None, :], other=0.0)
                            )
                        else:
                            b_offset = k[:, None] * stride_bk + n[None, :] * stride_bn
                            b_tile = tl.load(b_ptr + b_offset, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
                        acc = tl.dot(a_tile, b_tile, acc)
                    mask = (m < stop)[:, None] & (n < N)[None, :]
                    partial_offset = ring * partial_ring + owner * partial_rank + row_in_panel[:, None] * N + n[None, :]
                    tl.store(partial + partial_offset, acc.to(partial_ptr.dtype.element_ty), mask=mask)
                    al.sync_block_set("cube", "vector", TILE_STORED)
    with al.scope(core_mode="vector"):
        for panel in range(panels):
            ring = panel % BUFFER_NUM
            uses = tl.cdiv(panels - ring, BUFFER_NUM)
            turn = launch * uses + panel // BUFFER_NUM
            panel_tiles = tl.minimum(tiles_m - panel * PVALUE, PVALUE)
            gemm_work = panel_tiles * blocks_n * ranks
            reduce_work = panel_tiles * tile_comm_rows * comm_blocks_n
            for work in range(core, gemm_work, cores):
                row, block_n = gemm_swizzle(work, ranks * panel_tiles, blocks_n, SWIZZLE_OFFSET)
                # The rows of the next rank first and the own ones last: ranks wait for different ones.
                owner = (rank + 1 + row // panel_tiles) % ranks
                tile_row = row % panel_tiles
                slot = (ring * ready_ring + rank * ready_rank + tile_row * blocks_n + block_n) * SLOT_WORDS
                al.sync_block_wait("cube", "vector", TILE_STORED)
                if sub_vec_id() == 0:
                    libshmem_device.fence()
                    dl.notify(ready_ptr + slot, owner, turn + 1)
            for work in range(vector_core, reduce_work, vector_cores):
                comm_row = work // comm_blocks_n
                comm_column = work % comm_blocks_n
                row_in_panel = comm_row * COMM_ROWS + tl.arange(0, COMM_ROWS)
                m = panel * panel_rows + row_in_panel
                n = comm_column * COMM_COLUMNS + tl.arange(0, COMM_COLUMNS)
                mask = (m < own_rows)[:, None] & (n < N)[None, :]
                c_offset = m[:, None] * stride_cm + n[None, :]
                total = tl.zeros((COMM_ROWS, COMM_COLUMNS), dtype=tl.float32)
                # Each rank starts with its own part, which is there first.
                for step in range(ranks):
                    source = (rank + step) % ranks
                    slot = (
                        ring * ready_ring
                        + source * ready_rank
                        + comm_row // tile_comm_rows * blocks_n
                        + comm_column // tile_comm_columns
                    ) * SLOT_WORDS
                    remote_partial = dl.symm_at(partial_ptr, source)
                    token = dl.wait(ready_ptr + slot, 1, "sys", "acquire", waitValue=turn + 1)
                    partial = dl.consume_token(remote_partial, token)
                    partial_offset = ring * partial_ring + rank * partial_rank + row_in_panel[:, None] * N + n[None, :]
                    tile = tl.load(partial + partial_offset, mask=mask, other=0.0)
                    total += tile.to(tl.float32)
                tl.store(c_ptr + c_offset, total.to(c_ptr.dtype.element_ty), mask=mask)
            libshmem_device.fence()
            # Also a core without a share of the round waits for it to begin.
            token = dl.wait(
                ready_ptr + (ring * ready_ring + rank * ready_rank) * SLOT_WORDS,
                1,
                "sys",
                "acquire",
                waitValue=turn + 1,
            )
            credit = dl.consume_token(credit_ptr, token)
            slot = (ring * credit_ring + turn % 2 * credit_parity + rank * credit_rank + vector_core) * SLOT_WORDS
            # Credit return: this core has read its share of the round.
            for source in range(ranks):
                dl.notify(credit + slot, source, (turn + 1) % (4 * uses))


def available_cores() -> int:
    """AI cores of this device: a program of the kernel runs on each."""
    return NPUUtils().get_aicore_num()


def tensor_shapes(M: int, N: int, K: int, *, rank: int, ranks: int) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor on a rank."""
    rank_rows = triton.cdiv(M, ranks)
    own_rows = min(rank_rows, M - min(rank * rank_rows, M))
    return {
        "a": (M, K),
        "b": (K, N),
        "c": (own_rows, N),
    }


def symmetric_elements(M: int, N: int, K: int, *, ranks: int, cores: int) -> dict[str, int]:
    """Elements of each symmetric allocation, on every rank."""
    return {
        "partial": BUFFER_NUM * ranks * PVALUE * BLOCK_M * N,
        "ready": BUFFER_NUM * ranks * PVALUE * triton.cdiv(N, BLOCK_N) * SLOT_WORDS,
        "credit": BUFFER_NUM * 2 * ranks * 2 * cores * SLOT_WORDS,
    }


def heap_bytes(M: int, N: int, K: int, *, ranks: int, cores: int) -> int:
    """Bytes of symmetric heap that one workspace needs on each rank: whole MiB, and one more for alignment."""
    elements = symmetric_elements(M, N, K, ranks=ranks, cores=cores)
    used = elements["partial"] * DTYPE.itemsize
    used += elements["ready"] * torch.int64.itemsize
    used += elements["credit"] * torch.int64.itemsize
    return (triton.cdiv(used, 2**20) + 1) * 2**20


SLOT_MEANINGS = {  # for whoever decodes a dump: what the slots of an allocation are about, and how values count uses
    "ready": {"purpose": "ready", "values": "counted", "buffer": "partial"},
    "credit": {"purpose": "credit", "values": "counted", "buffer": "partial"},
}


def slot_axes(M: int, N: int, K: int, *, ranks: int, cores: int) -> dict[str, dict[str, int]]:
    """For each allocation of signal slots, the axes of the slots and their extents, slowest first."""
    return {
        "ready": {
            "ring": BUFFER_NUM,
            "source_rank": ranks,
            "tile_row": PVALUE,
            "block_n": triton.cdiv(N, BLOCK_N),
        },
        "credit": {
            "ring": BUFFER_NUM,
            "parity": 2,
            "reader_rank": ranks,
            "reader_core": 2 * cores,
        },
    }


@contextmanager
def _together(error: type[Exception] = ValueError, **agreed: object) -> Iterator[None]:
    """Let every rank raise `error`, with one message, when one of them does inside, or when `agreed` differs.

    Collective: a rank that raised alone would leave the others waiting for it in their next collective.
    """
    complaint = ""
    try:
        yield
    except error as raised:
        complaint = str(raised)
    told = [("", agreed)] * dist.get_world_size()
    dist.all_gather_object(told, (complaint, agreed))
    complaints = [complaint for complaint, _ in told]
    if not any(complaints) and any(facts != agreed for _, facts in told):
        each = [", ".join(f"{name} {value}" for name, value in facts.items()) for _, facts in told]
        complaints = [f"expected the same on every rank, got {facts}" for facts in each]
    ranks_of: dict[str, list[str]] = {}
    for rank, complaint in enumerate(complaints):
        ranks_of.setdefault(complaint, []).append(str(rank))
    message = "; ".join(f"rank {', '.join(ranks)}: {text}" for text, ranks in ranks_of.items() if text)
    if message:
        raise error(message)


class Workspace:
    """Symmetric memory for one (M, N, K) and one number of cores. Creating and closing it is collective.

    cores  AI cores that every launch uses, all of this device if not given

    Launches on one workspace may follow each other on one stream without synchronisation between them.
    Raises ValueError on every rank, naming ranks and reasons, when a rank refuses its shape or its number of cores,
    or when these are not the same on all ranks: sizes and grids must fit together.
    """

    def __init__(self, M: int, N: int, K: int, cores: int | None = None):
        self.rank = dist.get_rank()
        self.ranks = ranks = dist.get_world_size()
        self.shape = (M, N, K)
        self.cores = cores = available_cores() if cores is None else cores
        self.launches = self.ended = 0  # enqueued, and known to have ended
        with _together(shape=self.shape, cores=cores):
            available = available_cores()
            # Programs wait for each other: all must be resident.
            if not 1 <= cores <= available:
                raise ValueError(f"cores: expected 1 to {available} AI cores, got {cores}")
            if not 0 <= min(self.shape) <= max(self.shape) < 2**30:
                raise ValueError(f"shape: expected M, N, K from 0 to below 2**30, got {self.shape}")
            symmetric = symmetric_elements(M, N, K, ranks=ranks, cores=cores)
            shapes = tensor_shapes(M, N, K, rank=self.rank, ranks=ranks)
            tensors = {name: math.prod(shape) for name, shape in shapes.items()}
            for name, elements in {**tensors, **symmetric}.items():
                if elements >= 2**31:
                    raise ValueError(f"{name}: expected fewer than 2**31 elements for 32-bit offsets, got {elements}")
        device = torch.npu.current_device()
        self.partial = ash.aclshmem_create_tensor(
            [max(symmetric["partial"], 1)],
            dtype=DTYPE,
            device_id=device,
        )
        self.ready = ash.aclshmem_create_tensor(
            [max(symmetric["ready"], 1)],
            dtype=torch.int64,
            device_id=device,
        )
        self.credit = ash.aclshmem_create_tensor(
            [max(symmetric["credit"], 1)],
            dtype=torch.int64,
            device_id=device,
        )
        # A slot must be zero on every rank before any rank's producers write it.
        self.ready.fill_(0)
        self.credit.fill_(0)
        torch.npu.synchronize()
        dist.barrier()

    def close(self) -> None:
        """Free the symmetric memory, when no rank uses it any more."""
        torch.npu.synchronize()
        dist.barrier()
        ash.aclshmem_free_tensor(self.credit)
        ash.aclshmem_free_tensor(self.ready)
        ash.aclshmem_free_tensor(self.partial)

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # after a failure here, other ranks may never come to the barrier in close()
            self.close()


def _check(shape: tuple[int, ...], tensors: dict[str, torch.Tensor], *, rank: int, ranks: int) -> None:
    """Raise ValueError unless the kernel can work on these tensors, by their names, of this rank.

    Each needs its shape and dtype, and elements that 32-bit offsets reach. `c`, which may be left out, needs a
    place of its own for each element, and no memory of the others.
    """
    spans = {}
    shapes = tensor_shapes(*shape, rank=rank, ranks=ranks)
    for name, tensor in tensors.items():
        expected, dtype = shapes[name], DTYPE
        if tuple(tensor.shape) != expected or tensor.dtype != dtype:
            raise ValueError(f"{name}: expected {dtype} {expected}, got {tensor.dtype} {tuple(tensor.shape)}")
        reach = sum((extent - 1) * stride for extent, stride in zip(expected, tensor.stride(), strict=True))
        if reach >= 2**31:
            strides = tensor.stride()
            raise ValueError(f"{name}: expected its elements within 2**31 of the first one, got strides {strides}")
        first = tensor.data_ptr()
        spans[name] = first, first + (reach + 1) * dtype.itemsize if tensor.numel() else first
    if "c" not in tensors:
        return
    strides = tensors["c"].stride()
    if any(stride == 0 and extent > 1 for extent, stride in zip(shapes["c"], strides, strict=True)):
        raise ValueError(f"c: expected a place of its own for each element, got strides {strides}")
    c_first, c_end = spans.pop("c")
    for name, (first, end) in spans.items():
        if max(first, c_first) < min(end, c_end):
            raise ValueError(f"c: expected memory of its own, got some of {name}, which is read meanwhile")


def _has_dense_rows(tensor: torch.Tensor) -> bool:
    """True when neighbours on the last axis are neighbours in memory: cores load and store rows."""
    return tensor.stride(-1) == 1 or tensor.shape[-1] <= 1


def _with_dense_rows(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy whose rows are dense."""
    return tensor if _has_dense_rows(tensor) else tensor.contiguous()


def _oriented(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """A matrix with dense rows or dense columns, copied if it has neither, and whether it is the columns."""
    if matrix.shape[-1] <= 1:  # whatever stride a single column has, the kernel is the one for dense rows
        return matrix.as_strided(matrix.shape, (matrix.stride(0), 1)), False
    turned = not _has_dense_rows(matrix) and matrix.stride(-2) == 1
    return matrix if turned else _with_dense_rows(matrix), turned


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    workspace: Workspace,
    *,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """Enqueue the kernel on the current stream and return `c`. Every rank must launch.

    a  [M, K], any strides, copied unless rows or columns are contiguous
    b  [K, N], any strides, copied unless rows or columns are contiguous
    c  [own rows, N], any strides, copied unless rows are contiguous; where to write, a new tensor if not given

    A shape with a zero in it launches nothing: `c` is zero.
    Raises ValueError for a wrong tensor on this rank alone, before anything is enqueued: a launch communicates on the
    device only. The other ranks, which launched, then wait for this one. Where tensors come from outside, let the ranks
    agree first, as `gemm_reduce_scatter` does.
    """
    M, N, K = workspace.shape
    rank, ranks, cores = workspace.rank, workspace.ranks, workspace.cores
    if c is None:
        shape = tensor_shapes(M, N, K, rank=rank, ranks=ranks)["c"]
        c = torch.empty(shape, dtype=DTYPE, device=a.device)
    tensors = {"a": a, "b": b, "c": c}
    _check(workspace.shape, tensors, rank=rank, ranks=ranks)
    if 0 in workspace.shape:
        return c.zero_()
    a, a_turned = _oriented(a)
    b, b_turned = _oriented(b)
    out = c if _has_dense_rows(c) else torch.empty_like(c, memory_format=torch.contiguous_format)
    phase = workspace.launches % 4  # slot values tell launches that follow each other apart
    workspace.launches += 1
    gemm_reduce_scatter_kernel[(cores,)](
        a,
        b,
        out,
        workspace.partial,
        workspace.ready,
        workspace.credit,
        rank,
        ranks,
        phase,
        M,
        N,
        K,
        *a.stride(),
        *b.stride(),
        *out.stride()[:-1],
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        COMM_ROWS=COMM_ROWS,
        COMM_COLUMNS=COMM_COLUMNS,
        PVALUE=PVALUE,
        BUFFER_NUM=BUFFER_NUM,
        SWIZZLE_OFFSET=SWIZZLE_OFFSET,
        SLOT_WORDS=SLOT_WORDS,
        TILE_STORED=TILE_STORED,
        A_TURNED=a_turned,
        B_TURNED=b_turned,
        multibuffer=True,  # the next tiles are loaded while these are multiplied
        enable_auto_bind_sub_block=False,  # the kernel shares work out among vector cores itself
    )
    return c if out is c else c.copy_(out)


def dump(workspace: Workspace, path: Path) -> Path:
    """Write the launch facts and every signal slot that is not zero to `path` as JSON, also while a launch hangs."""
    M, N, K = workspace.shape
    ranks = workspace.ranks
    facts = {
        "kernel": KERNEL,
        "pattern": "gemm_reduce_scatter",
        "sync": "signal",
        "rank": workspace.rank,
        "ranks": ranks,
        "shape": {"M": M, "N": N, "K": K},
        "launches": workspace.launches,
        "ended": workspace.ended,
        "grid": workspace.cores,
        "ai_cores": available_cores(),
        "buffer_num": BUFFER_NUM,
        "rounds": triton.cdiv(triton.cdiv(M, ranks), PVALUE * BLOCK_M),
        "slots": _slots(workspace),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")
    return path


def _read(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host, on a stream of its own: the launch that hangs occupies the current one."""
    with torch.npu.stream(torch.npu.Stream()):
        return tensor.cpu()


def _slots(workspace: Workspace) -> dict[str, object]:
    """By allocation: what its slots mean, their axes, and number, value and position of every slot that is not zero."""
    groups = {}
    for name, axes in slot_axes(*workspace.shape, ranks=workspace.ranks, cores=workspace.cores).items():
        values = _read(getattr(workspace, name))[: math.prod(axes.values()) * SLOT_WORDS : SLOT_WORDS]
        slots = []
        for number in values.nonzero().flatten().tolist():
            position, rest = {}, number
            for axis, extent in reversed(axes.items()):
                rest, position[axis] = divmod(rest, extent)
            slots.append({"slot": number, "value": int(values[number]), **position})
        groups[name] = {**SLOT_MEANINGS[name], "axes": axes, "nonzero": slots}
    return groups


def synchronize(workspace: Workspace, *, timeout: float | None = WATCHDOG_SECONDS, dump_dir: Path = Path(".")) -> None:
    """Wait for the current stream; without a timeout (in seconds) for ever.

    Raises TimeoutError after `timeout`, when it has dumped the workspace to `dump_dir`.
    """
    if timeout is None:
        torch.npu.current_stream().synchronize()
    else:
        _watch(workspace, timeout, dump_dir)
    workspace.ended = workspace.launches


def _watch(workspace: Workspace, timeout: float, dump_dir: Path) -> None:
    """Wait for the current stream; raise TimeoutError after `timeout` seconds, when the workspace is dumped."""
    done = torch.npu.Event()
    done.record()
    deadline = time.monotonic() + timeout
    pause = 1e-5  # short launches return at once, long ones are not polled much
    while not done.query():
        if time.monotonic() > deadline:
            path = dump(workspace, dump_dir / f"{KERNEL}.rank{workspace.rank}.json")
            raise TimeoutError(f"launch {workspace.launches} has not ended after {timeout} s: see {path}")
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def gemm_reduce_scatter(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C = ReduceScatter of `a` times `b`, with sums over ranks. Every rank must call it.

    `a` is [M, K] and `b` [K, N].
    The result has the rows of this rank: ceil(M / ranks) of them, as torch.chunk deals them, but for the last ranks,
    which have fewer, or none.

    One call allocates, launches, waits and frees: keep a `Workspace` and `launch` where calls repeat.
    Raises ValueError on every rank when a rank's tensors are wrong, or do not fit those of the others.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with _together():
        if a.dim() != 2 or b.dim() != 2:
            raise ValueError(f"a, b: expected [M, K] and [K, N], got {tuple(a.shape)} and {tuple(b.shape)}")
        shape = (a.shape[0], b.shape[1], a.shape[1])
        _check(shape, {"a": a, "b": b}, rank=rank, ranks=ranks)
    with Workspace(*shape) as workspace:
        c = launch(a, b, workspace)
        synchronize(workspace)
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C of this rank in float32, summed by torch.distributed. Every rank must call it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = a.float() @ b.float()
    dist.all_reduce(total)
    rank_rows = triton.cdiv(len(total), ranks)
    return total[rank * rank_rows : (rank + 1) * rank_rows]


def _fresh(shape: tuple[int, ...], dtype: torch.dtype, *, gap: int = 0, turned: bool = False) -> torch.Tensor:
    """A tensor of NaN on the device; with a gap it is a slice of a larger one, turned its last axes lie swapped."""
    *outer, last = (*shape[:-2], *reversed(shape[-2:])) if turned else shape
    tensor = torch.full((*outer, last + gap), float("nan"), dtype=dtype, device="npu")[..., gap:]
    return tensor.transpose(-1, -2) if turned and len(shape) > 1 else tensor


def self_check(M: int, N: int, K: int, *, launches: int = 1, seed: int = 0, dump_dir: Path = Path(".")) -> float:
    """Launch back to back on one workspace, each time on new tensors; return this rank's largest error.

    The error of an element is |c - expected| / (1 + |expected|); one that was never written is infinitely wrong.
    Every rank must call it.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = torch.Generator().manual_seed(seed * ranks + rank)
    with Workspace(M, N, K) as workspace:
        shapes = tensor_shapes(M, N, K, rank=rank, ranks=ranks)
        runs = []
        for index in range(launches):
            # In turn: dense tensors, slices, and slices whose inputs lie transposed.
            gap, turned = (16 if index % 3 else 0), index % 3 == 2
            a = _fresh(shapes["a"], DTYPE, gap=gap, turned=turned)
            a.copy_(torch.randn(a.shape, generator=own) * max(K * ranks, 1) ** -0.5)
            b = _fresh(shapes["b"], DTYPE, gap=gap, turned=turned)
            b.copy_(torch.randn(b.shape, generator=own))
            runs.append((a, b, _fresh(shapes["c"], DTYPE, gap=gap)))
        for a, b, c in runs:
            launch(a, b, workspace, c=c)
        synchronize(workspace, dump_dir=dump_dir)
    largest = 0.0
    for index, (a, b, c) in enumerate(runs):
        expected = reference(a, b).float()
        error = (c.float() - expected).abs() / (1 + expected.abs())
        error = error.nan_to_num(nan=float("inf"))
        wrong = (error > TOLERANCE).nonzero()
        if len(wrong):
            place = tuple(wrong[0].tolist())
            what = f"c{list(place)} is {c[place]}, expected {expected[place]}"
            print(f"rank {rank} launch {index}: {len(wrong)} of {c.numel()} elements are wrong, first {what}")
        largest = max(largest, error.max().item() if error.numel() else 0.0)
    return largest


def _torchrun() -> tuple[int, int, int, int]:
    """Rank, number of ranks, rank on this node, and ranks on this node. Raises RuntimeError without torchrun."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    texts = {name: os.environ.get(name, "") for name in names}
    if all(text.isdecimal() for text in texts.values()):
        rank, ranks, local_rank, local_ranks = map(int, texts.values())
        if rank < ranks and local_rank < local_ranks <= ranks:
            return rank, ranks, local_rank, local_ranks
    raise RuntimeError(f"environment: expected the numbers that torchrun sets, got {texts}: start with torchrun")


def _heap_address(*, ranks: int, local_ranks: int) -> str:
    """Where the ranks meet to set up symmetric memory. Raises RuntimeError for one that not all of them reach."""
    address = os.environ.get("ASH_MASTER_ADDR") or os.environ.get("MASTER_ADDR")
    port = os.environ.get("ASH_MASTER_PORT", "8666")
    if not address:
        raise RuntimeError("MASTER_ADDR: expected an address, got nothing: start with torchrun or set ASH_MASTER_ADDR")
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise RuntimeError(f"ASH_MASTER_PORT: expected a port, got {port!r}")
    if ranks > local_ranks:
        raise RuntimeError(
            f"{ranks} ranks, {local_ranks} on this node: expected one node, since MTE does not cross nodes: "
            "use a kernel with UDMA transport"
        )
    return f"tcp://{address}:{port}"


@contextmanager
def process_group(heap: int) -> Iterator[None]:
    """Join the ranks that torchrun started, with `heap` bytes of symmetric memory on each.

    They meet at ASH_MASTER_ADDR, or MASTER_ADDR if that is not set, port ASH_MASTER_PORT, or 8666.
    Raises RuntimeError on every rank when one rank cannot join.
    """
    rank, ranks, device, local_ranks = _torchrun()
    torch.npu.set_device(device)
    dist.init_process_group(backend="hccl", rank=rank, world_size=ranks)
    with _together(RuntimeError):
        address = _heap_address(ranks=ranks, local_ranks=local_ranks)
    ash.set_conf_store_tls(False, "")
    attributes = ash.InitAttr()
    attributes.my_rank = rank
    attributes.n_ranks = ranks
    attributes.local_mem_size = heap
    attributes.ip_port = address
    attributes.option_attr.data_op_engine_type = ash.OpEngineType.MTE
    status = ash.aclshmem_init(attributes)
    with _together(RuntimeError):
        if status != 0:
            raise RuntimeError(f"aclshmem_init returned {status}")
    yield  # no cleanup after a failure: it is collective, and the other ranks may not come to it
    # Older releases of the library spell it aclshmem_finialize.
    finalize = getattr(ash, "aclshmem_finalize", None) or ash.aclshmem_finialize
    finalize()
    dist.destroy_process_group()


def main(arguments: list[str] | None = None) -> int:
    """Check the kernel against its reference on devices. Start it with torchrun, one process for each rank."""
    parser = argparse.ArgumentParser(description="Check the kernel against its reference on devices.")
    parser.add_argument("--M", type=int, required=True)
    parser.add_argument("--N", type=int, required=True)
    parser.add_argument("--K", type=int, required=True)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    shape = (options.M, options.N, options.K)
    rank, ranks, device, _ = _torchrun()
    torch.npu.set_device(device)  # cores are counted on it
    with process_group(heap_bytes(*shape, ranks=ranks, cores=available_cores())):
        error = self_check(*shape, launches=options.launches, seed=options.seed)
    print(f"rank {rank}: largest error {error}, tolerance {TOLERANCE}")
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    raise SystemExit(main())
