"""JSON payloads as rows of a typed table.

Most payloads are decoded once, to structures that have the columns' own types, and each column is made of all of them together. What these types
don't take is looked at again, alone: it may have what fits a column in another way, and otherwise the reason names the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from headrace.pipeline.core.column_types import words_of
from headrace.pipeline.core.json_fit import Judge
from headrace.pipeline.lake.decode import Decoder, Payloads, Read, Reasons
from headrace.pipeline.lake.json_kinds import columns_kind
from headrace.pipeline.lake.json_nested import Kind, Objects
from headrace.pipeline.lake.json_text import NO_OBJECT, object_in, why_no_json
from headrace.pipeline.lake.json_unfit import NO_PAYLOAD_FITS, NO_VALUE_FITS, OutsideYears
from headrace.pipeline.lake.json_values import JsonValues
from headrace.pipeline.lake.value_limit import too_many

_MOST_NAMED = 5
"""Columns that a reason names."""
_MOST_OF_TYPE = 60
"""Characters of a column's type: that of a struct names all its parts."""


@dataclass(frozen=True, slots=True)
class JsonDecoder(Decoder):
    fields: tuple[Mapping[str, Any], ...]
    """The columns that payloads make, as fields of a struct, as Spark writes them in JSON."""
    most_values: int
    judge: Judge | None = None
    """By the table's columns, where payloads make them."""

    def columns(self) -> list[tuple[str, Any]]:
        return [(each["name"], each["type"]) for each in self.fields]

    def reading(self, columns: Sequence[pa.Field[Any]]) -> Read:
        is_whole = self.judge is not None and self.judge.is_whole
        kind = columns_kind(self.fields, columns, is_whole=is_whole)
        values = JsonValues(tuple(self.columns()), self.most_values)
        return _Reader(kind, values, dict(self.columns()), self.judge).read


class _Reader:
    def __init__(
        self, kind: Objects, values: JsonValues, types: Mapping[str, Any], judge: Judge | None
    ) -> None:
        self._kind = kind
        self._values = values
        self._types = types
        self._judge = judge
        # With a judge, only payloads that have nothing beside the columns are sure to pass it.
        is_sure = judge is None or not judge.is_whole or kind.tells_all
        self._exact = kind.decoding_exactly() if is_sure else None
        self._wide = kind.decoding_widely()
        self._fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def read(self, payloads: Payloads) -> Iterator[tuple[pa.Array[Any], Reasons]]:
        content = b"".join([payload for payload in payloads if payload is not None])
        are_few = self._values.at_most(content) <= self._values.most
        if not are_few and len(payloads) > 1:
            half = len(payloads) // 2
            yield from self.read(payloads[:half])
            yield from self.read(payloads[half:])
            return
        exact = self._exact if are_few else None
        if exact is not None and not _is_text(content):
            exact = partial(_text_first, exact)
        rows, reasons = self._rows(payloads, exact)
        parts = list(self._arrays(payloads, rows, reasons, 0))
        yield parts[0] if len(parts) == 1 else pa.concat_arrays(parts), reasons

    def _rows(self, payloads: Payloads, exact: Callable[[bytes], Any] | None) -> tuple[list[Any], Reasons]:
        rows: list[Any] = []
        reasons: Reasons = [None] * len(payloads)
        for place, payload in enumerate(payloads):
            if payload is None:
                rows.append(None)
                continue
            if exact is not None:
                try:
                    rows.append(exact(payload))
                except NO_PAYLOAD_FITS:
                    pass
                else:
                    continue
            row, reasons[place] = self._looked_at(payload)
            rows.append(row)
        return rows, reasons

    def _looked_at(self, payload: bytes) -> tuple[Any, str | None]:
        """The row of a payload that `exact` doesn't take, or a reason."""
        if why := why_no_json(payload):
            return None, why
        if self._values.are_too_many(payload):
            return None, too_many(self._values.most)
        if self._judge is not None:
            content = object_in(payload)
            if why := NO_OBJECT if content is None else self._judge.why_not(content):
                return None, why
        try:
            return self._wide(payload), None
        except NO_PAYLOAD_FITS:
            return None, self._misfit(payload)

    def _arrays(
        self, payloads: Payloads, rows: Sequence[Any], reasons: Reasons, start: int
    ) -> Iterator[pa.Array[Any]]:
        """The rows, which are those from `start` on. A row with a value that doesn't fit is found by halves, so that the others don't pay for it."""
        try:
            yield self._kind.array(rows)
        except NO_VALUE_FITS:
            if len(rows) == 1:
                reasons[start] = self._misfit(payloads[start] or b"")
                yield pa.nulls(1, self._kind.arrow)
                return
            half = len(rows) // 2
            yield from self._arrays(payloads, rows[:half], reasons, start)
            yield from self._arrays(payloads, rows[half:], reasons, start + half)

    def _misfit(self, payload: bytes) -> str:
        """Which columns the payload doesn't fit."""
        try:
            fields = self._fields(payload)
        except NO_PAYLOAD_FITS:
            return NO_OBJECT
        named = []
        for name, kind in self._kind.parts:
            if kind is None or name not in fields:
                continue
            try:
                _check(kind, fields[name])
            except OutsideYears:
                return f"the column {name} has a time before the year 1 or after the year 9999; a number is read as seconds since 1970"
            except (*NO_PAYLOAD_FITS, *NO_VALUE_FITS):
                named.append(f"{name} ({words_of(self._types[name])[:_MOST_OF_TYPE]})")
        if not named:
            # The value that counts is the last one, and the others have to fit as well.
            return "the payload has a field twice, and one of its values doesn't fit its column"
        return f"the payload has values that don't fit their columns: {', '.join(named[:_MOST_NAMED])}"


def _text_first(exact: Callable[[bytes], Any], payload: bytes) -> Any:
    """msgspec doesn't look into texts that it walks over."""
    payload.decode()
    return exact(payload)


def _check(kind: Kind, token: msgspec.Raw) -> None:
    kind.array([msgspec.json.decode(token, type=kind.wide)])


def _is_text(content: bytes) -> bool:
    """Of payloads that are read as JSON, each: no character reaches from one to the next, as each ends with a bracket."""
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
