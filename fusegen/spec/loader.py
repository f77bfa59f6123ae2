"""Reads a spec file into a `LoadedSpec`, or reports everything that is wrong with it at once."""

from __future__ import annotations

import hashlib
import keyword
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fusegen.errors import Fault, SpecError, listed, nearest
from fusegen.spec.document import Document, override, parse
from fusegen.spec.messages import described, known_fields, shape_faults
from fusegen.spec.model import PATTERNS, KernelSpec
from fusegen.spec.rules import broken_rules

_IMPORTED: Final = frozenset({"fusegen", "numpy", "shmem", "torch", "torch_npu", "triton", "triton_dist"})
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A valid spec and where it came from.

    `name` is the stem of the file and the name of the generated module. `lines` gives the line of every key path that
    the file holds; `overridden` lists the key paths that overrides replaced. `sha256` is the digest of
    what the spec says: comments, the order of keys and values that are the default anyway do not change it.
    """

    name: str
    path: Path
    spec: KernelSpec
    lines: Mapping[str, int]
    overridden: frozenset[str]
    sha256: str

    def locate(self, field: str) -> int:
        """The line of `field`, or of the nearest mapping around it when the file leaves it to its default."""
        return _line_of(self.lines, field)

    def located(self, fault: Fault) -> Fault:
        """The same fault with file and line, or with `--set` where an override is to blame."""
        return _located(fault, self.path, Document(lines=dict(self.lines), overridden=set(self.overridden)))


def load_spec(path: Path, overrides: Sequence[str] = ()) -> LoadedSpec:
    """The spec in a file, with overrides such as `tile.d=64` applied.

    Raises SpecError with every fault of the file, its name and the overrides, in the order of lines.
    """
    source = _read(path)
    document = parse(_decoded(source, path))
    if not document.faults and document.data is None and not overrides:
        document.faults.append(Fault("", "a mapping of spec fields", "an empty file", "fusegen new writes a full one"))
    for assignment in overrides:
        override(document, assignment)
    faults = [*_name_faults(path), *document.faults, *_content_faults(document)]
    if faults:
        located = (_located(fault, path, document) for fault in faults)
        raise SpecError(sorted(located, key=lambda fault: (not fault.file, fault.line, fault.column)))
    spec = PATTERNS[document.data["pattern"]].model_validate(document.data)
    return LoadedSpec(
        name=path.stem,
        path=path,
        spec=spec,
        lines=MappingProxyType(document.lines),
        overridden=frozenset(document.overridden),
        sha256=hashlib.sha256(spec.model_dump_json().encode()).hexdigest(),
    )


def load_specs(paths: Iterable[Path]) -> tuple[LoadedSpec, ...]:
    """The specs in several files, in the given order. Raises one SpecError with the faults of all of them."""
    loaded: list[LoadedSpec] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            loaded.append(load_spec(path))
        except SpecError as error:
            faults.extend(error.faults)
    if faults:
        raise SpecError(faults)
    return tuple(loaded)


def shown(path: Path) -> str:
    """A path as messages show it: relative to the current directory where it lies below it."""
    absolute, here = path.absolute(), Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else path).as_posix()


def name_fault(name: str) -> Fault | None:
    """Why a kernel cannot have this name, if so: generated modules are imported and run under it."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        advice = "the generated module has the same name, and Python must be able to import it"
        return Fault("name", "a lower-case Python identifier as the name of the file", name, advice)
    if name in sys.stdlib_module_names or name in _IMPORTED:
        advice = "the generated module would stand in the way of the one that it, or its neighbours, import"
        return Fault("name", "a name that no module of Python or of the device's packages has", name, advice)
    return None


def _name_faults(path: Path) -> list[Fault]:
    fault = name_fault(path.stem)
    return [fault] if fault else []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SpecError([Fault("", "a spec file", "no such file", file=shown(path))]) from None
    except OSError as error:
        got = f"an unreadable one: {error.strerror}"
        raise SpecError([Fault("", "a readable spec file", got, file=shown(path))]) from None


def _decoded(source: bytes, path: Path) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        got = f"the byte 0x{source[error.start]:02x}"
        raise SpecError([Fault("", "UTF-8 text", got, "save the file as UTF-8", shown(path), line)]) from None


def _content_faults(document: Document) -> list[Fault]:
    """Faults of single fields, and of those rules whose fields are sound."""
    if document.data is None:
        return []
    if not isinstance(document.data, dict):
        got = described(document, "", document.data)
        return [Fault("", "a mapping of spec fields", got, "lines like `sync: signal`")]
    known_pattern = document.data.get("pattern")
    if not isinstance(known_pattern, str) or known_pattern not in PATTERNS:
        return [_pattern_fault(document), *_common_faults(document)]
    model = PATTERNS[known_pattern]
    faults = shape_faults(model, document)
    values = known_fields(model, document, [*document.faults, *faults])
    written = set(document.data) & set(values)
    broken = broken_rules(model.model_construct(written, **values), frozenset(values))
    return [*faults, *(fault for fault in broken if not _is_beside(fault, document))]


def _is_beside(fault: Fault, document: Document) -> bool:
    """A verification point does not fit what an override changed: such a command chooses its own conditions."""
    names = document.overridden
    return bool(names) and fault.field.startswith("verify") and not any(name.startswith("verify") for name in names)


def _pattern_fault(document: Document) -> Fault:
    got = described(document, "pattern", document.data.get("pattern"))
    advice = "this key is required" if "pattern" not in document.data else nearest(got, PATTERNS)
    return Fault("pattern", listed(PATTERNS), got, advice)


def _common_faults(document: Document) -> list[Fault]:
    """What is wrong whatever the pattern is: all that can be said without a known one."""
    first, *others = (shape_faults(model, document) for model in PATTERNS.values())
    shared = [fault for fault in first if all(fault in faults for faults in others)]
    return [fault for fault in shared if fault.field != "pattern"]


def _line_of(lines: Mapping[str, int], field: str) -> int:
    path = field
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 0)


def _located(fault: Fault, path: Path, document: Document) -> Fault:
    if document.is_overridden(fault.field):
        return replace(fault, field=f"--set {fault.field}")
    if fault.field == "name":
        return fault.located(shown(path), 0)
    return fault.located(shown(path), fault.line or _line_of(document.lines, fault.field))
