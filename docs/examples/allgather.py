"""AllGather by hand: C[q * M + m, n] = A_q[m, n] on every rank, through a ring of landing buffers with credits.

On devices: torchrun --nproc-per-node 8 allgather.py
On a laptop: fusegen simulate --ranks 2 allgather.py
"""

import argparse
import os

import shmem as ash
import torch
import torch.distributed as dist
import torch_npu  # noqa: F401  registers the npu device
import triton
import triton.language as tl
import triton_dist.language as dl
from triton.backends.ascend.driver import NPUUtils
from triton_dist.language.extra import libshmem_device

BLOCK_M = 32
BLOCK_N = 128
BUFFER_NUM = 2
SLOT_WORDS = tl.constexpr(8)  # a signal slot is one 64-byte line


@triton.jit
def allgather_kernel(
    a_ptr,  # [M, N]
    c_ptr,  # [ranks * M, N]
    landing_ptr,  # symmetric [BUFFER_NUM, ranks, BLOCK_M, N]
    signal_ptr,  # symmetric [BUFFER_NUM, ranks, blocks_n] slots: 0 free, 1 full
    rank,
    ranks,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BUFFER_NUM: tl.constexpr,
):
    core = tl.program_id(0) // 2
    cores = tl.num_programs(0) // 2
    is_producer = tl.program_id(0) % 2 == 0
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    for block_m in range(blocks_m):
        buffer = block_m % BUFFER_NUM
        m = block_m * BLOCK_M + rows
        # The same core serves the same slots in every round: that is what makes 0 and 1 enough.
        for item in range(core, ranks * blocks_n, cores):
            block_n = item // ranks
            n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
            mask = (m < M)[:, None] & (n < N)[None, :]
            if is_producer:
                target = (rank + item) % ranks
                slot = ((buffer * ranks + rank) * blocks_n + block_n) * SLOT_WORDS
                place = ((buffer * ranks + rank) * BLOCK_M + rows)[:, None] * N + n[None, :]
                token = dl.wait(dl.symm_at(signal_ptr, target) + slot, 1, "sys", "acquire", waitValue=0)
                remote = dl.consume_token(dl.symm_at(landing_ptr, target), token)
                tile = tl.load(a_ptr + m[:, None] * N + n[None, :], mask=mask)
                tl.store(remote + place, tile, mask=mask)
                libshmem_device.fence()  # the tile before the news of it
                dl.notify(signal_ptr + slot, target, 1)
            else:
                source = (rank + ranks - item % ranks) % ranks
                slot = ((buffer * ranks + source) * blocks_n + block_n) * SLOT_WORDS
                place = ((buffer * ranks + source) * BLOCK_M + rows)[:, None] * N + n[None, :]
                token = dl.wait(signal_ptr + slot, 1, "sys", "acquire", waitValue=1)
                landing = dl.consume_token(landing_ptr, token)
                tile = tl.load(landing + place, mask=mask)
                tl.store(c_ptr + (source * M + m)[:, None] * N + n[None, :], tile, mask=mask)
                libshmem_device.fence()  # the tile has been read before its place is free
                dl.notify(signal_ptr + slot, rank, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--launches", type=int, default=3)
    arguments = parser.parse_args()
    M, N = arguments.rows, arguments.columns

    device = int(os.environ["LOCAL_RANK"])
    torch.npu.set_device(device)
    dist.init_process_group(backend="hccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    ash.set_conf_store_tls(False, "")
    attributes = ash.InitAttr()
    attributes.my_rank, attributes.n_ranks, attributes.local_mem_size = rank, ranks, 64 << 20
    attributes.ip_port = f"tcp://{os.environ['MASTER_ADDR']}:8666"
    attributes.option_attr.data_op_engine_type = ash.OpEngineType.MTE
    assert ash.aclshmem_init(attributes) == 0

    slots = BUFFER_NUM * ranks * triton.cdiv(N, BLOCK_N)
    landing = ash.aclshmem_create_tensor([BUFFER_NUM, ranks, BLOCK_M, N], dtype=torch.bfloat16, device_id=device)
    signal = ash.aclshmem_create_tensor([slots * SLOT_WORDS], dtype=torch.int64, device_id=device)
    signal.fill_(0)
    torch.npu.synchronize()
    dist.barrier()  # nobody signals before everybody has zeroed

    cores = NPUUtils().get_aivector_core_num() // 2 * 2  # as many producers as consumers
    for launch in range(arguments.launches):
        torch.manual_seed(launch * ranks + rank)
        a = torch.randn((M, N), dtype=torch.bfloat16).npu()
        c = torch.empty((ranks * M, N), dtype=torch.bfloat16, device="npu")
        allgather_kernel[(cores,)](
            a, c, landing, signal, rank, ranks, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BUFFER_NUM=BUFFER_NUM
        )
        expected = torch.empty_like(c)
        dist.all_gather_into_tensor(expected, a)
        torch.testing.assert_close(c, expected, rtol=0, atol=0)
    print(f"{arguments.launches} launches are right")

    ash.aclshmem_free_tensor(signal)
    ash.aclshmem_free_tensor(landing)
    ash.aclshmem_finalize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
