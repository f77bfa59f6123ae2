"""Every wait, notify, barrier and hand-over that is taken out of a kernel makes its native run wrong, or hang."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fusegen.vendor.compilation import Subject
from fusegen.vendor.native.trials import SCHEDULES, Trial, run_natively
from tests.vendor.kernels import GENERATED, SMALL_TILES, generated, rendered

NEEDED = (
    "dl.wait",
    "dl.notify",
    "libshmem_device.barrier_all",
    "libshmem_device.barrier_all_vec",
    "al.sync_block_set",
    "al.sync_block_wait",
)
SHAPES = {
    "allreduce_mte_signal": {"M": 515, "N": 130},
    "allgather_udma_signal": {"M": 257, "N": 130},
    "reverse_all2all_mte_barrier": {"S": 130, "H": 3, "D": 72},
    "gemm_reduce_scatter_mte_signal": {"M": 100, "N": 40, "K": 24},
    "allgather_gemm_mte_barrier": {"M": 70, "N": 40, "K": 24},
}


@dataclass(frozen=True)
class Call:
    """A statement of a kernel that calls a function: the number of it among the calls of that function."""

    kernel: str
    function: str
    number: int

    def __str__(self) -> str:
        return f"{self.kernel}-{self.function}-{self.number}"


def statements(text: str, function: str) -> list[ast.Assign | ast.Expr]:
    """Statements that call a function, in the order of the text."""
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign | ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == function
    ]
    return sorted(found, key=lambda node: node.lineno)


def calls() -> Iterator[Call]:
    for kernel in SHAPES:
        text = (GENERATED / f"{kernel}.py").read_text(encoding="utf-8")
        for function in NEEDED:
            for number in range(len(statements(text, function))):
                yield Call(kernel, function, number)


def subject_of(kernel: str, folder: Path) -> Subject:
    if "gemm" not in kernel:
        return generated(kernel)
    subject = rendered(kernel, folder, *SMALL_TILES)
    return replace(subject, entry=subject.entry.model_copy(update={"variants": subject.entry.variants[:1]}))


def without(subject: Subject, call: Call, folder: Path) -> Subject:
    """The module without the statement; a token that it returns becomes a number like any other."""
    lines = subject.module.read_text(encoding="utf-8").splitlines()
    statement = statements("\n".join(lines), call.function)[call.number]
    last = statement.end_lineno or statement.lineno
    instead = f"{ast.unparse(statement.targets[0])} = rank" if isinstance(statement, ast.Assign) else "pass"
    lines[statement.lineno - 1 : last] = [" " * statement.col_offset + instead]
    module = folder / f"{call.kernel}.py"
    module.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return replace(subject, module=module)


def trials(kernel: str) -> list[Trial]:
    """The third launch of a mix kernel would turn its matrices, which is another variant to build."""
    launches = 2 if "gemm" in kernel else 3
    return [Trial(2, 5, SHAPES[kernel], launches, schedule) for schedule in (*SCHEDULES, "pct")]


@pytest.mark.slow
@pytest.mark.parametrize("call", list(calls()), ids=str)
def test_a_call_that_is_gone_is_found(call: Call, tmp_path: Path) -> None:
    verdict = run_natively(without(subject_of(call.kernel, tmp_path), call, tmp_path), trials(call.kernel), seconds=10)
    assert verdict.build == ()
    assert {finding.kind for finding in verdict.findings} & {"Deadlock", "WrongValues"}


@pytest.mark.parametrize("kernel", SHAPES)
def test_with_all_its_calls_a_kernel_is_right(kernel: str, tmp_path: Path) -> None:
    assert run_natively(subject_of(kernel, tmp_path), trials(kernel), seconds=10).findings == ()
