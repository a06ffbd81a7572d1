"""Adopting a stopped KCL application, and giving it back: what a command does after a person has agreed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pipeline.beside_kcl.adoption_plan import (
    AdoptedShard,
    is_said,
    is_unproven,
    needs_timestamp,
    plan_adopt,
    plan_give_back,
    proven,
    ranges_of,
    stamp,
    start_for_kcl,
    turned_back,
)
from pipeline.core.change import Change, Refused
from pipeline.core.landing import Proposal
from pipeline.core.lease import Lease
from pipeline.core.order import a_family
from pipeline.core.position import TRIM, Origin, Positions
from pipeline.core.stream import ShardKey
from pipeline.core.sync import rows_of
from pipeline.core.words import counted
from pipeline.errors import BadSetting, OriginUnsafe, PositionsDisagree, Transient
from pipeline.ports import LandingTable, LeaseStore, ShardSource, StreamFacts


def moving(before: Iterable[Lease], after: Iterable[Lease]) -> tuple[str, ...]:
    """Who was seen to beat between two looks: the owners of leases whose counters moved, or that came."""
    was = {row.key: row.counter for row in before}
    return tuple(sorted({row.holder or "nobody" for row in after if was.get(row.key) != row.counter}))


@dataclass(frozen=True, slots=True)
class Adoption:
    facts: StreamFacts
    said: tuple[AdoptedShard, ...]
    rows: tuple[Lease, ...]
    stands: bool = False
    """The lake table says all of this already: a command over several streams that died between two is run again."""
    read_on: bool = False
    """It stands, and a live fleet's rows have gone on since."""

    @property
    def unproven(self) -> tuple[AdoptedShard, ...]:
        """Their record can't be read any more: what came after it may be lost."""
        return tuple(each for each in self.said if is_unproven(each))

    @property
    def inside_aggregates(self) -> tuple[AdoptedShard, ...]:
        return tuple(each for each in self.said if each.position is not None and each.position.sub)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopting:
    multi: bool
    leases: LeaseStore
    source: ShardSource
    table: LandingTable
    beside_kcl: bool = False
    """The fleet lives: what its workers read from the first commit on becomes foreign ranges."""

    def survey(self, stream: str, *, timestamp: datetime | None) -> Adoption:
        """What adopting would say; nothing is written."""
        facts = self.source.describe(stream)
        # Before the rows: they follow it, also while runs of ours read what was adopted.
        state = self.table.load()
        rows = rows_of(facts.stream, self.leases.scan().leases)
        self._require_known(facts, rows, timestamp)
        family = a_family(facts.stream, (), listed=self.source.list_shards(facts.stream), leases=rows)
        origin = state.positions.origins.get(facts.stream)
        if origin is not None and origin.start == TRIM:
            said = plan_adopt(family, rows, at=origin.decided, timestamp=timestamp)
            if is_said(said, state.positions):
                return Adoption(facts, said, rows, stands=True)
            # Adopting stamps the rows before anything: without a stamp this table took over another application's.
            if self.beside_kcl and any(row.stream_epoch is not None for row in rows):
                self._require_going_on(turned_back(said, family, state.positions))
                return Adoption(facts, said, rows, stands=True, read_on=True)
        if origin is not None or not (state.origin_allowed or state.positions.origins):
            raise OriginUnsafe(
                f"the lake table has positions or an origin of {facts.stream} already: adopting would say them anew; nothing was "
                "changed. Use a new table (landing.table), or go on with this one as it is"
            )
        said = plan_adopt(family, rows, at=facts.asked, timestamp=timestamp)
        at = {
            each.key: each.position.sequence
            for each in said
            if each.position is not None and each.position.sequence is not None
        }
        return Adoption(facts, proven(said, self.source.arrivals(at)), rows)

    def _require_going_on(self, back: list[ShardKey]) -> None:
        if back:
            raise OriginUnsafe(
                f"the lake table has taken over {back[0].stream} already, and {back[0].shard_id} is one of "
                f"{counted(len(back), 'shard')} whose lease row doesn't go on from there: it went back, or is gone; nothing was "
                "changed. Put the rows right, or use a new table (landing.table)"
            )

    def _require_known(self, facts: StreamFacts, rows: tuple[Lease, ...], timestamp: datetime | None) -> None:
        if not rows:
            raise BadSetting(
                f"{facts.stream.name} has no lease rows here: there is nothing to adopt, `headrace dev` starts it"
            )
        others = sorted(row.key for row in rows if row.stream_epoch not in {None, facts.stream.epoch})
        if others:
            raise PositionsDisagree(
                f"{counted(len(others), 'lease row')} of another life of {facts.stream.name} ({others[0]}, ...); nothing was changed. "
                "Delete them, or let the application that wrote them end first"
            )
        unknown = needs_timestamp(rows)
        if unknown and timestamp is None:
            raise BadSetting(
                f"{counted(len(unknown), 'lease row')} at AT_TIMESTAMP ({unknown[0]}, ...), and only KCL's configuration knows the "
                "moment; nothing was changed. Name it with --timestamp"
            )

    def land(self, adoption: Adoption, *, run: str) -> int:
        """The rows' epochs first, which change nothing yet: a command that dies between the two is simply run again."""
        if adoption.stands:
            return 0
        stream = adoption.facts.stream
        for row in adoption.rows:
            if row.stream_epoch is None:
                self.leases.apply(stamp(row, stream.epoch))
        origin = ((stream, Origin(TRIM, adoption.facts.asked)),)
        landing = self.table.commit(Proposal(ranges_of(adoption.said, run), origins=origin)).landing
        if landing.refused:
            why = landing.refused[0]
            raise Transient(
                f"{counted(len(landing.refused), 'position')} not taken ({why.range.key}: {why.why}): somebody else was writing; look "
                "at `headrace lineage` before anything else"
            )
        return len(landing.page.ranges)

    def give_back(
        self, stream: str, *, gone: frozenset[str] = frozenset()
    ) -> tuple[tuple[Change, ...], datetime | None]:
        """What giving back would write, and the moment at which KCL is to start shards that have no record yet.

        `gone`: workers that don't live any more; what they hold is given back, unless it moves until then.
        """
        facts = self.source.describe(stream)
        rows = rows_of(facts.stream, self.leases.scan().leases)
        holders = {row.holder for row in rows if row.holder is not None and not row.has_ended}
        held = sorted(holders - gone)
        if held:
            raise BadSetting(
                f"{', '.join(held)} still hold leases of {facts.stream.name}; nothing was changed. `headrace stop` makes them let go"
            )
        positions = self.table.load().positions
        self._require_rows(facts, rows, positions)
        return tuple(plan_give_back(facts.stream, rows, positions)), start_for_kcl(
            facts.stream, rows, positions
        )

    def _require_rows(self, facts: StreamFacts, rows: tuple[Lease, ...], positions: Positions) -> None:
        """KCL would begin a shard without a row at its own initial position."""
        there = {row.shard_id for row in rows}
        passed = a_family(facts.stream, (), leases=rows, positions=positions).passed(positions)
        missing = sorted(
            key.shard_id
            for key, at in positions.shards.items()
            if key.stream == facts.stream
            and not at.ended
            and key.shard_id not in passed
            and key.shard_id not in there
        )
        if missing:
            raise BadSetting(
                f"{counted(len(missing), 'shard')} of the lake table without a lease row ({missing[0]}, ...): KCL would start there "
                "anew; nothing was changed. Start Headrace once, its shard sync makes the rows, then stop it and give back"
            )

    def apply(self, changes: Iterable[Change]) -> tuple[str, ...]:
        """Keys of rows that somebody else wrote meanwhile."""
        return tuple(c.key for c in changes if isinstance(self.leases.apply(c), Refused))
