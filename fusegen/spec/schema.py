"""The JSON Schema of spec files, for editors."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from fusegen.spec.model import PATTERNS

SCHEMA_FILE: Final = "fusegen.schema.json"


class _UntitledFields(GenerateJsonSchema):
    """Leaves out field titles, which would only repeat the keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """The schema of any spec (JSON Schema, Draft 2020-12).

    `pattern` chooses the model that the rest is held to. This is said with if and then rather than oneOf: editors then
    complete the fields of that pattern, and complain about the wrong field instead of about every alternative.
    """
    references, definitions = models_json_schema(
        [(model, "validation") for model in PATTERNS.values()], schema_generator=_UntitledFields
    )
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "fusegen spec",
        "description": "A fused collective kernel for Ascend NPUs, as fusegen renders it.",
        "type": "object",
        "required": ["pattern"],
        "properties": {"pattern": {"enum": list(PATTERNS), "description": "The fused collective to generate."}},
        "allOf": [
            {"if": _has_pattern(pattern), "then": references[model, "validation"]}
            for pattern, model in PATTERNS.items()
        ],
        "$defs": definitions["$defs"],
    }


def _has_pattern(pattern: str) -> dict[str, Any]:
    return {"required": ["pattern"], "properties": {"pattern": {"const": pattern}}}


def schema_text() -> str:
    """The schema as the text of a file; the same bytes each time."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
