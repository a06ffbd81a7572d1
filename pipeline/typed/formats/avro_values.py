"""How many values an Avro payload makes, counted in its bytes before any value is made.

A list of Avro tells the number of its items before the items, so that a payload of a billion small items is refused at
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headrace.pipeline.typed.formats.rows import CantDecode
from headrace.pipeline.typed.formats.value_limit import TooManyValues, ValueLimit, ValuesLeft

_FIXED_SIZES = {"boolean": 1, "float": 4, "double": 8, "null": 0}
_LEAST = {"float": 4, "double": 8, "null": 0}
"""The fewest bytes of a value; one byte for others."""
_RECORDS = ("record", "error")
_LONGEST = 10
"""The most bytes of an integer. A reader in C takes another number from longer ones than this count does."""
_MASK = 2**64 - 1
_DEEP = "the payload has more levels of records within records than can be read"


class _CutOff(Exception):
    """The payload ends within a value: its decoder will say so."""


@dataclass(frozen=True)
class AvroValues:
    """Counts how many values a payload of an Avro schema can make at most.

    `schema`: the one by which the payloads are written, as fastavro has parsed it; `named`: its named types.
    `reader`: the named types of the schema to which the payloads are brought.
    """

    schema: Any
    named: Mapping[str, Any]
    reader: Mapping[str, Any] = field(default_factory=dict)

    def limit(self, most: int) -> ValueLimit:
        bound = self._bound(self.schema, ())
        # A record within itself begins anew behind a union or a list, which takes a byte.
        again = max((self._bound(schema, ()).values for schema in self._recursive), default=0)
        return ValueLimit(most, bound.a_byte + again, self.count)

    def count(self, content: bytes, most: int) -> int:
        walk = _Walk(content, ValuesLeft(most), self)
        try:
            walk.value(self.schema)
        except _CutOff:
            # The decoder tells what is wrong with bytes that end too early; the values up to there are counted.
            pass
        except RecursionError:
            raise CantDecode(_DEEP) from None
        return most - walk.left.values

    @cached_property
    def _recursive(self) -> list[Any]:
        return [schema for schema in self.named.values() if contains_itself(schema, self.named)]

    def more_of(self, record: Mapping[str, Any]) -> int:
        """The most values that the reader's schema adds to this record type of the writer's schema: defaults of
        fields that the writer doesn't have.
        """
        return self._more.get(record["name"], 0)

    @cached_property
    def _more(self) -> Mapping[str, int]:
        return {
            name: max(
                (_added(record, other) for other in self.reader.values() if _is_same(record, other)),
                default=0,
            )
            for name, record in self.named.items()
            if record["type"] in _RECORDS
        }

    def _bound(self, schema: Any, above: tuple[str, ...]) -> _Bound:
        """The bound of the values of a type. `above`: the names of the records around this type."""
        match schema:
            case str() if schema in self.named:
                # A record within itself would be bounded without an end. What it adds is counted
                # once, in `limit`.
                return _Bound(0, 0, 0) if schema in above else self._bound(self.named[schema], above)
            case list():
                branches = [self._bound(branch, above) for branch in schema]
                least = 1 + min(bound.least for bound in branches)
                return _Bound(
                    max(bound.values for bound in branches), max(bound.a_byte for bound in branches), least
                )
            case {"type": kind, "fields": fields} if kind in _RECORDS:
                return self._of_record(schema, fields, (*above, schema["name"]))
            case {"type": "array", "items": items}:
                return _of_many(self._bound(items, above), 0)
            case {"type": "map", "values": values}:
                return _of_many(self._bound(values, above), 1)
            case {"type": "fixed", "size": size}:
                return _Bound(1, 0, size)
            case {"type": dict() | list() as inner}:
                return self._bound(inner, above)
            case _:
                return _Bound(1, 0, _LEAST.get(kind_of(schema), 1))

    def _of_record(self, schema: Mapping[str, Any], fields: Sequence[Any], above: tuple[str, ...]) -> _Bound:
        bounds = [self._bound(column["type"], above) for column in fields]
        values = 1 + self.more_of(schema) + sum(bound.values for bound in bounds)
        return _Bound(
            values, max((bound.a_byte for bound in bounds), default=0), sum(bound.least for bound in bounds)
        )


@dataclass(frozen=True, slots=True)
class _Bound:
    """A value of this type and of some bytes makes at most `values`, and `a_byte` for each byte."""

    values: int
    a_byte: float
    least: int
    """The fewest bytes."""


def _of_many(item: _Bound, key: int) -> _Bound:
    """The bound of the values of a list or map. `key`: the values and the fewest bytes of the key of an item."""
    return _Bound(1, (key + item.values) / max(1, key + item.least) + item.a_byte, 1)


def _is_same(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> bool:
    """Whether the reader's record may take a record of the writer's: fastavro compares names without their
    namespaces."""
    plain = writer["name"].rpartition(".")[2]
    aliases = {alias.rpartition(".")[2] for alias in reader.get("aliases", ())}
    return reader["type"] in _RECORDS and plain in {reader["name"].rpartition(".")[2], *aliases}


def _added(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> int:
    written = {column["name"] for column in writer["fields"]}
    return sum(
        _size(column.get("default"))
        for column in reader["fields"]
        if not written & {column["name"], *column.get("aliases", ())}
    )


def _size(value: Any) -> int:
    match value:
        case dict():
            return 1 + sum(1 + _size(item) for item in value.values())
        case list():
            return 1 + sum(map(_size, value))
        case _:
            return 1


def kind_of(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def contains_itself(schema: Any, named: Mapping[str, Any], above: tuple[str, ...] = ()) -> bool:
    """Whether a type has itself as a part. `above`: the names of the types around this one."""
    match schema:
        case str() if schema in named:
            return schema in above or contains_itself(named[schema], named, above)
        case list():
            return any(contains_itself(branch, named, above) for branch in schema)
        case {"type": "record", "name": name, "fields": fields}:
            return any(contains_itself(column["type"], named, (*above, name)) for column in fields)
        case {"items": inner} | {"values": inner} | {"type": dict() | list() as inner}:
            return contains_itself(inner, named, above)
        case _:
            return False


@dataclass(slots=True)
class _Walk:
    """Walks over a payload, and counts."""

    content: bytes
    left: ValuesLeft
    of: AvroValues
    place: int = 0

    def value(self, schema: Any) -> None:
        match schema:
            case str() if schema in self.of.named:
                self.value(self.of.named[schema])
            case list():
                number = self._integer()
                if not 0 <= number < len(schema):
                    raise _CutOff
                self.value(schema[number])
            case {"type": kind, "fields": fields} if kind in _RECORDS:
                self.left.take(1 + self.of.more_of(schema))
                for column in fields:
                    self.value(column["type"])
            case {"type": "array", "items": items}:
                self.left.take(1)
                self._many(items, has_keys=False)
            case {"type": "map", "values": values}:
                self.left.take(1)
                self._many(values, has_keys=True)
            case {"type": dict() | list() as inner}:
                self.value(inner)
            case _:
                self.left.take(1)
                self._scalar(schema)

    def _many(self, schema: Any, *, has_keys: bool) -> None:
        for count in self._blocks():
            # Each item makes a value or more, whatever it is.
            if count * (1 + has_keys) > self.left.values:
                raise TooManyValues
            for _ in range(count):
                if has_keys:
                    self.left.take(1)
                    self._skip(self._integer())
                self.value(schema)

    def _blocks(self) -> Iterator[int]:
        while count := self._integer():
            if count < 0:
                self._integer()  # the bytes of the block
            yield abs(count)

    def _scalar(self, schema: Any) -> None:
        kind = kind_of(schema)
        if kind in ("int", "long", "enum"):
            self._integer()
        elif kind == "fixed":
            self._skip(schema["size"])
        else:
            size = _FIXED_SIZES.get(kind)
            self._skip(self._integer() if size is None else size)

    def _skip(self, size: int) -> None:
        # A text of a negative length is what is left of the payload: so fastavro reads it.
        self.place = len(self.content) if size < 0 else self.place + size
        if self.place > len(self.content):
            raise _CutOff

    def _integer(self) -> int:
        number = 0
        for place, byte in enumerate(self.content[self.place : self.place + _LONGEST]):
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                self.place += place + 1
                return (number & _MASK) >> 1 ^ -(number & 1)
        if self.place + _LONGEST <= len(self.content):
            raise CantDecode(f"an integer of the payload takes more than {_LONGEST} bytes")
        raise _CutOff
