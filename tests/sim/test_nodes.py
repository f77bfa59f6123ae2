"""Ranks on several nodes: what their processes are told, which device each has, and what crosses nodes."""

from __future__ import annotations

import pytest

from fusegen.sim import SimulationError
from fusegen.sim.findings import HostError, LeakedCollective


def test_the_environment_of_every_process(run_source) -> None:
    source = """
def check(rank, ranks):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "GROUP_WORLD_SIZE")
    assert [int(os.environ[name]) for name in names] == [rank, 6, rank % 2, 2, rank // 2, rank // 2, 3]
    assert os.environ["MASTER_ADDR"] == os.environ["ASH_MASTER_ADDR"] == "192.0.2.1"
    assert (os.environ["MASTER_PORT"], os.environ["ASH_MASTER_PORT"]) == ("29500", "8666")
    assert (torch.npu.device_count(), torch.npu.current_device()) == (2, rank % 2)
    x = torch.zeros(1, device="npu")
    assert x.device.index == rank % 2 and x.to(f"npu:{rank % 2}").is_npu
    assert ash.aclshmem_create_tensor([1], dtype=torch.int32, device_id=rank % 2).device.index == rank % 2
    return 0.0
"""
    result = run_source(source, ranks=6, ranks_per_node=2)
    assert [str(finding) for finding in result.findings] == []


def test_one_node_unless_told(run_source) -> None:
    source = """
def check(rank, ranks):
    assert os.environ["LOCAL_RANK"] == os.environ["RANK"] and os.environ["LOCAL_WORLD_SIZE"] == "3"
    assert os.environ["NODE_RANK"] == "0" and os.environ["ASH_MASTER_ADDR"] == "127.0.0.1"
    return 0.0
"""
    assert run_source(source, ranks=3).ok
    assert run_source(source, ranks=3, ranks_per_node=3).ok


@pytest.mark.parametrize("ranks_per_node", [0, 3, 8])
def test_nodes_are_full(run_source, ranks_per_node: int) -> None:
    message = f"ranks_per_node: expected a divisor of 4, the number of ranks, got {ranks_per_node}"
    with pytest.raises(SimulationError, match=message):
        run_source("def check(rank, ranks):\n    return 0.0\n", ranks=4, ranks_per_node=ranks_per_node)


@pytest.mark.parametrize(
    "call",
    [
        "torch.npu.set_device(rank)",
        "torch.npu.set_device(f'npu:{rank}')",
        "torch.zeros(1, device=f'npu:{rank}')",
        "torch.zeros(1).to(torch.device('npu', rank))",
        "torch.zeros(1).npu(rank)",
        "ash.aclshmem_create_tensor([4], dtype=torch.int32, device_id=rank)",
    ],
)
def test_the_global_rank_as_device_index(run_source, call: str) -> None:
    source = f"def check(rank, ranks):\n    {call}\n    return 0.0\n"
    assert run_source(source, ranks=4, ranks_per_node=4).ok
    finding = run_source(source, ranks=4, ranks_per_node=2).findings[0]
    assert isinstance(finding, HostError)
    assert set(finding.ranks) == {2, 3}
    assert finding.location is not None
    assert finding.location.source == call
    for rank in (2, 3):
        expected = f": expected {rank - 2}, the device of rank {rank}, got {rank}: no such device, node 1 has 2"
        assert expected in finding.message


def test_the_own_node_has_other_devices_too(run_source) -> None:
    source = "def check(rank, ranks):\n    torch.npu.set_device(1 - rank % 2)\n"
    (finding,) = run_source(source, ranks=4, ranks_per_node=2).findings
    assert "torch.npu.set_device: expected 0, the device of rank 0, got 1" in finding.message
    assert "no such device" not in finding.message


LAUNCHER = """
@contextmanager
def process_group(heap):
    rank, ranks, device, local_ranks = (
        int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    )
    torch.npu.set_device(device)
    dist.init_process_group(backend="hccl", rank=rank, world_size=ranks)
    attributes = ash.InitAttr()
    attributes.my_rank = rank
    attributes.n_ranks = ranks
    attributes.local_mem_size = heap
    address = os.environ["ASH_MASTER_ADDR"]
    attributes.ip_port = f"tcp://{address}:8666"
    attributes.option_attr.data_op_engine_type = ash.OpEngineType.MTE
    assert ash.aclshmem_init(attributes) == 0
    yield
    ash.aclshmem_finalize()
    dist.destroy_process_group()


def check(rank, ranks):
    return 0.0
"""


def test_a_launcher_that_keeps_ranks_apart(run_source) -> None:
    for ranks_per_node in (1, 2, 4):
        assert run_source(LAUNCHER, ranks=4, ranks_per_node=ranks_per_node).ok


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("my_rank = rank", "my_rank = device", "expected 2 as my_rank, the global rank, RANK, got 0"),
        (
            "n_ranks = ranks",
            "n_ranks = local_ranks",
            "expected 4 as n_ranks, the number of all ranks, WORLD_SIZE, got 2",
        ),
        (
            'os.environ["ASH_MASTER_ADDR"]',
            '"127.0.0.1"',
            "expected an address of node 0 as ip_port (192.0.2.1), got tcp://127.0.0.1:8666",
        ),
        ("rank=rank", "rank=device", "init_process_group: expected rank 2, got 0"),
        (
            "set_device(device)",
            "set_device(rank)",
            "torch.npu.set_device: expected 0, the device of rank 2, got 2: no such device, node 1 has 2",
        ),
    ],
)
def test_a_launcher_that_takes_one_rank_for_the_other(run_source, old: str, new: str, message: str) -> None:
    assert old in LAUNCHER
    source = LAUNCHER.replace(old, new)
    assert run_source(source, ranks=4).ok
    finding = run_source(source, ranks=4, ranks_per_node=2).findings[0]
    assert isinstance(finding, HostError)
    assert message in finding.message
    assert isinstance(finding, LeakedCollective) == (2 in finding.ranks and 0 not in finding.ranks)


def test_mte_does_not_cross_nodes(run_source) -> None:
    source = """
ENGINES = ash.OpEngineType.MTE


@triton.jit
def kernel(heap_ptr, y_ptr, distance, ranks):
    peer = (dl.rank() + distance) % ranks
    tl.store(y_ptr, tl.load(dl.symm_at(heap_ptr, peer)))


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([1], dtype=torch.int32).fill_(rank)
    y = torch.zeros(1, dtype=torch.int32, device="npu")
    dist.barrier()
    kernel[(1,)](heap, y, DISTANCE if rank % 2 == 0 else ranks - DISTANCE, ranks)
    dist.barrier()
    return difference(y, [rank + (DISTANCE if rank % 2 == 0 else -DISTANCE)])
"""
    assert run_source(source.replace("DISTANCE", "1"), ranks=4, ranks_per_node=2).ok
    (finding,) = run_source(source.replace("DISTANCE", "2"), ranks=4, ranks_per_node=2).findings
    assert finding.kind == "Unreachable"
    rank, peer = finding.actor.rank, finding.peer
    assert (rank // 2, peer // 2) in ((0, 1), (1, 0))
    assert (
        f"heap_ptr: expected a rank of node {rank // 2}, since MTE does not cross nodes, "
        f"got rank {peer} of node {peer // 2}: use putmem or getmem"
    ) in finding.message


@pytest.mark.parametrize("engines", ["MTE", "UDMA", "MTE | ash.OpEngineType.UDMA", "MTE | ash.OpEngineType.ROCE"])
def test_a_notify_to_another_node(run_source, engines: str) -> None:
    source = f"""
ENGINES = ash.OpEngineType.{engines}


@triton.jit
def kernel(flag_ptr):
    peer = 1 - dl.rank()
    dl.notify(flag_ptr, peer, 1)
    dl.wait(flag_ptr, 1, "sys", "acquire")


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64).zero_()
    dist.barrier()
    kernel[(1,)](flags)
    torch.npu.synchronize()
    return 0.0
"""
    assert run_source(source, ranks=2).ok
    result = run_source(source, ranks=2, ranks_per_node=1)
    if engines != "MTE":
        assert result.ok
        return
    (finding,) = result.findings
    assert finding.kind == "Unreachable"
    assert "needs UDMA or ROCE: expected one of them in option_attr.data_op_engine_type, got MTE" in finding.message


def test_putmem_crosses_nodes(run_source) -> None:
    source = """
@triton.jit
def kernel(heap_ptr, x_ptr, ranks):
    peer = (dl.rank() + tl.program_id(0) + 1) % ranks
    libshmem_device.putmem(heap_ptr + dl.rank(), x_ptr, 4, peer)


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([ranks], dtype=torch.int32).fill_(rank)
    dist.barrier()
    kernel[(ranks - 1,)](heap, torch.full((1,), rank, dtype=torch.int32, device="npu"), ranks)
    dist.barrier()
    return difference(heap, list(range(ranks)))
"""
    assert run_source(source, ranks=4, ranks_per_node=2).max_abs_err == 0.0
