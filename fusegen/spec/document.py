"""YAML text as plain data that still knows the line, and the spelling, of every key path.

A key path reads as it would in Python: `tile.d`, `verify[0].shape.S`; the root is the empty path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor

from fusegen.errors import Fault

_LOADER: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SYNTAX_ADVICE: Final = "indent with spaces only, and quote a text that holds ': ' or ' #'"
_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\])*")
_STEP: Final = re.compile(r"\[(\d+)\]|(\w+)")

Key = str | int


@dataclass(slots=True)
class Document:
    """Plain data of one file, after overrides.

    `lines` and `spellings` are keyed by key path; `spellings` holds scalars as they are written, quotes included.
    `overridden` are the paths that an override replaced.
    """

    data: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    overridden: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)

    def is_overridden(self, path: str) -> bool:
        """Whether the value at `path` comes, as a whole or in part, from an override."""
        return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in self.overridden)


def path_of(keys: tuple[Key, ...]) -> str:
    """The key path of a sequence of mapping keys and list indices."""
    path = ""
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
    return path


def parse(text: str) -> Document:
    """The document that `text` holds. Faults are collected in it; with a syntax error there is no data at all."""
    document = Document()
    node = _compose(text, document, path="")
    if node is not None:
        document.data = _plain(node, (), document, ())
    return document


def override(document: Document, assignment: str) -> None:
    """Replaces one value by an assignment such as `tile.d=64`, whose right side is YAML."""
    path, equals, text = assignment.partition("=")
    if not equals or not _PATH.fullmatch(path):
        document.overridden.add(path)
        document.faults.append(Fault(path, "KEY=VALUE", assignment, "for example tile.d=64"))
        return
    keys = tuple(int(index) if index else name for index, name in _STEP.findall(path))
    _forget(document, path)
    document.overridden.add(path)
    known_faults = len(document.faults)
    node = _compose(text, document, path=path)
    if len(document.faults) == known_faults:
        _put(document, keys, None if node is None else _plain(node, keys, document, ()))


def _compose(text: str, document: Document, *, path: str) -> yaml.Node | None:
    loader = _LOADER(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark and not path else (0, 0)
        advice = f"the parser says: {error.problem}; {_SYNTAX_ADVICE}"
        document.faults.append(Fault(path, "valid YAML", "a syntax error", advice, line=line, column=column))
        return None
    except yaml.YAMLError:
        document.faults.append(Fault(path, "valid YAML", "a character that YAML forbids", "remove control characters"))
        return None
    finally:
        loader.dispose()
    return node


def _plain(node: yaml.Node, keys: tuple[Key, ...], document: Document, parents: tuple[yaml.Node, ...]) -> Any:
    """Plain data of a node, recording lines and spellings on the way."""
    path = path_of(keys)
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    if node in parents:
        document.faults.append(Fault(path, "a value", "an alias of a value that contains it", line=line))
        return None
    match node:
        case yaml.MappingNode():
            return _mapping(node, keys, document, parents)
        case yaml.SequenceNode():
            inside = (*parents, node)
            return [_plain(item, (*keys, index), document, inside) for index, item in enumerate(node.value)]
        case yaml.ScalarNode():
            return _scalar(node, path, document)
        case _:
            raise AssertionError(f"YAML has no other kind of node than {type(node).__name__}")


def _mapping(
    node: yaml.MappingNode, keys: tuple[Key, ...], document: Document, parents: tuple[yaml.Node, ...]
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            got = "a list" if isinstance(key_node, yaml.SequenceNode) else "a mapping"
            document.faults.append(Fault(path_of(keys), "a plain word as key", got, line=line))
            continue
        key: str = key_node.value
        path = path_of((*keys, key))
        if key in data:
            first = document.lines[path]
            document.faults.append(Fault(path, "each key once", f"it again after line {first}", line=line))
            continue
        document.lines[path] = line
        data[key] = _plain(value_node, (*keys, key), document, (*parents, node))
    return data


def _scalar(node: yaml.ScalarNode, path: str, document: Document) -> Any:
    quote = node.style if node.style in ("'", '"') else ""
    document.spellings[path] = f"{quote}{node.value}{quote}"
    try:
        return SafeConstructor().construct_object(node)
    except (yaml.constructor.ConstructorError, ValueError):
        line = node.start_mark.line + 1
        document.faults.append(Fault(path, "a plain YAML value", f"{node.tag} {node.value}".strip(), line=line))
        return None


def _forget(document: Document, path: str) -> None:
    """Removes what is known about a value that an override replaces, its faults included."""
    below = (f"{path}.", f"{path}[")
    for known in (document.lines, document.spellings):
        for each in [each for each in known if each == path or each.startswith(below)]:
            del known[each]
    document.faults = [each for each in document.faults if each.field != path and not each.field.startswith(below)]


def _put(document: Document, keys: tuple[Key, ...], value: Any) -> None:
    """Stores a value at a place in the data, making the mappings on the way."""
    if document.data is None:
        document.data = {}
    here = document.data
    for depth, key in enumerate(keys):
        is_last = depth == len(keys) - 1
        match here, key:
            case dict(), str():
                here[key] = value if is_last else here.get(key, {})
            case list(), int() if key < len(here):
                here[key] = value if is_last else here[key]
            case _:
                _cannot_hold(document, keys, depth, here)
                return
        here = here[key]


def _cannot_hold(document: Document, keys: tuple[Key, ...], depth: int, here: Any) -> None:
    parent = path_of(keys[:depth]) or "the spec"
    if isinstance(here, list):
        expected = f"an index below {len(here)}" if isinstance(keys[depth], int) else f"an index into the list {parent}"
    else:
        expected = f"a key of a mapping, but {parent} is none"
    document.faults.append(Fault(path_of(keys), expected, path_of(keys[depth:]) or "nothing"))
