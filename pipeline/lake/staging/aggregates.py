"""Pages of Kinesis records, with the aggregates of the Kinesis Producer Library (KPL) taken apart: a row for each user
record.

    page ──> does a record begin with the mark? ── no ──> the page as it is
                            │ yes
                            ▼
    digest, places of keys and user records (`aggregate_walk`) ──> are they what they seem, and inside of the shard? (numpy, all
    aggregates at once) ──> columns by Arrow's `take`, without a Python object for each user record

An aggregate in another form than KPL's own, or with something wrong in it, goes through
`headrace.pipeline.kcl.deaggregate` instead, which has KCL's rules. Both ways give the same rows. Where KCL drops or
can't read an aggregate, the Kinesis record stays whole, and `decode_error` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.encoding.plain_arrow import begin_with
from headrace.pipeline.kcl.deaggregate import EVERYTHING, MAGIC, Unpacked, UserRecord, unpack
from headrace.pipeline.lake.files.binary_views import with_views, without_views
from headrace.pipeline.lake.staging.aggregate_keys import cut_bytes
from headrace.pipeline.lake.staging.aggregate_walk import UserRecords, user_records

_PIECE = 32 * 1024 * 1024
"""The bytes of rows that are in memory at once. 10 MiB of hostile aggregates could become gigabytes."""
_ROW = 200
"""Bytes of a row's other columns: numbers, and the names of stream and shard."""


def taken_apart(page: pa.RecordBatch, shard: HashRange | None) -> Iterator[pa.RecordBatch]:
    """The rows of a page, in order, with aggregates taken apart and with views of the payloads. `shard`: the hash
    range of the shard; None where it isn't known, and then no record counts as outside.
    """
    page = with_views(page)
    aggregates = np.flatnonzero(begin_with(page["data"], MAGIC)).tolist()
    if not aggregates:
        yield page
        return
    # Arrow has no filter for views, and the walk needs the data of all records one after the other.
    page, within = without_views(page), shard or EVERYTHING
    users = user_records(_data(page).to_pybytes(), _bounds(page), aggregates, within)
    odd = set(aggregates) - set(users.record.tolist())
    reasons = {record: unpacked_of(page, record, within).broken for record in odd}
    # Records that stay whole go with those around them; only odd aggregates that KCL reads are taken one by one.
    alone = {record for record, reason in reasons.items() if reason is None}
    for is_alone, group in groupby(range(len(page)), key=alone.__contains__):
        records = list(group)
        if is_alone:
            yield from (user_rows(page.slice(n, 1), unpacked_of(page, n, within).records) for n in records)
        else:
            yield from _in_bulk(page, records[0], records[-1] + 1, users, reasons)


def unpacked_of(page: pa.RecordBatch, record: int, shard: HashRange) -> Unpacked:
    return unpack(page["data"][record].as_py(), page["partition_key"][record].as_py(), shard)


def user_rows(record: pa.RecordBatch, users: Sequence[UserRecord]) -> pa.RecordBatch:
    """The rows of these user records of one Kinesis record."""
    return rows_with(
        record,
        np.zeros(len(users), np.int64),
        data=pa.array([user.data for user in users], pa.binary()),
        sub=pa.array([user.sub for user in users]),
        keys=pa.array([user.partition_key for user in users], pa.string()),
        hash_keys=pa.array([user.explicit_hash_key for user in users], pa.string()),
    )


def _in_bulk(
    page: pa.RecordBatch, first: int, end: int, users: UserRecords, reasons: Mapping[int, str | None]
) -> Iterator[pa.RecordBatch]:
    """The rows of the records from `first` to before `end`. `reasons`: why a record stays whole."""
    users = users.of(first, end)
    # A record that is no good aggregate has no user record, and stays one row.
    user_rows = np.bincount(users.record - first, minlength=end - first)
    counts = np.maximum(user_rows, 1)
    record = np.repeat(np.arange(first, end), counts)
    sub = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    bounds, is_user = _bounds(page), np.repeat(user_rows > 0, counts)
    begin, stop, key, hash_key = bounds[record], bounds[record + 1], record.copy(), np.full(len(record), -1)
    begin[is_user], stop[is_user], hash_key[is_user] = users.begin, users.end, users.hash_key
    # The keys of the user records follow the page's own.
    key[is_user] = users.key + len(page)
    keys = pa.concat_arrays([page["partition_key"], users.keys.values])
    sizes = stop - begin + _ROW
    sizes[is_user] += users.bytes_of_keys()
    why = [(n, reason) for n, reason in sorted(reasons.items()) if first <= n < end]
    errors = _spread(why, record)
    pieces = np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // _PIECE)) + 1
    for rows in np.split(np.arange(len(record)), pieces):
        piece = slice(rows[0], rows[-1] + 1)
        yield rows_with(
            page,
            record[piece],
            data=cut_bytes(_data(page), begin[piece], stop[piece]),
            sub=pa.array(sub[piece]),
            keys=keys.take(pa.array(key[piece])),
            hash_keys=users.hash_keys.values.take(pa.array(hash_key[piece], mask=hash_key[piece] < 0)),
            errors=None if errors is None else errors[piece],
        )


def _spread(why: Sequence[tuple[int, str | None]], record: Any) -> Any:
    """A column with these reasons in the rows of these records; None where there is no reason."""
    if not why:
        return None
    places = np.full(len(record), -1)
    places[np.searchsorted(record, [n for n, _ in why])] = np.arange(len(why))
    return pa.array([text for _, text in why], pa.string()).take(pa.array(places, mask=places < 0))


def rows_with(
    page: pa.RecordBatch,
    record: Any,
    *,
    data: Any,
    sub: Any,
    keys: Any,
    hash_keys: Any = None,
    errors: Any = None,
) -> pa.RecordBatch:
    """Rows of user records with these values. `record`: for each row, the place in the page of its Kinesis
    record, from which all other values are taken.
    """
    count, nothing = len(record), pa.nulls(len(record), pa.string())
    changed = {
        "sub_sequence_number": sub,
        "partition_key": keys,
        "explicit_hash_key": nothing if hash_keys is None else hash_keys,
        "data": data,
        "decode_error": nothing if errors is None else errors,
    }
    # All records of a page are of one shard.
    changed |= {name: pa.repeat(page[name][0], count) for name in ("stream", "stream_epoch", "shard_id")}
    taken = pa.array(record)
    columns = [changed[name] if name in changed else page[name].take(taken) for name in page.schema.names]
    return with_views(pa.RecordBatch.from_arrays(columns, names=page.schema.names))


def _data(page: pa.RecordBatch) -> Any:
    """The data of all records, one after the other."""
    return page["data"].buffers()[2]


def _bounds(page: pa.RecordBatch) -> Any:
    """Where the data of each record begin in `_data`, and where those of the last one end."""
    data: Any = page["data"]
    offsets = np.frombuffer(data.buffers()[1], np.int32)
    return offsets[data.offset : data.offset + len(data) + 1].astype(np.int64)
