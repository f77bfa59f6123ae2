"""Imports of host code: each process has its own `__main__` and its own copy of every module of the user's.

Modules of Python and of installed packages are shared by all processes; they know nothing of ranks.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from fusegen.sim.errors import Unsupported

_SHARED: Final = (*{Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")},)
_SIMULATOR: Final = Path(__file__).parents[2]


class Imports:
    """A finder for sys.meta_path. `names` are modules that processes import for themselves, `files` their files.

    Raises Unsupported, by name, for a module of a stand-in package that has no stand-in.
    """

    def __init__(self) -> None:
        self.names = {"__main__"}
        self.files: set[str] = set()
        self._stand_ins: Collection[str] = ()

    def know(self, stand_ins: Collection[str]) -> None:
        """Take note of the names of all stand-in modules."""
        self._stand_ins = frozenset(stand_ins)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of the user's is; None for all others, which other finders find."""
        if fullname.rpartition(".")[0] in self._stand_ins:
            raise Unsupported(fullname)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not _is_of_the_user(spec):
            return None
        self.names.add(fullname)
        if spec.has_location and spec.origin:
            self.files.add(spec.origin)
        return spec


def _is_of_the_user(spec: ModuleSpec) -> bool:
    """A module, or a package without a file of its own, that is neither installed nor part of the simulator."""
    places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    if not places or (not places[0].endswith(".py") and spec.has_location):
        return False
    return not any(Path(place).is_relative_to(folder) for place in places for folder in (*_SHARED, _SIMULATOR))
