"""One attempt of a run: wave after wave, all with the same claim. A run may be killed after any step; the next
wave, or another run, goes on from what was written by then.

    (table, stage) -> claim -> the row, then the table -> stage -> (gaps) -> commit -> checkpoint -> (end of a shard:
    child leases, childShardIds, SHARD_END) -> release

Reading always starts at the position in the lake table. `on_step` is called after each step: it makes Dagster's
events, and tests and the simulator use it to see a wave, or to end it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.pipeline.core.leases.change import require_some
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.lake_table import ensure_table
from headrace.pipeline.duties.streams.lost_ends import LostEnds
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.kept_claims import KeptClaims
from headrace.pipeline.duties.waves.land import LandingStep
from headrace.pipeline.duties.waves.listed_numbers import ListedNumbers
from headrace.pipeline.duties.waves.load_report import LoadReport
from headrace.pipeline.duties.waves.plan import Planning
from headrace.pipeline.duties.waves.report import OnStep, Problem, WaveLog, WaveReport, WaveStep
from headrace.pipeline.duties.waves.shard_ends import ShardEnds
from headrace.pipeline.duties.waves.stage import Staging
from headrace.pipeline.duties.waves.steps import Claimed, WavePorts
from headrace.pipeline.duties.waves.wave_rows import WaveRows
from headrace.pipeline.duties.waves.wave_streams import WaveStreams
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.staging import LetsGo, OnWaiting
from headrace.pipeline.settings.model import Settings

T = TypeVar("T")

_OLD = 1.0
"""Seconds. Lease rows that were read longer ago are read again before they are claimed."""


def _has_nothing(_: Collection[ShardKey]) -> None: ...


def _keeps_none(_: frozenset[str]) -> bool:
    return False


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One attempt of a run. `wave()` makes one wave; the caller decides when the next one begins."""

    run_id: str
    settings: Settings
    policy: Policy
    claims: Claims
    ports: WavePorts
    rows: WaveRows
    load: LoadReport
    on_step: OnStep
    on_waiting: OnWaiting
    """Called with a sentence while the stage is slow to open."""
    left_alone: frozenset[str] = frozenset()
    """Lease keys of shards that failed lately, and that this run doesn't read."""
    failed: dict[str, str] = field(default_factory=dict)
    """Lease keys of shards that failed in this run, each with the reason. The run doesn't read them again."""
    numbers: ListedNumbers = field(default_factory=ListedNumbers)
    kept: KeptClaims = field(init=False)

    def __post_init__(self) -> None:
        stage = self.ports.stage
        letting_go = stage.let_go if isinstance(stage, LetsGo) else _has_nothing
        self.kept = KeptClaims(claims=self.claims, times=self.settings.times, letting_go=letting_go)

    @property
    def _stays(self) -> float:
        """Seconds for which a quiet shard stays with the run."""
        # If it went at once, it would take along its process, and the next record would start another one.
        has_processes = self.kept.keeps and isinstance(self.ports.stage, LetsGo)
        return self.settings.times.idle.total_seconds() if has_processes else 0.0

    def beat(self) -> bool:
        """Show that this run lives, if it makes progress. A timer thread calls this beside the waves and the pauses
        between them.

        A run that hangs stops beating, so that other runs may take its shards (D8 and D11 of
        docs/reference/protocol.md).
        """
        # The beat is bound to progress and not to the process's life: a timer thread goes on
        # beating although the wave's thread hangs, and then the shards would be nobody's for ever.
        if self.claims.time_without_progress() > self.settings.hung_after:
            return False
        self.claims.beat()
        # The beat of this claim in the worker's row comes first. Where heartbeats are by lease, the
        # rows are beaten as well, because KCL's workers look at nothing else.
        held = tuple(self.claims.held.values())  # a copy: the wave's thread changes the dictionary meanwhile
        beats = self.policy.signs_of_life.beats_of_run(self.claims.me, held)
        require_some(self.ports.leases.apply_all(beats))
        return True

    def expected(self) -> tuple[str, ...]:
        """Lease keys of the claimed shards that surely have records to read: never read before, or behind."""
        held = self.kept.rows().values()
        return tuple(row.key for row in held if row.looked_at is None or row.behind_ms)

    def look(self) -> tuple[Problem, ...]:
        """Called in a pause, where `kept.must_look` says so: releases the shards that another run waits for or
        that are handed over. Returns a problem for each row that was lost. An error doesn't end the run, because
        the next wave looks, too.
        """
        return self._between(self.kept.look)

    def let_go(self) -> tuple[Problem, ...]:
        """Release all rows at the end of the run. Returns a problem for each row that was lost, and for each that
        couldn't be released: such a row becomes free once the claim is dead.
        """
        return self._between(self.kept.let_go)

    def _between(self, act: Callable[[WaveLog], None]) -> tuple[Problem, ...]:
        log = WaveLog()
        with suppress(HeadraceError):
            act(log)
        return tuple(log.problems)

    def ask_for(self, keys: Iterable[str]) -> None:
        """Called before the first wave of a run for named shards: a run that has claimed one of them releases it
        while this run starts Spark. An error ends nothing, because the first wave meets the same trouble and
        reports it.
        """
        with suppress(HeadraceError):
            self.beat()  # other runs go by the beat of a run that waits
            if self.claims.want_claimed(keys):
                self.ports.stage.open(self._hear_waiting)

    def wave(self, keys: Iterable[str] | None = None) -> WaveReport:
        """One wave: claim, read, land, checkpoint, release. `keys`: the shards to read; None for what is due of all
        leases that the worker owns."""
        log = WaveLog()
        self.claims.note_progress()
        self.beat()
        # A run for named shards keeps none: the run that reads all due shards of the worker may wait for them.
        kept_rows = self.kept.begin_wave(log, self.policy.may_keep if keys is None else _keeps_none)
        streams = WaveStreams(log, self.ports.source, self.claims)
        lost = {p.lease_key for p in log.problems}
        candidates = [row for row in self._candidates(keys, kept_rows) if row.key not in lost]
        if keys is not None:
            lost_ends = self._lost_ends.among(row for row in candidates if row.has_ended)
            log.problems.extend(Problem(key, why, fatal=True) for key, why in lost_ends.items())
        candidates = [row for row in candidates if not row.has_ended]
        try:
            rows = streams.describe(candidates, self.settings)
        finally:
            # Also where `describe` raises: the wave ends here if no stream could be described.
            self.claims.note_undescribed(candidates, streams.failed)
        living = self.claims.living_claims(rows)
        if keys is None:
            rows = self.rows.choose(rows, streams.known, living)
            self.claims.note_progress()
        claimed: tuple[str, ...] = ()
        warm: frozenset[str] = frozenset()
        try:
            self._claim(log, streams, rows)
            claimed = self.claims.keys
            if claimed:
                self.on_step(WaveStep.CLAIMED, claimed)
                self._read_and_land(Claimed(self.claims, self.kept, streams, log))
            # Not after an error: the next wave then takes the same warm shards again.
            self.rows.remember(rows, log.landed, stays=self._stays)
            warm = self.rows.warm
        except HeadraceError as error:
            log.stopped_by = str(error)
            raise
        except Exception as error:
            # The sentence goes into lease rows. The error's text could quote a record, so only its type is named (I32).
            log.stopped_by = f"the wave was stopped by an unexpected {type(error).__name__}"
            raise
        finally:
            self.kept.end_wave(log, keep=warm)
            self.on_step(WaveStep.RELEASED, claimed)
        # After the release: the load is a hint for the leader, and no shard waits for a hint.
        self.load.report_when_due()
        # This run doesn't try them again. The next one does, after a time that grows with each failure.
        self.failed.update({p.lease_key: p.why for p in log.problems if p.fatal})
        return log.report(len(claimed))

    def between_waves(self, act: Callable[[], T]) -> T | None:
        """Release all rows, and then call `act`. If a row couldn't be released, `act` isn't called, because the
        row's shard would wait for it. A run that hangs in `act` stops beating, as one that hangs in a wave does.
        The time that `act` took doesn't count as time of the next wave (I40 of docs/reference/protocol.md).
        """
        self.let_go()
        self.claims.note_progress()
        if self.kept.has_claims:
            return None
        try:
            return act()
        finally:
            self.claims.note_progress()

    def _claim(self, log: WaveLog, streams: WaveStreams, rows: Iterable[Lease]) -> None:
        claimable = self.claims.claimable(log, streams.by_name, rows)
        # Rows that this wave doesn't take are released before the stage is opened: other runs may
        # wait for them.
        self.kept.release_others(log, claimable)
        if claimable:
            self._make_ready(log, claimable)
        # Spark took its time: the rows may be others' by now, and kept rows must not keep others waiting for it.
        if log.waited >= _OLD:
            self.kept.let_go(log)
            claimable = self.claims.claimable(log, streams.by_name, self._read_again(claimable))
        kept_keys = set(self.claims.keys)
        self.claims.take(log, streams.by_name, [row for row in claimable if row.key not in kept_keys])

    def _make_ready(self, log: WaveLog, claimable: Sequence[Lease]) -> None:
        """Look at the lake table, and open the stage. Both come before the first claim: no other run can read a claimed
        shard, Spark may take minutes to start, and nothing can land in a table of a wrong form."""
        began = self.claims.clock.monotonic()
        try:
            ensure_table(self.ports.table, self.ports.leases, name=self.settings.landing.table)
            self.ports.stage.open(self._hear_waiting)
        except HeadraceError as error:
            self.failed.update({row.key: str(error) for row in claimable})
            self.claims.note_unclaimed(claimable, str(error))
            raise
        log.waited = self.claims.clock.monotonic() - began
        self.claims.note_progress()

    def _hear_waiting(self, sentence: str) -> None:
        """A run that waits for Spark goes on beating for as long as the stage tells of the wait. It keeps no shard
        meanwhile (I41), and no other run has to leave a shard to it."""
        self.claims.note_progress()
        self.kept.let_go(WaveLog())
        self.claims.unwant_all()
        self.on_waiting(sentence)

    def _read_again(self, rows: Iterable[Lease]) -> list[Lease]:
        read_rows = self.ports.leases.get_many([row.key for row in rows]).leases
        self.claims.living_claims(read_rows)  # Claims goes by the beats of this look
        return [row for row in read_rows if not row.has_ended]

    def _read_and_land(self, claimed: Claimed) -> None:
        """The steps between claim and release, each with the value of the step before it. The wave ends early if there
        is nothing to read, or nothing to commit."""
        keys = self.claims.keys
        planned = self._planning.plan(claimed)
        if not planned.reads:
            return
        staged = self._staging.stage(planned, on_staged=lambda: self.on_step(WaveStep.STAGED, keys))
        if staged is None:
            return
        landed = self._landing.land(staged)
        self.on_step(WaveStep.COMMITTED, keys)
        self._landing.follow(landed)
        self.on_step(WaveStep.CHECKPOINTED, keys)

    def _candidates(self, keys: Iterable[str] | None, kept_rows: Mapping[str, Lease]) -> list[Lease]:
        """The rows of shards that this run may try to read, and of those that have ended. `kept_rows`: rows that were
        just read, by lease key."""
        leases = self.ports.leases
        candidates: Iterable[Lease | None]
        if keys is None:
            owned = {row.key: row for row in leases.held_by(self.claims.me, kept_rows).leases}
            candidates = {**owned, **kept_rows}.values()  # the index of owners may lack a new row for a while
        else:
            candidates = [leases.get(key) for key in keys]
        left_alone = self.left_alone | self.failed.keys()
        return [row for row in candidates if row is not None and row.key not in left_alone]

    # -- the steps -------------------------------------------------------------------------------------------------

    @property
    def _lost_ends(self) -> LostEnds:
        ports = self.ports
        return LostEnds(settings=self.settings, leases=ports.leases, source=ports.source, table=ports.table)

    @property
    def _ends(self) -> ShardEnds:
        return ShardEnds(
            claims=self.claims,
            leases=self.ports.leases,
            source=self.ports.source,
            multi=self.settings.multi,
        )

    @property
    def _planning(self) -> Planning:
        return Planning(
            run_id=self.run_id,
            settings=self.settings,
            record_foreign_ranges=self.policy.record_foreign_ranges,
            ports=self.ports,
            ends=self._ends,
        )

    @property
    def _staging(self) -> Staging:
        return Staging(
            run_id=self.run_id,
            settings=self.settings,
            ports=self.ports,
            load=self.load,
            ends=self._ends,
            numbers=self.numbers,
        )

    @property
    def _landing(self) -> LandingStep:
        return LandingStep(
            run_id=self.run_id, ports=self.ports, claims=self.claims, kept=self.kept, ends=self._ends
        )
