"""Finds the data files of the lake table that have records of a range, and the records of the range that the
table never got.

This runs on the driver, once for each data frame or micro-batch; tasks read the files
(`headrace.pipeline.source.lake_read`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.landing.valid_through import Through, overall
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.order.parents import children_of_ends
from headrace.pipeline.core.shards.position import Position, Positions, is_forward, reaches
from headrace.pipeline.core.shards.sort_texts import RowShard, end_of, past, row_shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import no_such_shard
from headrace.pipeline.errors import BadSetting, Unknown, WrongShape
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.source.columns import Loss
from headrace.pipeline.source.generations import generations
from headrace.pipeline.source.lake_read import FilesPart, RowChoice, ShardRows
from headrace.pipeline.source.options import RangeOptions
from headrace.pipeline.typed.ports import SourceTable
from headrace.pipeline.typed.values import SourceFile
from headrace.pipeline.windows.copy_plan import lacks_position, why_not
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.window import ReplayWindow, filter_of
from headrace.pipeline.windows.windows import find_window

_ROWS_OF_A_TASK = 1_000_000
"""Rows of the files that one task reads, as far as files allow it: a task reads some hundred thousand rows a second."""
_NEVER_LANDED = frozenset({Kind.SKIPPED, Kind.FOREIGN, Kind.REPOSITION})
"""Kinds of ranges whose records aren't in the lake table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRange:
    """A range of the lake table, as the options of a query describe it."""

    table: IcebergTable
    files: SourceTable
    """The same table, with its data files."""
    lineage: LineageTable
    windows: Callable[[], WindowStore]
    options: RangeOptions

    def through(self, state: TableState | None = None) -> datetime:
        """Up to when the table has all records of the range's streams."""
        name = self.options.stream
        state = state or self.table.load()
        moment = overall(state.through, state.positions) if name is None else _of_stream(name, state.through)
        if moment is None:
            what = "its streams" if name is None else f"the stream {name}"
            raise Unknown(
                f"the lake table {self.table.identifier} doesn't state yet up to when it has all records of {what}, so that a range of "
                "times might lack some. Nothing was read. The leader's clean-up states it, at the latest an hour after "
                "records have landed; until then read a window, or sequence numbers of a shard"
            )
        return moment

    def parts(self, since: datetime | None, until: datetime | None) -> list[FilesPart]:
        """The files to read, divided among Spark's tasks.

        `since`, `until`: the times of the range, which may be a part of those in the options.
        """
        # The state first: the files that are looked at afterwards have all its records.
        state = self.table.load()
        choice = self._choice(since, until, state)
        look, spec = self.files.look(), self.table.staging_spec()
        order = tuple(self._generations(look.positions))
        return [
            FilesPart(paths=paths, spec=spec, choice=choice, generations=order)
            for paths in _packed(list(_files(look.files, choice)))
        ]

    def losses(self) -> list[Loss]:
        """Ranges whose records aren't in the table, and parts of its history whose ledger is lost."""
        state, options = self.table.load(), self.options
        choice = self._choice(options.since, options.until, state)
        query = RangeFilter(stream=options.stream, kinds=_NEVER_LANDED)
        return [loss for entry in self.lineage.entries(query) for loss in _losses(entry, choice)]

    def _choice(self, since: datetime | None, until: datetime | None, state: TableState) -> RowChoice:
        options = self.options
        if options.window is not None:
            return RowChoice(ranges=tuple(self._of_window(options.window, state.positions)))
        if options.by_numbers and options.shard is not None:
            return RowChoice(ranges=(self._of_numbers(options.shard, state.positions),))
        # Without an end of its own a range of times ends where the table is complete: a query that
        # is made again then has the same rows.
        through = self.through(state)
        if until is not None and until > through:
            raise BadSetting(
                f"the option `to` is {until.isoformat()}, and the lake table {self.table.identifier} has all records only up to "
                f"{through.isoformat()}. Nothing was read; choose that time or an earlier one, or leave the option out"
            )
        return RowChoice(
            since=since, until=through if until is None else until, stream=options.stream, shard=options.shard
        )

    # --- sequence numbers and windows -------------------------------------------------------------------------

    def _of_numbers(self, shard: str, positions: Positions) -> ShardRows:
        key, position = self._position_of(shard, positions)
        upto = self.options.upto
        if upto is not None and not reaches(position, Position(upto)):
            raise BadSetting(
                f"the option `upto_sequence` is {upto}, and the lake table {self.table.identifier} has {key} up to {position}. Nothing "
                "was read; choose that number or an earlier one, or wait until the record has landed"
            )
        after = self.options.after
        return ShardRows(
            row_shard(key),
            low="" if after is None else end_of(Position(after)),
            high=end_of(position if upto is None else Position(upto)) or None,
        )

    def _position_of(self, shard: str, positions: Positions) -> tuple[ShardKey, Position]:
        """The shard, and how far the table has it."""
        lives = {key: position for key, position in positions.shards.items() if self._is_named(key, shard)}
        if not lives:
            # The table forgets the END of a shard that Kinesis has forgotten.
            story = story_of(self.lineage.entries(RangeFilter(shards=frozenset({shard}))))
            lives = {
                key: end for key in story.keys if self._is_named(key, shard) and (end := _end(story, key))
            }
        if not lives:
            raise Unknown(no_such_shard(shard, (key.shard_id for key in positions.shards)))
        if len(lives) > 1:
            names = ", ".join(str(key.stream) for key in sorted(lives))
            raise BadSetting(
                f"the shard {shard} is one of several streams: {names}. Nothing was read; name one by the option stream, "
                "and times instead of sequence numbers where they are lives of one stream"
            )
        return next(iter(lives.items()))

    def _is_named(self, key: ShardKey, shard: str) -> bool:
        return key.shard_id == shard and self.options.stream in (None, key.stream.name)

    def _of_window(self, name: str, positions: Positions) -> Iterator[ShardRows]:
        window = find_window(self.windows(), name, nothing="; nothing was read").window
        landed = (
            story_of(self.lineage.entries(filter_of(window))) if lacks_position(window, positions) else None
        )
        for why in why_not(window, positions, Positions(), landed):
            raise WrongShape(f"the window {name} can't be read: {why}. Nothing was read")
        _check_in_lake(window)
        for planned in window.ranges:
            high = end_of(planned.upto)
            if high:
                yield ShardRows(row_shard(planned.key), past(planned.after), high)

    # --- the order of shards ----------------------------------------------------------------------------------

    def _generations(self, positions: Positions) -> Iterator[tuple[RowShard, int]]:
        """The generations of shards that have parents."""
        above: dict[StreamId, dict[str, set[str]]] = {
            stream: children_of_ends(stream, positions) for stream in positions.streams()
        }
        for key, parents in self._forgotten_parents():
            above.setdefault(key.stream, {}).setdefault(key.shard_id, set()).update(parents)
        for stream, parents_of in above.items():
            names = parents_of.keys() | {parent for parents in parents_of.values() for parent in parents}
            order = generations(names, {name: frozenset(parents) for name, parents in parents_of.items()})
            yield from (
                (row_shard(ShardKey(stream, name)), number) for name, number in order.items() if number
            )

    def _forgotten_parents(self) -> Iterator[tuple[ShardKey, set[str]]]:
        """Parents that the positions don't tell any more, because the table has removed their ENDs: the ledgers tell
        them."""
        removals = self.lineage.entries(RangeFilter(kinds=frozenset()))
        # Ledgers with removals are few and all others many. Only where an END is gone is the whole
        # history read.
        if not any(isinstance(entry, LedgerEntry) and entry.page.dropped for entry in removals):
            return
        for entry in self.lineage.entries():
            for recorded in entry.ranges if isinstance(entry, Lost) else entry.page.ranges:
                if recorded.parents:
                    yield recorded.key, {parent.shard_id for parent in recorded.parents}


def _of_stream(name: str, through: Through) -> datetime | None:
    """The statement of the newest life of the stream with this name."""
    lives = [stream for stream in through if stream.name == name]
    return through[max(lives, key=lambda stream: stream.epoch)] if lives else None


def _end(story: Story, key: ShardKey) -> Position | None:
    step = story.end(key)
    return None if step is None else step.range.upto


def _check_in_lake(window: ReplayWindow) -> None:
    if any(planned.stretches for planned in window.ranges):
        raise BadSetting(
            f"the window {window.id} has records that the lake table lacks, and that `headrace window run` reads from the stream "
            "into the window's own table. Nothing was read; read that table"
        )


def _files(files: Iterable[SourceFile], choice: RowChoice) -> Iterator[SourceFile]:
    """The files that may have chosen rows."""
    for file in files:
        if choice.since is not None and file.newest is not None and file.newest < choice.since:
            continue
        if choice.until is not None and file.oldest is not None and file.oldest >= choice.until:
            continue
        if choice.shard is not None and not _may_have_shard(file, choice.shard):
            continue
        if choice.ranges is not None and not any(_may_have(file, rows) for rows in choice.ranges):
            continue
        # Only for files of the range: a delete file of another day says nothing about its rows.
        if file.deletes:
            raise WrongShape(
                f"another engine has deleted rows of {file.path} by a delete file, which the Spark source doesn't read. Nothing was "
                "read; run that engine's rewrite_data_files, and then the query again"
            )
        yield file


def _may_have_shard(file: SourceFile, shard: str) -> bool:
    return file.shards is None or file.shards[0] <= shard <= file.shards[1]


def _may_have(file: SourceFile, rows: ShardRows) -> bool:
    if not _may_have_shard(file, rows.shard[2]):
        return False
    return (file.high is None or file.high > rows.low) and (rows.high is None or file.low < rows.high)


def _packed(files: Sequence[SourceFile]) -> Iterator[tuple[str, ...]]:
    """The paths of each task: waves leave many small files."""
    paths: list[str] = []
    rows = 0
    for file in sorted(files, key=lambda file: (file.day or "", file.path)):
        if paths and rows + file.rows > _ROWS_OF_A_TASK:
            yield tuple(paths)
            paths, rows = [], 0
        paths.append(file.path)
        rows += file.rows
    if paths:
        yield tuple(paths)


def _losses(entry: LedgerEntry | Lost, choice: RowChoice) -> Iterator[Loss]:
    if isinstance(entry, Lost):
        yield Loss(
            stream=None, stream_epoch=None, shard_id=None, kind="no-ledger", until=entry.at, why=entry.why
        )
        return
    for recorded in entry.page.ranges:
        if _may_concern(recorded, choice):
            yield _loss(recorded)


def _may_concern(recorded: Range, choice: RowChoice) -> bool:
    if recorded.after is not None and not is_forward(recorded.after, recorded.upto):
        # A person moved the position back: these records landed, and land once more.
        return False
    key = recorded.key
    if choice.shard not in (None, key.shard_id) or choice.stream not in (None, key.stream.name):
        return False
    if choice.ranges is not None:
        low, high = past(recorded.after), end_of(recorded.upto)
        return any(
            rows.shard == row_shard(key)
            and (rows.high is None or low < rows.high)
            and (not high or high > rows.low)
            for rows in choice.ranges
        )
    first, last = recorded.first_arrival, recorded.last_arrival
    if choice.since is not None and last is not None and last < choice.since:
        return False
    return not (choice.until is not None and first is not None and first >= choice.until)


def _loss(recorded: Range) -> Loss:
    key, after, upto = recorded.key, recorded.after, recorded.upto
    return Loss(
        stream=key.stream.name,
        stream_epoch=key.stream.epoch,
        shard_id=key.shard_id,
        kind=recorded.kind.value,
        since=recorded.first_arrival,
        until=recorded.last_arrival,
        after_sequence=None if after is None or after.sequence is None else str(after.sequence),
        upto_sequence=None if upto.sequence is None else str(upto.sequence),
        why=recorded.why,
    )
