"""Whoever copies settings from a page gets a code location that Dagster can load."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from headrace import build_definitions
from headrace.pipeline.settings.model import Settings
from tests.docs.pages import PAGES, named

_THE_REST = {
    "application": "my-app",
    "streams": [{"name": "clicks"}],
    "workers": [{"id": "w1"}],
    "landing": {"table": "lake.my_app", "home": "lake"},
}
"""The settings that a page leaves out."""
_AVRO = b'{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
_KEYS = {field.name for field in fields(Settings)}


def _descriptors() -> bytes:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(
        name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    return FileDescriptorSet(file=[file]).SerializeToString()


_FILES = {"orders.avsc": _AVRO, "shop.desc": _descriptors()}
"""Files that the pages' settings name."""
_BLOCKS = {
    f"{named(page)}:{number}": yaml.safe_load(text)
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
}
SETTINGS = {name: block for name, block in _BLOCKS.items() if isinstance(block, dict) and set(block) <= _KEYS}


def test_the_pages_have_settings_of_every_kind_of_source_and_target():
    keys = {key for block in SETTINGS.values() for key in block}
    assert {"streams", "parse", "processors", "dagster", "kcl", "metrics"} <= keys
    assert any(
        str(stream.get("name", "")).startswith("arn:aws:dynamodb:")
        for block in SETTINGS.values()
        for stream in block.get("streams", ())
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_dagster_can_load_the_settings_of_a_page(name: str, tmp_path: Path):
    for file, content in _FILES.items():
        (tmp_path / file).write_bytes(content)
    settings = tmp_path / "headrace.yaml"
    settings.write_text(yaml.safe_dump({**_THE_REST, **SETTINGS[name]}))

    repository = build_definitions(settings).get_repository_def()

    assert repository.asset_graph.get_all_asset_keys()
