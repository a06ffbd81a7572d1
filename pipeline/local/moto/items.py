"""DynamoDB's items in moto's answers, written in one step.

moto writes every part of an answer by botocore's model, and looks for each of the ten types that a value may
have under several names. That is more than half a millisecond for an item of ten attributes, and nine tenths
of a BatchGetItem. An item in moto's hands has the form of the answer already, except that bytes aren't base64
yet.
"""

from __future__ import annotations

import base64
from typing import Any

from moto.core.serialize import SERVICE_SPECIFIC_SERIALIZERS, JSONSerializer

_VALUE = "AttributeValue"


def write_items_in_one_step() -> None:
    """Let moto write items in one step, in this process and from now on."""
    SERVICE_SPECIFIC_SERIALIZERS["dynamodb"] = {"json": _ItemSerializer}


class _ItemSerializer(JSONSerializer):
    def _serialize_type_map(self, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.value.name == _VALUE:
            item = {name: _written(member) for name, member in value.items()}
            self._default_serialize(serialized, item, shape, key)
        else:
            super()._serialize_type_map(serialized, value, shape, key)


def _written(value: dict[str, Any]) -> dict[str, Any]:
    """A value of DynamoDB as it is in an answer: `{"S": "text"}`."""
    # A value of DynamoDB is a map with one entry, from its type to its content.
    ((kind, content),) = value.items()
    match kind:
        case "M":
            return {kind: {name: _written(member) for name, member in content.items()}}
        case "L":
            return {kind: [_written(element) for element in content]}
        case "SS" | "NS" | "BS":
            return {kind: [_scalar(element) for element in content]}
        case "BOOL" | "NULL":
            return value
        case _:
            return {kind: _scalar(content)}


def _scalar(content: Any) -> str:
    return base64.b64encode(content).decode() if isinstance(content, bytes) else str(content)
