"""Changes of a DynamoDB table as rows of a typed table: the change becomes plain JSON, which is read as `format: json` reads it.

{"eventName": "MODIFY", "dynamodb": {"Keys": {"id": {"S": "4711"}}, "NewImage": {"id": {"S": "4711"}, "total": {"N": "12.50"}}}}
  ──>  {"eventName": "MODIFY", "Keys": {"id": "4711"}, "NewImage": {"id": "4711", "total": 12.50}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from headrace.pipeline.typed.formats.decoder import Decoder, Payloads, Read, Reasons
from headrace.pipeline.typed.formats.value_limit import too_many
from headrace.pipeline.typed.json.decode import JsonDecoder
from headrace.pipeline.typed.json.dynamodb_values import NoValue, plain_attributes
from headrace.pipeline.typed.json.unfit import NO_PAYLOAD_FITS
from headrace.pipeline.typed.json.values import are_surely_more

NO_CHANGE = "the payload isn't a change of a DynamoDB table, in DynamoDB's JSON"
_ITEMS = ("Keys", "NewImage", "OldImage")
"""The members of a change that hold attributes of an item."""
_TIME = "ApproximateCreationDateTime"
_IS_FRACTION = re.compile(rb"[.eE]")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_item = msgspec.json.Decoder(dict[str, Any]).decode


class _NotARow(Exception):
    """The reason, in words for the quarantine table."""


@dataclass(frozen=True, slots=True)
class DynamoDbDecoder(Decoder):
    json: JsonDecoder

    @property
    def fields(self) -> tuple[Mapping[str, Any], ...]:
        return self.json.fields

    def columns(self) -> list[tuple[str, Any]]:
        return self.json.columns()

    def reading(self, columns: Sequence[pa.Field[Any]]) -> Read:
        read_plain = self.json.reading(columns)

        def read(payloads: Payloads) -> Iterator[tuple[pa.Array[Any], Reasons]]:
            plain: list[bytes | None] = []
            unreadable: dict[int, str] = {}
            for place, payload in enumerate(payloads):
                try:
                    plain.append(None if payload is None else self._plain(payload))
                except _NotARow as why:
                    plain.append(None)
                    unreadable[place] = str(why)
            done = 0
            for rows, reasons in read_plain(plain):
                yield rows, [unreadable.get(done + place, why) for place, why in enumerate(reasons)]
                done += len(reasons)

        return read

    def _plain(self, payload: bytes) -> bytes:
        """The change as plain JSON, with the members that have a column. Raises _NotARow."""
        if are_surely_more(payload, self.json.most_values):
            raise _NotARow(too_many(self.json.most_values))
        try:
            # msgspec doesn't look into the texts that it hands on as they are: bytes that aren't
            # UTF-8 would get into the typed table.
            payload.decode()
            record = _members(payload)
            change = _members(record.pop("dynamodb", b"null"))
        except NO_PAYLOAD_FITS:
            raise _NotARow(NO_CHANGE) from None
        if "Keys" not in change:
            raise _NotARow(NO_CHANGE)
        members = record | change
        fields = {
            name: _plain_item(name, members[name], kind) if name in _ITEMS else _member(name, members[name])
            for name, kind in self.columns()
            if name in members
        }
        return msgspec.json.encode(fields)


def _member(name: str, token: msgspec.Raw) -> Any:
    """DynamoDB writes its whole seconds as 1795762860.000 or 1.79576286E9, which no column of times takes."""
    if name != _TIME or not _IS_FRACTION.search(text := bytes(token)):
        return token
    try:
        seconds = float(text)
    except ValueError:
        return token
    # Only whole seconds: a fraction would be cut off unseen, so it stays, and the column refuses
    # it.
    return int(seconds) if seconds.is_integer() else token


def _plain_item(column: str, token: msgspec.Raw, kind: Any) -> dict[str, Any] | None:
    """The attributes that the column has. An image without any is none: KCL's adapter writes those that aren't there so."""
    names = [part["name"] for part in kind["fields"]] if _is_struct(kind) else None
    try:
        attributes = _item(token) if bytes(token) != b"null" else {}
        return plain_attributes(attributes, names) if attributes else None
    except NoValue as error:
        raise _NotARow(f"the column {column} doesn't fit: its attribute {error}") from None
    except NO_PAYLOAD_FITS:
        raise _NotARow(f"the column {column} doesn't fit: it isn't an item of DynamoDB's") from None


def _is_struct(kind: Any) -> bool:
    return not isinstance(kind, str) and kind["type"] == "struct"
