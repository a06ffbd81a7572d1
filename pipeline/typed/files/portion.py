"""Which files of the lake table a wave looks into. Pure functions on values.

    files ─► those that may have wanted rows ─► as many of them, the lowest sort keys first, as a wave needs

Of a file that a survey has looked into, the rows of each shard are known. Of any other file, only the bounds are
known that the table's metadata has for the whole file: with rows of several shards these reach from the first
record of one shard to the last one of another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.shards.sort_texts import RowShard, record_in, row_shard
from headrace.pipeline.typed.values import FilePart, SourceFile, Wanted, Wishes


@dataclass(frozen=True, slots=True)
class Portion:
    files: tuple[SourceFile, ...]
    ceiling: str | None
    """Files that aren't in the portion have no wanted row with a lower sort key. None where no file is left out."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Rows of one file that may be wanted."""

    low: str
    """A text below or at the sort key of each of these rows."""
    high: str | None
    """A text above or at the sort key of each of these rows; None where none is known."""
    rows: int
    """The file has at most so many of these rows."""
    file: SourceFile

    @property
    def ceiling(self) -> str:
        """A text that isn't above any of these rows, and that parts no Kinesis record."""
        # What comes after a position as a whole begins after a semicolon
        # (`headrace.pipeline.core.shards.sort_texts.past`).
        return self.low if self.low.endswith(";") else record_in(self.low)


def plan_portion(files: Iterable[SourceFile], wishes: Wishes, *, rows: int) -> Portion:
    """The files with the lowest sort keys that together have at least `rows` wanted rows. A long backlog is read
    in such portions, so that the cost of a wave depends on what it parses and not on what is left.
    """
    wanting = _Wanting.of(wishes)
    stretches = sorted(
        (stretch for file in files for stretch in wanting.stretches(file)), key=lambda s: (s.low, s.file.path)
    )
    open_ones: list[tuple[str, int]] = []
    covered = 0
    for number, current in enumerate(stretches[:-1]):
        ceiling = stretches[number + 1].ceiling
        if current.high is not None:
            heapq.heappush(open_ones, (current.high, current.rows))
        while open_ones and open_ones[0][0] < ceiling:
            covered += heapq.heappop(open_ones)[1]
        if covered >= rows:
            return Portion(_files(stretches[: number + 1]), ceiling)
    return Portion(_files(stretches), None)


def _files(stretches: Iterable[_Stretch]) -> tuple[SourceFile, ...]:
    return tuple({stretch.file.path: stretch.file for stretch in stretches}.values())


@dataclass(frozen=True, slots=True)
class _Wanting:
    wishes: Wishes
    wanted: Mapping[RowShard, Wanted]
    closed: frozenset[RowShard]
    streams: frozenset[tuple[str, int]]
    """The lives of streams of which rows are wanted that belong to shards which the wishes don't name."""

    @classmethod
    def of(cls, wishes: Wishes) -> _Wanting:
        return cls(
            wishes,
            {row_shard(lack.key): lack for lack in wishes.wanted},
            frozenset(map(row_shard, wishes.closed)),
            frozenset((stream.name, stream.epoch) for stream in wishes.streams if not wishes.only_wanted),
        )

    def stretches(self, file: SourceFile) -> Iterator[_Stretch]:
        if file.parts is None:
            if self.wishes.left_out or _is_needed(file, self.wishes):
                yield _Stretch(file.low, file.high, file.rows, file)
            return
        # Where nothing is looked for, nothing is due.
        for part in file.parts if self.wanted or self.wishes.left_out else ():
            yield from self._of_part(part, file)

    def _of_part(self, part: FilePart, file: SourceFile) -> Iterator[_Stretch]:
        lack = self.wanted.get(part.name)
        if lack is None:
            if part.name[:2] in self.streams and part.name not in self.closed:
                yield _Stretch(part.first, part.last, part.rows, file)
        elif part.last > lack.low and (lack.high is None or part.first < lack.high):
            yield _Stretch(max(part.first, lack.low), part.last, part.rows, file)


def _is_needed(file: SourceFile, wishes: Wishes) -> bool:
    # Files are told apart by their bounds of the sort key, never by those of sequence numbers, which sort wrongly as
    # texts.
    return any(
        (file.high is None or file.high > lack.floor)
        and ((high := _highest(lack, wishes)) is None or file.low < high)
        and (file.shards is None or _may_have(file.shards, lack))
        for lack in wishes.wanted
    )


def _highest(lack: Wanted, wishes: Wishes) -> str | None:
    """A sort key above all rows that are looked for because of this shard; None where there is no such key."""
    # A shard that ended without a record has no sort key by which to tell what came before it. A shard that waits isn't looked
    # for, and its ancestors, which the lake table may have forgotten, may have rows above those of all shards that are.
    has_record = lack.upto is not None and lack.upto.sequence is not None
    return None if lack.is_new and (wishes.closed or not has_record) else lack.high


def _may_have(shards: tuple[str, str], lack: Wanted) -> bool:
    # A shard without a position may have had children that came and went unseen, and a new one may have had such
    # ancestors: their rows are looked for as well.
    return lack.upto is None or lack.is_new or shards[0] <= lack.key.shard_id <= shards[1]
