"""Device language beyond tiles: transfers, int32 signals, waits for several slots."""

from __future__ import annotations

from tests.sim.checks import assert_exact


def test_putmem_and_getmem(run_source) -> None:
    source = """
@triton.jit
def kernel(heap_ptr, x_ptr, y_ptr, size, ranks):
    rank = dl.rank()
    libshmem_device.putmem(heap_ptr, x_ptr, size * 4, (rank + 1) % ranks)
    libshmem_device.barrier_all_vec()
    libshmem_device.getmem_nbi(y_ptr, heap_ptr, size * 4, (rank + 1) % libshmem_device.n_pes())
    libshmem_device.quiet()


def check(rank, ranks):
    x = torch.full((5,), rank, dtype=torch.int32).npu()
    y = torch.zeros(5, dtype=torch.int32).npu()
    heap = ash.aclshmem_create_tensor([5], dtype=torch.int32, device_id=rank)
    kernel[(1,)](heap, x, y, 5, ranks)
    return difference(y, [rank] * 5)
"""
    assert_exact(run_source(source, ranks=3))


def test_int32_signals(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr, y_ptr, ranks):
    rank = libshmem_device.my_pe()
    slot = flag_ptr + rank * 16
    libshmem_device.signal_op(slot, 4, libshmem_device.ACLSHMEM_SIGNAL_SET, (rank + 1) % ranks)
    before = (rank + ranks - 1) % ranks
    libshmem_device.signal_wait_until(flag_ptr + before * 16, libshmem_device.ACLSHMEM_CMP_EQ, 4)
    tl.store(y_ptr, tl.load(flag_ptr + before * 16))


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([16 * ranks], dtype=torch.int32, device_id=rank)
    flags.zero_()
    dist.barrier()
    y = torch.zeros(1, dtype=torch.int32).npu()
    kernel[(1,)](flags, y, ranks)
    return difference(y, [4])
"""
    assert_exact(run_source(source, ranks=3))


def test_wait_for_several_slots_and_scalar_store_wakes(run_source) -> None:
    source = """
@triton.jit
def kernel(flag_ptr, y_ptr):
    if tl.program_id(0) == 0:
        token = dl.wait(flag_ptr, 2, "gpu", "acquire", waitValue=3)
        tl.store(dl.consume_token(y_ptr, token), 1)
    else:
        tl.store(flag_ptr + 8, 3)
        dl.notify(flag_ptr, dl.rank(), signal=3)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([16], dtype=torch.int64, device_id=rank)
    flags.zero_()
    dist.barrier()
    y = torch.zeros(1, dtype=torch.int32).npu()
    kernel[(2,)](flags, y)
    return difference(y, [1])
"""
    assert_exact(run_source(source))
