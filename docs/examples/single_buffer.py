"""AllGather with barriers by hand: one landing buffer, and one barrier in each round.

The barrier tells that all tiles of a round have arrived. Nothing tells that they have been read: a rank that is through
with its round writes the next one over what a slower rank still reads. The results are right most of the time. Two
buffers, BUFFER_NUM = 2, are enough: a buffer is then written again after the barrier of the round between.

    fusegen simulate --ranks 2 single_buffer.py
    fusegen simulate --ranks 2 single_buffer.py --buffers 2     nothing to find
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

BLOCK_M = 16
BLOCK_N = 128


@triton.jit
def allgather_kernel(
    a_ptr,  # [M, N]
    c_ptr,  # [ranks * M, N]
    landing_ptr,  # symmetric [BUFFER_NUM, ranks, BLOCK_M, N]
    rank,
    ranks,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BUFFER_NUM: tl.constexpr,
):
    core = tl.program_id(0)
    cores = tl.num_programs(0)
    blocks_n = tl.cdiv(N, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    for block_m in range(tl.cdiv(M, BLOCK_M)):
        m = block_m * BLOCK_M + rows
        buffer = block_m % BUFFER_NUM * ranks
        for item in range(core, ranks * blocks_n, cores):
            target = (rank + item) % ranks
            n = item // ranks * BLOCK_N + tl.arange(0, BLOCK_N)
            mask = (m < M)[:, None] & (n < N)[None, :]
            tile = tl.load(a_ptr + m[:, None] * N + n[None, :], mask=mask)
            place = ((buffer + rank) * BLOCK_M + rows)[:, None] * N + n[None, :]
            tl.store(dl.symm_at(landing_ptr, target) + place, tile, mask=mask)
        libshmem_device.barrier_all_vec()
        for item in range(core, ranks * blocks_n, cores):
            source = item % ranks
            n = item // ranks * BLOCK_N + tl.arange(0, BLOCK_N)
            mask = (m < M)[:, None] & (n < N)[None, :]
            place = ((buffer + source) * BLOCK_M + rows)[:, None] * N + n[None, :]
            tile = tl.load(landing_ptr + place, mask=mask)
            tl.store(c_ptr + (source * M + m)[:, None] * N + n[None, :], tile, mask=mask)
        # BUG with BUFFER_NUM = 1: the next round writes where others may still be reading.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--buffers", type=int, default=1)
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

    shape = [arguments.buffers, ranks, BLOCK_M, N]
    landing = ash.aclshmem_create_tensor(shape, dtype=torch.float32, device_id=device)
    a = torch.arange(M * N, dtype=torch.float32).reshape(M, N).npu() + rank
    c = torch.empty((ranks * M, N), dtype=torch.float32, device="npu")
    allgather_kernel[(NPUUtils().get_aivector_core_num(),)](
        a, c, landing, rank, ranks, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BUFFER_NUM=arguments.buffers
    )
    expected = [torch.empty_like(a) for _ in range(ranks)]
    dist.all_gather(expected, a)
    torch.testing.assert_close(c, torch.cat(expected), rtol=0, atol=0)
    print("right")

    torch.npu.synchronize()
    dist.barrier()
    ash.aclshmem_free_tensor(landing)
    ash.aclshmem_finalize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
