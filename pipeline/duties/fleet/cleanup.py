"""The leader's clean-up: deletes rows of ended shards, rows that are left over, and ENDs that nothing in the lake
table needs any more. It also lets the table's statement `valid-through` begin, and moves it on where shards are
quiet.

due = memory.due(now, times)
if due:
    for each stream: cleaning.clean(due, facts, listing, state)
    memory = memory.after(due, now)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.landing.valid_through import quiet_shards, reached, seen_quiet, shards_that_prove
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.order.parents import Family, a_family
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.sharing.cleanup_plan import (
    plan_delete_ended,
    plan_delete_garbage,
    plan_drop,
    worth_asking,
)
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life, rows_of_stream
from headrace.pipeline.duties.streams.writing import WrittenChanges, write_all
from headrace.pipeline.ports.landing import LandingTable, TableState
from headrace.pipeline.ports.leases import LeaseStore, Listing
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.model import Settings, TimeSettings

ASKED_A_PASS = 100
"""Shards that one pass asks Kinesis about, by one GetShardIterator each; the others wait for the next pass. A tick has
40 s."""

_LOOK = "leader"
"""The run of empty ranges that tell of quiet shards, in the ledger."""


@dataclass(frozen=True, slots=True)
class CleanupDue:
    """Which of the two clean-ups are due: of ended shards, and of rows that are left over."""

    completed: bool = False
    """Rows that say SHARD_END."""
    garbage: bool = False
    """Rows and ENDs of shards that Kinesis has forgotten. Finding them costs requests to Kinesis."""

    def __bool__(self) -> bool:
        return self.completed or self.garbage


@dataclass(frozen=True, slots=True)
class CleanupMemory:
    """When the leader cleaned up last. If this memory is lost, the leader cleans up once more than needed."""

    completed: datetime | None = None
    garbage: datetime | None = None

    def due(self, now: datetime, times: TimeSettings) -> CleanupDue:
        return CleanupDue(
            is_time(self.completed, now, every=times.cleanup),
            is_time(self.garbage, now, every=times.garbage_cleanup),
        )

    def after(self, due: CleanupDue, now: datetime) -> CleanupMemory:
        return CleanupMemory(now if due.completed else self.completed, now if due.garbage else self.garbage)


@dataclass(frozen=True, slots=True)
class CleanupReport:
    written: WrittenChanges
    """The outcomes of the deletions of rows."""
    dropped: int = 0
    """The number of ENDs that were removed from the positions in the lake table."""

    @property
    def deleted(self) -> int:
        return len(self.written.applied)

    @property
    def refused(self) -> int:
        """The number of rows that stay because another program has written them after they were read."""
        return self.written.refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    settings: Settings
    leases: LeaseStore
    source: ShardSource
    table: LandingTable

    def clean(
        self,
        due: CleanupDue,
        facts: StreamFacts,
        *,
        listing: Listing,
        state: TableState,
        has_time: Callable[[], bool] = lambda: True,
    ) -> CleanupReport:
        """Clean up one stream. `listing`: all lease rows, of this stream and of others. `facts`: the stream as
        Kinesis has just described it.
        """
        stream = facts.stream
        rows = [row for row in rows_of_stream(stream, listing.leases) if is_of_this_life(stream, row)]
        # All shards, not only those in scope: one that is left out looks as if Kinesis had forgotten it.
        shards = self.source.list_shards(stream)
        family = a_family(stream, shards, leases=rows, positions=state.positions)
        gone = self._gone(family, facts, shards, listing, state.positions) if due.garbage else frozenset()
        changes: list[Change] = []
        if due.completed and self.settings.coordination.cleanup:
            changes += plan_delete_ended(family, rows, state.positions)
        if self.settings.coordination.cleanup:
            changes += plan_delete_garbage(family, rows, state.positions, gone=gone)
        written = write_all(self.leases, changes, has_time=has_time)
        # Also with `coordination.cleanup: false`, which keeps rows: each snapshot carries all positions.
        drop = plan_drop(family, rows, state.positions, gone=gone, listed=shards)
        proofs = () if stream in state.through else self._proofs(family, shards, state.positions)
        # It asks Kinesis about each quiet shard, and nothing is lost by waiting for the next clean-up.
        quiet = self._quiet(facts, state) if has_time() else ()
        return CleanupReport(
            written, self._commit(Proposal(quiet, drop=drop.ends, begun=drop.begun, proofs=proofs))
        )

    def _quiet(self, facts: StreamFacts, state: TableState) -> tuple[Range, ...]:
        """What lets the statement `valid-through` go on past shards without new records."""
        now, stream_state = facts.asked, (facts.stream, state.through, state.positions)
        keys = quiet_shards(*stream_state, now=now, retention=facts.retention)
        if not keys:
            return ()
        news = self.source.has_news(keys)
        # A stream that was created again has no news for its former life. And where this process was frozen, records
        # that came since `now` may have left the stream before it was asked: half of the retention was over already
        # (`quiet_shards`).
        after = self.source.describe(facts.stream.arn)
        if after.stream != facts.stream or after.asked - now > facts.retention / 2:
            return ()
        return seen_quiet(*stream_state, keys=keys, news=news, now=now, by=_LOOK)

    def _gone(
        self,
        family: Family,
        facts: StreamFacts,
        listed: Iterable[Shard],
        listing: Listing,
        positions: Positions,
    ) -> frozenset[str]:
        rows = rows_of_stream(family.stream, listing.leases)
        doubtful = worth_asking(
            family, rows, positions, listed=listed, kept_since=facts.asked - facts.retention
        )
        return frozenset(key.shard_id for key in doubtful[:ASKED_A_PASS] if self.source.is_gone(key))

    @staticmethod
    def _proofs(
        family: Family, listed: Iterable[Shard], positions: Positions
    ) -> tuple[tuple[StreamId, frozenset[str]], ...]:
        """What lets the statement `valid-through` of the stream begin, if it can begin now."""
        shards = shards_that_prove(family, listed, positions)
        # Where no time is known yet, a commit would state nothing.
        return () if not shards or reached(family.stream, positions) is None else ((family.stream, shards),)

    def _commit(self, proposal: Proposal) -> int:
        """Returns how many ENDs were removed."""
        if not (proposal.ranges or proposal.drop or proposal.proofs):
            return 0
        return len(self.table.commit(proposal).landing.page.dropped)
