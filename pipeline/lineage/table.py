"""The lineage table on Iceberg: the ledgers of the lake table's snapshots, which stay when those snapshots expire.

    load both tables -> compare main with what is recorded -> write one data file -> send one request -> done
      ^                                                                                    |
      '------------------- refused, or any answer that isn't a clear success --------------'

The summary of each commit says up to which snapshot the table has ledgers. So after a lost answer nothing has to
be searched: the table, loaded again, shows what is recorded, and only the rest is written. The compare-and-swap
on the table's newest snapshot keeps two recorders from writing the same ledger twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate

from headrace.pipeline.core.ledger.filter import ALL_RANGES, RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
from headrace.pipeline.core.ledger.recording import Recorded, Tail, tail_of
from headrace.pipeline.core.ledger.rows import Row, lineage_rows_of
from headrace.pipeline.errors import ChainBroken, CommitUnknown, Transient
from headrace.pipeline.lake.table.append import PreparedCommit, own_id, prepare
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.history import head_of, main_of
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import entry_of, time_of
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.lake.table.summary import WRITER
from headrace.pipeline.lineage.content import old_snapshots, rewritten, sorted_rows, with_small_groups
from headrace.pipeline.lineage.recorded import RECORDED, read_recorded, recorded_of, write_recorded
from headrace.pipeline.lineage.scan import read_ledgers
from headrace.pipeline.lineage.schema import OF, PROPERTIES, SCHEMA, check_lineage
from headrace.pipeline.ports.lineage import LineageTable

_TRIES = 20
"""Commits of other recorders that may come first before this one gives up. After one of them, little is left to
record."""
_MOST_ROWS = 10_000
"""Rows of one commit, which takes about a second. A first recording of a long history is made in many such pieces, and
one that is killed goes on at its last piece. The ledger of one snapshot is never divided.
"""
_UNSURE_TRIES = 3
"""Errors without a clear answer in one recording before it raises CommitUnknown."""


@dataclass(frozen=True, slots=True)
class Look:
    """The lake table and the lineage table as they were loaded once, and what the lineage table lacks."""

    lake: Table
    table: Table | None
    """None where there is no lineage table yet."""
    recorded: Recorded
    tail: Tail[Link]

    @property
    def head(self) -> int | None:
        return head_of(self.lake)

    @property
    def is_complete(self) -> bool:
        return not self.tail.new and self.tail.cut is None

    def at_head(self) -> tuple[int | None, int]:
        """The id of the lake table's newest snapshot, and its sequence number."""
        head = self.lake.current_snapshot()
        return (None, 0) if head is None else (head.snapshot_id, head.sequence_number or 0)


@dataclass(frozen=True, slots=True)
class Content:
    """What a commit to the lineage table writes."""

    rows: pa.Table
    replaced: Collection[DataFile]
    """Files of the lineage table that the same commit removes."""
    recorded: Recorded
    files: tuple[DataFile, ...] = ()
    """Files that are written already: of rows that are too many for the memory."""


class IcebergLineage(LineageTable):
    def __init__(self, lake: IcebergTable, *, writer: str = "") -> None:
        self.identifier = f"{lake.identifier}_lineage"
        self.lake = lake
        self._writer = writer

    def recorded(self) -> Recorded:
        table = self.find()
        return Recorded() if table is None else self._recorded_in(table)

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        began = self.lake.clock.monotonic()
        while True:
            look, recorded = self.commit(self._next)
            waited = self.lake.clock.monotonic() - began
            is_over = at_most is not None and waited >= at_most.total_seconds()
            if is_over or recorded.snapshot == look.head or recorded == look.recorded:
                return recorded

    def commit(self, decide: Callable[[Look, Table], Content | None]) -> tuple[Look, Recorded]:
        """Commit the content that `decide` makes for the newest state of both tables; nothing where it returns
        None. Returns that state, and what is recorded now.
        """
        unsure: list[Exception] = []
        for _ in range(_TRIES):
            look = self._look()
            # A lake table without snapshots gets no lineage table. After a rollback to nothing its rows have to go.
            if look.head is None and look.recorded == Recorded():
                return look, look.recorded
            table = look.table
            if table is None:
                # Another recorder may make the table first and record in it: only a new look tells.
                self._create(look.lake)
                continue
            content = decide(look, table)
            if content is None:
                return look, look.recorded
            self.lake.check_clock()
            attempt = self._prepare(table, content)
            try:
                attempt.send(table)
            except CommitFailedException:
                # Another recorder was faster: the catalog has certainly refused this commit.
                continue
            except Exception as error:  # noqa: BLE001 - of any error but a refusal the commit may have landed
                unsure.append(error)
                self._check_patience(unsure)
                continue
            return look, content.recorded
        raise Transient(
            f"{_TRIES} times another commit to {self.identifier} was faster. Nothing was recorded by this process; the next "
            "recording goes on"
        )

    def _check_patience(self, unsure: list[Exception]) -> None:
        if len(unsure) >= _UNSURE_TRIES:
            raise CommitUnknown(
                f"{len(unsure)} commits to {self.identifier} got no clear answer (last error: {unsure[-1]}). Each ledger is "
                "still in the lake table's snapshots, and none is recorded twice; the next recording goes on"
            ) from unsure[-1]

    def fence(self) -> None:
        """Make an empty commit, which repeats up to which snapshot the table has ledgers. Recordings that were
        prepared before it are refused.
        """

        def nothing(look: Look, table: Table) -> Content:
            return Content(as_arrow([], table), (), look.recorded)

        self.commit(nothing)

    def entries(self, query: RangeFilter = ALL_RANGES) -> Iterator[LedgerEntry | Lost]:
        look = self._look()
        stored = () if look.table is None else self.stored(look.table, look.tail.cut, query)
        added = (entry for link in look.tail.new for entry in self._additions(look, link))
        return (fitting for entry in chain(stored, added) if (fitting := query.of(entry)) is not None)

    def stored(
        self, table: Table, cut: int | None, query: RangeFilter = ALL_RANGES
    ) -> Iterator[LedgerEntry | Lost]:
        """The stored ledgers that the query asks for, and maybe some more ranges, up to the snapshot with the
        sequence number `cut`.
        """
        bounds = [bound for bound in (cut, query.upto) if bound is not None]
        with asking(f"the lineage table {self.identifier}"):
            return read_ledgers(table, replace(query, upto=min(bounds, default=None)))

    # --- looking --------------------------------------------------------------------------------------------

    def find(self) -> Table | None:
        """The lineage table; None where there is none yet."""
        with asking(f"the lineage table {self.identifier}"):
            try:
                return self.lake.catalog.load_table(self.identifier)
            except NoSuchTableError:
                return None

    def _look(self) -> Look:
        # The lineage table first: read the other way round, a recording in between would look as if it were ahead of
        # main.
        table, lake = self.find(), self.lake.open()
        if table is None:
            return Look(lake, None, Recorded(), tail_of(main_of(lake), Recorded(), dict))
        check_lineage(table, str(lake.metadata.table_uuid))
        recorded = self._recorded_in(table)
        return Look(lake, table, recorded, tail_of(main_of(lake), recorded, lambda: self._with_rows(table)))

    def _recorded_in(self, table: Table) -> Recorded:
        """How far the table goes, from the newest snapshot of main that a recording made; else from the rows."""
        # Another engine's compaction may be newer. A rollback of the lineage table takes its own statement back, too.
        try:
            for link in main_of(table):
                if RECORDED in link.summary:
                    return read_recorded(link.summary[RECORDED], self.identifier)
        except ChainBroken:
            # Another engine's expiry removed the snapshots that lead there. The rows tell the same, and take longer to
            # read.
            pass
        return recorded_of(self._scan(table, "entry", "snapshot_id", "snapshot_sequence"))

    def _with_rows(self, table: Table) -> Mapping[int, int]:
        names = ["snapshot_id", "snapshot_sequence"]
        rows = self._scan(table, *names).group_by(names).aggregate([]).to_pydict()
        return dict(zip(rows["snapshot_id"], rows["snapshot_sequence"], strict=True))

    def _scan(self, table: Table, *columns: str) -> pa.Table:
        with asking(f"the lineage table {self.identifier}"):
            return table.scan(selected_fields=columns or ("*",)).to_arrow()

    # --- the ledgers to add -----------------------------------------------------------------------------------

    def _additions(self, look: Look, link: Link) -> Iterator[LedgerEntry | Lost]:
        """What a new snapshot of main brings. A snapshot of another engine brings nothing."""
        if look.tail.broken and link is look.tail.new[0]:
            yield lost_below(link)
        # By its rows a cherry-pick is a landing, and its own summary has no ledger.
        if link.picked:
            yield lost_pick(link)
        elif link.ours:
            yield self._entry(link)

    def _entry(self, link: Link) -> LedgerEntry:
        try:
            return entry_of(link, self.lake)
        except ChainBroken as error:
            # Not recorded as lost without a person's decision: the file may only be looked for in a wrong place.
            raise ChainBroken(
                f"the ledger of snapshot {link.snapshot} can't be recorded: {error}. Nothing was recorded; where the file is lost for "
                "good, run `headrace lineage --rebuild`, which records the ledger as lost"
            ) from error

    # --- the commit -------------------------------------------------------------------------------------------

    def _create(self, lake: Table) -> None:
        properties = {"format-version": "2", OF: str(lake.metadata.table_uuid), **PROPERTIES}
        with asking(f"the catalog of {self.identifier}"), suppress(TableAlreadyExistsError):
            self.lake.catalog.create_table(self.identifier, SCHEMA, properties=properties)

    def _next(self, look: Look, table: Table) -> Content | None:
        """The next piece that brings the table towards the lake table's head, oldest ledgers first."""
        if look.is_complete:
            return None
        with asking(f"the storage of {self.identifier}"):
            replaced, staying, removed = rewritten(table, look.tail.cut)
        # The oldest ledgers first, so that the recorded snapshot always has all ledgers before it, whenever a process
        # dies.
        rows: list[Row] = []
        upto: Link | None = None
        for upto in look.tail.new:
            rows += (row for entry in self._additions(look, upto) for row in lineage_rows_of(entry))
            if len(rows) >= _MOST_ROWS:
                break
        added = as_arrow(rows, table)
        content = added if staying is None else pa.concat_tables([staying, added.cast(staying.schema)])
        was, gone, new = look.recorded, recorded_of(removed), recorded_of(added)
        recorded = Recorded(
            *((upto.snapshot, upto.sequence) if upto else look.at_head()),
            ranges=was.ranges - gone.ranges + new.ranges,
            snapshots=was.snapshots - gone.snapshots + new.snapshots,
            gaps=was.gaps - gone.gaps + new.gaps,
        )
        return Content(content, replaced, recorded)

    def written(self, table: Table, rows: pa.Table) -> tuple[DataFile, ...]:
        """New data files with these rows, which no commit names yet."""
        if not rows.num_rows:
            return ()
        with asking(f"the storage of {self.identifier}"):
            # The name of the file has this id, by which upkeep knows the file for Headrace's.
            files = _dataframe_to_data_files(
                with_small_groups(table.metadata), sorted_rows(rows), table.io, write_uuid=own_id()
            )
            return tuple(files)

    def _prepare(self, table: Table, content: Content) -> PreparedCommit:
        files = (*content.files, *self.written(table, content.rows))
        with asking(f"the storage of {self.identifier}"):
            attempt = prepare(
                table,
                files,
                {RECORDED: write_recorded(content.recorded), WRITER: self._writer},
                now_ms=int(self.lake.clock.now().timestamp() * 1000),
                replaced=content.replaced,
            )
        old = old_snapshots(table)
        # In the same commit: else the lineage table's own history would grow with each recording.
        expiry = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old})
        return attempt.also(expiry) if old else attempt


def as_arrow(rows: list[Row], table: Table) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=table.schema().as_arrow())


def lost_below(link: Link) -> Lost:
    why = (
        f"the ledgers of snapshots before {link.snapshot} can't be read any more: these snapshots were expired before their ledgers "
        "were recorded"
    )
    return Lost(link.snapshot, link.sequence, time_of(link), why)


def lost_pick(link: Link) -> Lost:
    why = (
        f"snapshot {link.snapshot} is a cherry-pick of snapshot {link.source}, made by another engine: it has rows, and no ledger "
        "of its own"
    )
    return Lost(link.snapshot, link.sequence, time_of(link), why)
