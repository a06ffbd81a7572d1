"""What `headrace adopt` and `headrace give-back` read and write: the first takes a KCL application over, the
second hands it back to KCL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.beside_kcl.adoption_plan import (
    AdoptedShard,
    adopt_ranges,
    is_adopted,
    is_unproven,
    needs_timestamp,
    not_continued,
    plan_adopt,
    plan_give_back,
    stamp,
    start_for_kcl,
    with_arrivals,
)
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.change import Change, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.position import TRIM, Origin, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.sharing.sync_plan import rows_of_stream
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import BadSetting, OriginUnsafe, PositionsDisagree, Transient
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource, StreamFacts


def owners_that_renewed(before: Iterable[Lease], after: Iterable[Lease]) -> tuple[str, ...]:
    """The holders of leases whose counter changed between two scans, or whose row is new."""
    was = {row.key: row.counter for row in before}
    return tuple(sorted({row.holder or "nobody" for row in after if was.get(row.key) != row.counter}))


@dataclass(frozen=True, slots=True)
class Adoption:
    """The positions that adopting one stream would commit."""

    facts: StreamFacts
    shards: tuple[AdoptedShard, ...]
    rows: tuple[Lease, ...]
    is_done: bool = False
    """The stream was adopted before. If the command died after the first of several streams, it is run again, and finds
    this one done."""
    kcl_read_on: bool = False
    """The stream was adopted before, and running KCL workers have written later checkpoints since."""

    @property
    def unproven(self) -> tuple[AdoptedShard, ...]:
        """Shards whose last checkpointed record Kinesis no longer has, so that later records may be lost, too."""
        return tuple(shard for shard in self.shards if is_unproven(shard))

    @property
    def inside_aggregates(self) -> tuple[AdoptedShard, ...]:
        """Shards whose checkpoint is at a user record inside an aggregated record."""
        return tuple(shard for shard in self.shards if shard.position is not None and shard.position.sub)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopting:
    multi: bool
    leases: LeaseStore
    source: ShardSource
    table: LandingTable
    beside_kcl: bool = False
    """KCL's workers go on running. What they read after the adoption becomes foreign ranges."""

    def survey(self, stream: str, *, timestamp: datetime | None) -> Adoption:
        """The positions that adopting the stream would commit. Nothing is written."""
        facts = self.source.describe(stream)
        # The table is loaded before the rows. A run writes its rows after its commit: in the other order,
        # rows of a commit in between would look as if they had gone back.
        state = self.table.load()
        rows = rows_of_stream(facts.stream, self.leases.scan().leases)
        self._require_known(facts, rows, timestamp)
        family = a_family(facts.stream, (), listed=self.source.list_shards(facts.stream), leases=rows)
        origin = state.positions.origins.get(facts.stream)
        # Adopting commits the origin TRIM_HORIZON. With any other origin, Headrace has begun the stream
        # without adopting.
        if origin is not None and origin.start == TRIM:
            shards = plan_adopt(family, rows, adopted=origin.decided, timestamp=timestamp)
            if is_adopted(shards, state.positions):
                return Adoption(facts, shards, rows, is_done=True)
            # Adopting first writes streamEpoch into the rows. If no row has it, the table has positions of
            # another application.
            if self.beside_kcl and any(row.stream_epoch is not None for row in rows):
                self._require_going_on(not_continued(shards, family, state.positions))
                return Adoption(facts, shards, rows, is_done=True, kcl_read_on=True)
        if origin is not None or not (state.origin_allowed or state.positions.origins):
            raise OriginUnsafe(
                f"the lake table already has positions or an origin of {facts.stream}, "
                "and adopting would overwrite them. Nothing was changed. Use a new table (landing.table), "
                "or go on with this table without adopting"
            )
        shards = plan_adopt(family, rows, adopted=facts.asked, timestamp=timestamp)
        sequences = {
            shard.key: shard.position.sequence
            for shard in shards
            if shard.position is not None and shard.position.sequence is not None
        }
        return Adoption(facts, with_arrivals(shards, self.source.arrivals(sequences)), rows)

    def _require_going_on(self, back: list[ShardKey]) -> None:
        if back:
            raise OriginUnsafe(
                f"the lake table adopted {back[0].stream} before, but since then the lease rows of "
                f"{counted(len(back), 'shard')} ({back[0].shard_id}, ...) went back or were deleted. "
                "Nothing was changed. Put the rows right, or use a new table (landing.table)"
            )

    def _require_known(self, facts: StreamFacts, rows: tuple[Lease, ...], timestamp: datetime | None) -> None:
        if not rows:
            raise BadSetting(
                f"the lease table has no rows of {facts.stream.name}, so there is nothing to adopt. "
                "Nothing was changed; `headrace dev` starts to read the stream"
            )
        rows_of_another_life = sorted(
            row.key for row in rows if row.stream_epoch not in {None, facts.stream.epoch}
        )
        if rows_of_another_life:
            raise PositionsDisagree(
                f"the lease table has {counted(len(rows_of_another_life), 'row')} ({rows_of_another_life[0]}, ...) "
                f"of another life of {facts.stream.name}: a stream with this name was deleted and created "
                "again. Nothing was changed. Stop the application that wrote these rows, and delete them"
            )
        unknown = needs_timestamp(rows)
        if unknown and timestamp is None:
            raise BadSetting(
                f"the checkpoint of {counted(len(unknown), 'lease row')} ({unknown[0]}, ...) "
                "is AT_TIMESTAMP, and only KCL's configuration has the timestamp. Nothing was changed. "
                "Name the timestamp with --timestamp"
            )

    def land(self, adoption: Adoption, *, run: str) -> int:
        """Writes the stream's epoch into the rows, then commits the positions. Returns the number of positions.

        An epoch alone changes nothing for any worker, so a command that died after the first step can be run again.
        """
        if adoption.is_done:
            return 0
        stream = adoption.facts.stream
        for row in adoption.rows:
            if row.stream_epoch is None:
                # refused.
                self.leases.apply(stamp(row, stream.epoch))
        origin = ((stream, Origin(TRIM, adoption.facts.asked)),)
        landing = self.table.commit(Proposal(adopt_ranges(adoption.shards, run), origins=origin)).landing
        if landing.refused:
            why = landing.refused[0]
            raise Transient(
                f"the lake table refused {counted(len(landing.refused), 'position')} ({why.range.key}: "
                f"{why.why}), because another process wrote to it at the same time. "
                "Look at `headrace lineage` before you run this command again"
            )
        return len(landing.page.ranges)

    def give_back(
        self, stream: str, *, gone: frozenset[str] = frozenset()
    ) -> tuple[tuple[Change, ...], datetime | None]:
        """The writes that give the stream's leases back, and the timestamp at which KCL must start shards
        without a landed record. Nothing is written.

        `gone`: workers that no longer run. Their leases are given back too; a row that changes until then is refused.
        """
        facts = self.source.describe(stream)
        rows = rows_of_stream(facts.stream, self.leases.scan().leases)
        holders = {row.holder for row in rows if row.holder is not None and not row.has_ended}
        # KCL must not start while a Headrace worker may still write: both would write the same rows.
        held = sorted(holders - gone)
        if held:
            raise BadSetting(
                f"{', '.join(held)} still hold leases of {facts.stream.name}. Nothing was changed. "
                "Stop these workers with `headrace stop`"
            )
        positions = self.table.load().positions
        self._require_rows(facts, rows, positions)
        return tuple(plan_give_back(facts.stream, rows, positions)), start_for_kcl(
            facts.stream, rows, positions
        )

    def _require_rows(self, facts: StreamFacts, rows: tuple[Lease, ...], positions: Positions) -> None:
        """Refuses if a shard that isn't read to its end has no row: KCL would read it from its configured
        initial position."""
        shards_with_row = {row.shard_id for row in rows}
        passed = a_family(facts.stream, (), leases=rows, positions=positions).passed(positions)
        missing = sorted(
            key.shard_id
            for key, position in positions.shards.items()
            if key.stream == facts.stream
            and not position.ended
            and key.shard_id not in passed
            and key.shard_id not in shards_with_row
        )
        if missing:
            raise BadSetting(
                f"the lake table has {counted(len(missing), 'shard')} without a lease row ({missing[0]}, "
                "...), which KCL would read again from its initial position. Nothing was changed. "
                "Start Headrace once, so that its shard sync makes the rows; "
                "then stop it and run this command again"
            )

    def apply(self, changes: Iterable[Change]) -> tuple[str, ...]:
        """Applies the changes. Returns the keys of the rows that another process changed meanwhile."""
        return tuple(c.key for c in changes if isinstance(self.leases.apply(c), Refused))
