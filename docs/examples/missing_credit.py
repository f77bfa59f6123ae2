"""All2All by hand: C_r[q, m, n] = A_q[r, m, n]. The consumer forgets to give slots back.

Small shapes pass. With more blocks than landing buffers, a producer waits for a place that nobody frees: all devices
hang. The last two lines of the consumer of allgather.py, a fence and a notify of 0, are what is missing.

    fusegen simulate --ranks 2 missing_credit.py               finds the hang
    fusegen simulate --ranks 2 missing_credit.py --rows 64     runs through: two blocks fit
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
def all2all_kernel(
    a_ptr,  # [ranks, M, N]
    c_ptr,  # [ranks, M, N]
    landing_ptr,  # symmetric [BUFFER_NUM, ranks, BLOCK_M, BLOCK_N]
    signal_ptr,  # symmetric [BUFFER_NUM, ranks] slots: 0 free, 1 full
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
    rows = tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    inside = rows[:, None] * BLOCK_N + n[None, :]
    for block_m in range(tl.cdiv(M, BLOCK_M)):
        buffer = block_m % BUFFER_NUM
        m = block_m * BLOCK_M + rows
        mask = (m < M)[:, None] & (n < N)[None, :]
        for peer in range(core, ranks, cores):
            a_place = (peer * M + m)[:, None] * N + n[None, :]
            if tl.program_id(0) % 2 == 0:
                slot = buffer * ranks + rank
                token = dl.wait(dl.symm_at(signal_ptr, peer) + slot * SLOT_WORDS, 1, "sys", "acquire", waitValue=0)
                remote = dl.consume_token(dl.symm_at(landing_ptr, peer), token)
                tile = tl.load(a_ptr + a_place, mask=mask)
                tl.store(remote + slot * BLOCK_M * BLOCK_N + inside, tile, mask=mask)
                libshmem_device.fence()
                dl.notify(signal_ptr + slot * SLOT_WORDS, peer, 1)
            else:
                slot = buffer * ranks + peer
                token = dl.wait(signal_ptr + slot * SLOT_WORDS, 1, "sys", "acquire", waitValue=1)
                landing = dl.consume_token(landing_ptr, token)
                tile = tl.load(landing + slot * BLOCK_M * BLOCK_N + inside, mask=mask)
                tl.store(c_ptr + a_place, tile, mask=mask)
                # BUG: the slot still holds 1, and its producer waits for 0 before the next block.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=150)
    M, N = parser.parse_args().rows, BLOCK_N

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

    shape = [BUFFER_NUM, ranks, BLOCK_M, BLOCK_N]
    landing = ash.aclshmem_create_tensor(shape, dtype=torch.float16, device_id=device)
    signal = ash.aclshmem_create_tensor([BUFFER_NUM * ranks * SLOT_WORDS], dtype=torch.int64, device_id=device)
    signal.fill_(0)
    torch.npu.synchronize()
    dist.barrier()  # nobody signals before everybody has zeroed

    torch.manual_seed(rank)
    a = torch.randn((ranks, M, N), dtype=torch.float16).npu()
    c = torch.empty_like(a)
    cores = NPUUtils().get_aivector_core_num() // 2 * 2  # as many producers as consumers
    all2all_kernel[(cores,)](
        a, c, landing, signal, rank, ranks, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BUFFER_NUM=BUFFER_NUM
    )
    expected = torch.empty_like(c)
    dist.all_to_all_single(expected, a)
    torch.testing.assert_close(c, expected, rtol=0, atol=0)
    print("right")

    ash.aclshmem_free_tensor(signal)
    ash.aclshmem_free_tensor(landing)
    ash.aclshmem_finalize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
