"""The settings as JSON Schema, which `dg check yaml` and editors use."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from headrace.pipeline.settings.json_schema import attributes_schema
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import knobs

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    file for file in (ROOT / "examples").glob("*/**/*.yaml") if "application:" in file.read_text()
)
SMALLEST = {"application": "orders", "streams": [{"name": "orders"}]}


def mistakes(attributes: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(attributes_schema()).iter_errors(attributes)]


def schema_at(key: str) -> dict[str, Any]:
    schema = attributes_schema()
    for name in key.split("."):
        schema = schema["items"] if name.isdigit() else schema["properties"][name]
    return schema


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(attributes_schema())


@pytest.mark.parametrize("knob", knobs(Settings), ids=lambda knob: knob.key)
def test_each_setting_is_in_the_schema_with_its_description(knob: Any):
    key = knob.key.removesuffix(".0")
    assert schema_at(key)["description"] == knob.spec.metadata["doc"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_settings_of_each_example_fit_the_schema(file: Path):
    assert mistakes(yaml.safe_load(file.read_text())) == []


def test_a_settings_file_stands_alone():
    assert mistakes({"settings_file": "orders.yaml"}) == []
    assert mistakes({"settings_file": "orders.yaml", **SMALLEST}) != []
    assert mistakes({"streams": [{"name": "orders"}]}) == ["'application' is a required property"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"applcation": "orders"},
        {"landing": {"tabel": "lake.orders"}},
        {"landing": "lake.orders"},
        {"streams": {"name": "orders"}},
        {"streams": [{}]},
        {"wave": {"records": [1]}},
    ],
    ids=str,
)
def test_a_wrong_name_or_form_is_found(wrong: dict[str, Any]):
    assert len(mistakes({**SMALLEST, **wrong})) == 1
