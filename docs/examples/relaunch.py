"""AllReduce by hand, launched again and again: every launch starts in buffer 0, which the last one may still read.

Inside a launch two landing buffers and a barrier in each round are enough. Across launches they are not: with an odd
number of rounds the last one reads buffer 0, and a rank that is through starts the next launch there. Nothing orders
the end of a launch on one rank with the start of the next launch on another.

    fusegen simulate --ranks 2 relaunch.py
    fusegen simulate --ranks 2 relaunch.py --launches 1     one launch is right
    fusegen simulate --ranks 2 relaunch.py --close          and so are three with a barrier at the end of each
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
BUFFER_NUM = 2


@triton.jit
def allreduce_kernel(
    a_ptr,  # [M, N]
    c_ptr,  # [M, N]
    landing_ptr,  # symmetric [BUFFER_NUM, ranks, BLOCK_M, N]
    rank,
    ranks,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BUFFER_NUM: tl.constexpr,
    CLOSE: tl.constexpr,
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
        for block_n in range(core, blocks_n, cores):
            n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
            mask = (m < M)[:, None] & (n < N)[None, :]
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for source in range(ranks):
                place = ((buffer + source) * BLOCK_M + rows)[:, None] * N + n[None, :]
                total += tl.load(landing_ptr + place, mask=mask, other=0.0)
            tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=mask)
    # BUG without CLOSE: the last round may still be read on other ranks when this one starts its next launch.
    if CLOSE:
        libshmem_device.barrier_all_vec()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40)  # three rounds
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--close", action="store_true", help="end every launch with a barrier")
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

    landing = ash.aclshmem_create_tensor([BUFFER_NUM, ranks, BLOCK_M, N], dtype=torch.float32, device_id=device)
    torch.manual_seed(rank)
    inputs = [torch.randn((M, N)).npu() for _ in range(arguments.launches)]
    outputs = [torch.empty_like(a) for a in inputs]
    for a, c in zip(inputs, outputs, strict=True):  # one after the other on the stream, as in the layers of a model
        allreduce_kernel[(NPUUtils().get_aivector_core_num(),)](
            a, c, landing, rank, ranks, M, N, BLOCK_M, BLOCK_N, BUFFER_NUM, arguments.close
        )
    for a, c in zip(inputs, outputs, strict=True):
        dist.all_reduce(a)
        torch.testing.assert_close(c, a)
    print("right")

    torch.npu.synchronize()
    dist.barrier()
    ash.aclshmem_free_tensor(landing)
    ash.aclshmem_finalize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
