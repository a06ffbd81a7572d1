"""JSON payloads as rows of a typed table.

Most payloads are decoded once, to structures with the columns' own types, and each column is made of all these
structures at once. A payload that these types don't accept is decoded again, alone: its values may fit the
columns after a conversion; if not, it is set aside with a reason that names the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from headrace.pipeline.typed.formats.decoder import Decoder, Payloads, Read, Reasons
from headrace.pipeline.typed.formats.value_limit import too_many
from headrace.pipeline.typed.json.column_types import words_of
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.kinds import columns_kind
from headrace.pipeline.typed.json.nested import Objects, Unfits
from headrace.pipeline.typed.json.text import NO_OBJECT, object_in, why_no_json
from headrace.pipeline.typed.json.unfit import NO_PAYLOAD_FITS, UnfitValues
from headrace.pipeline.typed.json.values import JsonValues

_MOST_NAMED = 5
"""Columns that a reason names."""
_MOST_OF_TYPE = 60
"""Characters of a column's type: that of a struct names all its parts."""
_MISFIT = "the payload has values that don't fit their columns"
_TWICE = "the payload has a field twice, and one of its values doesn't fit its column"
"""The last value of such a field counts, and the others have to fit as well."""


@dataclass(frozen=True, slots=True)
class JsonDecoder(Decoder):
    fields: tuple[Mapping[str, Any], ...]
    """The columns that payloads make, as fields of a struct, as Spark writes them in JSON."""
    most_values: int
    judge: Judge | None = None
    """By the table's columns, where payloads make them."""

    def columns(self) -> list[tuple[str, Any]]:
        return [(column["name"], column["type"]) for column in self.fields]

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
        self._columns = [
            (name, part, msgspec.json.Decoder(part.wide).decode)
            for name, part in kind.parts
            if part is not None
        ]

    def read(self, payloads: Payloads) -> Iterator[tuple[pa.Array[Any], Reasons]]:
        # Joined, because one look at many payloads takes as long as a look at one: whether they may make too many
        # values, and are text.
        content = b"".join([payload for payload in payloads if payload is not None])
        are_few = self._values.at_most(content) <= self._values.most
        if not are_few and len(payloads) > 1:
            yield from self._by_halves(payloads)
            return
        exact = self._exact if are_few else None
        if exact is not None and not _is_text(content):
            exact = partial(_text_first, exact)
        try:
            decoded = self._decoded(payloads, exact)
        # No payload's fault alone, so that none goes to quarantine for it: the task fails, and is tried again.
        except MemoryError:
            raise
        # Whatever a library raises on hostile bytes: the payload goes to quarantine, and the others of the task land.
        except Exception as error:  # noqa: BLE001
            if len(payloads) > 1:
                yield from self._by_halves(payloads)
            else:
                yield pa.nulls(1, self._kind.arrow), [f"the payload can't be decoded: {type(error).__name__}"]
            return
        yield decoded

    def _by_halves(self, payloads: Payloads) -> Iterator[tuple[pa.Array[Any], Reasons]]:
        half = len(payloads) // 2
        yield from self.read(payloads[:half])
        yield from self.read(payloads[half:])

    def _decoded(
        self, payloads: Payloads, exact: Callable[[bytes], Any] | None
    ) -> tuple[pa.Array[Any], Reasons]:
        rows, reasons = self._rows(payloads, exact)
        array, unfit = self._kind.fitting(rows)
        for place, why in self._named(unfit).items():
            reasons[place] = why
        return array, reasons

    def _rows(self, payloads: Payloads, exact: Callable[[bytes], Any] | None) -> tuple[list[Any], Reasons]:
        rows: list[Any] = []
        reasons: Reasons = [None] * len(payloads)
        unfit: list[int] = []
        for place, payload in enumerate(payloads):
            if payload is None:
                rows.append(None)
                continue
            # Nearly all payloads end here, after one pass through msgspec. Whatever it refuses is looked at more
            # closely.
            if exact is not None:
                try:
                    rows.append(exact(payload))
                except NO_PAYLOAD_FITS:
                    pass
                else:
                    continue
            row, reasons[place] = self._looked_at(payload)
            rows.append(row)
            if row is None and reasons[place] is None:
                unfit.append(place)
        if unfit:
            # Together and column by column, because payloads of one producer mostly fail at the same column.
            sentences = self._misfits([payloads[place] or b"" for place in unfit])
            for place, why in zip(unfit, sentences, strict=True):
                reasons[place] = why
        return rows, reasons

    def _looked_at(self, payload: bytes) -> tuple[Any, str | None]:
        """The row of a payload that `exact` doesn't take, or a reason; neither where some columns don't fit."""
        # In this order: a payload that is no JSON, or has too many values, may not get as far as a pass that builds
        # them.
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
            return None, None

    def _misfits(self, payloads: Sequence[bytes]) -> list[str]:
        """Which columns each of the payloads doesn't fit. All are read again together, column by column."""
        tokens = [self._tokens(payload) for payload in payloads]
        unfit: dict[str, dict[int, str | None]] = {}
        for name, kind, decode in self._columns:
            places: dict[int, str | None] = {}
            values = [
                _value(decode, of[name], places, place) if of is not None and name in of else None
                for place, of in enumerate(tokens)
            ]
            try:
                kind.array(values)
            except UnfitValues as error:
                places |= error.places
            if places:
                unfit[name] = places
        named = self._named(unfit)
        # Where each last value fits, the one that doesn't was given before under the same name.
        return [named.get(place, NO_OBJECT if of is None else _TWICE) for place, of in enumerate(tokens)]

    def _tokens(self, payload: bytes) -> Mapping[str, msgspec.Raw] | None:
        try:
            fields: Mapping[str, msgspec.Raw] = self._fields(payload)
        except NO_PAYLOAD_FITS:
            return None
        return fields

    def _named(self, unfit: Unfits) -> dict[int, str]:
        """The reason of each place that is named, in the order of the columns."""
        sentences: dict[int, str] = {}
        names: dict[int, list[str]] = {}
        for column, places in unfit.items():
            typed_name = f"{column} ({words_of(self._types[column])[:_MOST_OF_TYPE]})"
            for place, why in places.items():
                names.setdefault(place, []).append(typed_name)
                if why:
                    sentences.setdefault(place, f"the column {column} {why}")
        return {
            place: sentences.get(place) or f"{_MISFIT}: {', '.join(columns[:_MOST_NAMED])}"
            for place, columns in names.items()
        }


def _value(
    decode: Callable[[msgspec.Raw], Any], token: msgspec.Raw, unfit: dict[int, str | None], place: int
) -> Any:
    try:
        return decode(token)
    except NO_PAYLOAD_FITS:
        unfit[place] = None
        return None


def _text_first(exact: Callable[[bytes], Any], payload: bytes) -> Any:
    """Msgspec doesn't look into texts that it walks over."""
    payload.decode()
    return exact(payload)


def _is_text(content: bytes) -> bool:
    """Whether joined payloads that are read as JSON are text, each of them: no character reaches from one to the next,
    as each ends with a bracket."""
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
