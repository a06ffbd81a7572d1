"""What the watch needs from outside. `sources`, `peek` and `lake` have the real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from headrace.pipeline.console.values import Behind, StreamSeen
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.observation import TablesRead


class LookedAtTables(Protocol):
    """The coordination tables of the application that the console shows."""

    @property
    def place(self) -> str:
        """Region and endpoint, for people."""
        ...

    def read(self) -> TablesRead: ...

    @property
    def provisioned(self) -> int:
        """Read units a second for which the table with the fewest is provisioned; 0 where DynamoDB bills each request."""
        ...


class LookedAtStreams(Protocol):
    """The streams of the application. A stream that can't be asked is told with its trouble, and with what was known of it
    before."""

    def of(self, leases: Sequence[Lease]) -> tuple[StreamSeen, ...]:
        """The streams of these leases, which were just read."""
        ...


class Peeking(Protocol):
    """Asks Kinesis how far behind checkpoints are."""

    def look(
        self, leases: Sequence[Lease], streams: Sequence[StreamSeen], now: datetime
    ) -> Mapping[str, Behind]:
        """Lease key -> the newest answer. Each call asks for some of the leases, in turns."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why shards couldn't be asked for at the last look; None where all could."""
        ...


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
    """What the lake table has of one shard."""

    table: str
    position: str | None = None
    ranges: tuple[LandedRange, ...] = ()
    """The newest first; at most as many as a page shows."""
    left_out: int = 0
    rows: int = 0
    typed: tuple[ParsedCount, ...] = field(default_factory=tuple)


class Lake(Protocol):
    def of(self, lease: Lease) -> LandedOfShard:
        """Reads the ledgers of this shard. Called only when a person opens the shard's page."""
        ...
