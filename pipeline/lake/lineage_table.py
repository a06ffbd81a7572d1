"""The lineage table on Iceberg: the ledgers of the lake table's snapshots, which stay when those snapshots expire.

    load both tables -> compare main with what is recorded -> write one data file -> send one request -> done
      ^                                                                                    |
      '------------------- refused, or any answer that isn't a clear success --------------'

The summary of each commit says how far the table goes. So a commit whose answer was lost needn't be looked for: the next look
shows what is recorded, and only the rest is written. The compare-and-swap on the table's head keeps two recorders from writing
the same ledger twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate

from pipeline.core.lineage import LedgerEntry, Lost
from pipeline.core.lineage_rows import entries_of, rows_of
from pipeline.core.recording import Recorded, Tail, tail_of
from pipeline.errors import ChainBroken, CommitUnknown, Transient, WrongShape
from pipeline.lake.append import PreparedCommit, prepare
from pipeline.lake.catalog import asking
from pipeline.lake.history import head_of, main_of
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.lineage_content import old_snapshots, recorded_of, rewritten
from pipeline.lake.lineage_schema import OF, PROPERTIES, SCHEMA, check_lineage
from pipeline.lake.position_chain import Link
from pipeline.lake.read import entry_of, time_of
from pipeline.lake.summary import WRITER
from pipeline.ports import LineageTable

RECORDED = "headrace.recorded"
"""Key in the summary of a recording's snapshot: how far the lineage table goes with this snapshot."""
_VERSION = "1"
_TRIES = 20
"""Commits of other recorders that may come first before this one gives up. After one of them, little is left to record."""
_UNSURE_TRIES = 3
"""Errors without a clear answer in one recording before it raises CommitUnknown."""


@dataclass(frozen=True, slots=True)
class _Look:
    """Both tables as they were loaded once, compared."""

    lake: Table
    table: Table | None
    """None where there is no lineage table yet."""
    recorded: Recorded
    tail: Tail[Link]

    @property
    def is_complete(self) -> bool:
        return not self.tail.new and self.tail.cut is None


class IcebergLineage(LineageTable):
    def __init__(self, lake: IcebergTable, *, writer: str = "") -> None:
        self.identifier = f"{lake.identifier}_lineage"
        self._lake = lake
        self._writer = writer

    def recorded(self) -> Recorded:
        table = self._open()
        return Recorded() if table is None else self._recorded_in(table)

    def record(self) -> Recorded:
        unsure: list[Exception] = []
        for _ in range(_TRIES):
            look = self._look()
            if look.is_complete:
                return look.recorded
            self._lake.check_clock()
            table = look.table or self._create(look.lake)
            attempt, recorded = self._prepare(look, table)
            try:
                attempt.send(table)
            except CommitFailedException:
                continue
            except Exception as error:
                # Of any error but a refusal the commit may have landed.
                unsure.append(error)
                if len(unsure) == _UNSURE_TRIES:
                    raise CommitUnknown(
                        f"{len(unsure)} commits to {self.identifier} got no clear answer (last error: {error}). Each ledger is "
                        "still in the lake table's snapshots, and none is recorded twice; the next recording goes on"
                    ) from error
                continue
            return recorded
        raise Transient(
            f"{_TRIES} times another commit to {self.identifier} was faster. Nothing was recorded by this process; the next "
            "recording goes on"
        )

    def entries(self) -> Iterator[LedgerEntry | Lost]:
        look = self._look()
        if look.table is not None:
            cut = look.tail.cut
            rows = self._scan(look.table)
            yield from entries_of(
                row for row in rows.to_pylist() if cut is None or row["snapshot_sequence"] <= cut
            )
        yield from self._additions(look)

    # --- looking --------------------------------------------------------------------------------------------

    def _open(self) -> Table | None:
        with asking(f"the lineage table {self.identifier}"):
            try:
                return self._lake.catalog.load_table(self.identifier)
            except NoSuchTableError:
                return None

    def _look(self) -> _Look:
        table, lake = self._open(), self._lake.open()
        if table is None:
            return _Look(lake, None, Recorded(), tail_of(main_of(lake), Recorded(), dict))
        check_lineage(table, str(lake.metadata.table_uuid))
        recorded = self._recorded_in(table)
        return _Look(lake, table, recorded, tail_of(main_of(lake), recorded, lambda: self._with_rows(table)))

    def _recorded_in(self, table: Table) -> Recorded:
        """How far the table goes, from the newest snapshot of main that a recording made; else from the rows."""
        # Another engine's compaction may be newer. A rollback of the lineage table takes its own statement back, too.
        try:
            for link in main_of(table):
                if RECORDED in link.summary:
                    return _read_recorded(link.summary[RECORDED], self.identifier)
        except ChainBroken:
            pass
        return recorded_of(self._scan(table, "entry", "snapshot_id", "snapshot_sequence"))

    def _with_rows(self, table: Table) -> Mapping[int, int]:
        rows = self._scan(table, "snapshot_id", "snapshot_sequence").to_pydict()
        return dict(zip(rows["snapshot_id"], rows["snapshot_sequence"], strict=True))

    def _scan(self, table: Table, *columns: str) -> pa.Table:
        with asking(f"the lineage table {self.identifier}"):
            return table.scan(selected_fields=columns or ("*",)).to_arrow()

    # --- the ledgers to add -----------------------------------------------------------------------------------

    def _additions(self, look: _Look) -> Iterator[LedgerEntry | Lost]:
        """What the new snapshots of main bring, oldest first. Snapshots of other engines bring nothing."""
        new = look.tail.new
        if look.tail.broken and new:
            yield _lost(
                new[0],
                f"the ledgers of the snapshots before {new[0].snapshot} can't be read any more: these snapshots were expired "
                "before their ledgers were recorded",
            )
        for link in new:
            if link.picked:
                yield _lost(
                    link,
                    f"snapshot {link.snapshot} is a cherry-pick of snapshot {link.source}, made by another engine: it has rows, "
                    "and no ledger of its own",
                )
            elif link.ours:
                yield self._entry(link)

    def _entry(self, link: Link) -> LedgerEntry | Lost:
        try:
            return entry_of(link, self._lake)
        except ChainBroken as error:
            return _lost(link, f"the ledger of snapshot {link.snapshot} is lost: {error}")

    # --- the commit -------------------------------------------------------------------------------------------

    def _create(self, lake: Table) -> Table:
        properties = {"format-version": "2", OF: str(lake.metadata.table_uuid), **PROPERTIES}
        with asking(f"the catalog of {self.identifier}"):
            try:
                return self._lake.catalog.create_table(self.identifier, SCHEMA, properties=properties)
            except TableAlreadyExistsError:
                # Another recorder made it at the same moment.
                return self._lake.catalog.load_table(self.identifier)

    def _prepare(self, look: _Look, table: Table) -> tuple[PreparedCommit, Recorded]:
        with asking(f"the storage of {self.identifier}"):
            replaced, kept, removed = rewritten(table, look.tail.cut)
            rows = [row for entry in self._additions(look) for row in rows_of(entry)]
            added = pa.Table.from_pylist(rows, schema=table.schema().as_arrow())
            recorded = _after(look, recorded_of(removed), recorded_of(added))
            content = added if kept is None else pa.concat_tables([kept, added.cast(kept.schema)])
            files = (
                list(_dataframe_to_data_files(table.metadata, content, table.io)) if content.num_rows else []
            )
            attempt = prepare(
                table,
                files,
                {RECORDED: f"{_VERSION}:{json.dumps(asdict(recorded))}", WRITER: self._writer},
                now_ms=int(self._lake.clock.now().timestamp() * 1000),
                replaced=replaced,
            )
        old = old_snapshots(table)
        expiry = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old})
        return (attempt.also(expiry) if old else attempt), recorded


def _after(look: _Look, removed: Recorded, added: Recorded) -> Recorded:
    """What is recorded after a commit that removes and adds rows: everything down from the lake table's head."""
    head, was = look.lake.current_snapshot(), look.recorded
    return Recorded(
        head_of(look.lake),
        0 if head is None else head.sequence_number or 0,
        ranges=was.ranges - removed.ranges + added.ranges,
        snapshots=was.snapshots - removed.snapshots + added.snapshots,
        gaps=was.gaps - removed.gaps + added.gaps,
    )


def _read_recorded(text: str, identifier: str) -> Recorded:
    version, _, body = text.partition(":")
    if version != _VERSION:
        raise WrongShape(
            f"the newest recording in {identifier} has the version {version[:20]!r}, and this Headrace reads version {_VERSION}. "
            "Nothing was changed; upgrade Headrace in this deployment"
        )
    try:
        return Recorded(**json.loads(body))
    except (ValueError, TypeError) as error:
        raise WrongShape(
            f"the newest recording in {identifier} can't be read ({error}). Nothing was changed; roll the table back to a snapshot "
            "before it, or drop it, and the next recording makes it anew"
        ) from error


def _lost(link: Link, why: str) -> Lost:
    return Lost(link.snapshot, link.sequence, time_of(link), why)
