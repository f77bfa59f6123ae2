"""Barriers that are missing, weaker, elsewhere or too few, and grids that they do not fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.seeded_bugs.module import Module, Site


def _barriers(module: Module) -> list[ast.stmt]:
    """All device barriers."""
    names = ("libshmem_device.barrier_all", "libshmem_device.barrier_all_vec")
    return [module.statement(call) for call in module.found(ast.Call) if module.source(call.func) in names]


def _inner(module: Module) -> list[ast.stmt]:
    """Barriers within a launch."""
    return [each for each in _barriers(module) if each is not module.kernel.body[-1]]


def _place(module: Module, barrier: ast.stmt) -> str:
    return "closing" if barrier is module.kernel.body[-1] else module.label(barrier)


def barrier_removed(module: Module) -> Iterator[Site]:
    for barrier in _inner(module):
        yield Site(_place(module, barrier), module.edited(module.without(barrier)))


def launch_not_closed(module: Module) -> Iterator[Site]:
    for barrier in _barriers(module):
        if barrier is module.kernel.body[-1]:
            yield Site(_place(module, barrier), module.edited(module.without(barrier)))


def barrier_of_vector_cores(module: Module) -> Iterator[Site]:
    """The cube cores of a mix kernel do not meet."""
    for barrier in _barriers(module):
        text = module.source(barrier)
        if text.endswith("barrier_all()"):
            yield Site(_place(module, barrier), module.edited((barrier, text.replace("_all()", "_all_vec()"))))


def barrier_in_branch(module: Module) -> Iterator[Site]:
    for barrier in _barriers(module):
        text = f"if core > 0:\n{' ' * (barrier.col_offset + 4)}{module.source(barrier)}"
        yield Site(_place(module, barrier), module.edited((barrier, text)))


def barrier_once(module: Module) -> Iterator[Site]:
    """Only the first round has its barrier."""
    for barrier in _inner(module):
        for loop in module.outward(barrier, ast.For):
            text = f"if {module.source(loop.target)} == 0:\n{' ' * (barrier.col_offset + 4)}{module.source(barrier)}"
            yield Site(_place(module, barrier), module.edited((barrier, text)))


def barrier_before_writes(module: Module) -> Iterator[Site]:
    for barrier in _inner(module):
        block = module.block(barrier)
        writer = block[block.index(barrier) - 1]
        yield Site(_place(module, barrier), module.edited(*module.moved([barrier], before=writer)))


def barrier_after_reads(module: Module) -> Iterator[Site]:
    for barrier in _inner(module):
        block = module.block(barrier)
        reader = block[block.index(barrier) + 1]
        yield Site(_place(module, barrier), module.edited(*module.moved([reader], before=barrier)))


def one_buffer_for_one_barrier(module: Module) -> Iterator[Site]:
    """A ring of one buffer needs a second barrier in each round."""
    if any(list(module.outward(barrier, ast.For)) for barrier in _inner(module)):
        for assigned in module.found(ast.Assign, module.tree):
            if module.source(assigned.targets[0]) == "BUFFER_NUM":
                yield Site(module.label(assigned), module.edited((assigned.value, "1")))


def core_returns_early(module: Module) -> Iterator[Site]:
    """The last core has no work, it is thought, and need not go on."""
    assigned = module.kernel.body[1]
    yield Site(
        "last core", module.edited((assigned, f"{module.source(assigned)}\n    if core == cores - 1:\n        return"))
    )


def grid_above_cores(module: Module) -> Iterator[Site]:
    grid = _grid(module)
    yield Site(module.label(grid), module.edited((grid, "(2 * cores,)")))


def stride_of_other_grid(module: Module) -> Iterator[Site]:
    """The grid is one core smaller, and the kernel goes on as if all cores of the device were in it."""
    grid, (count,) = _grid(module), module.calls("tl.num_programs")
    edits = (grid, "(cores - 1,)"), (count, f"({module.source(count)} + 1)")
    yield Site(module.label(grid), module.edited(*edits))


def _grid(module: Module) -> ast.expr:
    launches = [each for each in module.found(ast.Subscript, module.function("launch"))]
    return next(each.slice for each in launches if module.source(each.value) == module.kernel.name)
