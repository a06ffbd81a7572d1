"""The landing table on Iceberg.

    look -> did an earlier try of mine land? -> decide_landing -> write manifests -> one request -> (look)
      ^                                                                                      |
      '---------- refused, or answered by anything but yes ----------------------------------'

What an error says about a commit isn't believed; the table is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from sqlalchemy.exc import IntegrityError

from pipeline.core.batch import StagedFile
from pipeline.core.landing import Landing, Proposal, decide_landing
from pipeline.core.position import Positions
from pipeline.core.repair import Evidence
from pipeline.core.stream import StreamId
from pipeline.errors import ChainBroken, ClockOff, CommitUnknown, Transient, Unreachable
from pipeline.lake.append import MARK, TAG, Attempt, prepare
from pipeline.lake.catalog import asking, open_catalog
from pipeline.lake.chain import Known, Link, ancestors, landed, nearest_ours
from pipeline.lake.data_files import data_files, ids_of
from pipeline.lake.evidence import evidence_of
from pipeline.lake.schema import ORDER, PARTITIONS, PROPERTIES, SCHEMA, check_shape, missing_properties
from pipeline.lake.state_files import StateFiles
from pipeline.lake.summary import positions_in, summary_of
from pipeline.ports import Clock, Committed, RepairableTable, StagingSpec, TableState

_TRIES = 20
_UNSURE_TRIES = 3
"""Lost answers in one commit before the caller hears of it."""
_STALE = timedelta(hours=12)
"""Orphan removal takes files from one day of age on: a late landing must never name a deleted file."""
_CLOCK_LEEWAY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class _Base:
    """The table at one look."""

    table: Table
    state: TableState


class IcebergTable(RepairableTable):
    def __init__(
        self,
        catalog: Mapping[str, str],
        identifier: str,
        *,
        state: str,
        clock: Clock,
        writer: str = "",
        date_of_aws: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        """`state`: folder (path or URI) outside the table's location. `date_of_aws`: AWS's clock now, if known."""
        self.identifier = identifier
        self.states = StateFiles(state, catalog)
        self._properties = dict(catalog)
        self._clock = clock
        self._writer = writer
        self._date_of_aws = date_of_aws

    @cached_property
    def catalog(self) -> Catalog:
        return open_catalog(self._properties)

    def open(self) -> Table:
        """The table as pyiceberg has it, freshly loaded."""
        with asking(f"the landing table {self.identifier}"):
            return self.catalog.load_table(self.identifier)

    def ensure(self) -> None:
        with asking(f"the catalog of {self.identifier}"):
            self._create()
        for _ in range(_TRIES):
            table = self.open()
            check_shape(table)
            missing = missing_properties(table.properties)
            if not missing:
                return
            self._check_clock()
            try:
                with asking(f"the landing table {self.identifier}"), table.transaction() as change:
                    change.set_properties(missing)
            except CommitFailedException:
                continue  # somebody committed meanwhile: look again
            return
        raise Transient(
            f"the properties of {self.identifier} couldn't be set: {_TRIES} times another commit was faster. Nothing "
            "was changed; trying again later is right"
        )

    def load(self) -> TableState:
        return self._look().state

    def history(self) -> Iterator[Link]:
        """Main's snapshots, newest first, as far as metadata and log know; ChainBroken where they end too early."""
        table = self.open()
        return ancestors(_head(table), _links(table.metadata), self._older(table))

    def known(self) -> tuple[int | None, Known]:
        """The head of main, and every snapshot that the metadata or any file of its log knows, on main or not."""
        table = self.open()
        found: dict[int, Link] = {}
        for links in (_links(table.metadata), *self._older(table)):
            for each, link in links.items():
                if each not in found or found[each].parent is None:
                    found[each] = link
        return _head(table), found

    def staging_spec(self) -> StagingSpec:
        table = self.open()
        options = {"endpoint": "s3.endpoint", "region": "s3.region"}
        return StagingSpec(
            location=f"{table.location().rstrip('/')}/data",
            field_ids=tuple((column, ids_of(table.schema())[column]) for column in SCHEMA.column_names),
            options=tuple(
                (name, self._properties[key]) for name, key in options.items() if key in self._properties
            ),
        )

    def commit(self, proposal: Proposal) -> Committed:
        self._check_age(proposal.files)
        self._check_clock()
        tries: dict[int, tuple[Attempt, Landing]] = {}
        try:
            return self._land(proposal, tries)
        except Unreachable as error:
            if not tries:
                raise
            raise CommitUnknown(
                f"{self.identifier} couldn't be asked whether a commit landed ({error}). The files are kept: either "
                "it landed whole or not at all, and the next wave starts where the table stands"
            ) from error

    def _land(self, proposal: Proposal, tries: dict[int, tuple[Attempt, Landing]]) -> Committed:
        unsure: list[Exception] = []
        while True:
            base, mine = self._look_for(tries)
            if mine is not None:
                return _committed(mine, tries[mine][1])
            self._check_patience(len(tries), unsure)
            landing = decide_landing(base.state.positions, proposal)
            if landing.is_empty:
                return Committed(landing, None, base.state)
            attempt = self._prepare(base, landing)
            tries[attempt.snapshot] = attempt, landing
            try:
                attempt.send(base.table)
            except CommitFailedException:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it says, the table knows better
                unsure.append(error)
                continue
            return _committed(attempt.snapshot, landing)

    def evidence(self, streams: Iterable[StreamId]) -> Evidence:
        return evidence_of(self, streams)

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        """Tried once: what was planned on another snapshot has to be planned anew."""
        self._check_clock()
        table = self.open()
        base = _Base(table, TableState(Positions(), _head(table), origin_allowed=False))
        attempt = self._prepare(base, landing) if base.state.snapshot == on else None
        if attempt is None or not self._sent(attempt, table):
            raise Transient(
                f"{self.identifier} has moved since it was looked at. Nothing was changed; look again"
            )
        return TableState(landing.positions, attempt.snapshot, origin_allowed=False)

    # --- the parts ------------------------------------------------------------------------------------------

    def _create(self) -> None:
        """Two that create at the same moment are fine: the second finds it made."""
        if self.catalog.table_exists(self.identifier):
            return  # asked first: a role that may only write to the table needs no right to make things
        with suppress(NamespaceAlreadyExistsError, IntegrityError):
            self.catalog.create_namespace(self.identifier.rpartition(".")[0])
        with suppress(TableAlreadyExistsError):
            self.catalog.create_table(
                self.identifier,
                SCHEMA,
                partition_spec=PARTITIONS,
                sort_order=ORDER,
                properties={"format-version": "2", **PROPERTIES},
            )

    def _look(self) -> _Base:
        table = self.open()
        head, current = _head(table), _links(table.metadata)
        found = nearest_ours(head, current, self._older(table))
        if found is None:
            _check_never_ours(table, current)
            return _Base(table, TableState(Positions(), head, origin_allowed=True))
        with asking(f"the state of {self.identifier}"):
            positions = positions_in(found.summary, self.states)
        return _Base(table, TableState(positions, head, origin_allowed=False))

    def _look_for(self, tries: Mapping[int, tuple[Attempt, Landing]]) -> tuple[_Base, int | None]:
        """The newest base, and which of my tries is part of it."""
        base = self._look()
        if not tries:
            return base, None
        return base, self._found(base.table, [attempt for attempt, _ in tries.values()])

    def _found(self, table: Table, attempts: Collection[Attempt]) -> int | None:
        """Which of them is part of main."""
        return landed(
            _head(table),
            _links(table.metadata),
            self._older(table),
            tries={attempt.snapshot for attempt in attempts},
            since=min(attempt.sequence for attempt in attempts),
        )

    def _sent(self, attempt: Attempt, table: Table) -> bool:
        """One attempt without a second one. Whether it landed; that a run landed upon it by now changes nothing."""
        lost: Exception | None = None
        try:
            attempt.send(table)
        except CommitFailedException:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it says, the table knows better
            lost = error
        else:
            return True
        try:
            is_there = self._found(self.open(), [attempt]) is not None
        except Unreachable as error:
            lost, is_there = lost or error, False
        if lost is None or is_there:
            return is_there
        raise CommitUnknown(
            f"a commit to {self.identifier} went without an answer, and the table doesn't show it yet ({lost}). It lands "
            "whole or not at all; look again"
        ) from lost

    def _older(self, table: Table) -> Iterator[Known]:
        """What the metadata files said that the log still names, newest first; read only when asked."""
        for entry in reversed(table.metadata.metadata_log):
            with asking(f"an earlier metadata file of {self.identifier}"):
                try:
                    metadata = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
                except FileNotFoundError:
                    return
            yield _links(metadata)

    def _prepare(self, base: _Base, landing: Landing) -> Attempt:
        check_shape(base.table)
        files = list(data_files(landing.files, base.table.metadata))
        with asking(f"the storage of {self.identifier}"):
            return prepare(
                base.table,
                files,
                summary_of(landing, self.states, writer=self._writer),
                now_ms=int(self._clock.now().timestamp() * 1000),
                move_tag=landing.positions != base.state.positions,
            )

    def _check_age(self, files: tuple[StagedFile, ...]) -> None:
        oldest = min((file.staged_at for file in files), default=None)
        if oldest is not None and self._clock.now() - oldest > _STALE:
            raise Transient(
                f"files staged at {oldest.isoformat()} are older than {_STALE} and may be removed as orphans at any "
                "time. Nothing was committed; the next wave reads their ranges again"
            )

    def _check_clock(self) -> None:
        theirs = self._date_of_aws()
        if theirs is not None and abs(off := self._clock.now() - theirs) > _CLOCK_LEEWAY:
            raise ClockOff(
                f"this host's clock is {off.total_seconds():+.0f} s off AWS's: a commit stamped by it could make the "
                "table unreadable for other engines. Nothing was committed; set the clock (NTP), then try again"
            )

    def _check_patience(self, tried: int, unsure: list[Exception]) -> None:
        if len(unsure) >= _UNSURE_TRIES:
            raise CommitUnknown(
                f"{len(unsure)} commits to {self.identifier} went without an answer, and the table shows none of "
                f"them yet (last: {unsure[-1]}). The files are kept; the next wave starts where the table stands"
            ) from unsure[-1]
        if tried >= _TRIES:
            raise Transient(
                f"{tried} times another commit to {self.identifier} was faster. Nothing was committed; the ranges "
                "are read again in the next wave"
            )


def _head(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def _links(metadata: TableMetadata) -> dict[int, Link]:
    return {
        s.snapshot_id: Link(
            s.snapshot_id,
            s.parent_snapshot_id,
            s.sequence_number or 0,
            s.timestamp_ms,
            s.summary.additional_properties if s.summary else {},
        )
        for s in metadata.snapshots
    }


def _check_never_ours(table: Table, current: Known) -> None:
    trace = next((f"snapshot {link.snapshot}" for link in current.values() if link.ours), None)
    if TAG in table.refs():
        trace = f"the tag {TAG}"
    elif MARK in table.properties:
        trace = f"the property {MARK}"
    if trace is not None:
        raise ChainBroken(
            f"the history of {'.'.join(table.name())} begins without any position of ours, yet {trace} shows that "
            "Headrace landed here before: it was rolled back or replaced. Nothing was committed; run "
            "`headrace repair`, which takes the positions from the rows"
        )


def _committed(snapshot: int, landing: Landing) -> Committed:
    return Committed(landing, snapshot, TableState(landing.positions, snapshot, origin_allowed=False))
