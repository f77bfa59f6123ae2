"""Host operations of launchers and references on device tensors: what they give, where it is, and stream order."""

from __future__ import annotations

import pytest


def assert_clean(result) -> None:
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0


def test_operations_of_launchers(run_source) -> None:
    source = """
def check(rank, ranks):
    x = torch.empty((4, 6), dtype=torch.float16, device="npu")
    assert x.dtype.itemsize == 2 == x.element_size() and x.is_npu and x.device.type == "npu"
    assert x.fill_(3) is x and x.zero_() is x and x.tolist() == [[0.0] * 6] * 4
    row = torch.arange(6).half().npu()
    x.copy_(row.expand(4, 6))
    assert x.is_npu and x.cpu().equal(torch.arange(6).half().expand(4, 6))
    x.copy_(torch.ones(4, 6))
    assert x.sum().item() == 24
    t = x.t()
    assert not t.is_contiguous() and t.is_npu and t.data_ptr() == x.data_ptr() and t.stride() == (1, 6)
    c = t.contiguous()
    assert c.is_contiguous() and c.is_npu and c.data_ptr() != x.data_ptr()
    assert x.contiguous().data_ptr() == x.data_ptr()
    for made in (
        torch.zeros(3, device="npu"), torch.zeros((2, 3), dtype=torch.int64, device="npu"),
        torch.ones(3, device=x.device), torch.full((3,), 7, dtype=torch.int32, device="npu"),
        torch.arange(5, device="npu"), torch.empty_like(x), torch.zeros_like(x), torch.ones_like(x), x.new_empty(3),
        x.new_zeros((2, 2)), x.new_full((2,), 1.0), torch.randn(4, device="npu"), torch.rand((2,), device="npu"),
        torch.tensor([1, 2], device="npu"), torch.as_tensor([1.0], device="npu"), torch.eye(3, device="npu"),
        torch.randint(0, 9, (3,), device="npu"), torch.randn_like(x), torch.empty_strided((2, 2), (1, 2), device="npu"),
        x.clone(), x.float(), x.half(), x.bfloat16(), x.to(torch.float32), x.view(-1), x.reshape(-1), x[1:],
        x[..., None],
        x.flatten(), x.permute(1, 0), x.transpose(0, 1), x.unsqueeze(0), x.split(2)[1], x.chunk(2)[0], x.unbind()[0],
        x.narrow(0, 1, 2), x @ x.t(), torch.matmul(x.float(), x.float().t()), x + 1, 2 * x, -x, x > 0, x.abs(),
        x.amax(0),
        torch.cat([x, x]), torch.stack([x, x]), torch.maximum(x, x), torch.where(x > 0, x, x), x.max(dim=0).values,
        x.nonzero(), x.double(), x.type(torch.int32), x.view(torch.int16), x.roll(1, 0), x.repeat(2, 1), x.isnan(),
        torch.nn.functional.pad(x, (0, 1)), x.to("npu"), x.npu(), x.type_as(x), x.to(x), x.detach(), x.data,
    ):
        assert made.is_npu, (made.shape, made.dtype)
    for host in (x.cpu(), x.to("cpu"), x.to(torch.device("cpu")), torch.empty(3), torch.empty_like(x, device="cpu"),
                 x.float().cpu(), x.to(device="cpu", dtype=torch.float32), torch.zeros(3).to(torch.float16)):
        assert not host.is_npu
    assert x.max().item() == 1 and (x == 1).all() and not (x > 1).any() and x.allclose(x) and torch.equal(x, x)
    assert torch.allclose(x, torch.ones_like(x), atol=1e-3) and x.mean().item() == 1 and x.norm().item() > 4.8
    assert float((x.float() - 1).abs().max()) == 0.0 and int(x.sum()) == 24 and bool(x[0, 0] == 1)
    assert x.argmax().item() == 0 and x.count_nonzero().item() == 24 and x.nan_to_num(nan=1.0).is_npu
    x[0] = 5
    x[:, 0] = torch.zeros(4).half().npu()
    assert x[0].tolist() == [0, 5, 5, 5, 5, 5] and x.numpy(force=True).shape == (4, 6)
    out = torch.empty((4, 4), dtype=torch.float16, device="npu")
    assert torch.matmul(x, x.t(), out=out) is out and out.is_npu
    torch.npu.current_stream().synchronize()
    assert torch.npu.current_stream() == torch.npu.default_stream()
    return 0.0
"""
    assert_clean(run_source(source, ranks=2))


KERNEL = """
@triton.jit
def double(y_ptr, x_ptr):
    tl.store(y_ptr, tl.load(x_ptr) * 2)


@triton.jit
def later(flag_ptr, y_ptr, x_ptr):
    token = dl.wait(flag_ptr, 1, "sys", "acquire")
    tl.store(y_ptr, tl.load(dl.consume_token(x_ptr, token)) * 2)


"""


@pytest.mark.parametrize(
    "write", ["fill_(9)", "zero_()", "copy_(torch.ones(1).int())", "add_(1)", "__setitem__(0, 9)", "set_zero"]
)
def test_a_write_before_a_launch_is_seen_and_one_after_is_not(run_source, write: str) -> None:
    source = (
        (
            KERNEL
            + f"""
def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64).zero_()
    x, y = torch.full((1,), 1, dtype=torch.int32, device="npu"), torch.zeros(1, dtype=torch.int32, device="npu")
    dist.barrier()
    x.fill_(21)
    double[(1,)](y, x)
    x.{write}
    after = x.clone()
    double[(1,)](x, x)
    assert y.item() == 42
    return difference(x, (2 * after).cpu())
"""
        )
        .replace("x.set_zero", "zero_(x)")
        .replace("\ndef check", "\ndef zero_(x):\n    x[...] = 0\n\n\ndef check")
    )
    assert_clean(run_source(source, schedule="random", seed=3))


def test_a_write_after_a_launch_waits_for_a_kernel_that_waits(run_source) -> None:
    source = (
        KERNEL
        + """
@triton.jit
def give(flag_ptr):
    dl.notify(flag_ptr, dl.rank(), 1)


def check(rank, ranks):
    flags = ash.aclshmem_create_tensor([8], dtype=torch.int64).zero_()
    x, y = torch.full((1,), 21, dtype=torch.int32, device="npu"), torch.zeros(1, dtype=torch.int32, device="npu")
    dist.barrier()
    side = torch.npu.Stream()
    later[(1,)](flags, y, x)
    with torch.npu.stream(side):
        give[(1,)](flags)
    x.fill_(0)
    return difference(torch.cat([x, y]), [0, 42])
"""
    )
    assert_clean(run_source(source))
