"""MLIR text as a tree, and back: the generic form, in which every operation is written alike.

    Operation = results name operands successors properties regions attributes types location
    Region    = blocks
    Block     = label arguments operations

The tools print it with `--mlir-print-op-generic`; with `--mlir-print-unique-ssa-ids` a value has one name in the whole
module, so that operations can move and values can be replaced by name. Types and attribute values stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fusegen.errors import FusegenError

PRINT_GENERIC: Final = (
    "--mlir-print-op-generic",
    "--mlir-print-unique-ssa-ids",
    "--mlir-print-debuginfo",
    "--mlir-print-local-scope",
)
"""Options of the tools that make them print what `parse_module` reads."""

_LOCATION: Final = " loc("
_OPENING, _CLOSING = "([{<", ")]}>"
_HEAD: Final = re.compile(r'\s*(?:(%\w+)(?::\d+)? = )?"([\w.]+)"\(')
_BLOCK: Final = re.compile(r"\s*(\^\w+)(?:\((.*)\))?:$")
_LINE: Final = re.compile(r'"[^"]*\.py":(\d+):\d+')
_ENTRY: Final = re.compile(r"([\w.$\"]+)(?: = (.*))?", re.DOTALL)


class MlirError(FusegenError):
    """Text that is not the generic form of MLIR. Nobody recovers: a tool of another version prints differently."""


@dataclass(frozen=True, slots=True)
class Block:
    """Operations under a label; `arguments` are names and types."""

    label: str
    arguments: tuple[tuple[str, str], ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Blocks, the entry first. A region without a block belongs to a declaration."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `result` names all its results: the second of several is `%3#1`; it is empty without results.

    Values of properties and attributes are text; that of an attribute which is merely present is "".
    """

    name: str
    result: str = ""
    operands: tuple[str, ...] = ()
    operand_types: tuple[str, ...] = ()
    result_types: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    successors: str = ""
    location: str = ""

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the results."""
        if len(self.result_types) == 1:
            return (self.result,)
        return tuple(f"{self.result}#{index}" for index in range(len(self.result_types)))

    @property
    def line(self) -> int:
        """The line of the Python file that the operation was made from, or 0. For inlined code, that of the call."""
        places = _LINE.findall(self.location)
        return int(places[-1]) if places else 0

    @property
    def body(self) -> tuple[Operation, ...]:
        """All operations directly inside of the regions."""
        return tuple(op for region in self.regions for block in region.blocks for op in block.operations)

    def text(self, key: str) -> str:
        """A property that is a string, without its quotes; nothing where there is none."""
        return self.properties.get(key, "").strip('"')

    def __str__(self) -> str:
        return "\n".join(_lines(self, ""))


Rewriting = Callable[[Operation], Iterable[Operation]]
"""Operations that take the place of one, whose regions have been rewritten before."""


def walk(op: Operation) -> Iterator[Operation]:
    """The operation and all inside of it, in the order of the text."""
    yield op
    for inner in op.body:
        yield from walk(inner)


def rewrite(op: Operation, rewriting: Rewriting) -> Operation:
    """The operation with everything inside of it rewritten, innermost first and in the order of the text."""

    def renewed(block: Block) -> Block:
        return replace(
            block, operations=tuple(new for old in block.operations for new in rewriting(rewrite(old, rewriting)))
        )

    return with_blocks(op, renewed)


def with_blocks(op: Operation, change: Callable[[Block], Block]) -> Operation:
    """The operation with `change` applied to each block directly inside of it."""
    if not op.regions:
        return op
    return replace(op, regions=tuple(Region(tuple(map(change, region.blocks))) for region in op.regions))


def renamed(op: Operation, names: Mapping[str, str]) -> Operation:
    """The operation and all inside of it, with other values as operands."""

    def exchange(each: Operation) -> Operation:
        if not any(operand in names for operand in each.operands):
            return each
        return replace(each, operands=tuple(names.get(operand, operand) for operand in each.operands))

    return exchange(rewrite(op, lambda inner: (exchange(inner),)))


def used_values(op: Operation) -> set[str]:
    """Operands of the operation and of all inside of it, results of one operation by their common name."""
    return {operand.partition("#")[0] for each in walk(op) for operand in each.operands}


def parse_module(text: str) -> Operation:
    """The module that a tool has printed in generic form. Raises MlirError for other text."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#loc")]
    reader = _Reader(lines)
    operations = reader.operations()
    if len(operations) != 1 or operations[0].name != "builtin.module":
        raise MlirError(f"expected one builtin.module in generic form, got {[op.name for op in operations]}")
    return operations[0]


def derived(value: str, what: str) -> str:
    """A new name for a value that belongs to another one; names that begin with a digit must be numbers."""
    return f"%{what}_{value.removeprefix('%').replace('#', '_')}"


def split(text: str) -> tuple[str, ...]:
    """The parts between commas that stand in no bracket and no string."""
    parts, depth, start, quoted = [], 0, 0, False
    for index, character in enumerate(text):
        if character == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING and not _is_arrow(text, index):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return tuple(parts) + ((last,) if last else ())


def dictionary(text: str) -> dict[str, str]:
    """`a = 1 : i32, b` as a mapping of texts."""
    entries = {}
    for part in split(text):
        match = _ENTRY.fullmatch(part)
        if match is None:
            raise MlirError(f"expected an attribute, got {part}")
        entries[match[1]] = match[2] or ""
    return entries


@dataclass(slots=True)
class _Reader:
    """Reads operations from lines; `position` is the next line."""

    lines: Sequence[str]
    position: int = 0

    def operations(self) -> tuple[Operation, ...]:
        """Operations up to the end of the region, the next label or the end of the text."""
        found = []
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if line.lstrip()[0] in "}^":
                break
            self.position += 1
            found.append(self._operation(line))
        return tuple(found)

    def _operation(self, line: str) -> Operation:
        match = _HEAD.match(line)
        if match is None:
            raise MlirError(f"expected an operation in generic form, got {line.strip()[:120]}")
        result, name = match[1] or "", match[2]
        operands, rest = _bracketed(line, match.end() - 1)
        successors, rest = _leading(rest, "[", "]")
        properties, rest = _leading(rest, " <{", "}>")
        regions: tuple[Region, ...] = ()
        if rest.startswith(" ({"):
            if not rest.endswith("({"):
                raise MlirError(f"expected a region on lines of its own, got {line.strip()[:120]}")
            regions, rest = self._regions()
        attributes, rest = _leading(rest, " {", "}")
        if not rest.startswith(" : ("):
            raise MlirError(f"expected the types of {name}, got {rest[:120]}")
        operand_types, rest = _bracketed(rest, 3)
        results, _, location = rest.removeprefix(" -> ").partition(_LOCATION)
        inner, after = _bracketed(results, 0) if results.startswith("(") else (results, "")
        return Operation(
            name=name,
            result=result,
            operands=split(operands),
            operand_types=split(operand_types),
            result_types=split(inner) if not after else (results,),
            properties=dictionary(properties),
            attributes=dictionary(attributes),
            regions=regions,
            successors=successors,
            location=location.removesuffix(")"),
        )

    def _regions(self) -> tuple[tuple[Region, ...], str]:
        """The regions that begin here, and what follows the last one on its closing line."""
        regions = []
        while True:
            regions.append(self._region())
            closing = self.lines[self.position].strip()
            self.position += 1
            if closing != "}, {":
                return tuple(regions), closing.removeprefix("})")

    def _region(self) -> Region:
        blocks = []
        while not self.lines[self.position].lstrip().startswith("}"):
            label, arguments = "", ""
            match = _BLOCK.match(_without_comment(self.lines[self.position]))
            if match is not None:
                label, arguments = match[1], match[2] or ""
                self.position += 1
            blocks.append(Block(label, tuple(map(_argument, split(arguments))), self.operations()))
        return Region(tuple(blocks))


def _without_comment(line: str) -> str:
    """Blocks of a graph are printed with a comment that names their predecessors."""
    return line.partition("  // ")[0]


def _argument(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(_LOCATION)[0].partition(": ")
    return name, kind


def _leading(text: str, opening: str, closing: str) -> tuple[str, str]:
    """What stands in the brackets that the text starts with, and what follows them; nothing where it does not."""
    if not text.startswith(opening) or text.startswith(" ({"):
        return "", text
    inner, rest = _bracketed(text, len(opening) - len(closing))
    return inner[len(closing) - 1 : len(inner) - len(closing) + 1], rest


def _bracketed(text: str, start: int) -> tuple[str, str]:
    """What stands between the bracket at `start` and its partner, and what follows."""
    depth, quoted = 0, False
    for index in range(start, len(text)):
        character = text[index]
        if character == '"' and text[index - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING and not _is_arrow(text, index):
            depth -= 1
            if depth == 0:
                return text[start + 1 : index], text[index + 1 :]
    raise MlirError(f"expected a closing bracket, got {text[start:][:120]}")


def _is_arrow(text: str, index: int) -> bool:
    return text[index] == ">" and text[index - 1] == "-"


def _lines(op: Operation, indent: str) -> Iterator[str]:
    count = len(op.result_types)
    head = f"{op.result}{f':{count}' if count > 1 else ''} = " if count else ""
    head = f'{indent}{head}"{op.name}"({", ".join(op.operands)})'
    head += f"[{op.successors}]" if op.successors else ""
    head += f" <{{{_entries(op.properties)}}}>" if op.properties else ""
    results = ", ".join(op.result_types)
    tail = f" {{{_entries(op.attributes)}}}" if op.attributes else ""
    tail += f" : ({', '.join(op.operand_types)}) -> "
    tail += results if count == 1 and not results.startswith("(") else f"({results})"
    tail += f" loc({op.location})" if op.location else ""
    if not op.regions:
        yield head + tail
        return
    for index, region in enumerate(op.regions):
        yield f"{head} ({{" if index == 0 else f"{indent}}}, {{"
        for block in region.blocks:
            if block.label:
                arguments = ", ".join(f"{name}: {kind}" for name, kind in block.arguments)
                yield f"{indent}{block.label}{f'({arguments})' if arguments else ''}:"
            for inner in block.operations:
                yield from _lines(inner, f"{indent}  ")
    yield f"{indent}}}){tail}"


def _entries(entries: Mapping[str, str]) -> str:
    return ", ".join(f"{key} = {value}" if value else key for key, value in entries.items())


def function_types(function: Operation) -> tuple[tuple[str, ...], str]:
    """Types of a function's arguments, and the text of those of its results."""
    arguments, rest = _bracketed(function.properties["function_type"], 0)
    return split(arguments), rest.removeprefix(" -> ")


def with_arguments(function: Operation, arguments: Sequence[tuple[str, str]], attributes: Sequence[str]) -> Operation:
    """The function with other arguments, names and types; `attributes` has a dictionary for each, or is empty."""
    (region,) = function.regions
    entry, *others = region.blocks
    _, results = function_types(function)
    types = ", ".join(kind for _, kind in arguments)
    properties = {**function.properties, "function_type": f"({types}) -> {results}"}
    if attributes:
        properties["arg_attrs"] = f"[{', '.join(attributes)}]"
    blocks = (replace(entry, arguments=tuple(arguments)), *others)
    return replace(function, properties=properties, regions=(Region(blocks),))


def argument_attributes(function: Operation) -> tuple[str, ...]:
    """The dictionary of each argument, where any argument has attributes."""
    text = function.properties.get("arg_attrs", "")
    return split(text[1:-1])
