"""What the host owes the kernel: zeroed slots, meetings of the ranks, sizes, counters (guide 2.1)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.seeded_bugs.module import Module, Site

RAISES = (
    'if workspace.rank == 1 and workspace.launches == 1:\n        raise ValueError("a: expected another shape")\n    '
)


def zeroing_removed(module: Module) -> Iterator[Site]:
    for statement in _zeroings(module):
        yield Site(module.label(statement), module.edited(module.without(statement)))


def zeroing_not_met(module: Module) -> Iterator[Site]:
    """The ranks do not meet after they have zeroed their slots."""
    if _zeroings(module):
        (call,) = module.calls("dist.barrier", module.function("__init__"))
        yield Site(module.label(call), module.edited(module.without(module.statement(call))))


def _zeroings(module: Module) -> list[ast.stmt]:
    calls = module.found(ast.Call, module.function("__init__"))
    return [module.statement(call) for call in calls if module.source(call.func).endswith(".fill_")]


def rank_raises_alone(module: Module) -> Iterator[Site]:
    """One rank refuses its second launch, and the others launch."""
    first = module.function("launch").body[1]
    at = module.span(first)[0]
    yield Site("second launch", module.edited(((at, at), RAISES)))


def rank_raises_without_agreement(module: Module) -> Iterator[Site]:
    """One rank refuses its workspace and the ranks do not agree on it first."""
    body = module.function("__init__")
    (agreement,) = module.found(ast.With, body)
    start, end = module.span(agreement.items[0].context_expr)
    first = agreement.body[0]
    at = module.span(first)[0]
    refusal = 'if self.rank == 1:\n                raise ValueError("cores: expected fewer")\n            '
    edits = ((start - len("with "), end), "if ranks > 0"), ((at, at), refusal)
    yield Site(module.label(agreement.items[0].context_expr), module.edited(*edits))


def launch_counter_forgotten(module: Module) -> Iterator[Site]:
    """Every launch has the number 0."""
    for assigned in module.found(ast.Assign, module.function("launch")):
        if module.source(assigned.targets[0]) == "phase":
            yield Site(module.label(assigned), module.edited((assigned.value, "0")))


def allocation_too_small(module: Module) -> Iterator[Site]:
    """The first factor of a size is forgotten: the ring, the parity or the ranks."""
    (returned,) = module.found(ast.Return, module.function("symmetric_elements"))
    assert isinstance(returned.value, ast.Dict)
    for key, size in zip(returned.value.keys, returned.value.values, strict=True):
        assert key is not None
        factor, rest = module.source(size).split(" * ", 1)
        yield Site(f"{factor} of {module.source(key)}", module.edited((size, rest)))


def output_not_zeroed(module: Module) -> Iterator[Site]:
    for call in module.calls("out.zero_", module.function("launch")):
        yield Site(module.label(call), module.edited(module.without(module.statement(call))))


def rows_taken_as_dense(module: Module) -> Iterator[Site]:
    """A tensor is passed on as it lies."""
    for assigned in module.found(ast.Assign, module.function("launch")):
        names = module.assigned(assigned)
        is_contiguous = module.source(assigned.value) in [f"{name}.contiguous()" for name in names]
        is_dense = isinstance(assigned.value, ast.Call) and [*map(module.source, assigned.value.args)] == names
        if is_contiguous or is_dense:
            yield Site(module.label(assigned), module.edited(module.without(assigned)))
