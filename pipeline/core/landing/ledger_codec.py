"""Encodes and decodes positions and ledgers as texts: the two values that each commit writes into its snapshot's
summary or into a file.

    "1:" + base85( zlib( JSON ) )          about 40 bytes a shard: all positions in a summary, or a ledger
    "2:" + base64( zlib( JSON ) )          all positions, or what has changed since then (`headrace.pipeline.core.landing.state_delta`), in a file

The number before the colon is the version of the format. A version that this code doesn't know is refused, and
every version that was ever released can be read (I17 of docs/reference/protocol.md; docs/reference/formats.md
describes each form).
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from headrace.pipeline.core.landing.state_delta import Delta
from headrace.pipeline.core.ledger.ledger import (
    FilesDone,
    Kind,
    LedgerPage,
    ParentIs,
    ParentReason,
    Range,
    why_and_account,
)
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import WrongShape

VERSION = 1
DELTA_VERSION = 2
"""A form that is made faster, for files: of ten thousand shards. It takes a third of the time, and a tenth more
bytes."""
_MAX_UNPACKED = 64 * 1024 * 1024
"""The most bytes that a text may unpack to. Any engine that writes to the table can write a summary, and a small text
can unpack to gigabytes."""
_PLAIN_SHARD = re.compile(r"shardId-([0-9]{12})")
"""The form of the ids that Kinesis gives to its shards. In the text such an id is only its number, which is shorter."""
# What a damaged or forged text raises on the way to values.
_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,  # a time after the year 9999
    RecursionError,  # very deeply nested lists
    zlib.error,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Json = Any  # a value as json.loads returns it; the types of its parts show up as errors while it is decoded


def write_positions(positions: Positions) -> str:
    return _pack(_positions_out(positions))


def _positions_out(positions: Positions) -> Json:
    # Grouped by stream, because an ARN for each shard would make the text several times as long. Sorted, so that equal
    # positions give equal texts.
    streams = sorted(positions.streams())
    number = {stream: i for i, stream in enumerate(streams)}
    per_stream: list[list[Json]] = [[] for _ in streams]
    for key in sorted(positions.shards):
        position = positions.shards[key]
        per_stream[number[key.stream]].append([_shard_out(key.shard_id), *_position_out(position)])
    return [
        [stream.arn, stream.epoch, _origin_out(positions.origins.get(stream)), shards]
        for stream, shards in zip(streams, per_stream, strict=True)
    ]


def read_positions(text: str) -> Positions:
    with _errors_named("positions"):
        return _positions_in(_unpack(text))


def _positions_in(body: Json) -> Positions:
    origins: dict[StreamId, Origin] = {}
    shards: dict[ShardKey, Position] = {}
    for arn, epoch, origin, rows in body:
        stream = StreamId(arn, epoch)
        if origin is not None:
            origins[stream] = _origin_in(origin)
        for shard, *values in rows:
            shards[ShardKey(stream, _shard_in(shard))] = _position_in(values)
    return Positions(origins, shards)


def write_full(positions: Positions) -> str:
    """The text of a file with all positions. It has the form of a delta file against a table without shards."""
    return write_delta(Delta(positions.origins, positions.shards))


def read_full(text: str) -> Positions:
    """Read the text of a file with all positions."""
    delta = read_delta(text)
    return Positions(delta.origins, delta.moved)


def write_delta(delta: Delta) -> str:
    streams = sorted({key.stream for key in delta.dropped})
    body = {
        "positions": _positions_out(Positions(delta.origins, delta.moved)),
        "streams": [[s.arn, s.epoch] for s in streams],
        "dropped": [[streams.index(k.stream), _shard_out(k.shard_id)] for k in sorted(delta.dropped)],
        "spent": delta.spent,
    }
    return _pack(body, DELTA_VERSION)


def read_delta(text: str) -> Delta:
    with _errors_named("changes of positions"):
        body = _unpack(text, DELTA_VERSION)
        changed = _positions_in(body["positions"])
        streams = [StreamId(arn, epoch) for arn, epoch in body["streams"]]
        dropped = frozenset(ShardKey(streams[i], _shard_in(s)) for i, s in body["dropped"])
        return Delta(changed.origins, changed.shards, dropped, int(body["spent"]))


def write_ledger(page: LedgerPage) -> str:
    # Streams, runs and file names are written once and then referred to by their place in these lists.
    streams = sorted(
        {r.key.stream for r in page.ranges} | {s for s, _ in page.origins} | {k.stream for k in page.dropped}
    )
    runs = sorted({(r.run, r.claim) for r in page.ranges})
    files = sorted({f for r in page.ranges for f in r.files})
    place = {name: i for i, name in enumerate(files)}
    body: dict[str, Json] = {
        "streams": [[s.arn, s.epoch] for s in streams],
        "runs": [list(pair) for pair in runs],
        "files": files,
        "ranges": [_range_out(r, streams, runs, place) for r in page.ranges],
        "origins": [[streams.index(s), _origin_out(o)] for s, o in page.origins],
        "dropped": [[streams.index(k.stream), _shard_out(k.shard_id)] for k in page.dropped],
    }
    if (looked := page.looked) is not None:
        body["looked"] = [
            looked.snapshot,
            looked.sequence,
            looked.upto,
            looked.stream,
            sorted(looked.still),
        ]
    return _pack(body)


def read_ledger(text: str) -> LedgerPage:
    with _errors_named("ledger"):
        body = _unpack(text)
        streams = [StreamId(arn, epoch) for arn, epoch in body["streams"]]
        return LedgerPage(
            tuple(_range_in(row, streams, body["runs"], body["files"]) for row in body["ranges"]),
            tuple((streams[i], _origin_in(o)) for i, o in body["origins"]),
            tuple(ShardKey(streams[i], _shard_in(s)) for i, s in body["dropped"]),
            _looked_in(body.get("looked")),
        )


def _looked_in(row: Json) -> FilesDone | None:
    if row is None:
        return None
    snapshot, sequence, upto, stream, still = row
    return FilesDone(int(snapshot), int(sequence), int(upto), stream, frozenset(map(str, still)))


def _range_out(
    r: Range, streams: list[StreamId], runs: list[tuple[str, str]], place: Mapping[str, int]
) -> list[Json]:
    return [
        r.kind.value,
        streams.index(r.key.stream),
        _shard_out(r.key.shard_id),
        None if r.after is None else _position_out(r.after),
        _position_out(r.upto),
        runs.index((r.run, r.claim)),
        r.rows,
        r.bytes,
        _time_out(r.first_arrival),
        _time_out(r.last_arrival),
        [place[f] for f in r.files],
        [_parent_out(p) for p in r.parents],
        *_extras_out(r),
    ]


def _extras_out(r: Range) -> list[Json]:
    """What most ranges don't have, as far as one has it: a reason, another number of Kinesis records than of rows, and
    whether aggregates were taken apart."""
    row: list[Json] = [r.stored_why, r.records, int(r.unpacked)]
    # From the end of the list: the first value that isn't empty keeps its place, and so all before it.
    for empty in (0, r.rows, ""):
        if row[-1] != empty:
            break
        row.pop()
    return row


def _range_in(row: Json, streams: list[StreamId], runs: Json, files: Json) -> Range:
    kind, stream, shard, after, upto, run, rows, size, first, last, named, parents, *extras = row
    more: list[Json] = ["", rows, 0]
    more[: len(extras)] = extras
    stored, records, unpacked = more
    what = Kind(kind)
    why, account = why_and_account(what, stored)
    return Range(
        what,
        ShardKey(streams[stream], _shard_in(shard)),
        after=None if after is None else _position_in(after),
        upto=_position_in(upto),
        run=runs[run][0],
        claim=runs[run][1],
        rows=rows,
        bytes=size,
        first_arrival=_time_in(first),
        last_arrival=_time_in(last),
        files=tuple(files[i] for i in named),
        parents=tuple(_parent_in(p) for p in parents),
        why=why,
        account=account,
        records=records,
        unpacked=bool(unpacked),
    )


def _parent_out(parent: ParentReason) -> list[Json]:
    row = [_shard_out(parent.shard_id), parent.why.value]
    return row if parent.by is None else [*row, _shard_out(parent.by)]


def _parent_in(row: Json) -> ParentReason:
    shard, why, *by = row
    return ParentReason(_shard_in(shard), ParentIs(why), _shard_in(by[0]) if by else None)


_EMPTY_POSITION: Final[list[Json]] = [None, None, None, 0, 0, [], None, 0, 0, None]
"""The empty value of each field. A time of 0 isn't empty: an adopted position has it where nothing tells when its
record arrived."""


def _position_out(position: Position) -> list[Json]:
    """The position as a list. Empty fields at its end are left out, because most positions are a sequence number and a
    time."""
    # As text, because the JSON readers of other languages lose digits of numbers as long as sequence numbers.
    sequence = None if position.sequence is None else str(position.sequence)
    row: list[Json] = [
        sequence,
        _time_out(position.arrival),
        _time_out(position.seen),
        position.sub,
        int(position.ended),
        [_shard_out(c) for c in position.children],
        None if position.start is None else [_time_out(position.start.at)],
        int(position.gap_accepted),
        int(position.inside),
        _time_out(position.skipped_until),
    ]
    while row and row[-1] == _EMPTY_POSITION[len(row) - 1]:
        row.pop()
    return row


def _position_in(row: list[Json]) -> Position:
    # A shorter list is filled up with None, as its empty fields were left out. A longer one raises, and is refused.
    fields = row + [None] * (len(_EMPTY_POSITION) - len(row))
    sequence, arrival, seen, sub, ended, children, start, accepted, inside, skipped = fields
    return Position(
        None if sequence is None else int(sequence),
        sub or 0,
        ended=bool(ended),
        children=tuple(_shard_in(c) for c in children or ()),
        arrival=_time_in(arrival),
        seen=_time_in(seen),
        start=None if start is None else Start(_time_in(start[0])),
        gap_accepted=bool(accepted),
        inside=bool(inside),
        skipped_until=_time_in(skipped),
    )


def _origin_out(origin: Origin | None) -> Json:
    return None if origin is None else [_time_out(origin.start.at), _time_out(origin.decided)]


def _origin_in(row: Json) -> Origin:
    decided = _time_in(row[1])
    if decided is None:
        raise WrongShape("an origin in a snapshot's summary has no time at which it was decided")
    return Origin(Start(_time_in(row[0])), decided)


def _time_out(when: datetime | None) -> int | None:
    return None if when is None else (when - _EPOCH) // timedelta(milliseconds=1)


def _time_in(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def _shard_out(shard_id: str) -> int | str:
    match = _PLAIN_SHARD.fullmatch(shard_id)
    return shard_id if match is None else int(match[1])


def _shard_in(value: int | str) -> str:
    return value if isinstance(value, str) else f"shardId-{value:012d}"


def _pack(body: Json, version: int = VERSION) -> str:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=True)
    if version == VERSION:
        # Level 6: the highest level takes twice the time, and saves one byte in a hundred.
        packed = base64.b85encode(zlib.compress(text.encode(), 6))
    else:
        packed = base64.b64encode(zlib.compress(text.encode(), 1))
    return f"{version}:{packed.decode()}"


def _unpack(text: str, expected: int = VERSION) -> Json:
    version, colon, packed = text.partition(":")
    if not colon or version != str(expected):
        raise WrongShape(
            f"a value in the snapshot's summary has the version {version[:20]!r}, "
            f"and this Headrace reads version {expected}. "
            "Nothing was changed; upgrade Headrace in this deployment"
        )
    unpack = zlib.decompressobj()
    decoded = base64.b85decode(packed) if expected == VERSION else base64.b64decode(packed, validate=True)
    # zlib stops at the limit; `unconsumed_tail` has what it didn't unpack, and `eof` is false where the text
    # was cut off.
    raw = unpack.decompress(decoded, _MAX_UNPACKED)
    if unpack.unconsumed_tail or not unpack.eof:
        raise WrongShape(
            "a value in the snapshot's summary is cut off, or larger than any that Headrace writes"
        )
    return json.loads(raw)


class _errors_named:  # noqa: N801 - used as a statement: `with _errors_named("ledger"):`
    """Turns every error of the decoding into one WrongShape that says which value couldn't be read."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _UNREADABLE):
            raise WrongShape(
                f"the {self.what} in a snapshot of this table can't be read ({error})"
            ) from error


__all__ = [
    "DELTA_VERSION",
    "VERSION",
    "read_delta",
    "read_full",
    "read_ledger",
    "read_positions",
    "write_delta",
    "write_full",
    "write_ledger",
    "write_positions",
]
