"""Pieces of kernel text: bindings, positions along tile axes, masks, and terms of offsets."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.plan.expr import KERNEL, Binary, Const, Expr, Op, Sym, symbols, text
from fusegen.plan.stages import Binding, Call, Definition, Each, TileAxis
from fusegen.render.context import ItemView, Line

BROADCAST = ("[:, None]", "[None, :]")
"""How a vector along each of the two tile axes becomes a factor of a tile-shaped expression."""


def loop_view(each: Each) -> ItemView:
    """A loop around an announcement."""
    return ItemView(each.name, text(each.first, KERNEL), text(each.stop, KERNEL))


def binding_line(binding: Binding) -> Line:
    """A definition, or a call with several results, as text."""
    comment = tuple(binding.comment.splitlines())
    match binding:
        case Definition(name, value):
            return Line(name, text(value, KERNEL), comment)
        case Call(names, function, arguments):
            called = f"{function}({', '.join(text(argument, KERNEL) for argument in arguments)})"
            return Line(", ".join(names), called, comment)


def closed(names: frozenset[str], bindings: Sequence[Binding]) -> frozenset[str]:
    """`names`, and the names that their definitions use, and so on."""
    for binding in reversed(bindings):
        if set(names_of(binding)) & names:
            names |= _used(binding)
    return names


def names_of(binding: Binding) -> tuple[str, ...]:
    """What a binding defines."""
    return (binding.name,) if isinstance(binding, Definition) else binding.names


def _used(binding: Binding) -> frozenset[str]:
    match binding:
        case Definition(_, value):
            return symbols(value)
        case Call(_, _, arguments):
            return frozenset().union(*(symbols(argument) for argument in arguments))


def varies(axis: TileAxis, tile_names: set[str]) -> bool:
    """True when positions on the axis differ between the tiles of a work item."""
    return bool((symbols(axis.origin) | symbols(axis.offset)) & tile_names)


def axis_lines(axis: TileAxis) -> list[Line]:
    """Positions of a tile along an axis. Those that start at 0 are the same for all tiles: the kernel has them once."""
    steps = f"tl.arange(0, {axis.tile})"
    if axis.local is None:
        return [Line(axis.index, _sum(axis.origin + axis.offset, steps))]
    lines = [] if axis.offset == Const(0) else [Line(axis.local, _sum(axis.offset, steps))]
    return [*lines, Line(axis.index, _sum(axis.origin, axis.local))]


def _sum(start: Expr, rest: str) -> str:
    return rest if start == Const(0) else f"{text(start, KERNEL)} + {rest}"


def mask_text(axes: Sequence[TileAxis]) -> str:
    """Positions inside of the shape, as a vector or a tile; nothing for a whole block."""
    if not axes:
        return ""
    if len(axes) == 1:
        return f"{axes[0].index} < {text(axes[0].stop, KERNEL)}"
    parts = (
        f"({axis.index} < {text(axis.stop, KERNEL)}){broadcast}"
        for axis, broadcast in zip(axes, BROADCAST, strict=True)
    )
    return " & ".join(parts)


def term_text(axes: Sequence[TileAxis], coordinate: Expr, stride: Expr) -> str:
    """`coordinate * stride`; a coordinate along one of two tile axes is broadcast to the tile's shape."""
    for axis, broadcast in zip(axes, BROADCAST, strict=False):
        if symbols(coordinate) & {axis.index, axis.local}:
            vector = text(coordinate, KERNEL)
            if len(axes) == 1:
                shape = vector if isinstance(coordinate, Sym) else f"({vector})"
            else:
                shape = f"{vector}{broadcast}" if isinstance(coordinate, Sym) else f"({vector}){broadcast}"
            if stride == Const(1):
                return shape
            return text(Binary(Op.MUL, Sym("vector"), stride), KERNEL, {"vector": shape})
    return text(coordinate * stride, KERNEL)
