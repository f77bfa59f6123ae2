"""GEMM + AllReduce: C = sum over ranks of A @ B.

Products are added where they arrive; the last bits may differ with three or more ranks.

float16 over MTE with barriers between rounds and a ring of 2 buffers, planned for Ascend910B3.
Rendered by fusegen from gemm_allreduce_mte_barrier.yaml.
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

KERNEL = "gemm_allreduce_mte_barrier"
DTYPE = torch.float16
BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 256
COMM_ROWS = 8
COMM_COLUMNS = 256
PVALUE = 4  # GEMM tile rows of each rank in a panel: one round of communication
BUFFER_NUM = 2
SWIZZLE_OFFSET = 7  # columns of GEMM tiles in a group
WATCHDOG_SECONDS = 60.0
TOLERANCE = 0.004  # relative and absolute; float16 rounds the sum after each rank


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
@triton.jit(do_not_specialize=["rank", "ranks", "M", "N", "K"])
def gemm_allreduce_kernel(
    a_ptr,  # [M, K], of this rank, contiguous columns where A_TURNED, else rows
    b_ptr,  # [K, N], of this rank, contiguous columns where B_TURNED, else rows
    c_ptr,  # [M, N], of this rank, contiguous rows
    partial_ptr,  # symmetric [BUFFER_NUM, panel_rows, N]
    rank,
    ranks,
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
    A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr,
):
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    # AIV 1 of every AI core comes first, then AIV 0.
    vector_core = (1 - sub_vec_id()) * cores + core

    vector_cores = 2 * cores
    panel_rows = PVALUE * BLOCK_M
    panels = tl.cdiv(M, panel_rows)
    tiles_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    blocks_k = tl.cdiv(K, BLOCK_K)
    tile_comm_rows = BLOCK_M // COMM_ROWS
    comm_blocks_n = tl.cdiv(N, COMM_COLUMNS)
    partial_ring = panel_rows * N

    for panel in range(panels):
        ring = panel % BUFFER_NUM
        panel_tiles = tl.minimum(tiles_m - panel * PVALUE, PVALUE)
        gemm_work = panel_tiles * blocks_n
        reduce_work = panel_tiles * tile_comm_rows * comm_blocks_n * ranks
        with al.scope(core_mode="cube"):
            for work in range(core, gemm_work, cores):
                tile_row, block_n = gemm_swizzle(work, panel_tiles, blocks_n, SWIZZLE_OFFSET)
                row_in_panel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
                m = panel * panel_rows + row_in_panel
                n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
                acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
                for block_k in range(blocks_k):
                    k = block_k * BLOCK_K + tl.arange(0, BLOCK_K)
                    if A_TURNED:
                        a_offset = k[:, None] * stride_ak + m[None, :] * stride_am
                        a_tile = tl.trans(
                            tl.load(a_ptr + a_offset, mask=(k < K)[:, None] & (m < M)[None, :], other=0.0)
                        )
                    else:
                        a_offset = m[:, None] * stride_am + k[None, :] * stride_ak
                        a_tile = tl.load(a_ptr + a_offset, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
                    if B_TURNED:
                        b_offset = n[:, None] * stride_bn + k[None, :] * stride_bk
                        b_tile = tl.trans(
                            tl.load(b_ptr + b_offset, mask=(n < N)[:, None] & (k < K)[None, :], other=0.0)
                        )
                    else:
                        b_offset = k[:, None] * stride_bk + n[None, :] * stride_bn
                        b_tile = tl.load(b_ptr + b_offset, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
                    acc = tl.dot(a_tile, b_tile, acc)
                mask = (m < M)[:, None] & (n < N)[None, :]
                partial_offset = ring * partial_ring + row_in_panel[:, None] * N + n[None, :]
                tl.store(partial_ptr + partial_offset, acc.to(partial_ptr.dtype.element_ty), mask=mask)

        # Every tile of this round is in place, on every rank. No second barrier is needed: this
        # buffer is written again after the next round's barrier, which its readers reach after reading.
        libshmem_device.barrier_all()
        with al.scope(core_mode="vector"):
            for work in range(vector_core, reduce_work, vector_cores):
                item = work // ranks
                source = (rank + (work + item) % ranks) % ranks
                comm_row = item // comm_blocks_n
                comm_column = item % comm_blocks_n
                remote_partial = dl.symm_at(partial_ptr, source)
                row_in_panel = comm_row * COMM_ROWS + tl.arange(0, COMM_ROWS)
                m = panel * panel_rows + row_in_panel
                n = comm_column * COMM_COLUMNS + tl.arange(0, COMM_COLUMNS)
                mask = (m < M)[:, None] & (n < N)[None, :]
                partial_offset = ring * partial_ring + row_in_panel[:, None] * N + n[None, :]
                tile = tl.load(remote_partial + partial_offset, mask=mask, other=0.0)
                c_offset = m[:, None] * stride_cm + n[None, :]
                tl.atomic_add(c_ptr + c_offset, tile, mask=mask)

    # Close the launch: the next one starts in buffer 0, which a slower rank may still be reading.
    libshmem_device.barrier_all()


def available_cores() -> int:
    """AI cores of this device: a program of the kernel runs on each."""
    return NPUUtils().get_aicore_num()


def tensor_shapes(M: int, N: int, K: int, *, rank: int, ranks: int) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor on a rank."""
    return {
        "a": (M, K),
        "b": (K, N),
        "c": (M, N),
    }


def symmetric_elements(M: int, N: int, K: int, *, ranks: int, cores: int) -> dict[str, int]:
    """Elements of each symmetric allocation, on every rank."""
    return {
        "partial": BUFFER_NUM * PVALUE * BLOCK_M * N,
    }


def heap_bytes(M: int, N: int, K: int, *, ranks: int, cores: int) -> int:
    """Bytes of symmetric heap that one workspace needs on each rank: whole MiB, and one more for alignment."""
    elements = symmetric_elements(M, N, K, ranks=ranks, cores=cores)
    used = elements["partial"] * DTYPE.itemsize
    return (triton.cdiv(used, 2**20) + 1) * 2**20


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
        torch.npu.synchronize()
        dist.barrier()

    def close(self) -> None:
        """Free the symmetric memory, when no rank uses it any more."""
        torch.npu.synchronize()
        dist.barrier()
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
    c  [M, N], any strides, copied unless rows are contiguous; where to write, a new tensor if not given

    A shape with a zero in it launches nothing: `c` is zero.
    Raises ValueError for a wrong tensor on this rank alone, before anything is enqueued: a launch communicates on the
    device only. The other ranks, which launched, then wait for this one. Where tensors come from outside, let the ranks
    agree first, as `gemm_allreduce` does.
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
    # The kernel adds to c with atomics: what c holds before is part of the result.
    out.zero_()
    workspace.launches += 1
    gemm_allreduce_kernel[(cores,)](
        a,
        b,
        out,
        workspace.partial,
        rank,
        ranks,
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
        A_TURNED=a_turned,
        B_TURNED=b_turned,
        multibuffer=True,  # the next tiles are loaded while these are multiplied
        enable_auto_bind_sub_block=False,  # the kernel shares work out among vector cores itself
    )
    return c if out is c else c.copy_(out)


def dump(workspace: Workspace, path: Path) -> Path:
    """Write the launch facts to `path` as JSON, also while a launch hangs."""
    M, N, K = workspace.shape
    ranks = workspace.ranks
    facts = {
        "kernel": KERNEL,
        "pattern": "gemm_allreduce",
        "sync": "barrier",
        "rank": workspace.rank,
        "ranks": ranks,
        "shape": {"M": M, "N": N, "K": K},
        "launches": workspace.launches,
        "ended": workspace.ended,
        "grid": workspace.cores,
        "ai_cores": available_cores(),
        "buffer_num": BUFFER_NUM,
        "rounds": triton.cdiv(M, PVALUE * BLOCK_M),
        "slots": {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")
    return path


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


def gemm_allreduce(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C = AllReduce of `a` times `b`, with sums over ranks. Every rank must call it.

    `a` is [M, K] and `b` [K, N]; the result is [M, N].

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
    """C in float32, summed by torch.distributed. Every rank must call it."""
    total = a.float() @ b.float()
    dist.all_reduce(total)
    return total


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
