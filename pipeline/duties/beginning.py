"""Before a wave reads: where the table stands, whose turn it is, and from where each shard is read on. Stream by stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pipeline.core.begin import Begin, plan_begin
from pipeline.core.lineage import ParentReason
from pipeline.core.order import Family, InTheWay, parents_of
from pipeline.core.position import Position, Positions
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import rows_of
from pipeline.duties.family import ended_before_origin, family_of
from pipeline.duties.origin import ensure_origin
from pipeline.duties.streams import how_to_read
from pipeline.duties.wave import Wave
from pipeline.duties.wave_streams import WaveStreams
from pipeline.ports import LandingTable, LeaseStore, ShardSource, StreamFacts, TableState
from pipeline.settings import Settings
from pipeline.settings_choices import OnDataLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    settings: Settings
    leases: LeaseStore
    source: ShardSource
    table: LandingTable

    def state(self, streams: WaveStreams) -> TableState:
        """A stream that the settings don't name was found by the leader: it alone decides where that one starts."""
        self.table.ensure()
        state = self.table.load()
        for stream, facts in tuple(streams.facts.items()):
            named = self.settings.stream(stream.name)
            if stream not in state.positions.origins and named is not None:
                # Once in a stream's life: no row of it may have digits.
                every = rows_of(stream, self.leases.scan().leases)
                decide = partial(ensure_origin, self.table, state, facts, stream=named, leases=every)
                state = streams.apart(stream, decide) or state
        return state

    def families(self, wave: Wave, streams: WaveStreams, positions: Positions) -> dict[StreamId, Family]:
        found: dict[StreamId, Family] = {}
        for stream in tuple(streams.facts):
            its = {key: row for key, row in wave.held.items() if key.stream == stream}
            begins = [key for key in its if _begins(positions.of(key)) and stream in positions.origins]
            ask = partial(
                family_of,
                stream,
                begins,
                held=its.values(),
                positions=positions,
                source=self.source,
                leases=self.leases,
            )
            family = streams.apart(stream, ask)
            if family is not None:
                found[stream] = family
        return found

    def plans(
        self, wave: Wave, streams: WaveStreams, positions: Positions, families: dict[StreamId, Family]
    ) -> dict[ShardKey, Begin]:
        plans: dict[ShardKey, Begin] = {}
        for stream, facts in tuple(streams.facts.items()):
            begin = partial(self._plans_of, wave, facts, positions, families[stream])
            plans |= streams.apart(stream, begin) or {}
        return plans

    def _plans_of(
        self, wave: Wave, facts: StreamFacts, positions: Positions, family: Family
    ) -> dict[ShardKey, Begin]:
        plans: dict[ShardKey, Begin] = {}
        passed = family.passed(positions)
        how = how_to_read(self.settings, facts.stream)
        for key, row in wave.held.items():
            if key.stream != facts.stream:
                continue
            reasons: tuple[ParentReason, ...] = ()
            waiting: tuple[InTheWay, ...] = ()
            by = passed.get(key.shard_id) if positions.of(key) is None else None
            if by is None and _begins(positions.of(key)) and facts.stream in positions.origins:
                reasons, waiting = parents_of(
                    key.shard_id,
                    family,
                    positions,
                    self.source.is_gone,
                    passed=passed,
                    ended_before=partial(ended_before_origin, facts.stream, positions, self.source),
                )
                waiting += self._unheard_of(key, family, positions)
            plans[key] = plan_begin(
                row,
                key,
                positions,
                retention=facts.retention,
                parents=reasons,
                waiting=waiting,
                passed_by=by,
                goes_on=how.on_data_loss is OnDataLoss.CONTINUE,
            )
        return plans

    def _unheard_of(self, key: ShardKey, family: Family, positions: Positions) -> tuple[InTheWay, ...]:
        """A shard that no listing shows yet may have a parent that nobody named. One that is gone can be judged."""
        if positions.of(key) is not None or key.shard_id in family.listed or self.source.is_gone(key):
            return ()
        return (InTheWay(key.shard_id, "no listing shows it yet, so that its parents aren't known"),)


def _begins(position: Position | None) -> bool:
    """Nothing of the shard has landed yet: where it starts depends on its parents."""
    return position is None or (position.sequence is None and not position.ended)
