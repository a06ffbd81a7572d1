"""Which files of the lake table a wave looks into. Pure functions on values.

    files ─► those that may have wanted rows ─► as many of them, the lowest sort keys first, as a wave needs

What a survey has found in a file tells of each shard by itself. Where none has looked, there are only the bounds that the table's metadata
has of the whole file: with rows of several shards these reach from the first record of one shard to the last one of another.
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
    """None of them has a lower sort key."""
    high: str | None
    """None of them has a higher sort key; None where that isn't known."""
    rows: int
    """At most so many."""
    file: SourceFile

    @property
    def ceiling(self) -> str:
        """A text that isn't above any of these rows, and that parts no Kinesis record."""
        # What comes after a position as a whole begins after a semicolon (`headrace.pipeline.core.shards.sort_texts.past`).
        return self.low if self.low.endswith(";") else record_in(self.low)


def plan_portion(files: Iterable[SourceFile], wishes: Wishes, *, rows: int, others: bool = True) -> Portion:
    """The files with the lowest sort keys that have at least `rows` rows below the ceiling. A long backlog is looked at in portions, so that a wave
    costs by what it parses and not by what is left. `others`: whether rows of shards are wanted that the wishes don't name."""
    wanting = _Wanting.of(wishes, others=others)
    stretches = sorted(
        (stretch for file in files for stretch in wanting.stretches(file)), key=lambda s: (s.low, s.file.path)
    )
    open_ones: list[tuple[str, int]] = []
    covered = 0
    for number, each in enumerate(stretches[:-1]):
        ceiling = stretches[number + 1].ceiling
        if each.high is not None:
            heapq.heappush(open_ones, (each.high, each.rows))
        while open_ones and open_ones[0][0] < ceiling:
            covered += heapq.heappop(open_ones)[1]
        if covered >= rows:
            return Portion(_files(stretches[: number + 1]), ceiling)
    return Portion(_files(stretches), None)


def _files(stretches: Iterable[_Stretch]) -> tuple[SourceFile, ...]:
    return tuple({each.file.path: each.file for each in stretches}.values())


@dataclass(frozen=True, slots=True)
class _Wanting:
    wishes: Wishes
    wanted: Mapping[RowShard, Wanted]
    closed: frozenset[RowShard]
    streams: frozenset[tuple[str, int]]
    """Of which rows of shards are wanted that the wishes don't name."""

    @classmethod
    def of(cls, wishes: Wishes, *, others: bool) -> _Wanting:
        return cls(
            wishes,
            {row_shard(each.key): each for each in wishes.wanted},
            frozenset(map(row_shard, wishes.closed)),
            frozenset((each.name, each.epoch) for each in wishes.streams if others),
        )

    def stretches(self, file: SourceFile) -> Iterator[_Stretch]:
        if file.parts is None:
            if _is_needed(file, self.wishes):
                yield _Stretch(file.low, file.high, file.rows, file)
            return
        # Where nothing is looked for, nothing is due.
        for part in file.parts if self.wanted else ():
            yield from self._of_part(part, file)

    def _of_part(self, part: FilePart, file: SourceFile) -> Iterator[_Stretch]:
        each = self.wanted.get(part.name)
        if each is None:
            if part.name[:2] in self.streams and part.name not in self.closed:
                yield _Stretch(part.first, part.last, part.rows, file)
        elif part.last > each.low and (each.high is None or part.first < each.high):
            yield _Stretch(max(part.first, each.low), part.last, part.rows, file)


def _is_needed(file: SourceFile, wishes: Wishes) -> bool:
    # Files are told apart by their bounds of the sort key, never by those of sequence numbers, which sort wrongly as texts.
    return any(
        (file.high is None or file.high > each.floor)
        and ((high := _highest(each)) is None or file.low < high)
        and (file.shards is None or _may_have(file.shards, each))
        for each in wishes.wanted
    )


def _highest(wanted: Wanted) -> str | None:
    """A sort key above all rows that are looked for because of this shard; None where there is no such key."""
    # A shard that ended without a record has no sort key by which to tell what came before it.
    has_record = wanted.upto is not None and wanted.upto.sequence is not None
    return None if wanted.is_new and not has_record else wanted.high


def _may_have(shards: tuple[str, str], wanted: Wanted) -> bool:
    # A shard without a position may have had children that came and went unseen, and a new one may have had such ancestors: their rows are
    # looked for as well.
    return wanted.upto is None or wanted.is_new or shards[0] <= wanted.key.shard_id <= shards[1]
