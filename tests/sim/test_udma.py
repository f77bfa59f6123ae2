"""UDMA: putmem and getmem move bytes exactly, and each rule of guide 1.5 has a bug that breaks it and a clean twin."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fusegen.errors import UsageError
from fusegen.sim import RunResult, dtypes
from fusegen.sim.actors import Actor
from fusegen.sim.device import LaunchKey
from fusegen.sim.engines import Links, OpEngineType
from fusegen.sim.findings import ActorName, CoreKind, Finding, Found, OutOfBounds, UdmaRule
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.machine import Machine
from fusegen.sim.memory import Pointer
from fusegen.sim.schedule.round_robin import RoundRobin
from fusegen.sim.udma import Transfer, Transfers
from tests.sim.checks import assert_complete

EXCHANGE = """
BLOCK = 1000


@triton.jit
def kernel(landing_ptr, flag_ptr, x_ptr, y_ptr, size, ranks, BLOCK: tl.constexpr):
    rank = dl.rank()
    core = tl.program_id(0)
    if core < ranks and core != rank:
        here = landing_ptr + rank * BLOCK
        libshmem_device.putmem(here, x_ptr, size, core)
        dl.notify(flag_ptr + rank * 8, core, 1)
    index = tl.arange(0, 1024)
    for source in range(core, ranks, tl.num_programs(0)):
        if source != rank:
            token = dl.wait(flag_ptr + source * 8, 1, "sys", "acquire", waitValue=1)
            tile = tl.load(dl.consume_token(landing_ptr, token) + source * BLOCK + index, mask=index < BLOCK)
            tl.store(y_ptr + source * BLOCK + index, tile, mask=index < BLOCK)


def check(rank, ranks):
    landing = ash.aclshmem_create_tensor([ranks, BLOCK], dtype=torch.float16, device_id=rank)
    flags = ash.aclshmem_create_tensor([ranks * 8], dtype=torch.int64, device_id=rank).zero_()
    dist.barrier()
    x = torch.randn(BLOCK, generator=torch.Generator().manual_seed(rank)).half().npu()
    y = torch.zeros((ranks, BLOCK), dtype=torch.float16, device="npu")
    y[rank] = x
    kernel[(ranks + 1,)](landing, flags, x, y, BLOCK * 2, ranks, BLOCK=BLOCK)
    expected = torch.empty_like(y)
    dist.all_gather_into_tensor(expected, x)
    return difference(y, expected.cpu())
"""
"""All ranks gather the blocks of all, pushed by one core for each target."""

PUT = "libshmem_device.putmem(here, x_ptr, size, core)"


def broken(run_source: Any, *edits: tuple[str, str], rule: str, **options: Any) -> UdmaRule:
    """The only finding of EXCHANGE with texts replaced."""
    source = EXCHANGE
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    (finding,) = run_source(source, **{"ranks": 2, **options}).findings
    assert_complete(finding, rule=rule)
    return finding


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("target", [None, "Ascend950PR_9599", "Ascend950PR_957c"])
def test_the_twin_is_clean_and_exact(run_source, ranks: int, target: str | None) -> None:
    result = run_source(EXCHANGE, ranks=ranks, target=target)
    assert result.findings == ()
    assert result.max_abs_err == 0.0


def test_udma_alone_is_enough_for_putmem_and_notify(run_source) -> None:
    assert run_source("ENGINES = ash.OpEngineType.UDMA\n" + EXCHANGE, ranks=3).ok


def test_dst_of_putmem_from_symm_at(run_source) -> None:
    edit = ("here = landing_ptr", "here = dl.symm_at(landing_ptr, core)")
    finding = broken(run_source, edit, rule="mapped address", schedule="random", seed=5)
    rank = finding.actor.rank
    assert finding.peer == 1 - rank
    assert finding.location.source == PUT
    assert (
        f"putmem with rank {finding.peer}: expected as dst the symmetric address of the own rank, which names rank "
        f"{finding.peer}'s memory too, got landing_ptr on rank {finding.peer} (dl.symm_at)"
    ) in finding.message


def test_dst_of_putmem_in_an_ordinary_tensor(run_source) -> None:
    finding = broken(run_source, ("here = landing_ptr", "here = y_ptr"), rule="symmetric address")
    assert "expected as dst a pointer into the symmetric heap, got y_ptr, an ordinary tensor" in finding.message


def test_src_of_putmem_on_another_rank(run_source) -> None:
    edit = ("putmem(here, x_ptr,", "putmem(here, dl.symm_at(landing_ptr, core),")
    finding = broken(run_source, edit, rule="local address")
    assert "expected as src memory of the own rank, got landing_ptr on rank" in finding.message


def test_src_of_putmem_may_be_symmetric(run_source) -> None:
    stage = "    staged = ash.aclshmem_create_tensor([BLOCK], dtype=torch.float16, device_id=rank).copy_(x)\n    kernel"
    assert run_source(EXCHANGE.replace("    kernel", stage).replace("flags, x, y", "flags, staged, y"), ranks=2).ok


def test_a_second_core_for_one_rank(run_source) -> None:
    halves = (
        "if core < ranks and core != rank:\n",
        "core = core // 2\n    half = tl.program_id(0) % 2 * (BLOCK // 2)\n    if core < ranks and core != rank:\n",
    )
    put = (PUT, "libshmem_device.putmem(here + half, x_ptr + half, size // 2, core)")
    grid = ("kernel[(ranks + 1,)]", "kernel[(2 * ranks,)]")
    finding = broken(run_source, halves, put, grid, rule="single core")
    first, second = finding.other, finding.actor
    assert first is not None
    assert first.rank == second.rank == 1 - finding.peer
    assert {first.program, second.program} == {2 * finding.peer, 2 * finding.peer + 1}
    assert (
        f"expected all requests of a launch to rank {finding.peer} from one core, {first} issued one before, got one"
        in (finding.message)
    )
    assert f"from {second}: quiet keeps one slot for each rank" in finding.message


def test_another_core_in_the_next_launch(run_source) -> None:
    launch = "    kernel[(ranks + 1,)]"
    again = "    shifted[(ranks + 1,)](landing, x, BLOCK * 2, ranks)\n" * 2
    source = EXCHANGE.replace(launch, again + launch).replace(
        "def check",
        """@triton.jit
def shifted(landing_ptr, x_ptr, size, ranks):
    target = tl.program_id(0) - 1
    if target >= 0 and target != dl.rank():
        libshmem_device.putmem(landing_ptr + dl.rank() * BLOCK, x_ptr, size, target)


def check""",
    )
    assert run_source(source, ranks=2).ok


def test_the_own_rank(run_source) -> None:
    finding = broken(run_source, ("if core < ranks and core != rank:", "if core < ranks:"), rule="own rank", ranks=1)
    assert "putmem with rank 0: expected another rank: tl.load and tl.store move data inside a rank" in finding.message


@pytest.mark.parametrize("nbytes", ["size.to(tl.int64) << 32", "size - size", "(size - size) - 2"])
def test_bytes_that_uint32_does_not_hold(run_source, nbytes: str) -> None:
    finding = broken(run_source, ("x_ptr, size, core", f"x_ptr, {nbytes}, core"), rule="size")
    got = {"size.to(tl.int64) << 32": 2000 << 32, "size - size": 0, "(size - size) - 2": -2}[nbytes]
    assert f"expected 1 to 4294967295 bytes, which uint32 holds, got {got} (guide" in finding.message


def test_a_target_without_udma(run_source) -> None:
    finding = broken(run_source, rule="target", target="Ascend910B3")
    assert "expected a target of the 950 family, got Ascend910B3, which has no UDMA" in finding.message


def test_an_unknown_target(run_source) -> None:
    with pytest.raises(UsageError, match="expected a known target, got Ascend951"):
        run_source(EXCHANGE, target="Ascend951")


@pytest.mark.parametrize(("engines", "got"), [("MTE", "MTE"), ("MTE | ash.OpEngineType.ROCE", "MTE | ROCE")])
def test_udma_not_initialised(run_source, engines: str, got: str) -> None:
    edit = ("\nBLOCK = 1000\n", f"\nBLOCK = 1000\nENGINES = ash.OpEngineType.{engines}\n")
    finding = broken(run_source, edit, rule="engine")
    assert f"expected ash.OpEngineType.UDMA in option_attr.data_op_engine_type, got {got} (guide" in finding.message


@pytest.mark.parametrize(
    "access",
    [
        "tl.load(dl.symm_at(heap_ptr, peer))",
        "tl.store(dl.symm_at(heap_ptr, peer) + tl.arange(0, 4), 1)",
        "tl.atomic_add(dl.symm_at(heap_ptr, peer), 1)",
        "dl.wait(dl.symm_at(heap_ptr, peer), 1, 'sys', 'acquire', waitValue=0)",
    ],
)
@pytest.mark.parametrize("engines", ["UDMA", "UDMA | ash.OpEngineType.MTE"])
def test_symm_at_without_mte(run_source, access: str, engines: str) -> None:
    source = f"""
ENGINES = ash.OpEngineType.{engines}


@triton.jit
def kernel(heap_ptr, peer):
    {access}


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([64], dtype=torch.int64, device_id=rank).zero_()
    dist.barrier()
    kernel[(1,)](heap, rank)
    torch.npu.synchronize()
    kernel[(1,)](heap, 1 - rank)
    torch.npu.synchronize()
    return 0.0
"""
    result = run_source(source, ranks=2)
    if "MTE" in engines:
        assert result.ok
        return
    (finding,) = result.findings
    assert finding.kind == "Unreachable"
    assert finding.location.source == access
    assert (finding.tensor, finding.peer) == ("heap_ptr", 1 - finding.actor.rank)
    assert (
        "heap_ptr: loads and stores through dl.symm_at need MTE: "
        "expected it in option_attr.data_op_engine_type, got UDMA"
    ) in finding.message


def pull(run_source: Any, call: str, **options: Any) -> RunResult:
    """A run in which rank 0 and rank 1 get what the other has, and check it."""
    source = f"""
@triton.jit
def kernel(heap_ptr, x_ptr, y_ptr, peer):
    {call}


def check(rank, ranks):
    heap = ash.aclshmem_create_tensor([8], dtype=torch.int32, device_id=rank)
    heap.copy_(torch.arange(8) + 100 * rank)
    dist.barrier()
    x, y = (torch.zeros(8, dtype=torch.int32).npu() for _ in range(2))
    kernel[(1,)](heap, x, y, 1 - rank)
    torch.npu.synchronize()
    assert y.tolist() == [0, 0] + [100 * (1 - rank) + i for i in range(1, 6)] + [0]
    return 0.0
"""
    return run_source(source, **{"ranks": 2, **options})


def test_getmem_is_exact(run_source) -> None:
    assert pull(run_source, "libshmem_device.getmem(y_ptr + 2, heap_ptr + 1, 20, peer)").ok


@pytest.mark.parametrize(
    ("call", "rule", "message"),
    [
        (
            "getmem(y_ptr + 2, dl.symm_at(heap_ptr, peer) + 1, 20, peer)",
            "mapped address",
            "expected as src the symmetric address of the own rank",
        ),
        ("getmem(y_ptr + 2, x_ptr + 1, 20, peer)", "symmetric address", "got x_ptr, an ordinary tensor"),
        (
            "getmem(dl.symm_at(heap_ptr, peer), heap_ptr + 1, 20, peer)",
            "local address",
            "expected as dst memory of the own rank, got heap_ptr on rank",
        ),
        ("getmem(y_ptr + 2, heap_ptr + 1, 20, 1 - peer)", "own rank", "got the own rank"),
        ("getmem_nbi(y_ptr + 2, heap_ptr + 1, 20, 1 - peer)", "own rank", "got the own rank"),
    ],
)
def test_rules_of_getmem(run_source, call: str, rule: str, message: str) -> None:
    (finding,) = pull(run_source, f"libshmem_device.{call}").findings
    assert_complete(finding, rule=rule)
    assert message in finding.message
    assert f": {call.split('(')[0]} with rank {finding.peer}: " in finding.message


@pytest.mark.parametrize(
    ("call", "tensor", "last"),
    [
        ("getmem(y_ptr + 2, heap_ptr + 1, 32, peer)", "heap_ptr", 35),
        ("getmem(y_ptr + 4, heap_ptr + 1, 20, peer)", "y_ptr", 35),
        ("putmem(heap_ptr, x_ptr - 1, 8, peer)", "x_ptr", 3),
    ],
)
def test_bounds_in_bytes(run_source, call: str, tensor: str, last: int) -> None:
    (finding,) = pull(run_source, f"libshmem_device.{call}").findings
    assert isinstance(finding, OutOfBounds)
    assert (finding.tensor, finding.last, finding.elements) == (tensor, last, 32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int64", "bool"])
def test_bytes_of_every_type(run_source, dtype: str) -> None:
    source = f"""
@triton.jit
def kernel(heap_ptr, x_ptr, nbytes, peer):
    libshmem_device.putmem(heap_ptr + 1, x_ptr, nbytes, peer)


def check(rank, ranks):
    values = (torch.arange(7) + rank).to(torch.{dtype})
    heap = ash.aclshmem_create_tensor([8], dtype=torch.{dtype}, device_id=rank).zero_()
    dist.barrier()
    kernel[(1,)](heap, values.npu(), 7 * values.dtype.itemsize, 1 - rank)
    dist.barrier()
    return difference(heap, torch.cat([values[:1] * 0, (torch.arange(7) + 1 - rank).to(torch.{dtype})]))
"""
    assert run_source(source, ranks=2).max_abs_err == 0.0


def test_both_vector_cores_of_an_ai_core_are_two_cores() -> None:
    """In a mix kernel the AIC and both AIVs of a program are actors, of which one may address a peer."""
    links = Links(ranks_per_node=2)
    links.engines = {rank: OpEngineType.UDMA for rank in range(2)}
    heap = SymmetricHeap(ranks=2, links=links)
    heap.limits = {0: 4096, 1: 4096}
    own, _ = (heap.memory_of(tensor.untyped_storage().data_ptr()) for tensor in heap.allocate([64], torch.int8))
    assert own is not None
    machine = Machine(RoundRobin(), step_limit=10, is_source=lambda file: False)
    transfers = Transfers(machine, links)

    def put(kind: CoreKind, sub_vec_id: int | None, launch: int, *, core: int = 3) -> Finding | None:
        name = ActorName(rank=0, kind=kind, core=core, program=7, sub_vec_id=sub_vec_id)
        machine.current = Actor(name)
        pointer = Pointer(own, dtypes.int8, 0, "x_ptr")
        transfer = Transfer("putmem", machine.current, LaunchKey("kernel", launch), 1, pointer, pointer, 64)
        try:
            transfers.check(transfer)
        except Found as found:
            return found.finding
        return None

    assert put("AIV", 1, 1) is None
    assert put("AIV", 1, 1) is None
    for kind, sub_vec_id, text in (("AIV", 0, "AIV 0"), ("AIC", None, "AIC")):
        finding = put(kind, sub_vec_id, 1)
        assert isinstance(finding, UdmaRule)
        assert finding.rule == "single core"
        assert str(finding.other) == "rank 0 core 3 AIV 1 program 7"
        assert f"got one from rank 0 core 3 {text} program 7: quiet keeps one slot" in finding.message
    assert put("AIV", 0, 2) is None
    assert put("AIV", 0, 2, core=5) is None
