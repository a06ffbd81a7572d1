"""The computations of a proof's tasks on Arrow columns: the rows in each span of their shard, and the sort key of
each row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.lake.files.row_marks import marks
from headrace.pipeline.lake.files.sort_key import sort_keys
from headrace.pipeline.proof.accepted import shard_text
from headrace.pipeline.proof.spans import ELSEWHERE, NOT_ASKED, Digest, Part, ShardSpans

MOST_NAMED = 5
"""Rows of one file that are named, and not only counted."""
_MOST_RUNS = 1_000
"""Where the rows of a piece change from shard to shard more often, they are sorted first."""
_SHARD = ("stream", "stream_epoch", "shard_id")
_LONGEST = 129
"""The most digits of a sequence number, by Kinesis's API."""

_Name = tuple[str, int, str]


@dataclass(slots=True)
class SpanCounter:
    """Counts the rows of one file in each span, piece after piece."""

    places: Mapping[_Name, int]
    spans: Sequence[ShardSpans]
    rows: int = 0
    parts: list[Part] = field(default_factory=list)
    all: Digest = field(default_factory=Digest)
    known: Digest = field(default_factory=Digest)
    elsewhere: int = 0
    strangers: list[str] = field(default_factory=list)
    strange: Counter[str] = field(default_factory=Counter)

    def add(self, piece: pa.Table) -> None:
        self.rows += len(piece)
        is_sound = is_sound_row(piece)
        # First: sort keys can't be made of a text that is no number.
        if len(piece) and not pc.all(is_sound).as_py():
            self._strange(piece.filter(pc.invert(is_sound)))
            piece = piece.filter(is_sound)
        piece, runs = _in_runs(piece)
        keys = sort_keys_of(piece)
        sub: Any = piece["sub_sequence_number"].combine_chunks()
        # A number for each row, and their sum: two files with the same sum have the same rows, wherever compaction has
        # put them.
        numbers = marks(piece["sequence_number"].combine_chunks(), pc.fill_null(sub, pa.scalar(0)))
        for start, stop in runs:
            place = self.places.get(_name_at(piece, start))
            if place is None:
                self._strange(piece.slice(start, stop - start))
            else:
                self._run(place, keys.slice(start, stop - start), numbers.slice(start, stop - start))

    def _run(self, place: int, keys: Any, numbers: Any) -> None:
        """Rows of one shard that follow each other in the file."""
        # Files of Headrace and of compactions are sorted, so that the rest is for those of other engines.
        if _rises(keys):
            self._sorted(place, keys, numbers)
            return
        order = pc.sort_indices(keys)
        keys, numbers = keys.take(order), numbers.take(order)
        # What is there again becomes a part of its own, which overlaps with the first: `overlaps` sees that.
        again = pa.concat_arrays([pa.array([False]), pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1))])
        once = pc.invert(again)
        self._sorted(place, keys.filter(once), numbers.filter(once))
        self._sorted(place, keys.filter(again), numbers.filter(again))

    def _sorted(self, place: int, keys: Any, numbers: Any) -> None:
        of = self.spans[place]
        factor = _factor(of)
        start = 0
        while start < len(keys):
            # By binary search: the rows between two ends are never looked at one by one.
            span = bisect_left(of.ends, keys[start].as_py())
            stop = _after(keys, of.ends[span], start) if span < len(of.ends) else len(keys)
            first, last = keys[start].as_py(), keys[stop - 1].as_py()
            claims = of.claims[span] if span < len(of.ends) else 0
            if claims:
                # By 64 bits, as Arrow's own sums wrap around: the sums of several files add up to the sum of all.
                total = pc.sum(numbers.slice(start, stop - start)).as_py() * factor % 2**64
                self._counted(Part(place, span, stop - start, first, last, total), claims)
            else:
                self._strangers_of(of, keys.slice(start, stop - start))
            start = stop

    def _counted(self, part: Part, claims: int) -> None:
        self.all += part.digest
        if claims in (NOT_ASKED, ELSEWHERE):
            self.known += part.digest
            self.elsewhere += part.rows if claims == ELSEWHERE else 0
            return
        before = self.parts[-1] if self.parts else None
        # The pieces of a file follow each other: one part for each span keeps the answer small.
        if before and (before.shard, before.span) == (part.shard, part.span) and before.last < part.first:
            joined = before.digest + part.digest
            self.parts[-1] = Part(part.shard, part.span, joined.rows, before.first, part.last, joined.sum)
        else:
            self.parts.append(part)

    def _strange(self, rows: pa.Table) -> None:
        counts = rows.group_by(list(_SHARD), use_threads=False).aggregate([([], "count_all")])
        for shard in counts.to_pylist():
            name = shard_text(shard["stream"], shard["stream_epoch"], shard["shard_id"])
            self.strange[name] += shard["count_all"]
        # A few by name: a table that is wrong everywhere must not fill the answer of a task.
        for row in rows.slice(0, max(0, MOST_NAMED - len(self.strangers))).to_pylist():
            self.strangers.append(
                _row_text(row["stream"], row["stream_epoch"], row["shard_id"], row["sequence_number"])
            )

    def _strangers_of(self, of: ShardSpans, keys: Any) -> None:
        self.strange[shard_text(of.stream, of.epoch, of.shard_id)] += len(keys)
        for key in keys.slice(0, max(0, MOST_NAMED - len(self.strangers))).to_pylist():
            self.strangers.append(_row_text(of.stream, of.epoch, of.shard_id, number_in(key)))


def _row_text(stream: str | None, epoch: int | None, shard_id: str | None, number: str | None) -> str:
    """A row as text, for people. Another engine may have left each of the values out."""
    return f"{stream}/{shard_id} {number} (created {epoch})"


def is_sound_row(rows: pa.Table) -> Any:
    """Whether each row is one that a landing can have written. Another engine may insert rows without a shard, or
    with any text as a sequence number.
    """
    number: Any = rows["sequence_number"]
    no: Any = pa.scalar(False)
    is_sound: Any = pc.fill_null(pc.less_equal(pc.binary_length(number), pa.scalar(_LONGEST)), no)
    is_sound = pc.and_(is_sound, pc.fill_null(pc.ascii_is_decimal(number), no))
    for name in _SHARD:
        is_sound = pc.and_(is_sound, rows[name].is_valid())
    return is_sound


def is_of_shard(rows: pa.Table, of: ShardSpans) -> Any:
    stream: Any = pc.equal(rows["stream"], text_scalar(of.stream))
    epoch: Any = pc.equal(rows["stream_epoch"], pa.scalar(of.epoch))
    return pc.and_(pc.and_(stream, epoch), pc.equal(rows["shard_id"], text_scalar(of.shard_id)))


def text_scalar(value: str) -> Any:
    return pa.scalar(value, pa.string())


def sort_keys_of(rows: pa.Table) -> Any:
    keys: Any = sort_keys(rows["sequence_number"], rows["sub_sequence_number"])
    return keys.combine_chunks()


def shards_of(rows: pa.Table) -> Iterator[tuple[_Name, pa.Table]]:
    """The rows by shard. A shard is returned more than once where its rows don't follow each other."""
    rows, runs = _in_runs(rows)
    for start, stop in runs:
        yield _name_at(rows, start), rows.slice(start, stop - start)


def _name_at(rows: pa.Table, row: int) -> Any:
    return tuple(rows[column][row].as_py() for column in _SHARD)


def _in_runs(rows: pa.Table) -> tuple[pa.Table, list[tuple[int, int]]]:
    # In one chunk, so that a column can be compared with itself, moved by one row.
    rows = rows.combine_chunks()
    runs = _runs(rows)
    if len(runs) > _MOST_RUNS:
        rows = rows.sort_by([(name, "ascending") for name in _SHARD]).combine_chunks()
        runs = _runs(rows)
    return rows, runs


def _runs(rows: pa.Table) -> list[tuple[int, int]]:
    """Where the rows of one shard follow each other: first row, and first row after."""
    count = len(rows)
    if not count:
        return []
    changes = np.zeros(count - 1, dtype=bool)
    for name in _SHARD:
        column: Any = rows[name].combine_chunks()
        differs = pc.not_equal(column.slice(1), column.slice(0, count - 1))
        changes |= differs.to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return list(zip(starts, [*starts[1:], count], strict=True))


def _rises(keys: Any) -> bool:
    return len(keys) < 2 or pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py() is True


def _after(keys: Any, end: str, low: int) -> int:
    """The place of the first key after `end`; the keys rise."""
    high = len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() <= end:
            low = middle + 1
        else:
            high = middle
    return low


def _factor(of: ShardSpans) -> int:
    """An odd number for the shard: a row that is moved to another shard changes the sum."""
    name = f"{of.stream}:{of.epoch}:{of.shard_id}"
    return int.from_bytes(sha256(name.encode()).digest()[:8]) | 1


def number_in(key: str) -> str:
    _, number, sub = key.split(":")
    return f"{number or 0}/{int(sub)}" if int(sub) else number or "0"
