"""The values in a picture of an application. Times are by this host's clock, or by Kinesis's where they come from
a sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

from headrace.pipeline.core.shards.shard import HashRange, Shard


class Severity(IntEnum):
    """How urgently a person has to act. The page shows the highest level in red."""

    GOOD = 0
    NOTE = 1
    WARN = 2
    BAD = 3


class LagKind(StrEnum):
    MEASURED = "measured"
    """Kinesis or the worker has told it."""
    AT_MOST = "at-most"
    """The time of the last checkpointed record is known, but not whether a newer record exists."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ShardLag:
    """How old the oldest record after a shard's checkpoint is, or how old it can be at most."""

    kind: LagKind = LagKind.UNKNOWN
    behind: timedelta | None = None
    sentence: str = ""
    since: datetime | None = None
    """The moment from which the lag, or its bound, is counted: it grows by the clock. None: `behind` doesn't grow by itself."""


@dataclass(frozen=True, slots=True)
class LossRisk:
    """Whether unread records of a shard may leave the stream, because its retention ends."""

    level: Severity = Severity.GOOD
    loses_in: timedelta | None = None
    """When the first unread record leaves the stream, if the shard is read on as it is now."""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Behind:
    """Kinesis's answer about the record after a checkpoint."""

    unread_since: datetime | None
    """When the oldest unread record arrived; None where there was none."""
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """What Kinesis answered about one stream."""

    label: str
    """The stream's part of the lease keys; empty in an application with one stream."""
    name: str
    shards: tuple[Shard, ...] | None = None
    """None: the list isn't known."""
    asked_about: frozenset[str] = frozenset()
    """Keys of the leases that were in the table before the list was asked for: of a newer lease, an old list says nothing."""
    retention: timedelta | None = None
    created: datetime | None = None
    arn: str | None = None
    trouble: str | None = None
    """Why Kinesis's answer is missing or old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """One shard in its family: its parents, its hash keys, and when it was created and closed."""

    key: str
    stream: str
    """The stream's label."""
    shard_id: str
    parents: tuple[str, ...] = ()
    """Keys of those parents that are known."""
    generation: int = 0
    hashes: HashRange | None = None
    born: datetime | None = None
    closed_at: datetime | None = None
    is_closed: bool = False
    is_listed: bool | None = None
    """Whether Kinesis lists the shard; None where its list isn't known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardView:
    """One shard as the console's page shows it."""

    kin: Kin
    state: str
    """A key of `headrace.pipeline.console.states.STATES`."""
    level: Severity
    sentence: str = ""
    owner: str | None = None
    next_owner: str | None = None
    checkpoint: str | None = None
    position_at: datetime | None = None
    """When the record at the checkpoint arrived, by its sequence number."""
    lag: ShardLag = field(default_factory=ShardLag)
    kbps: float | None = None
    backlog: float | None = None
    """Unread bytes: the lag times the shard's throughput."""
    risk: LossRisk = field(default_factory=LossRisk)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    name: str
    cluster: str
    leases: int
    kbps: float
    over: float
    """Leases more than the ideal share; negative where the worker has fewer."""
    level: Severity
    sentence: str
    still: timedelta | None = None
    """How long neither its row nor one of its leases has moved, as far as this console has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderView:
    worker: str | None
    level: Severity
    sentence: str
    still: timedelta | None = None
    """How long the lock has stood still, as far as this console has seen."""
    promised: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    code: str
    level: Severity
    sentence: str
    keys: tuple[str, ...] = ()
    """Lease keys of the shards that the sentence is about, as far as it is about shards."""


@dataclass(frozen=True, slots=True)
class Event:
    at: datetime
    kind: str
    sentence: str
    key: str | None = None
    level: Severity = Severity.GOOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that the page shows, from one reading of the tables."""

    at: datetime
    table: str
    place: str
    layout: str
    streams: tuple[StreamSeen, ...]
    shards: tuple[ShardView, ...]
    workers: tuple[WorkerView, ...]
    leader: LeaderView
    ideal: float
    """Open leases that each living worker would have in an even split."""
    spread: int
    open_leases: int
    unowned: int
    problems: tuple[Trouble, ...]
    conclusion: str
    watched: timedelta | None

    def by_key(self) -> Mapping[str, ShardView]:
        return {shard.kin.key: shard for shard in self.shards}
