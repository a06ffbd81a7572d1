"""Reads the values that the checks use. Some are kept for the next time, so that reading them each minute costs a
scan of the lease table and a few requests to the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.checking.lag import Lag, lags
from headrace.pipeline.checking.ledgers import LedgersRead, read_on
from headrace.pipeline.checking.look import CheckLook, TargetLook
from headrace.pipeline.core.leases.lag import LivingWorker, LivingWorkers, open_lags
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.order.first_start import why_not_make_table
from headrace.pipeline.core.shards.partition import read_name
from headrace.pipeline.core.shards.position import TRIM, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.shards.switched_off import switched_off
from headrace.pipeline.errors import HeadraceError, Unknown
from headrace.pipeline.inspect.layout import LayoutFacts
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.progress import readers_of
from headrace.pipeline.inspect.successive import SuccessiveLooks
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in

_LEDGERS = 500
"""Ledgers that the first look reads. Older ones are the business of `headrace prove`."""
_ASK_EVERY = timedelta(minutes=1)
_MOST_ASKED = 10
"""Shards that Kinesis is asked about in one look: whether one that counts as read to its tip has unread records."""
_FACTS_HOLD = timedelta(minutes=5)
"""How long the retention of a stream counts as known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPorts:
    """The ports with which the values for the checks are read once. They are made anew each time, because a
    change of credentials may bring others.
    """

    leases: LeaseStore
    workers: WorkerStore
    table: LakeTable
    lineage: LineageTable
    source: ShardSource
    facts: Callable[[str], TableDescription | None]
    is_behind: Callable[[str], bool]
    """Whether the typed table of this target lacks records."""


@dataclass(slots=True)
class CheckLooking:
    settings: Settings
    clock: Clock
    lags_before: dict[str, Lag] = field(default_factory=dict)
    """The lags of the look before the last one."""
    _lags: dict[str, Lag] = field(default_factory=dict)
    _read: LedgersRead | None = None
    _behind_since: dict[str, datetime] = field(default_factory=dict)
    _retention: dict[str, timedelta] = field(default_factory=dict)
    _retention_at: float = float("-inf")
    _unasked: dict[str, str] = field(default_factory=dict)
    """By the name of the stream: why Kinesis couldn't be asked for its retention, where that isn't known from before."""
    _asked_at: float = float("-inf")
    _asked: str = ""
    """The lease key of the last shard that Kinesis was asked about."""
    _news: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """By lease key: shards that had unread records at the last look. When each was last read, and when the records were
    first seen."""
    _unread_since: dict[str, datetime] = field(default_factory=dict)
    """By lease key: when an open shard that nobody has read was first seen."""
    _looks: SuccessiveLooks = field(init=False)

    def __post_init__(self) -> None:
        tables = LayoutFacts(lease_table=self.settings.lease_table, state_table=self.settings.state_table)
        self._looks = SuccessiveLooks(self.clock, tables)

    def look(self, ports: CheckPorts, *, proved_at: datetime | None = None, disproved: str = "") -> CheckLook:
        """Read all values that the checks use.

        `proved_at`, `disproved`: what is known of the last proof.
        """
        rows = tuple(ports.leases.scan().leases)
        workers = ports.workers.listing().workers
        readers = self._readers(self._looks.observation(rows, workers))
        exists = ports.table.exists()
        state = ports.table.load() if exists else None
        positions = state.positions if state is not None else Positions()
        look = CheckLook(
            at=self.clock.now(),
            leases=rows,
            readers=readers,
            positions=positions,
            switched_off=switched_off(positions, self.settings.stream_names),
            through=dict(state.through) if state is not None else {},
            retention=self._retentions(ports.source, positions),
            unasked=dict(self._unasked),
            waiting=self._waiting(rows, positions, ports.source),
            unread_since=self._unread(rows, {worker.worker_id for worker in workers if worker.is_ours}),
            facts=ports.facts(self.settings.landing.table) if exists else None,
            gone="" if exists else why_not_make_table(self.settings.landing.table, rows) or "",
            snapshots=state.shape.snapshots if state is not None else 0,
            chains=self._ledgers(ports.lineage).chains if exists else LedgersRead().chains,
            lost_ledgers=_lost(ports.lineage) if exists else None,
            targets=tuple(self._targets(ports) if exists else self._targets_unseen()),
            proved_at=proved_at,
            disproved=disproved,
        )
        self.lags_before, self._lags = self._lags, lags(look)
        return look

    def _readers(self, observation: Observation) -> LivingWorkers:
        """The workers that may be alive. At the first look all of them: this process has begun a moment ago, and with it their
        sensors, which may not have ticked yet. What was at its tip before is then of unknown lag, and not as far behind as the
        outage was long."""
        readers = readers_of(observation)
        if observation.watched is not None:
            return readers
        holders = {row.holder or "" for row in observation.last.leases}
        return {**dict.fromkeys(holders, LivingWorker(back_since=self.clock.now())), **readers}

    def _ledgers(self, lineage: LineageTable) -> LedgersRead:
        before = self._read
        if before is None:
            self._read = self._first_ledgers(lineage)
            return self._read
        read = read_on(before, lineage.entries(RangeFilter(above=before.sequence)))
        new = (read.chains.breaks, read.chains.overlaps) != (before.chains.breaks, before.chains.overlaps)
        # After a rollback of the lake table the ranges that were read before aren't part of its history any more.
        self._read = self._first_ledgers(lineage) if new else read
        return self._read

    def _first_ledgers(self, lineage: LineageTable) -> LedgersRead:
        # The newest ledgers only: this look is made each minute, and a whole history of some months
        # may take a proof minutes to read.
        above = max(0, lineage.recorded().sequence - _LEDGERS)
        return read_on(LedgersRead(sequence=above), lineage.entries(RangeFilter(above=above)))

    def _targets(self, ports: CheckPorts) -> Iterable[TargetLook]:
        now = self.clock.now()
        for target in self.settings.parse:
            typed = ports.facts(target.table)
            if typed is not None and ports.is_behind(target.name):
                # Since when, and not how far: one wave after the other makes a typed table lack
                # records for some seconds all the time.
                self._behind_since.setdefault(target.name, now)
            else:
                self._behind_since.pop(target.name, None)
            yield TargetLook(
                name=target.name,
                table=target.table,
                quarantine=target.quarantine,
                behind_since=self._behind_since.get(target.name),
                typed=typed,
                aside=ports.facts(target.quarantine),
            )

    def _targets_unseen(self) -> Iterable[TargetLook]:
        """Without the lake table nothing is known of the tables that are made of it."""
        return (TargetLook(name=t.name, table=t.table, quarantine=t.quarantine) for t in self.settings.parse)

    def _retentions(self, source: ShardSource, positions: Positions) -> dict[str, timedelta]:
        now = self.clock.monotonic()
        if not self._unasked and now - self._retention_at < _FACTS_HOLD.total_seconds():
            return self._retention
        self._retention_at = now
        self._unasked.clear()
        named = {name_in(stream.name): stream.name for stream in self.settings.streams}
        found = {stream.name: stream.arn for stream in positions.streams()}
        known = self._retention
        for display, name in (named | found).items():
            try:
                facts = source.describe(name)
                known[facts.stream.name if self.settings.multi else ""] = facts.retention
            except Unknown:
                # A stream that is gone has no retention; the leader's tick and the shards tell of it.
                continue
            except HeadraceError as error:
                if (display if self.settings.multi else "") not in known:
                    self._unasked[display] = str(error)
        return self._retention

    def _waiting(
        self, rows: Iterable[Lease], positions: Positions, source: ShardSource
    ) -> dict[str, datetime]:
        """Ask Kinesis about shards that were read to their tip long ago. One that has news is asked about again at each
        look, until it is read: a record that came just now is none that waits."""
        keys = _keys(positions)
        idle = {
            row.key: (row.looked_at, key)
            for row in rows
            if not row.has_ended and not row.behind_ms and row.looked_at is not None
            if (key := keys.get((read_name(row.key).stream, row.shard_id))) is not None
        }
        # A shard that was read since is no longer what was seen.
        self._news = {
            lease: (looked_at, since)
            for lease, (looked_at, since) in self._news.items()
            if lease in idle and idle[lease][0] == looked_at
        }
        asked = {*self._news, *self._next_to_ask(idle)}
        if asked:
            news = source.has_news({idle[k][1]: _place(positions.shards[idle[k][1]]) for k in sorted(asked)})
            now = self.clock.now()
            self._news = {
                lease: self._news.get(lease, (idle[lease][0], now))
                for lease in asked
                if idle[lease][1] in news
            }
        return {lease: since for lease, (_, since) in self._news.items()}

    def _unread(self, rows: Collection[Lease], ours: Collection[str]) -> dict[str, datetime]:
        """`ours`: the workers of Headrace. KCL's workers write into no row that they read its shard."""
        now = self.clock.now()
        # Who reads counts only for shards that were read.
        lags = open_lags(rows, now, readers={})
        self._unread_since = {
            row.key: self._unread_since.get(row.key, now)
            for row in rows
            if row.key in lags and lags[row.key] is None and (row.holder is None or row.holder in ours)
        }
        return self._unread_since

    def _next_to_ask(self, idle: Mapping[str, tuple[datetime, ShardKey]]) -> list[str]:
        """The next few of the shards that were looked at long ago, in turn."""
        now = self.clock.monotonic()
        if now - self._asked_at < _ASK_EVERY.total_seconds():
            return []
        self._asked_at = now
        before = self.clock.now() - self.settings.dagster.checks.lag
        old = sorted(lease for lease, (looked_at, _) in idle.items() if looked_at < before)
        # In turns by the key, so that each shard is asked about although Kinesis allows only five
        # reads a second.
        after = [lease for lease in old if lease > self._asked] or old
        self._asked = after[:_MOST_ASKED][-1] if after else ""
        return after[:_MOST_ASKED]


def _lost(lineage: LineageTable) -> int | None:
    recorded = lineage.recorded()
    return None if recorded.snapshot is None else recorded.gaps


def _keys(positions: Positions) -> dict[tuple[str | None, str], ShardKey]:
    """The open shards of the newest life of each stream, by stream and shard id; also without the stream, as lease rows
    of an application with a single stream name them."""
    keys: dict[tuple[str | None, str], ShardKey] = {}
    for key in sorted(positions.shards):
        position = positions.shards[key]
        if not position.ended and not position.inside:
            keys[key.stream.name, key.shard_id] = key
            keys[None, key.shard_id] = key
    return keys


def _place(position: Position) -> Start | int:
    return position.sequence if position.sequence is not None else position.start or TRIM
