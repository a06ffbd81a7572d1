"""The series of the leader's sensor.

Each tick says whether this deployment leads. Values of the whole application, such as the lag of a stream, are
sent only by the tick that leads, so that no two processes send them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.change import Applied, Change, Outcome
from headrace.pipeline.core.leases.change_kind import MOVES, ChangeKind
from headrace.pipeline.core.leases.lag import longest, open_lags, readers_among
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.throughput import rate_now
from headrace.pipeline.core.shards.stream import name_of_serialized
from headrace.pipeline.duties.fleet.leader_tick import TickLook
from headrace.pipeline.duties.fleet.shard_sync import Round
from headrace.pipeline.duties.policy.known_workers import KnownWorkers
from headrace.pipeline.kcl.coverage import SeenHoles
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.settings.choices import FormerStreams
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in

_ASSIGNS = MOVES | {ChangeKind.ASSIGN, ChangeKind.REDIRECT}


@dataclass(slots=True)
class LeaderLeaseWatch:
    """Counts the leader's scans and writes of one tick."""

    gathering: Gathering
    _failed: int = 0
    _assigned: list[float] = field(default_factory=list)
    """The milliseconds of the writes that assigned leases."""

    def wrote(self, change: Change, outcome: Outcome, took: float) -> None:
        add, succeeded = self.gathering.add, isinstance(outcome, Applied)
        if change.create is not None:
            checkpoint = change.create.checkpoint
            position = "SEQUENCE_NUMBER" if checkpoint.is_digits else checkpoint.sequence
            add(kcl.SYNC_CREATE_LEASE, succeeded)
            add(kcl.SYNC_CREATE_LEASE_TIME, took)
            if (at := kcl.SYNC_CREATE_LEASE_AT.get(position)) is not None:
                add(at, succeeded)
        elif change.kind in _ASSIGNS:
            self._failed += not succeeded
            self._assigned.append(took)

    def scanned(self, listing: Listing | None, took: float) -> None:
        if listing is not None:
            self.gathering.add(kcl.LOAD_TIME, took)

    def found_own(self, *, succeeded: bool, took: float) -> None: ...

    def end_pass(self) -> None:
        self.gathering.add(kcl.FAILED_ASSIGNMENTS, self._failed)
        if self._assigned:
            self.gathering.add(kcl.ASSIGN_LEASES, not self._failed)
            # The longest and not the sum: the writes of a portion are on their way at once.
            self.gathering.add(kcl.ASSIGN_LEASES_TIME, max(self._assigned))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTickWatch:
    """Adds the values of one tick of the leader's sensor, once the tick has ended."""

    gathering: Gathering
    settings: Settings
    retentions: Mapping[str, timedelta]
    """How long each stream keeps records, by its name, as Kinesis last described it."""
    leases: LeaderLeaseWatch

    def ticked(self, look: TickLook, *, took: float, now: datetime) -> None:
        """Add the values of a tick. `look`: what the tick has seen and done.

        `took`: milliseconds.
        """
        add, report = self.gathering.add, look.report
        add(kcl.ASSIGN_SUCCESS, report is not None and report.trouble is None)
        add(kcl.ASSIGN_TIME, took)
        add(kcl.LEADS, report is not None and report.leads)
        if report is None:
            return
        # A tick that doesn't lead has made no round and read no rows, so it sends nothing of what follows.
        if look.round is not None:
            self._add_round(look.round, look.round_took * 1000, now)
            former = report.memory.streams.former
            keeps = self.settings.former_streams is FormerStreams.KEEP
            if self.settings.multi:
                add(kcl.ACTIVE_STREAMS, len(look.round.synced) + len(look.round.failed))
                add(kcl.STREAMS_TO_DELETE, 0 if keeps else len(former))
        if look.listing is not None and look.fleet is not None:
            self._add_rows(look, look.listing, look.fleet, now)

    def _add_round(self, done: Round, took: float, now: datetime) -> None:
        add = self.gathering.add
        add(kcl.AUDITOR_SUCCESS, not done.failed)
        add(kcl.AUDITOR_TIME, took)
        add(kcl.SYNC_TIME, took)
        for succeeded, streams in ((1, len(done.synced)), (0, len(done.failed))):
            if streams:
                add(kcl.SYNC_SUCCESS, succeeded, times=streams)
                add(kcl.SYNC_SHARDS, succeeded, times=streams)
        add(kcl.PARTIAL_STREAMS, sum(memory.holes != SeenHoles() for memory in done.memory.values()))
        self._add_table(done.state, now)

    def _add_table(self, state: TableState, now: datetime) -> None:
        self.gathering.add(own.SNAPSHOTS, state.shape.snapshots)
        for stream, through in state.through.items():
            self.gathering.add(own.VALID_THROUGH_AGE, max(0.0, (now - through).total_seconds()), stream.name)

    def _add_rows(self, look: TickLook, listing: Listing, fleet: KnownWorkers, now: datetime) -> None:
        add = self.gathering.add
        open_rows = [row for row in listing.leases if not row.has_ended]
        gone = fleet.dead | fleet.stopping
        expired = sum(row.holder is None or row.holder in gone for row in open_rows)
        add(kcl.TOTAL_LEASES, len(listing.leases))
        add(kcl.NUM_WORKERS, len(fleet.living))
        add(kcl.EXPIRED_LEASES, expired)
        if fleet.misread_rows:
            add(kcl.ODD_WORKERS, fleet.misread_rows)
        if listing.skipped:
            add(kcl.ODD_LEASES, len(listing.skipped))
        if look.pass_took is not None:
            add(kcl.ASSIGN_PASS_TIME, look.pass_took * 1000)
            add(kcl.REASSIGNED, look.tally.moved)
            if left := max(0, expired - look.tally.assigned):
                add(kcl.LEASE_SPILLOVER, left)
            self.leases.end_pass()
        add(own.FAILING_SHARDS, sum(row.failure is not None for row in open_rows))
        add(own.UNREAD_SHARDS, sum(row.looked_at is None for row in open_rows))
        for stream, read in self._by_stream(open_rows, fleet, now).items():
            self._add_stream(stream, read)

    def _by_stream(self, rows: list[Lease], fleet: KnownWorkers, now: datetime) -> dict[str, _StreamRead]:
        lags = open_lags(rows, now, readers=readers_among(fleet.living, fleet.rows))
        theirs = _read_by_others(rows, fleet)
        by_stream: dict[str, _StreamRead] = {}
        for row in rows:
            read = by_stream.setdefault(self._stream_of(row), _StreamRead())
            if row.key in theirs:
                read.by_others += 1
                continue
            lag = lags[row.key]
            read.lags.append(lag)
            read.unread += 0.0 if lag is None else (rate_now(row, now) or 0.0) * 1024 * lag.total_seconds()
        return by_stream

    def _stream_of(self, row: Lease) -> str:
        if row.stream is not None:
            return name_of_serialized(row.stream)
        return name_in(self.settings.streams[0].name) if self.settings.streams else ""

    def _add_stream(self, stream: str, read: _StreamRead) -> None:
        add, most = self.gathering.add, longest(read.lags)
        add(own.UNKNOWN_LAG_SHARDS, read.by_others + most.unknown, stream)
        if not read.lags or most.seconds is None:
            return  # a 0 would say that all is read, and `UnknownLagShards` says that it isn't known
        add(own.BACKLOG, read.unread, stream)
        add(own.LAG, most.seconds, stream)
        retention = self.retentions.get(stream)
        if retention is not None:
            add(own.RETENTION_LEFT, retention.total_seconds() - most.seconds, stream)


@dataclass(slots=True)
class _StreamRead:
    """How far the open shards of a stream are read."""

    lags: list[timedelta | None] = field(default_factory=list)
    """Of the shards that no other program reads. None: the lag isn't known."""
    unread: float = 0.0
    """The unread bytes of these shards, as far as they are known."""
    by_others: int = 0
    """Shards that workers of KCL read, or whose parents they read. How far these are behind, no row tells."""


def _read_by_others(rows: Collection[Lease], fleet: KnownWorkers) -> frozenset[str]:
    """The lease keys of the shards that workers of KCL read which may be alive, and of children that wait for these."""
    known = fleet.ours | fleet.dead | fleet.stopping
    theirs = frozenset(row.key for row in rows if row.holder is not None and row.holder not in known)
    return theirs.union(
        row.key for row in rows if row.looked_at is None and not row.parent_keys.isdisjoint(theirs)
    )
