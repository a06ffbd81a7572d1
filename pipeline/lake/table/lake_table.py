"""The lake table on Iceberg.

    load the table -> did an earlier try land? -> decide_landing -> write manifests -> send one request -> done
      ^                                                                                     |
      '---------- refused, or any answer that isn't a clear success ------------------------'

After an error it isn't known whether the commit landed: the answer may have been lost behind a success. So no error is
taken for a failure; the table itself is loaded again, and the walk over its snapshots shows whether the try is part of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import SetPropertiesUpdate

from headrace.pipeline.clock import dice
from headrace.pipeline.core.landing.applications import LandedBy
from headrace.pipeline.core.landing.commit_pace import LastCommit, pause_after_refusal, pause_before
from headrace.pipeline.core.landing.expiry_plan import History
from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.landing.repair_plan import TableEvidence
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import (
    ChainBroken,
    ClockOff,
    CommitUnknown,
    MetadataLost,
    Transient,
    Unreachable,
)
from headrace.pipeline.lake.files.aws_access import identity_of_s3, options_of_s3
from headrace.pipeline.lake.files.file_io import with_own_io
from headrace.pipeline.lake.table.append import PreparedCommit, landing_marks, prepare
from headrace.pipeline.lake.table.attempts import MOST_TRIES, Tries, Try, send_once
from headrace.pipeline.lake.table.base import Base, base_of, committed
from headrace.pipeline.lake.table.catalog import asking, open_catalog
from headrace.pipeline.lake.table.commit_files import CommitFiles
from headrace.pipeline.lake.table.create_table import create_table
from headrace.pipeline.lake.table.data_files import ids_of
from headrace.pipeline.lake.table.expire import history_of, remove_snapshots
from headrace.pipeline.lake.table.history import all_known, head_of, main_of
from headrace.pipeline.lake.table.landings import landings_in
from headrace.pipeline.lake.table.live_files import found_in
from headrace.pipeline.lake.table.metadata_files import finding_metadata
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.lake.table.remains import Remains, evidence_of
from headrace.pipeline.lake.table.remedy import OF_THE_LAKE_TABLE, Remedy
from headrace.pipeline.lake.table.schema import (
    RECORDS,
    WINDOW,
    TableLayout,
    check_shape,
    missing_parts,
    unpacks,
    using_properties_of,
)
from headrace.pipeline.lake.table.state_files import KeptStates, StateFiles
from headrace.pipeline.lake.table.summary import Committer, summary_of
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import Committed, LakeTable, TableState
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.choices import Aggregates
from headrace.pipeline.task_identity import DriverIdentity, TaskIdentity

_CLOCK_LEEWAY = timedelta(seconds=30)
"""Other engines refuse a table whose snapshots go back in time by more than 60 s: two hosts may each be off by half of
it."""


def _place(location: str) -> str:
    """The location as a URI or an absolute path."""
    return location if "://" in location else str(Path(location).absolute())


class IcebergTable(LakeTable):
    layout: ClassVar[TableLayout] = RECORDS
    """The columns that Headrace writes. A table with other columns has a class of its own below this one."""

    def __init__(  # noqa: PLR0913 - what the settings say about the table, and what its commits need
        self,
        catalog: Mapping[str, str],
        identifier: str,
        *,
        state: str,
        clock: Clock,
        writer: str = "",
        application: str = "",
        date_of_aws: Callable[[], datetime | None] = lambda: None,
        private: bool = True,
        kept: KeptStates | None = None,
        aggregates: Aggregates = Aggregates.AUTO,
        identity: Callable[[], TaskIdentity] | None = None,
    ) -> None:
        """A table that lies in a catalog under this name, whether it exists yet or not.

        `state`: folder (path or URI) outside the table's location, for large positions. `date_of_aws`: AWS's time now,
        if known. `private`: only this user may read local files that the table creates. `kept`: shared by all that open
        the table in one process. `aggregates`: the setting. `identity`: who Spark's tasks are to AWS; without it, who
        this process is.
        """
        self.identifier = identifier
        own_io = with_own_io(catalog, _place(state), private=private)
        self.states = StateFiles(state, own_io, kept or KeptStates(), self.remedy)
        self._private = private
        self._aggregates = aggregates
        self._identity = identity or DriverIdentity().now
        self._properties = with_own_io(catalog, catalog.get("warehouse", ""), private=private)
        self.clock = clock
        self._by = Committer(writer, application)
        self._date_of_aws = date_of_aws
        self._last: LastCommit | None = None

    @property
    def remedy(self) -> Remedy:
        """What a person does where the positions can't be found."""
        return OF_THE_LAKE_TABLE

    @cached_property
    def catalog(self) -> Catalog:
        return open_catalog(self._properties, private=self._private)

    def open(self) -> Table:
        """Load pyiceberg's table. A pyiceberg Table never refreshes by itself, so each decision loads it anew."""
        with asking(f"the lake table {self.identifier}"):
            # Opened first: a file that the catalog itself lacks is no metadata file of the table.
            catalog = self.catalog
            with finding_metadata(self.identifier):
                return catalog.load_table(self.identifier)

    def exists(self) -> bool:
        with asking(f"the catalog of {self.identifier}"):
            catalog = self.catalog
            with finding_metadata(self.identifier):
                return catalog.table_exists(self.identifier)

    def ensure(self, *, create: bool) -> None:
        if create:
            with asking(f"the catalog of {self.identifier}"):
                create_table(self.catalog, self.identifier, self.layout, aggregates=self._aggregates)
        # Other tools may remove or shorten Headrace's properties, and may do so again: each start checks them.
        for _ in range(MOST_TRIES):
            table = self.open()
            check_shape(table, self.layout, self.remedy)
            missing, only_if = missing_parts(table, self.layout, aggregates=self._aggregates)
            if not missing:
                return
            self.check_clock()
            try:
                with asking(f"the lake table {self.identifier}"):
                    # Not pyiceberg's own commit, which deletes old metadata files afterwards: only upkeep deletes.
                    table.catalog.commit_table(table, only_if, missing)
            except CommitFailedException:
                # Another writer committed meanwhile: load the table again.
                continue
            return
        raise Transient(
            f"columns or properties of {self.identifier} couldn't be set: {MOST_TRIES} times another commit was faster. Nothing "
            "was changed; the next tick or run tries again"
        )

    def load(self) -> TableState:
        return self.base().state

    def history(self) -> Iterator[Link]:
        """Main's snapshots, newest first, also expired ones that an older metadata file in the log still describes.

        Raises ChainBroken where the walk ends before the table's first snapshot.
        """
        return main_of(self.open(), self.remedy)

    def staging_spec(self) -> StagingSpec:
        return self.spec_reaching("")

    def spec_reaching(self, place: str) -> StagingSpec:
        """The staging spec of the table, with what a Spark task needs to reach files at the address `place` too."""
        table = self.open()
        ids = ids_of(table.schema())
        return StagingSpec(
            location=f"{table.location().rstrip('/')}/data",
            field_ids=tuple((column, ids[column]) for column, _, _ in self.layout.columns if column in ids),
            **self._access(table, place),
            private=self._private,
            unpack=unpacks(table, self._aggregates),
        )

    def _access(self, table: Table, place: str) -> Mapping[str, Any]:
        """What Spark's tasks need to reach the files of the table, and those at an address. Nothing is handed over that
        they don't need."""
        if not any(location.startswith("s3") for location in (table.location(), place)):
            return {}
        properties = {**self._properties, **table.io.properties}
        return {"options": options_of_s3(properties), "identity": identity_of_s3(properties, self._identity)}

    def commit(self, proposal: Proposal) -> Committed:
        began = self.clock.monotonic()
        # A writer that has just won would win again while the others wait for their refusals. So it lets them come
        # first.
        self.clock.pause(pause_before(self._last, now=began, dice=dice()))
        self.check_clock()
        tries = Tries(self.identifier)
        try:
            return self._land(proposal, tries, began=began)
        except (Unreachable, MetadataLost) as error:
            if not tries.sent:
                # Nothing was sent, so nothing can have landed.
                raise
            raise CommitUnknown(
                f"whether a commit to {self.identifier} landed isn't known, because the table can't be read ({error}). The "
                "commit landed whole or not at all. The staged files are kept; the next wave starts at the table's positions"
            ) from error

    def _land(self, proposal: Proposal, tries: Tries, *, began: float) -> Committed:
        files = CommitFiles(proposal.files, proposal.also, proposal.taken)
        while True:
            tried_at = self.clock.monotonic()
            base = self.base()
            # Before anything else: an earlier try that has landed must not be sent again (D7).
            if (mine := tries.found(base.table)) is not None:
                return committed(mine, tries.sent[mine].landing, on=base.state.shape)
            tries.check_patience()
            # After each look, not once: a process may have stood still for days since the last one.
            self._check_files_again(files, base.table, tries)
            # Decided anew on each base (D9): a range is accepted only if it begins at the position in this very
            # snapshot, to which the catalog's compare-and-swap then ties the commit. So each record lands once (I1),
            # and the ranges of a shard form one chain (I4).
            landing = decide_landing(
                base.state.positions,
                proposal,
                base.state.through,
                self.clock.now(),
                owner=base.state.owner,
            )
            if landing.is_empty:
                return Committed(landing, None, base.state)
            replaced = found_in(base.table, proposal.gone)
            # Another commit has replaced one of the files, or deleted rows of it: this commit would bring them back.
            if len(replaced) < len(proposal.gone):
                return Committed(Landing.without_files(proposal, base.state.positions), None, base.state)
            moves = landing.positions != base.state.positions
            attempt = self.prepare(base, landing, move_tag=moves, files=files, replaced=replaced)
            if proposal.window:
                # In the same request as the snapshot: of two windows the later one is refused.
                attempt = attempt.also(SetPropertiesUpdate(updates={WINDOW: proposal.window}))
            # Noted before it is sent, because its answer may be lost.
            tries.sent[attempt.snapshot] = Try(attempt, landing)
            try:
                attempt.send(base.table)
            except CommitFailedException:
                # Another commit was faster: the catalog has certainly refused this one.
                self._pause_after_refusal(began, tried_at)
                continue
            except Exception as error:  # noqa: BLE001 - of any error but a refusal the commit may have landed
                tries.unsure.append(error)
                # Made anew: the manifest belongs to a commit that may have landed, and two snapshots must not share it.
                files = CommitFiles(proposal.files, proposal.also, proposal.taken)
                continue
            ended = self.clock.monotonic()
            self._last = LastCommit(ended, took=ended - began, attempt=ended - tried_at)
            return committed(attempt.snapshot, landing, on=base.state.shape)

    def _pause_after_refusal(self, began: float, tried_at: float) -> None:
        now = self.clock.monotonic()
        self.clock.pause(
            pause_after_refusal(self._last, attempt=now - tried_at, waited=now - began, dice=dice())
        )

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        table = self.open()
        remains = Remains(
            identifier=self.identifier,
            table=table,
            head=head_of(table),
            known=all_known(table),
            states=self.states,
        )
        return evidence_of(remains, streams)

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        """Commit a repair on the snapshot for which it was planned. It is tried once, and refused on any other
        snapshot.
        """
        self.check_clock()
        table = self.open()
        base = Base(table, TableState(Positions(), head_of(table), origin_allowed=False))
        # The person has decided about the snapshot that the plan showed, and about no other.
        attempt = self.prepare(base, landing, move_tag=True) if base.state.snapshot == on else None
        if attempt is None or not self.sent(attempt, table):
            raise Transient(
                f"{self.identifier} has a new snapshot since the repair was planned. Nothing was changed; run the command again"
            )
        return TableState(landing.positions, attempt.snapshot, origin_allowed=False)

    def landings(self, since: datetime) -> tuple[LandedBy, ...]:
        return landings_in(self.open(), self.states, since=since)

    # --- upkeep ---------------------------------------------------------------------------------------------

    def retained(self) -> History:
        return history_of(self.open())

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        table = self.open()
        with asking(f"the lake table {self.identifier}"):
            return remove_snapshots(table, history, snapshots)

    def carry(self) -> TableState:
        self.check_clock()
        for _ in range(MOST_TRIES):
            base = self.base_to_carry()
            landing = base.carrying()
            attempt = self.prepare(base, landing, move_tag=True)
            if self.sent(attempt, base.table):
                return committed(attempt.snapshot, landing, on=base.state.shape).state
        raise Transient(
            f"the positions of {self.identifier} couldn't be carried forward: {MOST_TRIES} times another commit was faster. "
            "Nothing was changed; the next time tries again"
        )

    # --- the parts ------------------------------------------------------------------------------------------

    def base(self) -> Base:
        """Load the table and its positions, for a commit on it."""
        return base_of(self.open(), self.identifier, self.states, self.remedy)

    def base_to_carry(self) -> Base:
        """The base for a commit that carries the positions (repeats them in an empty snapshot)."""
        base = self.base()
        # A snapshot that carries no positions would look like one of Headrace's all the same.
        if base.state.origin_allowed:
            raise ChainBroken(f"{self.identifier} has no positions that could be carried forward")
        return base

    def sent(self, attempt: PreparedCommit, table: Table) -> bool:
        """Send an attempt once, and return whether it landed, also where another run has already committed on top
        of it.
        """
        return send_once(attempt, table, self.identifier, again=self.open)

    def prepare(
        self,
        base: Base,
        landing: Landing,
        *,
        move_tag: bool,
        files: CommitFiles | None = None,
        replaced: Collection[DataFile] = (),
        operation: Operation = Operation.OVERWRITE,
    ) -> PreparedCommit:
        """Prepare one attempt. `files`: those of the landing, with what earlier attempts made of them. `replaced`,
        `operation`: as in `headrace.pipeline.lake.table.append.prepare`."""
        check_shape(base.table, self.layout, self.remedy)
        files = files or CommitFiles()
        with asking(f"the storage of {self.identifier}"), using_properties_of(base.table):
            added = files.entries(landing.files, base.table.metadata)
            uuid = base.table.metadata.table_uuid
            summary = summary_of(landing, self.states, by=self._by, table=uuid, base=base.stored)
            now_ms = int(self.clock.now().timestamp() * 1000)
            attempt = prepare(
                base.table,
                added,
                summary,
                now_ms=now_ms,
                replaced=replaced,
                again=files,
                operation=operation,
            )
        return attempt.also(*landing_marks(base.table, attempt.snapshot, move_tag=move_tag))

    def check_clock(self) -> None:
        aws_now = self._date_of_aws()
        if aws_now is not None and abs(off := self.clock.now() - aws_now) > _CLOCK_LEEWAY:
            raise ClockOff(
                f"this host's clock differs from AWS's by {off.total_seconds():+.0f} s: a commit with its time could make the "
                "table unreadable for other engines. Nothing was committed; set the clock (NTP), then try again"
            )

    def check_files(self, files: CommitFiles, table: Table) -> None:
        files.check(table.io, now=self.clock.now(), storage=f"the storage of {self.identifier}")

    def _check_files_again(self, files: CommitFiles, table: Table, tries: Tries) -> None:
        try:
            self.check_files(files, table)
        except Transient as gone:
            if not tries.unsure:
                raise
            raise CommitUnknown(
                f"whether a commit to {self.identifier} landed isn't known, and the commit can't be tried again: {gone}"
            ) from gone
