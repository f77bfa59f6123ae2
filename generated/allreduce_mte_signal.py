"""AllReduce: C[m, n] = sum over ranks q of A_q[m, n] on every rank.

Every rank adds the tiles of all ranks in the same order, so all get the same bits.

bfloat16 over MTE with a signal for each tile and a ring of 2 buffers, planned for Ascend910B3.
Rendered by fusegen from allreduce_mte_signal.yaml.
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
import triton_dist.language as dl
from triton.backends.ascend.driver import NPUUtils
from triton_dist.language.extra import libshmem_device

KERNEL = "allreduce_mte_signal"
DTYPE = torch.bfloat16
TILE_M = 64
TILE_N = 128
BUFFER_NUM = 2
SLOT_WORDS = 8  # int64 words of a signal slot: each slot has a 64-byte cache line of its own
WATCHDOG_SECONDS = 60.0
TOLERANCE = 0.016  # relative and absolute; bfloat16 rounds what each rank adds, and the sum


# Sizes and ranks must not become constants: with each new one the kernel would be compiled again.
@triton.jit(do_not_specialize=["rank", "ranks", "M", "N"])
def allreduce_kernel(
    a_ptr,  # [M, N], of this rank, contiguous rows
    c_ptr,  # [M, N], of this rank, contiguous rows
    peer_ptr,  # symmetric [BUFFER_NUM, ranks, TILE_M, N]
    signal_ptr,  # symmetric [BUFFER_NUM, ranks, blocks_n, SLOT_WORDS], int64
    rank,
    ranks,
    M,  # rows of A
    N,  # columns of A
    stride_am,
    stride_cm,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    BUFFER_NUM: tl.constexpr,
    SLOT_WORDS: tl.constexpr,
):
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    # Even cores: push; odd cores: reduce. An odd number gives the even ones one core more.
    role = core % 2
    role_core = core // 2
    role_cores = (cores + 1 - role) // 2

    blocks_m = tl.cdiv(M, TILE_M)
    blocks_n = tl.cdiv(N, TILE_N)
    push_work = blocks_n * ranks
    total_push = blocks_m * push_work
    reduce_work = blocks_n
    total_reduce = blocks_m * reduce_work
    peer_rank = TILE_M * N
    peer_block = ranks * peer_rank
    rank_slots = blocks_n
    ring_slots = ranks * rank_slots
    rows = tl.arange(0, TILE_M)

    # Values of a slot in use number u of a launch: 2 * u, the producer may write; 2 * u + 1, the tile is
    # there; 0 again after the last use. Plain 0 and 1 would not do: cores of M blocks that share
    # a ring buffer would wait for the same zero, and a later one's producer could take it first.
    if role == 0:
        for work in range(role_core, total_push, role_cores):
            block_m = work // push_work
            ring = block_m % BUFFER_NUM
            use = block_m // BUFFER_NUM
            block_n = work % push_work // ranks
            # Neighbouring cores write to neighbouring ranks, counted from this one: every link is in use.
            target = (rank + (work + block_n) % ranks) % ranks
            remote_signal = dl.symm_at(signal_ptr, target)
            remote_peer = dl.symm_at(peer_ptr, target)
            m = block_m * TILE_M + rows
            n = block_n * TILE_N + tl.arange(0, TILE_N)
            slot = (ring * ring_slots + rank * rank_slots + block_n) * SLOT_WORDS
            token = dl.wait(remote_signal + slot, 1, "sys", "acquire", waitValue=2 * use)
            peer = dl.consume_token(remote_peer, token)
            mask = (m < M)[:, None] & (n < N)[None, :]
            a_offset = m[:, None] * stride_am + n[None, :]
            tile = tl.load(a_ptr + a_offset, mask=mask)
            peer_offset = ring * peer_block + rank * peer_rank + rows[:, None] * N + n[None, :]
            tl.store(peer + peer_offset, tile, mask=mask)
            libshmem_device.fence()
            dl.notify(signal_ptr + slot, target, 2 * use + 1)
    else:
        for work in range(role_core, total_reduce, role_cores):
            block_m = work // reduce_work
            ring = block_m % BUFFER_NUM
            use = block_m // BUFFER_NUM
            uses = tl.cdiv(blocks_m - ring, BUFFER_NUM)
            block_n = work % reduce_work
            m = block_m * TILE_M + rows
            n = block_n * TILE_N + tl.arange(0, TILE_N)
            mask = (m < M)[:, None] & (n < N)[None, :]
            c_offset = m[:, None] * stride_cm + n[None, :]
            total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
            # The same order on every rank, so that every rank gets the same bits.
            for source in range(ranks):
                slot = (ring * ring_slots + source * rank_slots + block_n) * SLOT_WORDS
                token = dl.wait(signal_ptr + slot, 1, "sys", "acquire", waitValue=2 * use + 1)
                peer = dl.consume_token(peer_ptr, token)
                peer_offset = ring * peer_block + source * peer_rank + rows[:, None] * N + n[None, :]
                tile = tl.load(peer + peer_offset, mask=mask, other=0.0)
                total += tile.to(tl.float32)
            tl.store(c_ptr + c_offset, total.to(c_ptr.dtype.element_ty), mask=mask)
            libshmem_device.fence()
            # Credit return: the slot is free for its next use, in this launch or in the next one.
            for source in range(ranks):
                dl.notify(
                    signal_ptr + (ring * ring_slots + source * rank_slots + block_n) * SLOT_WORDS,
                    rank,
                    (use + 1) % uses * 2,
                )


def available_cores() -> int:
    """Vector cores of this device: a program of the kernel runs on each."""
    return NPUUtils().get_aivector_core_num()


def tensor_shapes(M: int, N: int, *, rank: int, ranks: int) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor on a rank."""
    return {
        "a": (M, N),
        "c": (M, N),
    }


def symmetric_elements(M: int, N: int, *, ranks: int, cores: int) -> dict[str, int]:
    """Elements of each symmetric allocation, on every rank."""
    return {
        "peer": BUFFER_NUM * ranks * TILE_M * N,
        "signal": BUFFER_NUM * ranks * triton.cdiv(N, TILE_N) * SLOT_WORDS,
    }


def heap_bytes(M: int, N: int, *, ranks: int, cores: int) -> int:
    """Bytes of symmetric heap that one workspace needs on each rank: whole MiB, and one more for alignment."""
    elements = symmetric_elements(M, N, ranks=ranks, cores=cores)
    used = elements["peer"] * DTYPE.itemsize
    used += elements["signal"] * torch.int64.itemsize
    return (triton.cdiv(used, 2**20) + 1) * 2**20


SLOT_MEANINGS = {  # for whoever decodes a dump: what the slots of an allocation are about, and how values count uses
    "signal": {"purpose": "tile", "values": "numbered", "buffer": "peer"},
}


def slot_axes(M: int, N: int, *, ranks: int, cores: int) -> dict[str, dict[str, int]]:
    """For each allocation of signal slots, the axes of the slots and their extents, slowest first."""
    return {
        "signal": {
            "ring": BUFFER_NUM,
            "source_rank": ranks,
            "tile": triton.cdiv(N, TILE_N),
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
    """Symmetric memory for one (M, N) and one number of cores. Creating and closing it is collective.

    cores  vector cores that every launch uses, all of this device if not given

    Launches on one workspace may follow each other on one stream without synchronisation between them.
    Raises ValueError on every rank, naming ranks and reasons, when a rank refuses its shape or its number of cores,
    or when these are not the same on all ranks: sizes and grids must fit together.
    """

    def __init__(self, M: int, N: int, cores: int | None = None):
        self.rank = dist.get_rank()
        self.ranks = ranks = dist.get_world_size()
        self.shape = (M, N)
        self.cores = cores = available_cores() if cores is None else cores
        self.launches = self.ended = 0  # enqueued, and known to have ended
        with _together(shape=self.shape, cores=cores):
            available = available_cores()
            # Programs wait for each other: all must be resident, and every role needs a core.
            if not 2 <= cores <= available:
                raise ValueError(f"cores: expected 2 to {available} vector cores, got {cores}")
            if not 0 <= min(self.shape) <= max(self.shape) < 2**30:
                raise ValueError(f"shape: expected M, N from 0 to below 2**30, got {self.shape}")
            symmetric = symmetric_elements(M, N, ranks=ranks, cores=cores)
            shapes = tensor_shapes(M, N, rank=self.rank, ranks=ranks)
            tensors = {name: math.prod(shape) for name, shape in shapes.items()}
            for name, elements in {**tensors, **symmetric}.items():
                if elements >= 2**31:
                    raise ValueError(f"{name}: expected fewer than 2**31 elements for 32-bit offsets, got {elements}")
        device = torch.npu.current_device()
        self.peer = ash.aclshmem_create_tensor(
            [max(symmetric["peer"], 1)],
            dtype=DTYPE,
            device_id=device,
        )
        self.signal = ash.aclshmem_create_tensor(
            [max(symmetric["signal"], 1)],
            dtype=torch.int64,
            device_id=device,
        )
        # A slot must be zero on every rank before any rank's producers write it.
        self.signal.fill_(0)
        torch.npu.synchronize()
        dist.barrier()

    def close(self) -> None:
        """Free the symmetric memory, when no rank uses it any more."""
        torch.npu.synchronize()
        dist.barrier()
        ash.aclshmem_free_tensor(self.signal)
        ash.aclshmem_free_tensor(self.peer)

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


def launch(
    a: torch.Tensor,
    workspace: Workspace,
    *,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """Enqueue the kernel on the current stream and return `c`. Every rank must launch.

    a  [M, N], any strides, copied unless rows are contiguous
    c  [M, N], any strides, copied unless rows are contiguous; where to write, a new tensor if not given

    A shape with a zero in it is a no-op.
    Raises ValueError for a wrong tensor on this rank alone, before anything is enqueued: a launch communicates on the
    device only. The other ranks, which launched, then wait for this one. Where tensors come from outside, let the ranks
    agree first, as `allreduce` does.
    """
    M, N = workspace.shape
    rank, ranks, cores = workspace.rank, workspace.ranks, workspace.cores
    if c is None:
        shape = tensor_shapes(M, N, rank=rank, ranks=ranks)["c"]
        c = torch.empty(shape, dtype=DTYPE, device=a.device)
    tensors = {"a": a, "c": c}
    _check(workspace.shape, tensors, rank=rank, ranks=ranks)
    if 0 in workspace.shape:
        return c
    a = _with_dense_rows(a)
    out = c if _has_dense_rows(c) else torch.empty_like(c, memory_format=torch.contiguous_format)
    workspace.launches += 1
    allreduce_kernel[(cores,)](
        a,
        out,
        workspace.peer,
        workspace.signal,
        rank,
        ranks,
        M,
        N,
        *a.stride()[:-1],
        *out.stride()[:-1],
        TILE_M=TILE_M,
        TILE_N=TILE_N,
        BUFFER_NUM=BUFFER_NUM,
        SLOT_WORDS=SLOT_WORDS,
        multibuffer=True,  # the next tiles are loaded while these are stored
    )
    return c if out is c else c.copy_(out)


def dump(workspace: Workspace, path: Path) -> Path:
    """Write the launch facts and every signal slot that is not zero to `path` as JSON, also while a launch hangs."""
    M, N = workspace.shape
    ranks = workspace.ranks
    facts = {
        "kernel": KERNEL,
        "pattern": "allreduce",
        "sync": "signal",
        "rank": workspace.rank,
        "ranks": ranks,
        "shape": {"M": M, "N": N},
        "launches": workspace.launches,
        "ended": workspace.ended,
        "grid": workspace.cores,
        "vector_cores": available_cores(),
        "buffer_num": BUFFER_NUM,
        "rounds": triton.cdiv(M, TILE_M),
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


def allreduce(a: torch.Tensor) -> torch.Tensor:
    """C = AllReduce of `a`, with sums over ranks. Every rank must call it.

    `a` and the result are [M, N].

    One call allocates, launches, waits and frees: keep a `Workspace` and `launch` where calls repeat.
    Raises ValueError on every rank when a rank's tensors are wrong, or do not fit those of the others.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with _together():
        if a.dim() != 2:
            raise ValueError(f"a: expected [M, N], got {tuple(a.shape)}")
        shape = (a.shape[0], a.shape[1])
        _check(shape, {"a": a}, rank=rank, ranks=ranks)
    with Workspace(*shape) as workspace:
        c = launch(a, workspace)
        synchronize(workspace)
    return c


def reference(a: torch.Tensor) -> torch.Tensor:
    """C in float32, summed by torch.distributed. Every rank must call it."""
    total = a.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def _fresh(shape: tuple[int, ...], dtype: torch.dtype, *, gap: int = 0, turned: bool = False) -> torch.Tensor:
    """A tensor of NaN on the device; with a gap it is a slice of a larger one, turned its last axes lie swapped."""
    *outer, last = (*shape[:-2], *reversed(shape[-2:])) if turned else shape
    tensor = torch.full((*outer, last + gap), float("nan"), dtype=dtype, device="npu")[..., gap:]
    return tensor.transpose(-1, -2) if turned and len(shape) > 1 else tensor


def self_check(M: int, N: int, *, launches: int = 1, seed: int = 0, dump_dir: Path = Path(".")) -> float:
    """Launch back to back on one workspace, each time on new tensors; return this rank's largest error.

    The error of an element is |c - expected| / (1 + |expected|); one that was never written is infinitely wrong.
    Every rank must call it.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = torch.Generator().manual_seed(seed * ranks + rank)
    with Workspace(M, N) as workspace:
        shapes = tensor_shapes(M, N, rank=rank, ranks=ranks)
        runs = []
        for index in range(launches):
            # In turn: dense tensors, slices, and slices whose inputs lie transposed.
            gap, turned = (16 if index % 3 else 0), index % 3 == 2
            a = _fresh(shapes["a"], DTYPE, gap=gap, turned=turned)
            a.copy_(torch.randn(a.shape, generator=own) * ranks**-0.5)
            runs.append((a, _fresh(shapes["c"], DTYPE, gap=gap)))
        for a, c in runs:
            launch(a, workspace, c=c)
        synchronize(workspace, dump_dir=dump_dir)
    largest = 0.0
    for index, (a, c) in enumerate(runs):
        expected = reference(a).float()
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
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    shape = (options.M, options.N)
    rank, ranks, device, _ = _torchrun()
    torch.npu.set_device(device)  # cores are counted on it
    with process_group(heap_bytes(*shape, ranks=ranks, cores=available_cores())):
        error = self_check(*shape, launches=options.launches, seed=options.seed)
    print(f"rank {rank}: largest error {error}, tolerance {TOLERANCE}")
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    raise SystemExit(main())
