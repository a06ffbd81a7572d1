"""The rows of another consumer's files, with the columns of the lake table: JSON lines, CSV and Parquet, read piece by
piece."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, fs

from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.lake.files.stage_place import file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.proof.other_side import ConsumerRows, OtherColumns, PayloadForm

_PIECE = 64 * 1024
"""Rows that are in memory at once."""
_JSON, _CSV, _PARQUET = (".jsonl", ".json", ".ndjson"), (".csv",), (".parquet",)
_BYTES_OR_TEXT = {pa.binary(), pa.large_binary(), pa.string(), pa.large_string()}
_NUMBER = "^[0-9]+$"
_PACKED = (".gz", ".zst", ".bz2")


def files_at(location: str, spec: StagingSpec) -> tuple[str, ...]:
    """The files at a path or an address: the one that it names, or all but hidden ones in the folder that it
    names. `spec`: that of the lake table, for the access to S3.
    """
    files, root = file_system(replace(spec, location=location, private=False))
    info = files.get_file_info(root)
    if info.type is fs.FileType.File:
        paths = [root]
    elif info.type is fs.FileType.Directory:
        chosen = files.get_file_info(fs.FileSelector(root, recursive=True))
        paths = sorted(entry.path for entry in chosen if entry.is_file and not _is_hidden(entry.path, root))
    else:
        raise BadSetting(f"there is no file and no folder {location}; nothing was compared")
    if not paths:
        raise BadSetting(
            f"the folder {location} has no file whose name begins with another character than _ and . "
            "(such files are left out); nothing was compared"
        )
    if unknown := [path for path in paths if _kind(path) is None]:
        raise BadSetting(
            f"{unknown[0]} has another ending than {', '.join((*_JSON, *_CSV, *_PARQUET))} (JSON and CSV also with "
            f"{', '.join(_PACKED)}); nothing was compared"
        )
    scheme = location.partition("://")[0] if "://" in location else ""
    return tuple(f"{scheme}://{path}" if scheme else path for path in paths)


def _is_hidden(path: str, root: str) -> bool:
    return any(name.startswith(("_", ".")) for name in path[len(root) :].split("/"))


def _kind(path: str) -> str | None:
    plain = next((path.removesuffix(ending) for ending in _PACKED if path.endswith(ending)), path)
    for kind in (_JSON, _CSV, _PARQUET):
        if plain.endswith(kind) and (plain == path or kind is not _PARQUET):
            return kind[0]
    return None


def check_columns(path: str, spec: StagingSpec, columns: OtherColumns) -> None:
    """Raise BadSetting where a readable file lacks a column that was named. For JSON lines, the first line shows
    the columns.
    """
    files, inside = file_system(replace(spec, location=path, private=False))
    look = {_JSON[0]: _names_in_json, _CSV[0]: _names_in_csv}.get(_kind(path) or "", _names_in_parquet)
    try:
        names = look(files, inside)
    except (OSError, ValueError, RecursionError):
        # What counts the rows of each file names this one.
        return
    if names is None:
        return
    for option, name in columns.named:
        if name not in names:
            raise BadSetting(
                f"{option} is {name}, and {path} has no such column; it has {', '.join(sorted(names)) or 'none'}. "
                "Nothing was compared; name one of these"
            )


def _names_in_json(files: fs.FileSystem, path: str) -> list[str] | None:
    with files.open_input_stream(path) as stream:
        first = next((line for line in _lines(stream) if line.strip()), None)
    first_row = None if first is None else json.loads(first)
    return list(first_row) if isinstance(first_row, dict) else None


def _names_in_csv(files: fs.FileSystem, path: str) -> list[str]:
    opened: Any = files.open_input_stream(path)
    with opened as stream, csv.open_csv(stream) as batches:
        return list(batches.schema.names)


def _names_in_parquet(files: fs.FileSystem, path: str) -> list[str]:
    with files.open_input_file(path) as source, pq.ParquetFile(source) as file:
        return list(file.schema_arrow.names)


def rows_at(path: str, spec: StagingSpec, rows: ConsumerRows, *, payload: bool = True) -> Iterator[pa.Table]:
    """The rows of a file, with the columns that identify their record, and with the digest of the payload where
    that is compared.

    `payload`: whether the payload is read. Its column has to exist in each case.
    """
    files, inside = file_system(replace(spec, location=path, private=False))
    named = [name for _, name in rows.columns.named]
    read_rows = rows if payload else replace(rows, columns=replace(rows.columns, data=None))
    names = [name for _, name in read_rows.columns.named]
    kind = _kind(path)
    read = {_JSON[0]: _of_json, _CSV[0]: _of_csv}.get(kind or "", _of_parquet)
    try:
        if kind == _CSV[0] and (missing := set(named) - set(_names_in_csv(files, inside))):
            raise KeyError(min(missing))
        if read is _of_parquet and rows.columns.data is not None:
            _check_payloads(files, inside, rows.columns.data)
        for piece in read(files, inside, names, named):
            yield _as_ours(piece, read_rows)
    except (KeyError, pa.ArrowKeyError) as error:
        raise WrongShape(f"{path} lacks a column that was named: {error}. Nothing was compared") from error
    except ValueError as error:
        raise WrongShape(
            f"{path} can't be read: {str(error).partition(chr(10))[0][:200]}. Nothing was compared"
        ) from error


# Each reader gets the names of the columns to read, and of all those that have to be there.


def _of_json(
    files: fs.FileSystem, path: str, names: Sequence[str], named: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    with files.open_input_stream(path) as stream:
        lines = (line for line in _lines(stream) if line.strip())
        while some := list(islice(lines, _PIECE)):
            # Python's own reader: sequence numbers have more digits than the numbers of faster ones.
            rows = [json.loads(line) for line in some]
            if missing := next((name for row in rows for name in named if name not in row), None):
                raise KeyError(missing)
            yield {name: [_text(row[name]) for row in rows] for name in names}


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(1 << 20):
        # A block ends anywhere in a line, whose beginning waits for the next block.
        *complete, rest = (rest + block).split(b"\n")
        yield from complete
    yield rest


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _of_csv(
    files: fs.FileSystem, path: str, names: Sequence[str], _: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    kinds = csv.ConvertOptions(include_columns=list(names), column_types=dict.fromkeys(names, pa.string()))
    opened: Any = files.open_input_stream(path)
    with opened as stream, csv.open_csv(stream, convert_options=kinds) as batches:
        for batch in batches:
            yield {name: batch.column(name).to_pylist() for name in names}


def _of_parquet(
    files: fs.FileSystem, path: str, names: Sequence[str], named: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    with files.open_input_file(path) as source, pq.ParquetFile(source) as file:
        if missing := [name for name in named if name not in file.schema_arrow.names]:
            raise KeyError(missing[0])
        for batch in file.iter_batches(_PIECE, columns=list(names)):
            yield {name: batch.column(name) for name in names}


def _check_payloads(files: fs.FileSystem, path: str, name: str) -> None:
    with files.open_input_file(path) as source, pq.ParquetFile(source) as file:
        schema = file.schema_arrow
    kind = schema.field(name).type if name in schema.names else None
    if kind is not None and kind not in _BYTES_OR_TEXT:
        raise ValueError(f"the column {name} has values of the type {kind}, and payloads are bytes or texts")


def _as_ours(piece: Mapping[str, Any], of: ConsumerRows) -> pa.Table:
    # Another consumer's rows have no stream of their own: the one that is compared stands in for it.
    columns, stream = of.columns, of.stream
    number = _as_text(piece[columns.number])
    rows = len(number)
    if text := number.filter(pc.invert(pc.match_substring_regex(number, _NUMBER))).drop_null():
        raise ValueError(
            f"the column {columns.number} has {text[0].as_py()[:40]!r}, and a sequence number has digits only"
        )
    sub: Any = (
        pa.array([0] * rows, pa.int64())
        if columns.sub is None
        else _as_text(piece[columns.sub]).cast(pa.int64())
    )
    own_columns: dict[str, Any] = {
        "stream": pa.array([stream.name] * rows),
        "stream_epoch": pa.array([stream.epoch] * rows, pa.int64()),
        "shard_id": _as_text(piece[columns.shard]),
        "sequence_number": number,
        "sub_sequence_number": pc.fill_null(sub, pa.scalar(0, pa.int64())),
    }
    if columns.data is not None:
        own_columns["digest"] = digests(_listed(piece[columns.data]), columns.form)
    return pa.table(own_columns)


def _as_text(values: Any) -> Any:
    return values.cast(pa.string()) if isinstance(values, pa.Array) else pa.array(values, pa.string())


def _listed(values: Any) -> Iterable[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else values


def digests(payloads: Iterable[bytes | str | None], form: PayloadForm = PayloadForm.BINARY) -> Any:
    """A number for each payload: the first 64 bits of its SHA-256. A null payload counts as an empty one. One
    that isn't in this form gets 0, so that it differs from each real one.
    """
    return pa.array((_digest(payload, form) for payload in payloads), pa.int64())


def _digest(payload: bytes | str | None, form: PayloadForm) -> int:
    try:
        return int.from_bytes(_sha256(payload, form)[:8], signed=True)
    except ValueError:
        return 0


def _sha256(payload: bytes | str | None, form: PayloadForm) -> bytes:
    given = b"" if payload is None else payload.encode() if isinstance(payload, str) else payload
    if form is PayloadForm.SHA256:
        return bytes.fromhex(given.decode())
    if form is PayloadForm.HEX:
        given = bytes.fromhex(given.decode())
    elif form is PayloadForm.BASE64:
        given = b64decode(given, validate=True)
    return sha256(given).digest()
