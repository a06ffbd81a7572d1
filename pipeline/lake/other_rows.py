"""The rows of another consumer's files, with the columns of the lake table: JSON lines, CSV and Parquet, read piece by piece."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, fs

from pipeline.core.shadow import ConsumerRows, PayloadForm
from pipeline.errors import BadSetting, WrongShape
from pipeline.lake.stage_place import file_system
from pipeline.lake_ports import StagingSpec

_PIECE = 64 * 1024
"""Rows that are in memory at once."""
_JSON, _CSV, _PARQUET = (".jsonl", ".json", ".ndjson"), (".csv",), (".parquet",)
_PACKED = (".gz", ".zst", ".bz2")


def files_at(location: str, spec: StagingSpec) -> tuple[str, ...]:
    """The files at a path or an address: the one that it names, or those in the folder, but hidden ones. `spec`: that of the lake table, for the
    access to S3."""
    files, root = file_system(replace(spec, location=location, private=False))
    found = files.get_file_info(root)
    if found.type is fs.FileType.File:
        paths = [root]
    elif found.type is fs.FileType.Directory:
        chosen = files.get_file_info(fs.FileSelector(root, recursive=True))
        paths = sorted(each.path for each in chosen if each.is_file and not _is_hidden(each.path, root))
    else:
        raise BadSetting(f"there is no file and no folder {location}; nothing was compared")
    if unknown := [path for path in paths if _kind(path) is None]:
        raise BadSetting(
            f"{unknown[0]} has another ending than {', '.join((*_JSON, *_CSV, *_PARQUET))} (JSON and CSV also with {', '.join(_PACKED)}); nothing was compared"
        )
    scheme = location.partition("://")[0] if "://" in location else ""
    return tuple(f"{scheme}://{path}" if scheme else path for path in paths)


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path[len(root) :].split("/"))


def _kind(path: str) -> str | None:
    plain = next((path.removesuffix(each) for each in _PACKED if path.endswith(each)), path)
    for kind in (_JSON, _CSV, _PARQUET):
        if plain.endswith(kind) and (plain == path or kind is not _PARQUET):
            return kind[0]
    return None


def rows_at(path: str, spec: StagingSpec, rows: ConsumerRows) -> Iterator[pa.Table]:
    """The rows with the columns that say which record a row is, and with the digest of the payload where that is compared."""
    files, inside = file_system(replace(spec, location=path, private=False))
    columns = rows.columns
    names = [each for each in (columns.shard, columns.number, columns.sub, columns.data) if each is not None]
    read = {_JSON[0]: _of_json, _CSV[0]: _of_csv}.get(_kind(path) or "", _of_parquet)
    try:
        for piece in read(files, inside, names):
            yield _as_ours(piece, rows)
    except (KeyError, pa.ArrowKeyError) as error:
        raise WrongShape(f"{path} lacks a column that was named: {error}. Nothing was compared") from error
    except ValueError as error:
        raise WrongShape(
            f"{path} can't be read: {str(error).partition(chr(10))[0][:200]}. Nothing was compared"
        ) from error


def _of_json(files: fs.FileSystem, path: str, names: list[str]) -> Iterator[Mapping[str, Any]]:
    with files.open_input_stream(path) as stream:
        lines = (line for line in _lines(stream) if line.strip())
        while some := list(islice(lines, _PIECE)):
            # Python's own reader: sequence numbers have more digits than the numbers of faster ones.
            rows = [json.loads(line) for line in some]
            yield {name: [_text(row[name]) for row in rows] for name in names}


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(1 << 20):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    yield rest


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _of_csv(files: fs.FileSystem, path: str, names: list[str]) -> Iterator[Mapping[str, Any]]:
    kinds = csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
    opened: Any = files.open_input_stream(path)
    with opened as stream, csv.open_csv(stream, convert_options=kinds) as batches:
        for batch in batches:
            yield {name: batch.column(name).to_pylist() for name in names}


def _of_parquet(files: fs.FileSystem, path: str, names: list[str]) -> Iterator[Mapping[str, Any]]:
    with files.open_input_file(path) as source, pq.ParquetFile(source) as file:
        if missing := [name for name in names if name not in file.schema_arrow.names]:
            raise KeyError(missing[0])
        for batch in file.iter_batches(_PIECE, columns=names):
            yield {name: batch.column(name) for name in names}


def _as_ours(piece: Mapping[str, Any], of: ConsumerRows) -> pa.Table:
    columns, stream = of.columns, of.stream
    number = _as_text(piece[columns.number])
    rows = len(number)
    sub: Any = (
        pa.array([0] * rows, pa.int64())
        if columns.sub is None
        else _as_text(piece[columns.sub]).cast(pa.int64())
    )
    made: dict[str, Any] = {
        "stream": pa.array([stream.name] * rows),
        "stream_epoch": pa.array([stream.epoch] * rows, pa.int64()),
        "shard_id": _as_text(piece[columns.shard]),
        "sequence_number": number,
        "sub_sequence_number": pc.fill_null(sub, pa.scalar(0, pa.int64())),
    }
    if columns.data is not None:
        made["digest"] = digests(_listed(piece[columns.data]), columns.form)
    return pa.table(made)


def _as_text(values: Any) -> Any:
    return values.cast(pa.string()) if isinstance(values, pa.Array) else pa.array(values, pa.string())


def _listed(values: Any) -> Iterable[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else values


def digests(payloads: Iterable[bytes | str | None], form: PayloadForm = PayloadForm.BINARY) -> Any:
    """A number for each payload: the first 64 bits of its SHA-256. A payload that is null counts as an empty one, and one that isn't in
    this form as 0, so that it differs from each real one."""
    return pa.array((_digest(each, form) for each in payloads), pa.int64())


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
