"""Faults in fusegen's words, made from what pydantic found.

The words of a field are its `Says`; the table `EXPECTED` has words for the kinds of error that concern whole values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from fusegen.errors import Fault, listed, nearest
from fusegen.spec.document import Document, Key, path_of
from fusegen.spec.fields import Says
from fusegen.spec.model import PATTERNS

_LONGEST_QUOTE: Final = 60
_SWITCHES: Final = frozenset({"yes", "no", "on", "off"})


class _Place:
    """What the models say about one key path: its type, its words, and the words it may be if they are few."""

    def __init__(self, model: type[BaseModel], keys: tuple[Key, ...]) -> None:
        self.type: Any = model
        self.says: Says | None = None
        self.choices: tuple[str, ...] = ()
        for key in keys:
            self._enter(key)

    def _enter(self, key: Key) -> None:
        metadata: list[Any] = []
        extra: Any = None
        if isinstance(key, int):
            self.type = get_args(self.type)[0]
        else:
            info = self.type.model_fields[key]
            self.type, metadata, extra = info.annotation, info.metadata, info.json_schema_extra
        if get_origin(self.type) is Annotated:
            self.type, *metadata = get_args(self.type)
        self.says = next((each for each in metadata if isinstance(each, Says)), None)
        choices = extra.get("enum") if isinstance(extra, dict) else None
        alternatives = (self.type, *get_args(self.type))
        literal = next((each for each in alternatives if get_origin(each) is Literal), None)
        words = get_args(literal) if literal else choices
        self.choices = tuple(each for each in words or () if isinstance(each, str))

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of a mapping; empty for anything else."""
        return tuple(self.type.model_fields) if isinstance(self.type, type) and issubclass(self.type, BaseModel) else ()

    @property
    def expected(self) -> str:
        """The words for a right value."""
        if self.says:
            return self.says.expected
        return f"a mapping with {listed(self.keys, 'and')}" if self.keys else "another value"


def shape_faults(model: type[BaseModel], document: Document) -> list[Fault]:
    """Faults of single fields: every difference between the document and the model."""
    try:
        model.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)
        return [_fault(model, document, each) for each in details if not _follows_from_others(each, details)]
    return []


def known_fields(model: type[BaseModel], document: Document, faults: Iterable[Fault]) -> Mapping[str, Any]:
    """Validated top-level fields that no fault concerns, defaults included."""
    faulty = {fault.field.split(".")[0].split("[")[0] for fault in faults}
    values: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        if name in faulty:
            continue
        annotation: Any = info.annotation
        given = name in document.data
        values[name] = TypeAdapter(annotation).validate_python(document.data[name]) if given else info.default
    return values


def _follows_from_others(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether a list is called too short only because its entries are faulty themselves."""
    place = detail["loc"]
    return detail["type"] == "too_short" and any(
        len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in details
    )


def _fault(model: type[BaseModel], document: Document, detail: ErrorDetails) -> Fault:
    return EXPECTED.get(detail["type"], _wrong_value)(model, document, detail)


def _unknown_key(model: type[BaseModel], document: Document, detail: ErrorDetails) -> Fault:
    *parents, key = detail["loc"]
    keys = _Place(model, tuple(parents)).keys
    owners = [] if parents else [name for name, each in PATTERNS.items() if key in each.model_fields]
    advice = nearest(str(key), keys) or f"keys: {', '.join(keys)}"
    if owners:
        advice = f"patterns with it: {', '.join(owners)}"
    return Fault(path_of(detail["loc"]), "a known key", str(key), advice)


def _missing_key(model: type[BaseModel], document: Document, detail: ErrorDetails) -> Fault:
    place = _Place(model, detail["loc"])
    return Fault(path_of(detail["loc"]), place.expected, "nothing", "this key is required")


def _wrong_type_of_mapping(model: type[BaseModel], document: Document, detail: ErrorDetails) -> Fault:
    place = _Place(model, detail["loc"])
    path = path_of(detail["loc"])
    return Fault(path, f"a mapping with {listed(place.keys, 'and')}", described(document, path, detail["input"]))


def _wrong_value(model: type[BaseModel], document: Document, detail: ErrorDetails) -> Fault:
    """A value of the wrong type or outside its limits: the field's own words say what it should be."""
    place = _Place(model, detail["loc"])
    path = path_of(detail["loc"])
    spelling = document.spellings.get(path, "")
    hints = (
        _yaml_habit(spelling, detail["input"]),
        nearest(spelling, place.choices) or (place.says.advice if place.says else ""),
    )
    advice = "; ".join(hint for hint in hints if hint)
    return Fault(path, place.expected, described(document, path, detail["input"]), advice)


EXPECTED: Final[Mapping[str, Callable[[type[BaseModel], Document, ErrorDetails], Fault]]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing_key,
    "model_type": _wrong_type_of_mapping,
}
"""How each kind of pydantic error is reported; kinds that are not listed are wrong values of one field."""


def described(document: Document, path: str, value: Any) -> str:
    """What stands at `path`, as its author wrote it."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        is_flat = value and not any(isinstance(each, list | dict) for each in value)
        items = ", ".join(str(each) for each in value)
        return _shortened(f"[{items}]") if is_flat else "a list" if value else "an empty list"
    return _shortened(document.spellings.get(path, str(value)))


def _shortened(text: str) -> str:
    one_line = text.replace("\n", "\\n")
    return one_line if len(one_line) <= _LONGEST_QUOTE else f"{one_line[:_LONGEST_QUOTE]}..."


def _yaml_habit(spelling: str, value: Any) -> str:
    """Why a value may not be what its author thinks it is."""
    if isinstance(value, bool) and spelling.lower() in _SWITCHES:
        return f"YAML reads an unquoted {spelling} as {str(value).lower()}"
    if isinstance(value, str) and spelling[:1] in ("'", '"') and value.strip().isdigit():
        return "a number takes no quotes"
    return ""
