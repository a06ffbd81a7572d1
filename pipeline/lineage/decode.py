"""Decodes the columns of the lineage table to ledgers, without a dictionary for each row.

Of the ranges of one shard, one begins where another ended, and many have the same run, files and stream. Each
such value is in memory once, so that a range takes about 700 bytes. With a dictionary for each row, and each
value anew, it takes 5 KB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason, Range, why_and_account
from headrace.pipeline.core.ledger.pages import LedgerPages, SnapshotPlace
from headrace.pipeline.core.ledger.rows import DERIVED, RANGE, put, start_in
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHERE = ("snapshot_sequence", "snapshot_id", "place")
_POSITION = ("sub_sequence_number", "ended", "gap_accepted", "inside")

_Column = Any
"""An array of pyarrow's, of whatever type the column has."""
_Raw = tuple[Any, ...]
"""A position as the columns have it."""


class LineageDecoder:
    """Collects the ledgers from batches of rows, which may come in any order."""

    def __init__(self) -> None:
        self.pages = LedgerPages()
        self._texts: dict[str, str] = {}
        self._lists: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._keys: dict[tuple[str, int, str], ShardKey] = {}
        self._times: dict[int, datetime] = {}
        self._last: dict[ShardKey, tuple[_Raw, Position]] = {}
        """The end of the last range of each shard: most likely, the next one begins with it."""

    def add(self, batch: pa.RecordBatch) -> None:
        is_range = pc.is_in(batch["entry"], value_set=pa.array([RANGE, DERIVED]))
        for row in batch.filter(pc.invert(is_range)).to_pylist():
            put(row, self.pages)
        self._add_ranges(batch.filter(is_range))

    def _add_ranges(self, batch: pa.RecordBatch) -> None:
        # Anew for each batch: times of later batches are other ones, and the dictionary would only
        # grow.
        self._times = {}
        sequences, snapshots, places = (_values(batch, name) for name in _WHERE)
        times, writer = self._instants(batch["snapshot_at"]), self._shared(batch["writer"])
        for snapshot, time, by, entry, place, recorded in zip(
            map(SnapshotPlace, sequences, snapshots),
            times,
            writer,
            self._shared(batch["entry"]),
            places,
            self._ranges(batch),
            strict=True,
        ):
            if entry == DERIVED:
                self.pages.of(snapshot, time).derived.append((place, recorded))
            else:
                self.pages.ours(snapshot, time, writer=by).ranges.append((place, recorded))

    def _ranges(self, batch: pa.RecordBatch) -> Iterator[Range]:
        # Over all columns side by side: a dictionary for each row would take seven times the memory.
        for key, kind, after, upto, run, claim, rows, size, first, last, *rest in self._columns(batch):
            files, parents, why, records, unpacked, joined = rest
            what = _KINDS(kind)
            reason, account = why_and_account(what, why)
            yield Range(
                what,
                key,
                after=None if after is None else self._position(key, after),
                upto=self._position(key, upto),
                run=run,
                claim=claim,
                rows=rows,
                bytes=size,
                first_arrival=first,
                last_arrival=last,
                files=files,
                parents=parents,
                why=reason,
                account=account,
                records=records,
                unpacked=unpacked,
                joined=joined or 1,
            )

    def _columns(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        """The values of each range, in the order in which `_ranges` takes them."""
        return zip(
            self._keys_of(batch),
            _values(batch, "kind"),
            self._positions(batch["after"]),
            self._positions(batch["upto"]),
            self._shared(batch["run"]),
            self._shared(batch["claim"]),
            _values(batch, "rows"),
            _values(batch, "bytes"),
            self._instants(batch["first_arrival"]),
            self._instants(batch["last_arrival"]),
            self._text_lists(batch["files"]),
            _parents(batch["parents"]),
            self._shared(batch["why"]),
            _values(batch, "records"),
            _values(batch, "unpacked"),
            _joined(batch),
            strict=True,
        )

    # --- positions ----------------------------------------------------------------------------------------------

    def _positions(self, column: _Column) -> Iterator[_Raw | None]:
        raw = zip(
            pc.struct_field(column, "sequence_number").to_pylist(),
            *(pc.struct_field(column, name).to_pylist() for name in _POSITION),
            self._text_lists(pc.struct_field(column, "children")),
            self._instants(pc.struct_field(column, "arrival")),
            self._instants(pc.struct_field(column, "seen")),
            self._shared(pc.struct_field(column, "start")),
            self._instants(pc.struct_field(column, "skipped_until")),
            strict=True,
        )
        return (
            position if is_valid else None
            for position, is_valid in zip(raw, column.is_valid().to_pylist(), strict=True)
        )

    def _position(self, key: ShardKey, raw: _Raw) -> Position:
        last = self._last.get(key)
        # Compared as the columns have it, before numbers of 56 digits are made of the text.
        if last is not None and last[0] == raw:
            return last[1]
        sequence, sub, ended, gap_accepted, inside, children, arrival, seen_at, start, skipped_until = raw
        position = Position(
            None if sequence is None else int(sequence),
            sub,
            ended=ended,
            children=children,
            arrival=arrival,
            seen=seen_at,
            start=None if start is None else start_in(start),
            gap_accepted=gap_accepted,
            inside=inside,
            skipped_until=skipped_until,
        )
        self._last[key] = raw, position
        return position

    # --- values that many ranges have -----------------------------------------------------------------------------

    def _keys_of(self, batch: pa.RecordBatch) -> Iterator[ShardKey]:
        for names in zip(
            *(_values(batch, c) for c in ("stream_arn", "stream_epoch", "shard_id")), strict=True
        ):
            key = self._keys.get(names)
            if key is None:
                arn, epoch, shard = names
                key = self._keys[names] = ShardKey(StreamId(arn, epoch), shard)
            yield key

    def _shared(self, column: _Column) -> list[Any]:
        shared = self._texts.setdefault
        return [None if text is None else shared(text, text) for text in column.to_pylist()]

    def _text_lists(self, column: _Column) -> Sequence[tuple[str, ...]]:
        values, shared = self._shared(column.values), self._lists.setdefault
        lists = (tuple(values[begin:end]) for begin, end in pairwise(column.offsets.to_pylist()))
        return [shared(texts, texts) for texts in lists]

    def _instants(self, column: _Column) -> Iterator[Any]:
        for micros in column.cast(pa.int64()).to_pylist():
            if micros is None:
                yield None
                continue
            time = self._times.get(micros)
            if time is None:
                time = self._times[micros] = _EPOCH + timedelta(microseconds=micros)
            yield time


_KINDS: Callable[[str], Kind] = {kind.value: kind for kind in Kind}.__getitem__


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    values: list[Any] = batch[name].to_pylist()
    return values


def _joined(batch: pa.RecordBatch) -> list[int | None]:
    """The number of ranges of which each row was made (`headrace.pipeline.lineage.join`). The lineage table itself has
    no such column."""
    return batch["joined"].to_pylist() if "joined" in batch.schema.names else [None] * len(batch)


def _parents(column: _Column) -> Sequence[tuple[ParentReason, ...]]:
    if not len(column.values):
        return [()] * len(column)
    return [
        tuple(ParentReason(p["shard_id"], ParentIs(p["why"]), p["by"]) for p in reasons)
        for reasons in column.to_pylist()
    ]
