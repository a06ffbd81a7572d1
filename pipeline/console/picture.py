"""Makes a `Picture` of an application from one reading of its tables: every shard judged, every worker compared
with the ideal share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.console.family import KnownFamily
from headrace.pipeline.console.forecast import risk_of
from headrace.pipeline.console.lag import position_time, shown_lag
from headrace.pipeline.console.people import leader_of, workers_of
from headrace.pipeline.console.problems import problems_of
from headrace.pipeline.console.states import Marks, state_of, without_lease
from headrace.pipeline.console.stillness import Growth, RowStillness
from headrace.pipeline.console.values import (
    Behind,
    Kin,
    LagKind,
    LossRisk,
    Picture,
    Severity,
    ShardLag,
    ShardView,
    StreamSeen,
    Trouble,
)
from headrace.pipeline.core.leases.lag import LivingWorkers
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.findings import conclusion, findings_of
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.progress import readers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """All values from which a picture is made."""

    observation: Observation
    place: str
    streams: tuple[StreamSeen, ...] = ()
    behind: Mapping[str, Behind] = field(default_factory=dict)
    """Lease key -> what Kinesis said of its lag."""
    peek_trouble: str | None = None
    """Why Kinesis couldn't be asked for some lags."""
    stillness: RowStillness = field(default_factory=RowStillness)
    growth: Growth = field(default_factory=Growth)
    family: KnownFamily = field(default_factory=KnownFamily)
    monotonic: float = 0.0

    @property
    def now(self) -> datetime:
        return self.observation.last.read_at


def picture_of(seen: PictureFacts) -> Picture:
    observation = seen.observation
    shards = tuple(_shards(seen))
    workers = workers_of(observation, seen.stillness, seen.monotonic)
    leader = leader_of(observation, seen.stillness, seen.monotonic)
    findings = findings_of(observation)
    alive = max(1, len(observation.balance.workers))
    return Picture(
        at=seen.now,
        table=observation.last.tables.lease_table,
        place=seen.place,
        layout=observation.layout.sentence,
        streams=seen.streams,
        shards=shards,
        workers=workers,
        leader=leader,
        ideal=len(observation.open_ones) / alive,
        spread=observation.balance.spread,
        open_leases=len(observation.open_ones),
        unowned=len(observation.unowned),
        problems=problems_of(findings, shards, leader, _troubles(seen)),
        conclusion=conclusion(observation, findings),
        watched=observation.watched,
    )


def _troubles(seen: PictureFacts) -> Iterator[Trouble]:
    for stream in seen.streams:
        if stream.trouble is not None:
            # Nobody has named the stream: that is no fault.
            yield Trouble("stream-unknown", Severity.WARN if stream.name else Severity.NOTE, stream.trouble)
    if seen.peek_trouble is not None:
        yield Trouble("lags-unknown", Severity.WARN, seen.peek_trouble)


def _shards(seen: PictureFacts) -> Iterator[ShardView]:
    leases = {lease.key: lease for lease in seen.observation.last.leases}
    marks = Marks.of(seen.observation)
    readers = readers_of(seen.observation)
    retentions = {stream.label: stream.retention for stream in seen.streams}
    for kin in seen.family.of(seen.observation.last.leases, seen.streams):
        lease = leases.get(kin.key)
        if lease is None:
            state = without_lease(kin, leases)
            yield ShardView(kin=kin, state=state.state, level=state.level, sentence=state.sentence)
        else:
            yield _shard(kin, lease, leases, marks, seen, retentions.get(kin.stream), readers)


def _shard(
    kin: Kin,
    lease: Lease,
    leases: Mapping[str, Lease],
    marks: Marks,
    seen: PictureFacts,
    retention: timedelta | None,
    readers: LivingWorkers,
) -> ShardView:
    state = state_of(kin, lease, leases, marks)
    lag = shown_lag(
        lease,
        seen.behind.get(lease.key),
        seen.now,
        reader=readers.get(lease.holder or ""),
    )
    # The records of a shard that Kinesis no longer lists are gone: its state says so.
    risk = (
        LossRisk()
        if lease.has_ended or state.state == "orphan"
        else risk_of(
            lag,
            retention,
            seen.growth.of(lease.key),
            is_read=state.state in {"reading", "assigned", "handover"},
        )
    )
    return ShardView(
        kin=kin,
        state=state.state,
        level=max(state.level, risk.level),
        sentence=state.sentence,
        owner=lease.holder if not lease.has_ended else None,
        next_owner=lease.owner if lease.checkpoint_owner is not None else None,
        checkpoint=_checkpoint_text(lease),
        position_at=position_time(lease),
        lag=lag,
        kbps=None if lease.has_ended else lease.throughput_kbps,
        backlog=_backlog(lag, lease),
        risk=risk,
    )


def _checkpoint_text(lease: Lease) -> str:
    sub = f" (user record {lease.checkpoint.sub})" if lease.checkpoint.sub else ""
    return f"{lease.checkpoint.sequence}{sub}"


def _backlog(lag: ShardLag, lease: Lease) -> float | None:
    """An estimate: the records that came during the lag, at the throughput of the lease row."""
    if lag.kind is not LagKind.MEASURED or lag.behind is None or lease.has_ended:
        return None
    if not lag.behind:
        return 0.0
    return (
        None if lease.throughput_kbps is None else lag.behind.total_seconds() * lease.throughput_kbps * 1024
    )
