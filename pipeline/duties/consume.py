"""A run at work: wave after wave, each in this order, and each arrow may be cut and run again.

    claim -> the row, then the table -> stage -> (gaps) -> commit -> checkpoint -> (end of a shard: child leases,
    childShardIds, SHARD_END) -> release

Reading starts at the *table's* position, always. What a wave tells its caller goes through `on_arrow`: Dagster's
events, progress, tests and the simulator listen there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from pipeline.core import change
from pipeline.core.batch import Limits, Manifest, Staged
from pipeline.core.begin import Begin, Finish, Passed, Read, Stop, Wait
from pipeline.core.change import Change, require_some
from pipeline.core.checkpoint import SHARD_END, TRIM_HORIZON
from pipeline.core.landing import Proposal, RangeRefused
from pipeline.core.lease import Lease
from pipeline.core.lineage import Kind, Range
from pipeline.core.load import throughput_after
from pipeline.core.position import Position, Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import a_lease
from pipeline.duties.beginning import Beginning
from pipeline.duties.claims import Claims
from pipeline.duties.due_rows import DueRows
from pipeline.duties.foreign import take_in_foreign
from pipeline.duties.gaps import record_gaps
from pipeline.duties.load_report import LoadReport
from pipeline.duties.wave import Arrow, Landed, OnArrow, Problem, Wave, WaveReport
from pipeline.duties.wave_rows import WaveRows
from pipeline.duties.wave_streams import WaveStreams
from pipeline.errors import WrongShape
from pipeline.ports import (
    Clock,
    Committed,
    LandingTable,
    LeaseStore,
    ShardSource,
    Stage,
    WorkerStore,
)
from pipeline.settings import Settings
from pipeline.settings_choices import Heartbeat


@dataclass(slots=True, kw_only=True)
class Consumption:
    """One attempt of a run. `wave()` does one round; the caller decides when the next one comes."""

    run_id: str
    settings: Settings
    claims: Claims
    leases: LeaseStore
    workers: WorkerStore
    source: ShardSource
    table: LandingTable
    stage: Stage
    clock: Clock
    on_arrow: OnArrow = lambda _arrow, _keys: None
    later: frozenset[str] = frozenset()
    """Lease keys that failed lately and are left alone."""
    due: frozenset[str] = frozenset()
    """Lease keys in which the worker's sensor found something to read."""
    failed: dict[str, str] = field(default_factory=dict)
    """Lease key -> why, of shards that this run gave up on. They don't hold up the others."""
    _wave: Wave | None = None
    _load: LoadReport = field(init=False)
    _rows: WaveRows = field(init=False)

    def __post_init__(self) -> None:
        self._rows = WaveRows(
            due=DueRows(worker_id=self.claims.me, leases=self.leases, source=self.source),
            claim=self.claims.claim,
            clock=self.clock,
            settings=self.settings,
            warm=self.due,
        )
        self._load = LoadReport(
            worker_id=self.claims.me, workers=self.workers, clock=self.clock, settings=self.settings.metrics
        )

    def beat(self) -> bool:
        """Called on a timer beside the wave. A wave that hangs stops the beat, so that others may take over."""
        wave, hung = self._wave, self.settings.times.hung_after.total_seconds()
        if wave is not None and self.clock.monotonic() - wave.progressed > hung:
            return False
        self.workers.beat_run(self.claims.me, self.claims.claim)
        if wave is not None and self.settings.coordination.heartbeat is Heartbeat.LEASE:
            held = tuple(wave.held.values())  # of another thread, which goes on
            require_some(self.leases.apply_all([change.beat(row, self.claims.me) for row in held]))
        return True

    def expected(self) -> tuple[str, ...]:
        """Keys of the claimed rows that surely have something to read: never looked at, or left behind."""
        held = self._wave.held.values() if self._wave else ()
        return tuple(row.key for row in held if row.looked_at is None or row.behind_ms)

    def wave(self, keys: Iterable[str] | None = None) -> WaveReport:
        """Claim, read, land, checkpoint, release. `keys` None: what is due of all that this worker owns."""
        wave = self._wave = Wave(self.clock.monotonic())
        self.beat()
        streams = WaveStreams(wave, self.source)
        rows = streams.ask(self._at_hand(keys), self.settings)
        living = self.claims.look(rows)
        if keys is None:
            rows = self._rows.choose(rows, streams.known, living)
            wave.progressed = self.clock.monotonic()
        try:
            self.claims.take(wave, streams.by_name, rows)
            if wave.held:
                self.on_arrow(Arrow.CLAIMED, wave.keys)
                self._read_and_land(wave, streams)
        finally:
            self.claims.release(wave)
            self.on_arrow(Arrow.RELEASED, wave.keys)
            self._wave = None
        self._rows.remember(rows, wave.landed)
        self._load.tell()
        self.failed.update({p.lease_key: p.why for p in wave.problems if p.fatal})
        return WaveReport(
            len(wave.held), tuple(wave.landed), tuple(wave.problems), wave.snapshot, notes=tuple(wave.notes)
        )

    def _at_hand(self, keys: Iterable[str] | None) -> list[Lease]:
        """Rows that may be read as far as this run knows."""
        found = (
            self.leases.held_by(self.claims.me).leases
            if keys is None
            else [self.leases.get(key) for key in keys]
        )
        left_alone = self.later | self.failed.keys()
        return [row for row in found if row is not None and not row.has_ended and row.key not in left_alone]

    # -- read and land -----------------------------------------------------------------------------------

    def _read_and_land(self, wave: Wave, streams: WaveStreams) -> None:
        begin = Beginning(settings=self.settings, leases=self.leases, source=self.source, table=self.table)
        state = begin.state(streams)
        if self.settings.coordination.allow_foreign_checkpoints:
            for stream in sorted(streams.facts.keys() & state.positions.origins.keys()):
                state, told = take_in_foreign(
                    stream,
                    {key: row for key, row in wave.held.items() if key.stream == stream},
                    state,
                    table=self.table,
                    leases=self.leases,
                    source=self.source,
                    run=self.run_id,
                    claim=self.claims.claim,
                )
                wave.notes.extend(told)
        families = begin.families(wave, streams, state.positions)
        plans = begin.plans(wave, streams, state.positions, families)
        if any(isinstance(plan, Stop) for plan in plans.values()):
            # Rows are read before the table: one look at a newer table before a row ahead of it is believed.
            state = self.table.load()
            plans = begin.plans(wave, streams, state.positions, families)
        reads = self._settle(wave, plans)
        if not reads:
            return
        manifest = self.stage.stage(
            [read.batch for read in reads.values()], self.table.staging_spec(), self._limits()
        )
        self._load.note(manifest.loads)
        wave.progressed = self.clock.monotonic()
        self.on_arrow(Arrow.STAGED, wave.keys)
        reads, manifest = streams.without_changed(reads, manifest)
        if not reads:
            return
        reads, manifest = self._record_gaps(wave, reads, manifest, streams)
        self._note_errors(wave, manifest)
        committed = self.table.commit(self._proposal(reads, manifest, streams))
        wave.progressed = self.clock.monotonic()
        self.on_arrow(Arrow.COMMITTED, wave.keys)
        self._follow(wave, manifest, committed, streams)
        self.on_arrow(Arrow.CHECKPOINTED, wave.keys)

    def _settle(self, wave: Wave, plans: dict[ShardKey, Begin]) -> dict[ShardKey, Read]:
        """Do what comes before reading: repairs, and the chores of shards that have ended already."""
        reads: dict[ShardKey, Read] = {}
        repairs: dict[ShardKey, Change] = {}
        for key, plan in plans.items():
            row = wave.held[key]
            match plan:
                case Read(repair=at):
                    reads[key] = plan
                    if at is not None:
                        repairs[key] = change.repair(row, self.claims.claim, at)
                case Finish(position):
                    self._finish(wave, key, position)
                case Passed(by):
                    self._bury(wave, key, by)
                case Wait(why):
                    wave.problems.append(Problem(row.key, why, fatal=False))
                case Stop(why):
                    wave.problems.append(Problem(row.key, why, fatal=True))
        lost = repairs.keys() - self.claims.write_all(wave, repairs)
        return {key: read for key, read in reads.items() if key not in lost}

    def _limits(self) -> Limits:
        budget = self.settings.wave
        return Limits(budget.records, budget.bytes, budget.seconds.total_seconds())

    def _record_gaps(
        self, wave: Wave, reads: dict[ShardKey, Read], manifest: Manifest, streams: WaveStreams
    ) -> tuple[dict[ShardKey, Read], Manifest]:
        """The reads as they stand after the gaps' own commits, and what of the manifest is still to land."""
        for stream, facts in streams.facts.items():
            gaps = record_gaps(
                {key: read.batch for key, read in reads.items() if key.stream == stream},
                [staged for staged in manifest.staged if staged.key.stream == stream],
                run=self.run_id,
                claim=self.claims.claim,
                facts=facts,
                table=self.table,
                source=self.source,
            )
            wave.notes.extend(gaps.sentences)
            for key, position in gaps.ended.items():
                self._finish(wave, key, position)
            reads = reads | {key: replace(reads[key], batch=batch) for key, batch in gaps.batches.items()}
            left = tuple(staged for staged in manifest.staged if staged.key not in gaps.ended)
            manifest = replace(manifest, staged=left)
        return reads, manifest

    def _note_errors(self, wave: Wave, manifest: Manifest) -> None:
        for staged in manifest.staged:
            if staged.error is not None:
                wave.problems.append(Problem(wave.held[staged.key].key, staged.error, fatal=True))

    def _proposal(self, reads: dict[ShardKey, Read], manifest: Manifest, streams: WaveStreams) -> Proposal:
        ranges = []
        for staged in manifest.staged:
            retention = streams.facts[staged.key.stream].retention
            if _is_worth_a_range(staged, reads[staged.key].batch.witness, retention):
                names = tuple(f.path.rsplit("/", 1)[-1] for f in manifest.files if staged.key in f.shards)
                ranges.append(self._range(staged, reads[staged.key], names))
        return Proposal(tuple(ranges), manifest.files)

    def _range(self, staged: Staged, read: Read, files: tuple[str, ...]) -> Range:
        return Range(
            Kind.LANDED,
            staged.key,
            after=read.batch.after,
            upto=staged.upto,
            run=self.run_id,
            claim=self.claims.claim,
            rows=staged.rows,
            bytes=staged.bytes,
            first_arrival=staged.first_arrival,
            last_arrival=staged.last_arrival,
            files=files,
            parents=read.batch.parents,
        )

    # -- after the commit --------------------------------------------------------------------------------

    def _follow(self, wave: Wave, manifest: Manifest, committed: Committed, streams: WaveStreams) -> None:
        refused: dict[ShardKey, RangeRefused] = {r.range.key: r for r in committed.landing.refused}
        ranges = {r.key: r for r in committed.landing.page.ranges}
        listed = self._listed_if_ended(streams, ranges.values())
        wave.snapshot = committed.snapshot
        checkpoints: dict[ShardKey, Change] = {}
        ended: list[Staged] = []
        for staged in manifest.staged:
            row = wave.held[staged.key]
            if staged.key in refused:
                why = f"{refused[staged.key].why}; nothing of it was committed, it is read again from the table's position"
                wave.problems.append(Problem(row.key, why, fatal=False))
                continue
            landed = ranges.get(staged.key)
            if landed is not None and staged.upto.ended and staged.key.stream in listed:
                ended.append(staged)
            elif landed is not None and not landed.upto.ended:
                checkpoints |= self._checkpoint(row, staged)
            wave.landed.append(
                Landed(
                    row.key,
                    staged,
                    committed.snapshot if landed else None,
                    files=landed.files if landed else (),
                    parents=tuple(sorted(row.parents)),
                )
            )
        self.claims.write_all(wave, checkpoints)
        for staged in ended:
            self._finish(wave, staged.key, staged.upto, listed[staged.key.stream])

    def _listed_if_ended(
        self, streams: WaveStreams, ranges: Iterable[Range]
    ) -> dict[StreamId, tuple[Shard, ...]]:
        """The details of children: their hash ranges, and the other parent of a merge. The chores of an end that can't
        be asked about now are done before the next wave."""
        found: dict[StreamId, tuple[Shard, ...]] = {}
        for stream in sorted({each.key.stream for each in ranges if each.upto.ended}):
            listed = streams.apart(stream, partial(self.source.list_shards, stream))
            if listed is not None:
                found[stream] = listed
        return found

    def _checkpoint(self, row: Lease, staged: Staged) -> dict[ShardKey, Change]:
        at = staged.upto.checkpoint
        if at is None or at == row.checkpoint:
            return {}
        kbps = throughput_after(row.throughput_kbps, staged)
        return {
            staged.key: change.checkpoint(row, self.claims.me, self.claims.claim, at=at, throughput_kbps=kbps)
        }

    def _finish(
        self, wave: Wave, key: ShardKey, position: Position, listed: tuple[Shard, ...] | None = None
    ) -> None:
        """Child leases, then childShardIds, then SHARD_END: KCL's readers find the children before the end.

        A child that no listing shows yet is left to the leader's shard sync: without the listing its other
        parent could be missed.
        """
        if listed is None:
            listed = self.source.list_shards(key.stream)
        known = {shard.shard_id: shard for shard in listed}
        for child in position.children:
            if child in known:
                lease = a_lease(
                    key.stream,
                    known[child],
                    multi=self.settings.multi,
                    positions=Positions(),
                    sentinel=TRIM_HORIZON,
                    owner=self.claims.me,
                )
                self._create(wave, lease, f"{key.shard_id} ended; {self.claims.me} reads on")
        if position.children and not self.claims.write(
            wave, key, change.note_children(wave.held[key], frozenset(position.children))
        ):
            return
        end = position.checkpoint
        if end is not None:
            row = wave.held[key]  # it carries nothing from now on, but stays a while
            ended = change.checkpoint(row, self.claims.me, self.claims.claim, at=end, throughput_kbps=0.0)
            self.claims.write(wave, key, ended)

    def _bury(self, wave: Wave, key: ShardKey, by: str) -> None:
        """A row that is left over, or came back: it says END as well, and the leader clears it away."""
        row = wave.held[key]
        end = change.checkpoint(row, self.claims.me, self.claims.claim, at=SHARD_END, throughput_kbps=0.0)
        if self.claims.write(wave, key, end):
            wave.notes.append(
                f"{row.key} counts as ended, for {by} after it has a position: nothing was read"
            )

    def _create(self, wave: Wave, lease: Lease, why: str) -> None:
        """A child's row. One that is there already is as good, understood or not."""
        try:
            self.leases.apply(change.create(lease, why))
        except WrongShape as error:
            wave.problems.append(Problem(lease.key, str(error), fatal=False))


def _is_worth_a_range(staged: Staged, witness: datetime, retention: timedelta) -> bool:
    """Progress always; having merely looked at the tip only when the last witness is getting old."""
    if staged.moved:
        return True
    return staged.upto.seen is not None and staged.upto.seen - witness > retention / 4
