"""Modules of every pattern around kernels written by hand: the host half runs, whatever the planner can plan so far.

A toy kernel does all work in its first program, row by row. Its parameters come in the order that the plan implies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fusegen.plan import KernelPlan
from fusegen.plan.expr import Const, Expr, Sym, cdiv, minimum
from fusegen.plan.facts import Dimension, Tolerance
from fusegen.plan.ir import Allocation, Host, Launch, LaunchKind, SlotGroup, Tensor, TensorRole
from fusegen.plan.layout import Axis, Layout
from fusegen.plan.stages import Definition
from fusegen.project import packaged_templates
from fusegen.render.context import Line
from fusegen.render.environment import environment
from fusegen.render.host import host_view
from fusegen.render.lower import module_view
from tests.plan.plans import plan_of

M, N, K, S, H, D = map(Sym, "MNKSHD")
RANK, RANKS, RANK_ROWS, SLOT_WORDS = Sym("rank"), Sym("ranks"), Sym("rank_rows"), Sym("SLOT_WORDS")
OWN_ROWS = minimum(M, (RANK + 1) * RANK_ROWS) - minimum(M, RANK * RANK_ROWS)
DEFINITIONS = (
    Definition("rank_rows", cdiv(M, RANKS), "Rows of a rank, as torch.chunk deals them."),
    Definition("blocks", cdiv(M, Sym("BLOCK"))),
)

BARRIER = "libshmem_device.barrier_all_vec()"
MOVE = """
    columns = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        for s in range(S):
            for h in range(ranks * H):
                row = tl.load(a_ptr + s * stride_as + h * stride_ah + columns * stride_ad, mask=columns < D)
                tl.store(peer_ptr + (s * ranks * H + h) * D + columns, row, mask=columns < D)
    libshmem_device.barrier_all_vec()
    if tl.program_id(0) == 0:
        for q in range(ranks):
            remote = dl.symm_at(peer_ptr, q)
            for s in range(S):
                for h in range(H):
                    row = tl.load(remote + (s * ranks * H + rank * H + h) * D + columns, mask=columns < D)
                    c_row = c_ptr + (q * S + s) * stride_cs + h * stride_ch
                    tl.store(c_row + columns * stride_cd, row, mask=columns < D)
    libshmem_device.barrier_all_vec()
"""
GATHER = """
    columns = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        for q in range(ranks):
            remote = dl.symm_at(peer_ptr, q)
            for m in range(M):
                row = tl.load(a_ptr + m * stride_am + columns * stride_an, mask=columns < N)
                tl.store(remote + (rank * M + m) * N + columns, row, mask=columns < N)
            libshmem_device.fence()
            dl.notify(arrived_ptr + rank * SLOT_WORDS, q, 1)
        for q in range(ranks):
            token = dl.wait(arrived_ptr + q * SLOT_WORDS, 1, "sys", "acquire", waitValue=1)
            peer = dl.consume_token(peer_ptr, token)
            for m in range(M):
                row = tl.load(peer + (q * M + m) * N + columns, mask=columns < N)
                tl.store(c_ptr + (q * M + m) * stride_cm + columns * stride_cn, row, mask=columns < N)
            dl.notify(arrived_ptr + q * SLOT_WORDS, rank, 0)
            libshmem_device.fence()
            dl.notify(left_ptr + rank * SLOT_WORDS, q, 1)
        for q in range(ranks):
            dl.wait(left_ptr + q * SLOT_WORDS, 1, "sys", "acquire", waitValue=1)
            dl.notify(left_ptr + q * SLOT_WORDS, rank, 0)
"""
PART = {
    False: "part = tl.load(a_ptr + m * stride_am + columns * stride_an, mask=columns < N).to(tl.float32)",
    True: """part = tl.zeros((BLOCK,), tl.float32)
            for k in range(K):
                b_row = tl.load(b_ptr + k * stride_bk + columns * stride_bn, mask=columns < N).to(tl.float32)
                part += tl.load(a_ptr + m * stride_am + k * stride_ak).to(tl.float32) * b_row""",
}
REDUCE = """
    columns = tl.arange(0, BLOCK)
    peer_ptr += PARITY * M * N
    if tl.program_id(0) == 0:
        for m in range(M):
            PART
            tl.store(peer_ptr + m * N + columns, part, mask=columns < N)
    libshmem_device.barrier_all_vec()
    if tl.program_id(0) == 0:
        for m in range(FIRST, STOP):
            c_row = c_ptr + (m - FIRST) * stride_cm + columns * stride_cn
            total = START
            for q in range(ranks):
                total += tl.load(dl.symm_at(peer_ptr, q) + m * N + columns, mask=columns < N)
            tl.store(c_row, total.to(OUTPUT), mask=columns < N)
"""
GATHER_GEMM = """
    columns = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        for m in range(M):
            for k in range(K):
                tl.store(peer_ptr + m * K + k, tl.load(a_ptr + m * K + k))
    libshmem_device.barrier_all_vec()
    if tl.program_id(0) == 0:
        for q in range(ranks):
            remote = dl.symm_at(peer_ptr, q)
            for m in range(M):
                total = tl.zeros((BLOCK,), tl.float32)START
                for k in range(K):
                    b_row = tl.load(b_ptr + k * stride_bk + columns * stride_bn, mask=columns < N).to(tl.float32)
                    total += tl.load(remote + m * K + k).to(tl.float32) * b_row
                c_row = c_ptr + (q * M + m) * stride_cm + columns * stride_cn
                tl.store(c_row, total.to(OUTPUT), mask=columns < N)
    libshmem_device.barrier_all_vec()
"""


@dataclass(frozen=True)
class Toy:
    """A pattern's plan, as far as the host half reads it, and the body of the kernel."""

    plan: KernelPlan
    body: str

    def text(self) -> str:
        """The module."""
        plan = self.plan
        view = module_view(plan_of(sync="barrier", flatten="none"))
        view = replace(
            view,
            name=plan.name,
            pattern=plan.pattern,
            summary=f"{plan.pattern} around a toy.",
            constants=tuple(Line(name, str(value)) for name, value in plan.constants),
            tolerance=replace(view.tolerance, value=repr(plan.tolerance.value), comment=(plan.tolerance.reason,)),
            kernel=replace(view.kernel, name=f"{plan.pattern}_kernel"),
            host=host_view(plan),
        )
        text = environment(packaged_templates()).get_template("module.py.j2").render(module=view)
        parameters = "".join(f"    {name},\n" for name in self.parameters())
        kernel = f"@triton.jit\ndef {plan.pattern}_kernel(\n{parameters}):{self.body}"
        return re.sub(
            r"# Sizes and ranks[^\n]*\n@triton\.jit\(.*?\n\n\n(?=def (?:_check_split|available_cores))",
            lambda _: f"{kernel}\n\n",
            text,
            flags=re.DOTALL,
        )

    def parameters(self) -> list[str]:
        """Of the kernel, in their order."""
        plan = self.plan
        tensors = [tensor for tensor in plan.tensors if tensor.role is not TensorRole.INITIAL]
        return [
            *(f"{tensor.name}_ptr" for tensor in tensors),
            *(f"{allocation.name}_ptr" for allocation in plan.host.allocations),
            *("rank", "ranks"),
            *(["launch"] if plan.host.numbers_launch else []),
            *(dimension.name for dimension in plan.dimensions),
            *(stride for tensor in tensors if not tensor.contiguous for stride in tensor.strides),
            *(f"{name}: tl.constexpr" for name, _ in plan.constants),
        ]


def tensor(name: str, axes: str, *extents: Expr, role: TensorRole = TensorRole.INPUT, **options: object) -> Tensor:
    """A tensor of float16 unless told otherwise, axes by their letters."""
    dtype = str(options.get("dtype", "float16"))
    named = tuple(Axis(axis, extent) for axis, extent in zip(axes, extents, strict=True))
    strides = tuple(f"stride_{name}{axis}" for axis in axes)
    return Tensor(name, named, strides, role, dtype, bool(options.get("contiguous")))


def toy(pattern: str, tensors: tuple[Tensor, ...], dimensions: str, host: Host, body: str, **options: object) -> Toy:
    """The plan is that of a reverse All2All but for what the host half reads."""
    exact = host.allocations[0].dtype != "float32" and "b" not in {each.name for each in tensors}
    split = (("NPU_SPLIT", host.npu_split),) if host.npu_split > 1 else ()
    base = plan_of(sync="barrier", flatten="none", dtype="float16")
    plan = replace(
        base,
        stages=tuple(replace(stage, tasks=replace(stage.tasks, round=None)) for stage in base.stages),
        name=f"{pattern}_toy",
        pattern=pattern,
        dimensions=tuple(Dimension(name, "") for name in dimensions),
        tensors=tensors,
        host=host,
        definitions=DEFINITIONS,
        constants=(("BLOCK", 32), *options.pop("constants", ()), *split),  # type: ignore[misc]
        tolerance=Tolerance(0.0, "moved: exact") if exact else Tolerance(2e-3, "summed in float32, rounded to float16"),
        launch=Launch(LaunchKind.VECTOR, roles=1),
    )
    return Toy(replace(plan, **options), body)  # type: ignore[arg-type]


def host(*allocations: Allocation, **options: object) -> Host:
    """Host duties; MTE unless told otherwise."""
    return Host(allocations, (), **{"engines": ("MTE",), **options})  # type: ignore[arg-type]


def signal(name: str) -> Allocation:
    """A slot for each rank."""
    return Allocation(name, RANKS * SLOT_WORDS, "int64", zeroed=True)


def slot_group(name: str) -> SlotGroup:
    """The slots of `signal(name)`."""
    return replace(plan_of().slots[0], name=name, layout=Layout((Axis("source_rank", RANKS),)))


def all2all() -> Toy:
    tensors = (
        tensor("a", "shd", S, RANKS * H, D),
        tensor("c", "shd", RANKS * S, H, D, role=TensorRole.OUTPUT),
    )
    return toy("all2all", tensors, "SHD", host(Allocation("peer", S * RANKS * H * D, "float16", zeroed=False)), MOVE)


def allgather() -> Toy:
    tensors = (tensor("a", "mn", M, N), tensor("c", "mn", RANKS * M, N, role=TensorRole.OUTPUT))
    peer = Allocation("peer", RANKS * M * N, "float16", zeroed=False)
    groups = ("arrived", "left")
    duties = host(peer, *map(signal, groups))
    slots = tuple(map(slot_group, groups))
    return toy("allgather", tensors, "MN", duties, GATHER, slots=slots, constants=(("SLOT_WORDS", 8),))


def reduction(
    pattern: str, *, bias: str = "", dtype: str = "float16", numbered: bool = False, **options: object
) -> Toy:
    """reduce_scatter or allreduce, of A or of A times B.

    bias      who adds it: kernel or launcher
    numbered  launches alternate between two buffers
    """
    gemm, scatter = pattern.startswith("gemm"), pattern.endswith("scatter")
    row = ", ".join(f"{name}_ptr + columns * stride_{name}n" for name in (["bias"] if bias == "kernel" else []))
    start = "tl.zeros((BLOCK,), tl.float32)"
    start = f"tl.load({row}, mask=columns < N).to(tl.float32)" if row else start
    initial = {"launcher": "bias"}.get(bias, options.pop("initial", None))
    start = "tl.load(c_row, mask=columns < N).to(tl.float32)" if initial else start
    rows = (OWN_ROWS if scatter else M, N)
    role = TensorRole.INITIAL if bias == "launcher" else TensorRole.INPUT
    tensors = (
        *((tensor("a", "mk", M, K), tensor("b", "kn", K, N)) if gemm else (tensor("a", "mn", M, N),)),
        *((tensor("bias", "n", N, role=role),) if bias else ()),
        tensor("c", "mn", *rows, role=TensorRole.OUTPUT, dtype=dtype),
    )
    peer = Allocation("peer", (2 if numbered else 1) * M * N + Sym("cores"), "float32", zeroed=False)
    body = REDUCE.replace("PART\n", PART[gemm] + "\n").replace("START", start).replace("OUTPUT", f"tl.{dtype}")
    body = body.replace("PARITY", "launch % 2" if numbered else "0")
    body += "" if numbered else f"    {BARRIER}\n"
    body = body.replace("FIRST", "rank * tl.cdiv(M, ranks)" if scatter else "0")
    body = body.replace("STOP", "tl.minimum(M, (rank + 1) * tl.cdiv(M, ranks))" if scatter else "M")
    duties = host(peer, initial=initial, numbers_launch=numbered, **options)
    return toy(pattern, tensors, "MNK" if gemm else "MN", duties, body)


def allgather_gemm(*, bias: bool) -> Toy:
    tensors = (
        tensor("a", "mk", M, K, contiguous=True),
        tensor("b", "kn", K, N),
        *((tensor("bias", "n", N),) if bias else ()),
        tensor("c", "mn", RANKS * M, N, role=TensorRole.OUTPUT),
    )
    start = "\n                total += tl.load(bias_ptr + columns * stride_biasn, mask=columns < N)" if bias else ""
    duties = host(Allocation("peer", M * K + Const(1), "float16", zeroed=False), engines=("MTE", "UDMA"))
    body = GATHER_GEMM.replace("START", start).replace("OUTPUT", "tl.float16")
    return toy("allgather_gemm", tensors, "MNK", duties, body)


TOYS: dict[str, Toy] = {
    "all2all": all2all(),
    "allgather": allgather(),
    "reduce_scatter": reduction("reduce_scatter"),
    "allreduce": reduction("allreduce", numbered=True),
    "allreduce_zeroed": reduction("allreduce", initial="zero", dtype="float32"),
    "allreduce_split": reduction("allreduce", npu_split=2),
    "allgather_gemm": allgather_gemm(bias=False),
    "allgather_gemm_bias": allgather_gemm(bias=True),
    "gemm_reduce_scatter": reduction("gemm_reduce_scatter"),
    "gemm_reduce_scatter_bias": reduction("gemm_reduce_scatter", bias="kernel", dtype="float32"),
    "gemm_allreduce": reduction("gemm_allreduce", initial="zero"),
    "gemm_allreduce_kernel_bias": reduction("gemm_allreduce", bias="kernel"),
    "gemm_allreduce_bias": reduction("gemm_allreduce", bias="launcher", dtype="float32"),
}
