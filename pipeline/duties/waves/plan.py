"""Claimed ──► Planned: load the lake table, and decide for each claimed shard whether it is read now, and from
where.

This step also writes what must be written before the reading: the origin of a stream, foreign ranges, checkpoints
of rows that are behind the table, and the rows of shards that have ended in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import Family, InTheWay, lost_above, parents_of
from headrace.pipeline.core.order.start_of_reading import (
    Above,
    Begin,
    Finish,
    Passed,
    Read,
    Stop,
    Wait,
    plan_begin,
)
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import rows_of_stream
from headrace.pipeline.duties.policy.policy import ClaimedShards, RecordForeignRanges
from headrace.pipeline.duties.streams.family import SinceOrigin, family_of
from headrace.pipeline.duties.streams.origin import ensure_origin
from headrace.pipeline.duties.streams.streams import how_to_read
from headrace.pipeline.duties.waves.report import Problem
from headrace.pipeline.duties.waves.shard_ends import ShardEnds
from headrace.pipeline.duties.waves.steps import Claimed, Planned, WavePorts
from headrace.pipeline.duties.waves.wave_streams import WaveStreams
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.choices import OnDataLoss
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    run_id: str
    settings: Settings
    record_foreign_ranges: RecordForeignRanges
    ports: WavePorts
    ends: ShardEnds

    def plan(self, claimed: Claimed) -> Planned:
        state = self._record_foreign_ranges(claimed, self._state(claimed.streams))
        families = self._families(claimed, state.positions)
        plans = self._plans(claimed, state.positions, families)
        if any(isinstance(plan, Stop) for plan in plans.values()):
            # A row that is ahead of the table stops its shard until a person decides. So the table is loaded once more
            # before such a row is believed (section 2 of docs/reference/protocol.md).
            state = self.ports.table.load()
            plans = self._plans(claimed, state.positions, families)
        return Planned(claimed, self._do_chores(claimed, plans))

    def _record_foreign_ranges(self, claimed: Claimed, state: TableState) -> TableState:
        streams, claims = claimed.streams, claimed.claims
        for stream in sorted(streams.facts.keys() & state.positions.origins.keys()):
            shards = ClaimedShards(
                stream=stream,
                rows={key: row for key, row in claims.held.items() if key.stream == stream},
                table=self.ports.table,
                state=state,
                source=self.ports.source,
                run=self.run_id,
                claim=claims.claim,
            )
            state, notes = self.record_foreign_ranges(shards)
            claimed.log.notes.extend(notes)
        return state

    def _do_chores(self, claimed: Claimed, plans: dict[ShardKey, Begin]) -> dict[ShardKey, Read]:
        """Write the rows that have to be written before the reading: those behind the table, and those of ended shards.

        Returns the shards that can be read now.
        """
        log, claims = claimed.log, claimed.claims
        reads: dict[ShardKey, Read] = {}
        # A row behind the table is what a kill between commit and checkpoint leaves. It is mended
        # forward here, and never back: a row that is ahead stops its shard (I8).
        repairs: dict[ShardKey, Change] = {}
        for key, plan in plans.items():
            row = claims.held[key]
            match plan:
                case Read(repair=at):
                    reads[key] = plan
                    if at is not None:
                        repairs[key] = change.repair(row, claims.claim, at)
                case Finish(position):
                    self.ends.finish(log, key, position)
                case Passed(by, children):
                    self.ends.count_as_ended(log, key, by, children)
                case Wait(why):
                    log.problems.append(Problem(row.key, why, fatal=False))
                case Stop(why):
                    log.problems.append(Problem(row.key, why, fatal=True))
        # A shard whose row couldn't be written is left to a later wave: this run may have lost its claim.
        lost = repairs.keys() - claims.write_all(log, repairs)
        return {key: read for key, read in reads.items() if key not in lost}

    def _state(self, streams: WaveStreams) -> TableState:
        """The lake table's state, after the origins of the settings' streams were committed where they were missing.

        Only the leader commits the origin of a stream that the settings don't name, because only the leader searches
        for streams.
        """
        state = self.ports.table.load()
        for stream, facts in tuple(streams.facts.items()):
            named = self.settings.stream(stream.name)
            if stream not in state.positions.origins and named is not None:
                # No row of the stream, of this worker's or another's, may have a sequence number yet. A run scans all
                # rows only here, once in a stream's life.
                every = rows_of_stream(stream, self.ports.leases.scan().leases)
                decide = partial(ensure_origin, self.ports.table, state, facts, stream=named, leases=every)
                state = streams.isolate(stream, decide) or state
        return state

    def _families(self, claimed: Claimed, positions: Positions) -> dict[StreamId, Family]:
        families: dict[StreamId, Family] = {}
        for stream in tuple(claimed.streams.facts):
            stream_rows = {key: row for key, row in claimed.claims.held.items() if key.stream == stream}
            unread = [
                key for key in stream_rows if _is_unread(positions.of(key)) and stream in positions.origins
            ]
            ask = partial(
                family_of,
                stream,
                unread,
                held=stream_rows.values(),
                positions=positions,
                source=self.ports.source,
                leases=self.ports.leases,
            )
            family = claimed.streams.isolate(stream, ask)
            if family is not None:
                families[stream] = family
        return families

    def _plans(
        self, claimed: Claimed, positions: Positions, families: dict[StreamId, Family]
    ) -> dict[ShardKey, Begin]:
        plans: dict[ShardKey, Begin] = {}
        for stream, facts in tuple(claimed.streams.facts.items()):
            # What a kept row doesn't say yet is this run's own: such a row isn't behind the table, and it shows a
            # rollback.
            begin = partial(self._plans_of, claimed.kept.rows(), facts, positions, families[stream])
            plans |= claimed.streams.isolate(stream, begin) or {}
        return plans

    def _plans_of(
        self, held: Mapping[ShardKey, Lease], facts: StreamFacts, positions: Positions, family: Family
    ) -> dict[ShardKey, Begin]:
        passed, known_shards = family.passed(positions), family.known
        how = how_to_read(self.settings, facts.stream)
        plans = {
            key: plan_begin(
                row,
                key,
                positions,
                retention=facts.retention,
                above=self._above(key, family, positions, passed),
                below=family.below(key.shard_id),
                known=known_shards,
                goes_on=how.on_data_loss is OnDataLoss.CONTINUE,
            )
            for key, row in held.items()
            if key.stream == facts.stream
        }
        return {key: _noting_family(plan, key.shard_id, family) for key, plan in plans.items()}

    def _above(self, key: ShardKey, family: Family, positions: Positions, passed: Mapping[str, str]) -> Above:
        # Only the first range of a shard names parents (I3), so Kinesis is asked about parents for unread shards only.
        by = passed.get(key.shard_id) if positions.of(key) is None else None
        if by is not None or not _is_unread(positions.of(key)) or key.stream not in positions.origins:
            return Above(passed_by=by)
        since = SinceOrigin(key.stream, positions, self.ports.source)
        reasons, waiting = parents_of(
            key.shard_id,
            family,
            positions,
            since.is_gone,
            passed=passed,
            ended_before=since.ended_before,
            holds_all=since.holds_all,
            keeps=since.keeps,
        )
        waiting += self._unlisted(key, family, positions)
        return Above(reasons, waiting, lost=lost_above(key.shard_id, family, positions, reasons))

    def _unlisted(self, key: ShardKey, family: Family, positions: Positions) -> tuple[InTheWay, ...]:
        """Why the shard waits while no listing shows it: its parents may be unknown. A shard that Kinesis has forgotten
        is in no listing any more, and is judged by the parents that are known."""
        if positions.of(key) is not None or key.shard_id in family.listed or self.ports.source.is_gone(key):
            return ()
        why = "no listing of the stream shows this shard yet, so that its parents aren't known"
        return (InTheWay(key.shard_id, why),)


def _noting_family(plan: Begin, shard_id: str, family: Family) -> Begin:
    match plan:
        case Read():
            return replace(plan, is_listed=shard_id in family.listed)
        case Passed():
            return replace(plan, children=family.children.get(shard_id, frozenset()))
    return plan


def _is_unread(position: Position | None) -> bool:
    """Whether no record of the shard has landed yet, so that its start depends on its parents."""
    return position is None or (position.sequence is None and not position.ended)
