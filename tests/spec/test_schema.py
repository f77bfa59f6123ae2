"""The JSON Schema, the starting specs and the specs of this repository agree with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fusegen.spec import load_spec
from fusegen.spec.fields import TILE_SIZES
from fusegen.spec.model import PATTERNS
from fusegen.spec.schema import SCHEMA_FILE, json_schema, schema_text
from fusegen.spec.starter import starter
from fusegen.targets import TARGETS

SPECS = Path(__file__).parents[2] / "specs"
MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"


def test_it_is_a_schema_of_draft_2020_12() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_it_is_deterministic_and_checked_in() -> None:
    assert schema_text() == schema_text()
    assert (SPECS / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()


def test_every_field_is_described() -> None:
    for name, definition in json_schema()["$defs"].items():
        assert definition["description"], name
        for key, field in definition["properties"].items():
            assert field.get("description"), f"{name}.{key}"


def test_editors_learn_the_possible_values() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    assert schema["properties"]["pattern"]["enum"] == list(PATTERNS)
    assert definitions["HeadTile"]["properties"]["d"]["enum"] == list(TILE_SIZES)
    assert definitions["SumTile"]["properties"]["rows"]["enum"] == [1, 2, 4, 8, *TILE_SIZES]
    for model in PATTERNS.values():
        definition = definitions[model.__name__]
        assert definition["properties"]["target"]["enum"] == list(TARGETS)
        assert definition["properties"]["sync"]["enum"] == ["barrier", "signal"]
        assert definition["properties"]["transport"]["enum"] == ["mte", "udma"]
        assert definition["required"] == ["pattern", "dtype", "target", "transport", "sync", "verify"]
        assert definition["additionalProperties"] is False


def complaints(data: Any) -> list[str]:
    """What an editor underlines: the place and the words of each violation."""
    errors = jsonschema.Draft202012Validator(json_schema()).iter_errors(data)
    return sorted(f"{error.json_path}: {error.message}" for error in errors)


def test_editors_complain_about_the_wrong_field_and_nothing_else() -> None:
    data = yaml.safe_load(starter("gemm_reduce_scatter"))
    assert complaints(data) == []
    wrong = {**data, "reduce": "fast", "comm_tile": {"rows": 20}, "roles": "shared"}
    assert complaints(wrong) == [
        "$.comm_tile.rows: 20 is not one of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]",
        "$.reduce: 'fast' is not one of ['ordered', 'atomic']",
        "$: Additional properties are not allowed ('roles' was unexpected)",
    ]
    assert complaints({**data, "pattern": "gemm"}) == [f"$.pattern: 'gemm' is not one of {list(PATTERNS)}"]
    assert complaints({"dtype": "x"}) == ["$: 'pattern' is a required property"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_schema_knows_the_defaults_of_each_pattern(pattern: str) -> None:
    definition = json_schema()["$defs"][PATTERNS[pattern].__name__]
    fields = PATTERNS[pattern].model_fields
    optional = {name for name, field in fields.items() if not field.is_required()}
    assert {name for name, each in definition["properties"].items() if "default" in each} == optional
    assert definition["properties"]["pattern"]["const"] == pattern


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_specs_of_this_repository(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(MODELINE)
    jsonschema.validate(yaml.safe_load(text), json_schema())
    load_spec(path)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_starting_specs_are_valid_and_show_every_field(pattern: str, tmp_path: Path) -> None:
    text = starter(pattern)
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    assert text.startswith(MODELINE)
    assert load_spec(path).spec.pattern == pattern
    assert set(data) == set(PATTERNS[pattern].model_fields)
    jsonschema.validate(data, json_schema())
