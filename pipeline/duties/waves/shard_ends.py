"""The writes on lease rows at the end of a shard: the children's rows, then childShardIds, then SHARD_END.

In this order other programs that read the rows find the children before the end. If the run dies in between, the next
wave makes the missing writes: the lake table has the END.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.sharing.sync_plan import a_lease
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.report import Problem, ShardEnd, WaveLog
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEnds:
    claims: Claims
    leases: LeaseStore
    source: ShardSource
    multi: bool

    def finish(
        self,
        log: WaveLog,
        key: ShardKey,
        position: Position,
        known: tuple[Shard, ...] | None = None,
        *,
        lost_since: datetime | None = None,
    ) -> None:
        """Make the writes at the end of a shard whose position in the lake table is an END.

        `known`: the shard's children with all their parents and hash keys, or all shards of the stream. None: the
        stream is listed. A child that isn't there gets its row from the leader's shard sync: a listing that shows
        it tells the other parent of a merge. `lost_since`: for a shard that has left Kinesis unread, since when
        its records are lost. Where the lease rows themselves are the positions, only the shard's row can tell its
        children that they may have lost records as well.
        """
        if known is None:
            known = self.source.list_shards(key.stream)
        by_id = {shard.shard_id: shard for shard in known}
        for child in position.children:
            if child in by_id:
                self._create(log, key, by_id[child])
        # In this order: the children's rows, their names in the parent's row, and SHARD_END last. A kill in between
        # leaves the shard unended in its row, and the next wave makes what is missing.
        if position.children and not self.claims.write(
            log, key, change.note_children(self.claims.held[key], frozenset(position.children))
        ):
            return  # without SHARD_END, so that a later wave comes back to this shard
        if (end := position.checkpoint) is not None:
            row = self.claims.held[key]
            # The row stays until the clean-up, and must not count as load until then.
            ended = change.checkpoint(
                row, self.claims.me, self.claims.claim, upto=end, throughput_kbps=0.0, looked_at=lost_since
            )
            if self.claims.write(log, key, ended):
                log.ends.append(ShardEnd(row.key, position.children))

    def count_as_ended(self, log: WaveLog, key: ShardKey, by: str, children: frozenset[str]) -> None:
        """Write SHARD_END into the row of a shard whose END the lake table has forgotten; such a row was left
        over, or made again. The leader then deletes the row. `by`: the descendant that has a position. `children`: the known ones.
        """
        # Another child may still be unread. It waits for this shard, and the way to the descendant may lead over a child without a row, which
        # leaves the listings one day: then only this row leads there.
        if children and not self.claims.write(
            log, key, change.note_children(self.claims.held[key], children)
        ):
            return
        row = self.claims.held[key]
        end = change.checkpoint(row, self.claims.me, self.claims.claim, upto=SHARD_END, throughput_kbps=0.0)
        if self.claims.write(log, key, end):
            log.notes.append(
                f"{partition_of(row.key)} counts as ended, because {by}, which descends from it, has a position: nothing was read"
            )

    def _create(self, log: WaveLog, parent: ShardKey, child: Shard) -> None:
        """Create the row of a child. A row that is there already stays as it is, whether it is understood or not."""
        lease: Lease = a_lease(
            parent.stream,
            child,
            multi=self.multi,
            positions=Positions(),
            sentinel=TRIM_HORIZON,
            # To this worker, so that the run's next wave reads on without waiting for an assignment.
            owner=self.claims.me,
        )
        try:
            self.leases.apply(change.create(lease, f"{parent.shard_id} ended; {self.claims.me} reads on"))
        except WrongShape as error:
            log.problems.append(Problem(lease.key, str(error), fatal=False))
