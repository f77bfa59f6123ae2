"""torch.distributed on the emulated machine: values, orders of reduction, and what is refused."""

from __future__ import annotations

import pytest

from fusegen.sim.findings import HostError

TYPES = ["float16", "bfloat16", "float32", "int64"]


def assert_clean(result) -> None:
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("dtype", TYPES)
def test_values(run_source, device: str, dtype: str) -> None:
    source = f"""
DEVICE, DTYPE = "{device}", torch.{dtype}


def make(rank, *shape):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(rank)) * 100
    return values.to(DTYPE).to(DEVICE)


def same(got, expected):
    assert got.is_npu == (DEVICE == "npu") and got.dtype == DTYPE
    assert torch.equal(got.cpu(), expected.cpu()), (got, expected)


def check(rank, ranks):
    all_ranks = [make(r, ranks * 2, 3) for r in range(ranks)]
    x = all_ranks[rank].clone()
    total = all_ranks[0] + all_ranks[1] + all_ranks[2]

    whole = torch.empty((ranks * ranks * 2, 3), dtype=DTYPE, device=DEVICE)
    dist.all_gather_into_tensor(whole, x)
    same(whole, torch.cat(all_ranks))
    stacked = torch.empty((ranks, ranks * 2, 3), dtype=DTYPE, device=DEVICE)
    dist.all_gather_into_tensor(stacked, x)
    same(stacked, torch.stack(all_ranks))
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x)
    same(torch.stack(parts), torch.stack(all_ranks))
    columns = torch.zeros((ranks * 2, 3 * ranks), dtype=DTYPE, device=DEVICE)
    dist.all_gather(list(columns.chunk(ranks, dim=1)), x)
    same(columns, torch.cat(all_ranks, dim=1))

    part = torch.empty((2, 3), dtype=DTYPE, device=DEVICE)
    dist.reduce_scatter_tensor(part, x)
    same(part, total[2 * rank : 2 * rank + 2])
    dist.reduce_scatter_tensor(part, x.view(ranks, 2, 3), op=dist.ReduceOp.MAX)
    same(part, torch.stack(all_ranks).amax(0)[2 * rank : 2 * rank + 2])
    dist.reduce_scatter(part, list(x.chunk(ranks)), op=dist.ReduceOp.MIN)
    same(part, torch.stack(all_ranks).amin(0)[2 * rank : 2 * rank + 2])
    same(x, all_ranks[rank])

    for op, expected in (
        (dist.ReduceOp.SUM, total),
        (dist.ReduceOp.MAX, torch.stack(all_ranks).amax(0)),
        (dist.ReduceOp.MIN, torch.stack(all_ranks).amin(0)),
    ):
        y = x.clone()
        dist.all_reduce(y, op=op)
        same(y, expected)
    y = x.clone()
    dist.broadcast(y, src=2)
    same(y, all_ranks[2])
    dist.barrier()
    return 0.0
"""
    assert_clean(run_source(source, ranks=3))


def test_a_reduction_rounds_after_every_rank(run_source) -> None:
    """2048 + 1 is 2048 in float16, so the order of ranks shows: 1 + 1 + 2048 is 2050, 2048 + 1 + 1 is 2048."""
    source = """
def check(rank, ranks):
    for values, expected in ((1, 1, 2048), 2050), ((2048, 1, 1), 2048):
        x = torch.full((3,), values[rank], dtype=torch.float16).npu()
        part = torch.empty(1, dtype=torch.float16).npu()
        dist.reduce_scatter_tensor(part, x)
        dist.all_reduce(x)
        assert x.tolist() == [expected] * 3 and part.item() == expected
    return 0.0
"""
    assert_clean(run_source(source, ranks=3))


def test_objects_are_copies(run_source) -> None:
    source = """
def check(rank, ranks):
    objects, mine = [None] * ranks, {"rank": rank, "error": None if rank else ValueError("no"), "sizes": [rank]}
    dist.all_gather_object(objects, mine)
    assert [value["rank"] for value in objects] == [0, 1] and str(objects[0]["error"]) == "no"
    objects[1]["sizes"].append(rank)
    dist.barrier()
    assert objects[1]["sizes"] == [1, rank] and mine["sizes"] == [rank]
    return 0.0
"""
    assert_clean(run_source(source, ranks=2))


def test_a_tensor_among_the_outputs_of_all_gather(run_source) -> None:
    source = """
def check(rank, ranks):
    parts = [torch.full((2,), 10 * rank + index).npu() for index in range(ranks)]
    dist.all_gather(parts, parts[0])
    assert [part.tolist() for part in parts] == [[0, 0], [10, 10], [20, 20]]
    return 0.0
"""
    assert_clean(run_source(source, ranks=3))


def test_empty_tensors(run_source) -> None:
    source = """
def check(rank, ranks):
    empty = torch.empty((0, 4), dtype=torch.float16, device="npu")
    dist.all_gather_into_tensor(torch.empty((0, 4), dtype=torch.float16, device="npu"), empty)
    dist.reduce_scatter_tensor(torch.empty((0, 4), dtype=torch.float16, device="npu"), empty)
    dist.all_to_all_single(torch.empty_like(empty), empty)
    dist.all_reduce(empty)
    return 0.0
"""
    assert_clean(run_source(source, ranks=2))


def test_collectives_come_after_the_kernels_on_the_stream(run_source) -> None:
    source = """
@triton.jit
def add(x_ptr, value):
    tl.store(x_ptr, tl.load(x_ptr) + value)


def check(rank, ranks):
    x = torch.zeros(1, dtype=torch.int32, device="npu")
    add[(1,)](x, rank + 1)
    dist.all_reduce(x)
    add[(1,)](x, 10)
    return difference(x, [13])
"""
    assert_clean(run_source(source, ranks=2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "all_gather_into_tensor(torch.empty(5, 3), torch.empty(2, 3))",
            "expected (4, 3) torch.float32 as output for 2 ranks with (2, 3) as input, got (5, 3) torch.float32",
        ),
        (
            "all_gather_into_tensor(torch.empty(4, 3).half(), torch.empty(2, 3))",
            "expected (4, 3) torch.float32 as output for 2 ranks with (2, 3) as input, got (4, 3) torch.float16",
        ),
        (
            "all_gather_into_tensor(torch.empty(3, 4).t(), torch.empty(2, 3))",
            "expected a contiguous tensor as output, got strides (1, 4)",
        ),
        (
            "reduce_scatter_tensor(torch.empty(2, 3), torch.empty(2, 3))",
            "expected (4, 3) torch.float32 as input for 2 ranks with (2, 3) as output, got (2, 3) torch.float32",
        ),
        ("all_gather([torch.empty(2)], torch.empty(2))", "all_gather: expected 2 outputs, one for each rank, got 1"),
        (
            "all_gather([torch.empty(2), torch.empty(3)], torch.empty(2))",
            "expected a tensor of (2,) torch.float32 as output 1, got one of (3,) torch.float32",
        ),
        ("reduce_scatter(torch.empty(2), [torch.empty(2)] * 3)", "expected 2 inputs, one for each rank, got 3"),
        ("all_reduce(torch.empty(2, 3).t())", "all_reduce: expected a contiguous tensor as tensor, got strides (1, 3)"),
        ("broadcast(torch.empty(2), src=2)", "broadcast: expected 0 to 1 as src, got 2"),
        ("all_gather_object([None], 1)", "all_gather_object: expected 2 outputs, one for each rank, got 1"),
        (
            "all_to_all_single(torch.empty(3), torch.empty(3))",
            "all_to_all_single: expected axis 0 to be a multiple of 2 ranks, got (3,)",
        ),
        (
            "all_to_all_single(torch.empty(4), torch.empty(2))",
            "expected an output as large as the input, of (2,) torch.float32, got one of (4,) torch.float32",
        ),
    ],
)
def test_wrong_shapes_name_the_rank(run_source, call: str, message: str) -> None:
    source = f"def check(rank, ranks):\n    if rank == 1:\n        dist.{call}\n    dist.barrier()\n"
    (finding,) = run_source(source, ranks=2).findings
    assert isinstance(finding, HostError)
    assert (finding.exception, finding.ranks) == ("ValueError", (1,))
    assert finding.message.startswith("rank 1 raised ValueError at small.py:")
    assert message in finding.message


def test_ranks_that_reduce_differently(run_source) -> None:
    source = """
def check(rank, ranks):
    dist.all_reduce(torch.ones(1), op=dist.ReduceOp.SUM if rank else dist.ReduceOp.MAX)
"""
    (finding,) = run_source(source, ranks=2).findings
    assert finding.kind == "CollectiveMismatch"
    assert "rank 0: all_reduce of (1,) torch.float32, MAX, rank 1: all_reduce of (1,) torch.float32, SUM" in (
        finding.message
    )
