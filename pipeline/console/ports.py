"""The ports of the console's watch. `sources`, `peek` and `lake` have the real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headrace.pipeline.console.values import Behind, StreamSeen
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.observation import TablesRead


@dataclass(frozen=True, slots=True)
class LookedAtTables:
    """The coordination tables of the application that the console shows."""

    place: str
    """Region and endpoint, for people."""
    read: Callable[[], TablesRead]
    provisioned: Callable[[], int]
    """Read units a second for which the table with the fewest is provisioned; 0 where DynamoDB bills each request."""


LookedAtStreams = Callable[[Sequence[Lease]], tuple[StreamSeen, ...]]
"""The streams of these leases, which were just read. A stream that can't be asked is told with its trouble, and with what
was known of it before."""


@dataclass(frozen=True, slots=True)
class Peeked:
    """How far behind checkpoints are, as Kinesis answered."""

    behind: Mapping[str, Behind] = field(default_factory=dict)
    """Lease key -> the newest answer."""
    trouble: str | None = None
    """Why shards couldn't be asked for at this look; None where all could."""


Peek = Callable[[Sequence[Lease], Sequence[StreamSeen], datetime], Peeked]
"""Asks Kinesis. Each call asks for some of the leases, in turns."""


@dataclass(frozen=True, slots=True)
class LandedRange:
    """One range of a shard's records in the lake table."""

    at: datetime
    kind: str
    rows: int
    bytes: int
    upto: str
    run: str
    files: tuple[str, ...]
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None


@dataclass(frozen=True, slots=True)
class ParsedCount:
    """What became of a shard's rows in one typed table."""

    table: str
    parsed: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class LandedOfShard:
    """The records of one shard that the lake table has."""

    table: str
    position: str | None = None
    ranges: tuple[LandedRange, ...] = ()
    """The newest first; at most as many as a page shows."""
    left_out: int = 0
    rows: int = 0
    typed: tuple[ParsedCount, ...] = field(default_factory=tuple)


Lake = Callable[[Lease], LandedOfShard]
"""Reads the ledgers of the lease's shard. Called only when a person opens the shard's page."""
