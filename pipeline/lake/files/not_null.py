"""Columns that are NOT NULL, and parts of columns that are: finds the rows that lack a value there, and makes
Arrow arrays of such types.

A row that lacks a value there goes to the quarantine table. The check is the same for each format, after the
payloads were decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MOST_NAMED = 5
"""Columns that a reason names."""
_Path = tuple[str, ...]
_Misses = Iterator[tuple[_Path, Any]]


def has_required(columns: Iterable[pa.Field[Any]]) -> bool:
    return any(not column.nullable or _has_required(column.type) for column in columns)


def _has_required(kind: pa.DataType) -> bool:
    """Whether a part of the type is NOT NULL. The keys of a map always are."""
    return has_required(_parts(kind))


def _parts(kind: Any) -> tuple[Any, ...]:
    types = pa.types
    if types.is_struct(kind):
        return tuple(kind)
    if types.is_map(kind):
        return (pa.field("key", kind.key_type), kind.item_field)
    return (kind.value_field,) if types.is_list(kind) or types.is_large_list(kind) else ()


# --- which rows lack a value ------------------------------------------------------------------------------------


def with_nulls_aside(
    batches: Iterable[pa.RecordBatch], columns: Sequence[pa.Field[Any]]
) -> Iterator[pa.RecordBatch]:
    """The rows, where each row without a value in a NOT NULL column gets a reason, for the quarantine table.
    `data` of each row holds its payload; in the result only rows with a reason have it.
    """
    for batch in batches:
        is_good = _is_null(batch["reason"])
        lacking: dict[int, list[str]] = {}
        for path, misses in _misses(batch["row"], columns):
            for place in np.flatnonzero(misses & is_good).tolist():
                lacking.setdefault(place, []).append(_name_of(path))
        sentences = [
            _sentence(lacking[place]) if place in lacking else None for place in range(batch.num_rows)
        ]
        reason: Any = (
            pc.coalesce(batch["reason"], pa.array(sentences, pa.string())) if lacking else batch["reason"]
        )
        data: Any = pc.if_else(pc.is_valid(reason), batch["data"], pa.scalar(None, batch["data"].type))
        changed = {"reason": reason, "data": data}
        names = batch.schema.names
        yield pa.RecordBatch.from_arrays([changed.get(name, batch[name]) for name in names], names=names)


def _sentence(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"the payload has no value for what is NOT NULL: {', '.join(names[:_MOST_NAMED])}{more}"


def _name_of(path: _Path) -> str:
    return ".".join(path).replace(".[]", "[]")


def _misses(row: pa.Array[Any], columns: Sequence[pa.Field[Any]]) -> _Misses:
    """For each part that is NOT NULL, whether each row lacks a value there. A part within something that is null may be
    null."""
    for column in columns:
        if has_required([column]):
            yield from _of_field(pc.struct_field(row, [column.name]), column, (column.name,))


def _of_field(values: Any, field: pa.Field[Any], path: _Path) -> _Misses:
    if not field.nullable:
        yield path, _is_null(values)
    yield from _within(values, field.type, path)


def _within(values: Any, kind: Any, path: _Path) -> _Misses:
    if not _has_required(kind):
        return
    if pa.types.is_struct(kind):
        is_there = ~_is_null(values)
        for field in kind:
            if has_required([field]):
                for name, misses in _of_field(
                    pc.struct_field(values, [field.name]), field, (*path, field.name)
                ):
                    yield name, misses & is_there
        return
    lengths, _, items = _taken_apart(values)
    rows = np.repeat(np.arange(len(values)), lengths)
    for name, misses in _of_field(items, _parts(kind)[-1], (*path, "[]")):
        lacking = np.zeros(len(values), dtype=bool)
        lacking[rows[misses]] = True
        yield name, lacking


def _is_null(values: Any) -> Any:
    return np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False), dtype=bool)


def _taken_apart(values: Any) -> tuple[Any, Any, Any]:
    """How many entries each list or map has, the keys of all of them (None for lists), and the values. Null has no
    entries."""
    # A copy without nulls, so that no offset and no entry behind a null is left.
    valid = values.filter(pc.is_valid(values))
    lengths = np.zeros(len(values), dtype=np.int64)
    lengths[~_is_null(values)] = np.diff(valid.offsets.to_numpy())
    is_map = pa.types.is_map(values.type)
    return lengths, valid.keys if is_map else None, valid.items if is_map else valid.flatten()


# --- arrays of these types --------------------------------------------------------------------------------------


def fitted(values: Any, kind: Any) -> Any:
    """These values cast to a type whose parts may be NOT NULL. Arrow's own cast refuses a null within a struct
    that itself is null, though no reader sees that null.

    The parts of structs are found by their place. `values`: an array in which nothing that is NOT NULL is missing.
    """
    if not _has_required(kind):
        return values.cast(kind)
    is_null = pc.is_null(values)
    if pa.types.is_struct(kind):
        columns = [_part(fitted(values.field(place), field.type), field) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=is_null)
    lengths, keys, items = _taken_apart(values)
    is_long = pa.types.is_large_list(kind)
    ends: Any = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64() if is_long else pa.int32())
    entries = fitted(items, _parts(kind)[-1].type)
    arrays: Any = pa  # the stubs know no types of which only the run tells
    if pa.types.is_map(kind):
        return arrays.MapArray.from_arrays(ends, fitted(keys, kind.key_type), entries, kind, mask=is_null)
    array = arrays.LargeListArray if is_long else arrays.ListArray
    return array.from_arrays(ends, entries, kind, mask=is_null)


def _part(values: Any, field: pa.Field[Any]) -> Any:
    if field.nullable or not values.null_count:
        return values
    padded = pa.concat_arrays([values, pa.array([_nothing(field.type)], field.type)])
    return padded.take(pa.array(np.where(_is_null(values), len(values), np.arange(len(values)))))


def _nothing(kind: Any) -> Any:
    """A value of the type."""
    types = pa.types
    if types.is_struct(kind):
        return {field.name: _nothing(field.type) for field in kind}
    if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        return []
    if types.is_string(kind) or types.is_large_string(kind):
        return ""
    if types.is_binary(kind) or types.is_large_binary(kind):
        return b""
    if types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    return False if types.is_boolean(kind) else 0
