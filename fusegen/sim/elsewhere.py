"""The value of a tile that another core of the same AI core computes."""

from __future__ import annotations

from typing import Any, Final

from fusegen.sim.errors import Misplaced


class Elsewhere:
    """Stands for a tile that lives on the other core type. There is one, `ELSEWHERE`.

    Casts and views of it are again elsewhere. Whatever else is done with it raises Misplaced: the simulator has split
    the kernel wrongly, and going on would compute something else than the device does.
    """

    __slots__ = ()

    def to(self, *_: Any, **__: Any) -> Elsewhere:
        """A cast."""
        return self

    broadcast_to = cast = expand_dims = permute = reshape = trans = view = to

    @property
    def T(self) -> Elsewhere:
        return self

    def __getitem__(self, _: Any) -> Elsewhere:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Misplaced(f".{name}")

    def __repr__(self) -> str:
        return "a value of the other core type"


def _misplaced(name: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise Misplaced(name)

    return refuse


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(Elsewhere, _method, _misplaced(_name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "float", "index", "iter", "len", "neg", "invert"):
    setattr(Elsewhere, f"__{_name}__", _misplaced(_name))

ELSEWHERE: Final = Elsewhere()


def absent(*_: Any) -> Elsewhere:
    """The result, on this core type, of an operation of the other one; its arguments have been evaluated."""
    return ELSEWHERE


def where_present(function: Any, value: Any, *arguments: Any, **options: Any) -> Any:
    """`function(value, ...)` on the core that has the value."""
    return value if value is ELSEWHERE else function(value, *arguments, **options)
