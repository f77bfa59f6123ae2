"""torch.distributed, torch.npu and shmem as scripts use them, over several numbers of ranks, against plain torch."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from fusegen.sim.errors import Unsupported
from tests.sim.scripts import assert_clean, run_script

WORLDS = [1, 2, 3, 8]

VALUES = """
def values(rank, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank))

def same(got, expected):
    assert torch.equal(got.cpu(), expected), (got, expected)

def total(tensors):
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        result += tensor
    return result

"""


@pytest.mark.parametrize("ranks", WORLDS)
def test_collectives_by_the_names_of_their_parameters(tmp_path: Path, ranks: int) -> None:
    text = """
    everything = [values(rank, RANKS, 3) for rank in range(RANKS)]
    mine = everything[RANK].npu()
    whole = torch.empty(RANKS * RANKS, 3, device="npu")
    dist.all_gather_into_tensor(output_tensor=whole, input_tensor=mine)
    same(whole, torch.cat(everything))
    parts = [torch.empty_like(mine) for _ in range(RANKS)]
    dist.all_gather(tensor_list=parts, tensor=mine)
    same(torch.stack(parts), torch.stack(everything))
    row = torch.empty(1, 3, device=f"npu:{RANK}")
    dist.reduce_scatter_tensor(output=row, input=mine)
    same(row[0], total(everything)[RANK])
    dist.reduce_scatter(output=row[0], input_list=list(mine))
    same(row[0], total(everything)[RANK])
    reduced = mine.clone()
    dist.all_reduce(tensor=reduced, op=dist.ReduceOp.MAX)
    same(reduced, torch.stack(everything).amax(0))
    sent = mine.clone()
    dist.broadcast(tensor=sent, src=RANKS - 1)
    same(sent, everything[-1])
    swapped = torch.empty_like(mine)
    dist.all_to_all_single(output=swapped, input=mine)
    same(swapped, torch.stack([each[RANK] for each in everything]))
    lists = [torch.empty(3, device="npu") for _ in range(RANKS)]
    dist.all_to_all(output_tensor_list=lists, input_tensor_list=list(mine))
    same(torch.stack(lists), torch.stack([each[RANK] for each in everything]))
    objects = [None] * RANKS
    dist.all_gather_object(object_list=objects, obj={"rank": RANK})
    assert objects == [{"rank": rank} for rank in range(RANKS)]
    words = ["from", RANK]
    dist.broadcast_object_list(object_list=words, src=RANKS - 1)
    assert words == ["from", RANKS - 1]
    dist.barrier(device_ids=[RANK])
    assert dist.is_initialized() and dist.get_backend() == "hccl"
    dist.destroy_process_group()
    assert not dist.is_initialized()
    """
    assert_clean(run_script(tmp_path, VALUES + dedent(text), ranks=ranks))


@pytest.mark.parametrize("ranks", WORLDS)
def test_parts_of_different_sizes(tmp_path: Path, ranks: int) -> None:
    """Rank r sends r + q rows to rank q."""
    text = """
    everything = [values(rank, sum(rank + other for other in range(RANKS)), 2) for rank in range(RANKS)]
    sizes = [RANK + other for other in range(RANKS)]
    got = torch.empty(sum(sizes), 2, device="npu")
    dist.all_to_all_single(got, everything[RANK].npu(), sizes, sizes)
    expected = [each.split([rank + other for other in range(RANKS)])[RANK] for rank, each in enumerate(everything)]
    same(got, torch.cat(expected))
    """
    assert_clean(run_script(tmp_path, VALUES + dedent(text), ranks=ranks))


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    text = """
    sizes = [1, 2] if RANK else [1, 1]  # rank 1 has one more row for itself than it expects
    dist.all_to_all_single(torch.empty(2).npu(), torch.empty(sum(sizes)).npu(), [1, 1], sizes)
    """
    (finding,) = run_script(tmp_path, text).findings
    assert finding.kind == "CollectiveMismatch"
    assert finding.message.endswith(
        "all_to_all_single: rank 1 of the group sends a tensor of (2,) torch.float32 to rank 1, "
        "which expects one of (1,) torch.float32"
    )


@pytest.mark.parametrize("ranks", WORLDS)
def test_groups(tmp_path: Path, ranks: int) -> None:
    """Even ranks, odd ranks and all ranks, whose collectives come in different orders."""
    text = """
    evens, odds = list(range(0, RANKS, 2)), list(range(1, RANKS, 2)) or [0]
    groups = [dist.new_group(evens), dist.new_group(ranks=odds, backend="hccl"), dist.new_group()]
    for members, group in ((evens, groups[0]), (odds, groups[1]), (list(range(RANKS)), groups[2])):
        if RANK not in members:
            assert group is dist.GroupMember.NON_GROUP_MEMBER
            assert dist.get_rank(group) == dist.get_world_size(group) == -1
        else:
            assert dist.get_rank(group) == group.rank() == members.index(RANK)
            assert dist.get_world_size(group=group) == group.size() == len(members)
            assert dist.get_process_group_ranks(group) == members
            assert dist.get_global_rank(group, len(members) - 1) == members[-1]
            assert dist.get_group_rank(group, members[-1]) == len(members) - 1
        everything = [values(rank, len(members), 3) for rank in members]
        mine = values(RANK, len(members), 3).npu()
        before = mine.clone()
        dist.all_reduce(mine, group=group)
        same(mine, total(everything) if RANK in members else before.cpu())
        gathered = torch.zeros(len(members) ** 2, 3, device="npu")
        dist.all_gather_into_tensor(gathered, before, group=group)
        same(gathered, torch.cat(everything) if RANK in members else torch.zeros(len(members) ** 2, 3))
        swapped = torch.zeros_like(before)
        dist.all_to_all_single(swapped, before, group=group)
        if RANK in members:
            same(swapped, torch.stack([each[members.index(RANK)] for each in everything]))
        dist.broadcast(before, src=members[-1], group=group)
        same(before, everything[-1] if RANK in members else values(RANK, len(members), 3))
        dist.barrier(group=group)
    for _ in range(RANK % 2 + 1):  # odd ranks meet more often than even ones
        dist.barrier(group=groups[RANK % 2])
    dist.barrier(group=dist.group.WORLD)
    """
    assert_clean(run_script(tmp_path, VALUES + dedent(text), ranks=ranks))


def test_a_member_that_does_not_come(tmp_path: Path) -> None:
    text = """
    group = dist.new_group([0, 2])
    if RANK != 2:
        dist.barrier(group=group)
    """
    (finding,) = run_script(tmp_path, text, ranks=3).findings
    assert finding.kind == "Deadlock"
    assert "rank 0 host waits for the other ranks in barrier of ranks 0, 2" in finding.message


def test_different_collectives_of_a_group(tmp_path: Path) -> None:
    text = """
    group = dist.new_group([0, 2])
    dist.barrier(group=group) if RANK else dist.all_reduce(torch.zeros(1).npu(), group=group)
    """
    (finding,) = run_script(tmp_path, text, ranks=3).findings
    assert finding.kind == "CollectiveMismatch"
    assert "collective 0 differs between ranks 0, 2: rank 0: all_reduce of (1,)" in finding.message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("dist.new_group([0, 2])", "new_group: expected different ranks from 0 to 1, got [0, 2]"),
        ("dist.new_group([0, 0])", "new_group: expected different ranks from 0 to 1, got [0, 0]"),
        ("dist.new_group([])", "new_group: expected different ranks from 0 to 1, got []"),
        ("dist.barrier(group=[0, 1])", "barrier: expected a process group, got list"),
        ("dist.broadcast_object_list([1], src=2)", "broadcast_object_list: expected 0 to 1 as src, got 2"),
        ("dist.all_to_all([], [])", "all_to_all: expected 2 outputs, one for each rank, got 0"),
        ("dist.get_global_rank(None, 2)", "get_global_rank: expected a rank of the group, 0 to 1, got 2"),
        ("dist.get_group_rank(None, 2)", "get_group_rank: expected a rank of the group, one of [0, 1], got 2"),
        (
            "dist.all_to_all_single(torch.zeros(2).npu(), torch.zeros(2).npu(), [1, 1], [2, 1])",
            "all_to_all_single: expected 2 input_split_sizes with the sum 2, got [2, 1]",
        ),
    ],
)
def test_what_collectives_refuse(tmp_path: Path, call: str, message: str) -> None:
    (finding,) = run_script(tmp_path, call).findings
    assert message in finding.message


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("dist.new_group([0], use_local_synchronization=True)", "new_group with use_local_synchronization"),
        ("dist.send(torch.zeros(1), 1)", "torch.distributed.send"),
        ("torch.multiprocessing.spawn(print, nprocs=2)", "torch.multiprocessing.spawn"),
        ("torch.set_default_device('npu')", "torch.set_default_device"),
        ("with torch.device('npu'):\n    pass", "torch.device as a context manager"),
    ],
)
def test_what_is_not_supported(tmp_path: Path, call: str, name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        run_script(tmp_path, call)


@pytest.mark.parametrize("ranks", WORLDS)
def test_devices(tmp_path: Path, ranks: int) -> None:
    text = """
    torch.npu.init()
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    torch.npu.set_device("npu:" + str(RANK))
    torch_npu.npu.set_device(torch.device("npu", RANK))
    assert torch.npu.is_available() and torch.npu.is_initialized()
    assert torch.npu.current_device() == RANK and torch.npu.device_count() == RANKS
    places = ("npu", f"npu:{RANK}", torch.device("npu"), torch.device(f"npu:{RANK}"), torch.npu.current_device())
    for place in places:
        tensor = torch.zeros(3, device=place)
        assert tensor.is_npu and str(tensor.device) == f"npu:{RANK}" and tensor.device.type == "npu"
        assert tensor.device.index == RANK and tensor.device == torch.device(f"npu:{RANK}")
    host = torch.arange(3)
    for moved in (host.npu(), host.npu(RANK), host.npu(f"npu:{RANK}"), host.to("npu"), host.to(torch.device("npu"))):
        assert moved.is_npu and not host.is_npu and torch.equal(moved.cpu(), host)
    with torch.npu.device(RANK):
        assert (host.npu() + 1).is_npu and not (host.npu() + 1).cpu().is_npu
    torch.npu.manual_seed(5)
    first = torch.randn(3, device="npu")
    torch.npu.manual_seed_all(5)
    assert torch.equal(first, torch.randn(3).npu())
    generator = torch.Generator(device="npu").manual_seed(7)
    numbers = torch.randn(3, generator=generator, device="npu").cpu()
    assert torch.equal(numbers, torch.randn(3, generator=torch.Generator().manual_seed(7)))
    stream, start, end = torch.npu.Stream(), torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream != torch.npu.default_stream()
        start.record()
        end.record()
    torch.npu.current_stream().wait_stream(stream)
    torch.npu.synchronize()
    torch.npu.empty_cache()
    assert start.elapsed_time(end) >= 0
    """
    assert_clean(run_script(tmp_path, text, ranks=ranks))


def test_modules_and_numpy(tmp_path: Path) -> None:
    text = """
    layer = torch.nn.Linear(2, 3).npu()
    assert layer(torch.ones(2, device="npu")).is_npu and layer.weight.is_npu
    assert torch.ones(2).pin_memory().npu().cpu().numpy().tolist() == [1.0, 1.0]
    torch.ones(2).npu().numpy()
    """
    (finding,) = run_script(tmp_path, text).findings
    assert finding.message.startswith(
        "ranks 0, 1 raised TypeError at script.py:20: `torch.ones(2).npu().numpy()`: "
        "can't convert npu:0 device type tensor to numpy: expected a tensor after Tensor.cpu()"
    )


def test_another_device_than_the_own(tmp_path: Path) -> None:
    (finding,) = run_script(tmp_path, "with torch.npu.device(0):\n    pass\n").findings
    assert finding.ranks == (1,)
    assert "expected 1, the device of rank 1, got 0" in finding.message
    (finding,) = run_script(tmp_path, "torch.zeros(1, device=0)\n").findings
    assert finding.ranks == (1,)


@pytest.mark.parametrize("finalize", ["aclshmem_finalize", "aclshmem_finialize"])
@pytest.mark.parametrize("ranks", WORLDS)
def test_symmetric_memory(tmp_path: Path, ranks: int, finalize: str) -> None:
    text = f"""
    assert ash.set_conf_store_tls(False, "") == 0
    attributes = ash.InitAttr()
    assert ash.aclshmem_init(attributes) != 0
    attributes.my_rank, attributes.n_ranks, attributes.local_mem_size = RANK, RANKS, 1 << 20
    attributes.ip_port = f"tcp://{{os.environ['MASTER_ADDR']}}:8666"
    attributes.option_attr.data_op_engine_type = ash.OpEngineType.MTE | ash.OpEngineType.UDMA
    assert ash.aclshmem_init(attributes) == 0
    tensor = ash.aclshmem_create_tensor((4, 3), dtype=torch.float16, device_id=torch.npu.current_device())
    assert tensor.shape == (4, 3) and tensor.dtype == torch.float16 and tensor.is_npu
    tensor.fill_(RANK)
    assert tensor.sum().item() == 12 * RANK
    ash.aclshmem_free_tensor(tensor)
    ash.{finalize}()
    """
    assert_clean(run_script(tmp_path, text, ranks=ranks))
