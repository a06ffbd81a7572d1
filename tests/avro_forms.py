"""Importing this lets pyiceberg work out once in a process how files of a schema are read.

By itself it does so for each Avro file that it reads, from the schema in the file: a seventh of the CPU time of tests on
Iceberg, whose files have a handful of schemas. What is read is the same.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pyiceberg.avro import file, resolver
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion


@lru_cache(maxsize=256)
def _schema(text: str) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


def _keeping(resolve: Callable[..., Reader]) -> Callable[..., Reader]:
    # The schemas are kept as well: an id is that of one object only as long as the object lives.
    readers: dict[tuple[object, ...], tuple[Reader, object, object]] = {}

    def reader_of(
        written: object,
        read: object,
        types: Mapping[int, Any] | None = None,
        enums: Mapping[int, Any] | None = None,
    ) -> Reader:
        types, enums = types or {}, enums or {}
        key = (id(written), id(read), *types.items(), None, *enums.items())
        if key not in readers:
            readers[key] = resolve(written, read, types, enums), written, read
        return readers[key][0]

    return reader_of


AvroFileHeader.get_schema = lambda header: _schema(header.meta["avro.schema"])  # type: ignore[method-assign, assignment]
resolver.resolve_reader = file.resolve_reader = _keeping(resolver.resolve_reader)  # type: ignore[attr-defined]
