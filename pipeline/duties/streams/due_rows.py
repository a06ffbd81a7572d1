"""Which shards of a worker are due: first by the lease rows, then by probes, which ask Kinesis whether an idle
shard has a new record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.due import Due, DuePlan, one_plan, plan_due
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life
from headrace.pipeline.errors import HeadraceError, Transient, Unreachable
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource

_Stream = tuple[StreamId, timedelta] | None
"""A stream's identity and retention; None where they aren't known."""
Streams = Mapping[str | None, _Stream]
"""By the row's `streamName`; by None in an application with a single stream."""

PROBES_A_TICK = 100
"""Shards that one tick probes, so that the tick stays short; a round over more shards takes several ticks. Each probe
is one of the five GetRecords a second that a shard allows all its readers together (I28)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRows:
    worker_id: str
    leases: LeaseStore
    source: ShardSource

    def plan(
        self, mine: Iterable[Lease], streams: Streams, living: frozenset[str], *, now: datetime
    ) -> DuePlan:
        """Which of these rows are due. Rows of another life of their stream are left out, because only the leader
        handles them.
        """
        rows: dict[str | None, list[Lease]] = {}
        for lease in mine:
            if lease.stream in streams and _may_be_read(lease, streams[lease.stream]):
                rows.setdefault(lease.stream, []).append(lease)
        return one_plan(
            self._plan_stream(stream_rows, streams[stream], living, now=now)
            for stream, stream_rows in rows.items()
        )

    def _plan_stream(
        self, mine: list[Lease], facts: _Stream, living: frozenset[str], *, now: datetime
    ) -> DuePlan:
        by_shard = {lease.shard_id: lease for lease in mine}
        elsewhere = {
            lease.key.removesuffix(lease.shard_id) + parent
            for lease in mine
            if lease.looked_at is None and not lease.has_ended
            for parent in lease.parents - by_shard.keys()
        }
        # Parents that other workers read. Where a parent's row isn't there or isn't understood, the child counts as
        # due: the run goes by the lake table, and waits if the parent hasn't ended there.
        for parent_row in self.leases.get_many(sorted(elsewhere)).leases if elsewhere else ():
            if _may_be_read(parent_row, facts):
                by_shard[parent_row.shard_id] = parent_row
        # A look at least every quarter of the retention leaves three more tries before a quiet shard looks like a loss
        # of records. Where the retention isn't known, it is taken for Kinesis's shortest, a day.
        quarter = facts[1] / 4 if facts else timedelta(hours=6)
        return plan_due(
            mine, me=self.worker_id, parents=by_shard, living_claims=living, now=now, look_again_after=quarter
        )

    def probe(
        self, plan: DuePlan, streams: Streams, after: str | None, *, at_most: int
    ) -> tuple[tuple[Due, ...], str | None]:
        """Probe at most `at_most` idle shards, in the order of their keys, beginning after the key `after`.
        Returns the shards with a new record, and the key at which the next call goes on; None if all idle shards
        are probed.
        """
        rest = [row for row in plan.idle if after is None or row.key > after]
        by_shard = {
            ShardKey(facts[0], row.shard_id): row
            for row in rest[:at_most]
            if (facts := streams[row.stream]) is not None
        }
        # From the row's position and not from the table's: a probe is only a hint, and the run reads from the table's
        # position.
        news = self.source.has_news({key: _resume_point(row) for key, row in by_shard.items()})
        due = tuple(Due(by_shard[key].key, "a probe found a new record") for key in sorted(news))
        return due, rest[at_most - 1].key if len(rest) > at_most else None


@dataclass(frozen=True, slots=True)
class DescribedStreams:
    """The streams of a worker's rows as Kinesis describes them now. A stream that fails holds up its own shards
    only."""

    known: Streams
    failed: Mapping[str | None, HeadraceError]

    def require_some(self) -> None:
        """Raise an error if no stream could be described. Where one of the errors is transient, that one is
        raised: it doesn't fail the tick.
        """
        if self.failed and not self.known:
            raise min(self.failed.values(), key=lambda error: not isinstance(error, Transient))

    def sentences(self) -> list[str]:
        """A sentence about each stream that couldn't be described."""
        failed = sorted(
            (f"stream {name}" if name else "the stream", why) for name, why in self.failed.items()
        )
        return [f"{stream} couldn't be described ({why})" for stream, why in failed]


def describe_streams(
    mine: Iterable[Lease], ask: Callable[[Lease], tuple[StreamId, timedelta] | None]
) -> DescribedStreams:
    described: dict[str | None, _Stream] = {}
    failed: dict[str | None, HeadraceError] = {}
    for lease in {lease.stream: lease for lease in mine}.values():
        try:
            described[lease.stream] = ask(lease)
        except Unreachable:
            raise  # Kinesis doesn't answer: waiting for each of the other streams would take the whole tick
        except HeadraceError as error:
            # One stream that can't be described, such as a deleted one, holds up nothing but its own shards.
            failed[lease.stream] = error
    return DescribedStreams(described, failed)


def _may_be_read(row: Lease, facts: _Stream) -> bool:
    return facts is None or is_of_this_life(facts[0], row)


def _resume_point(row: Lease) -> Start | int:
    """Where a probe begins: after the last record, or where none was read, at the time when the shard was last found
    empty. `looked_at` is a time of Kinesis's clock."""
    return int(row.checkpoint.sequence) if row.checkpoint.is_digits else Start(row.looked_at)
