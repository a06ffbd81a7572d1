"""Claims that a run keeps from wave to wave: when their rows are written, and when the run gives them away (I36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.beside_kcl.kept_claims import KeepsUntilKclIsSeen
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.change import Applied, Change, Refused, initiate_handover, want
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.kept_claims import KeptClaims
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.reading import an_attempt
from tests.duties.world import World
from tests.memory.leases import MemoryLeaseStore

SECOND = timedelta(seconds=1)
KEY = "shardId-000000000000"


class Writes(MemoryLeaseStore):
    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[ChangeKind] = []
        self.unanswered = False
        """Whether the next write gets no answer. It is applied."""

    def apply(self, change: Change) -> Applied | Refused:
        self.kinds.append(change.kind)
        done = super().apply(change)
        if self.unanswered:
            self.unanswered = False
            raise Unreachable("no answer")
        return done


@dataclass
class Flowing(World):
    shards: int = 1
    leases: Writes = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.leases = Writes()

    def begun(self, run: str = "run", worker: str = "w1") -> Attempt:
        self.settle()
        self.runs.launch(run, worker)
        self.runs.start(run)
        self.leases.kinds.clear()
        return an_attempt(self, run, worker=worker, on_step=self._on_step)

    def flow(self, run: Attempt, *, waves: int) -> None:
        """Waves that find records each, as often as the settings say."""
        for _ in range(waves):
            self.produce(0, 1)
            assert run.wave().rows
            self.clock.advance(self.settings.wave.every)

    def row(self) -> Lease:
        found = self.leases.get(KEY)
        assert found is not None
        return found

    @property
    def stands(self) -> Checkpoint | None:
        at = self.table.load().positions.of(self.shard(0))
        return None if at is None else at.checkpoint


def as_stolen(row: Lease) -> Lease:
    """The row after a KCL worker has taken it: KCL doesn't know the claim, and leaves it."""
    return replace(row, owner="kcl", counter=row.counter + 1)


# --- when the rows are written -----------------------------------------------------------------------------------


def test_a_run_writes_a_flowing_shards_row_once_a_minute_and_makes_it_exact_at_its_end() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=30)
    assert Counter(world.leases.kinds) == {ChangeKind.CLAIM: 1, ChangeKind.CHECKPOINT: 5}
    assert world.row().checkpoint != world.stands
    run.let_go()
    assert world.leases.kinds[-1] is ChangeKind.CHECKPOINT_AND_RELEASE
    assert (world.row().run_claim, world.row().checkpoint) == (None, world.stands)
    assert (world.row().landed, world.row().behind_ms) == (world.stands, 0)
    world.check()


def test_what_the_table_refused_isnt_remembered_as_landed() -> None:
    """Another run, which takes this one for dead, lands the first of three records while this run reads all of them."""
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=2)
    world.produce(0, 3)
    stage = world.stage.stage

    def overtaken(batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        world.stage.stage = stage  # type: ignore[method-assign]
        first = stage(batches, spec, replace(limits, records=1))
        (read,) = first.staged
        landed = Range(Kind.LANDED, read.key, read.after, read.upto, run="other", claim="other/1", rows=1)
        assert world.table.commit(Proposal((landed,), first.files)).snapshot is not None
        return stage(batches, spec, limits)

    world.stage.stage = overtaken  # type: ignore[method-assign]
    assert ["no record of this range was committed" in p.why for p in run.wave().problems] == [True]
    run.let_go()
    assert world.stands is not None
    assert world.row().checkpoint <= world.stands
    assert run.wave().rows == 2
    run.let_go()
    assert world.row().checkpoint == world.stands
    world.check()


def test_the_row_never_lacks_a_record_that_landed_more_than_a_minute_before_the_last_one() -> None:
    world = Flowing()
    run = world.begun()
    reached: list[tuple[float, Checkpoint | None]] = []
    for _ in range(60):
        world.produce(0, 1)
        world.clock.advance(7 * SECOND)
        run.wave()
        reached.append((world.clock.monotonic(), world.stands))
        old = [at for when, at in reached if when <= world.clock.monotonic() - 60.0]
        assert not old or (old[-1] is not None and world.row().checkpoint >= old[-1])


def test_the_checkpoint_of_a_kept_row_is_written_in_a_pause_of_five_minutes_too() -> None:
    world = Flowing()
    world.settings = replace(world.settings, wave=replace(world.settings.wave, every=timedelta(minutes=5)))
    run = world.begun()
    world.produce(0)
    seen: list[tuple[float, bool]] = []
    began = world.clock.monotonic()

    def pause(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        seen.append((world.clock.monotonic() - began, world.row().checkpoint == world.stands))

    world.clock.pause = pause  # type: ignore[method-assign]
    loop = Run(
        attempt=run,
        settings=world.settings,
        clock=world.clock,
        on_wave=lambda _: None,
        is_stopping=lambda: world.clock.monotonic() - began > 290.0,
    )
    loop.all_that_is_due()
    assert min(at for at, is_exact in seen if is_exact) <= 60.0
    assert world.leases.kinds == [ChangeKind.CLAIM, ChangeKind.CHECKPOINT, ChangeKind.RELEASE]


def test_a_quiet_shard_is_released_with_its_checkpoint_in_one_write() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=1)
    run.wave()
    assert world.leases.kinds == [ChangeKind.CLAIM, ChangeKind.CHECKPOINT_AND_RELEASE]
    assert (world.row().checkpoint, world.row().run_claim) == (world.stands, None)


def test_a_late_checkpoint_without_an_answer_is_found_written_at_the_next_look() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=5)
    world.clock.advance(10 * SECOND)
    world.leases.unanswered = True
    run.look()
    assert world.row().checkpoint == world.stands
    world.flow(run, waves=3)
    run.let_go()
    assert (world.row().checkpoint, world.row().run_claim) == (world.stands, None)
    world.check()


def test_an_error_in_a_wave_releases_all_rows_with_what_earlier_waves_landed() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=2)
    world.stage.stage = lambda *_: (_ for _ in ()).throw(Unreachable("Spark is gone"))  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        run.wave()
    assert (world.row().checkpoint, world.row().run_claim) == (world.stands, None)


def test_a_run_for_named_shards_and_a_run_with_heartbeat_lease_keep_nothing() -> None:
    each = [ChangeKind.CLAIM, ChangeKind.CHECKPOINT, ChangeKind.RELEASE]
    world = Flowing()
    run = world.begun()
    world.produce(0)
    run.wave((KEY,))
    assert world.leases.kinds == each
    world = Flowing()
    world.settings = replace(world.settings, kcl=KclSettings(heartbeat=Heartbeat.LEASE))
    run = world.begun()
    world.produce(0)
    run.wave()
    assert world.leases.kinds[-3:] == each


# --- who goes first ----------------------------------------------------------------------------------------------


def test_a_shard_that_another_run_waits_for_is_released_in_the_pause_and_left_alone_by_the_next_wave() -> (
    None
):
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=2)
    world.runs.launch("other", "w1")
    assert isinstance(world.leases.apply(want(world.row(), "other/1")), Applied)
    run.look()
    assert (world.row().run_claim, world.row().checkpoint) == (None, world.stands)
    world.produce(0)
    assert run.wave().claimed == 0


def test_a_kept_row_is_read_in_a_pause_once_a_tick_has_passed_or_somebody_asks_for_it() -> None:
    world = Flowing()
    run = world.begun()
    reasons: list[bool] = []

    def note(after: timedelta = timedelta(0)) -> None:
        world.clock.advance(after)
        run.claims.read_worker()
        reasons.append(run.kept.must_look)

    world.produce(0)
    run.wave()
    note()
    note(4 * SECOND)
    world.rows.ask("w1")
    note()
    run.look()
    note(4 * SECOND)
    note(SECOND)
    run.let_go()
    note()
    assert reasons == [False, False, True, False, True, False]


def test_a_run_that_was_asked_stays_asked_until_it_has_read_its_rows() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=2)
    world.rows.ask("w1")
    run.claims.read_worker()
    get_many = world.leases.get_many

    def fails(keys: Any) -> Any:
        raise Unreachable("no answer")

    world.leases.get_many = fails  # type: ignore[method-assign]
    run.look()
    assert run.kept.must_look
    world.leases.get_many = get_many  # type: ignore[method-assign]
    run.look()
    assert not run.kept.must_look


def test_a_request_from_before_the_runs_first_claim_isnt_for_this_run() -> None:
    world = Flowing()
    world.rows.ask("w1")
    run = world.begun()
    world.produce(0)
    run.wave()
    run.claims.read_worker()
    assert not run.kept.must_look


def test_a_handover_in_the_pause_is_completed_with_the_last_checkpoint() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=2)
    assert isinstance(world.leases.apply(initiate_handover(world.row(), "w2", "a test")), Applied)
    world.leases.kinds.clear()
    run.look()
    assert world.leases.kinds == [ChangeKind.CHECKPOINT_AND_RELEASE, ChangeKind.COMPLETE]
    row = world.row()
    assert (row.holder, row.run_claim, row.checkpoint) == ("w2", None, world.stands)


def test_a_run_that_waits_for_spark_again_keeps_nothing_meanwhile() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=2)
    held: list[str | None] = []

    def slowly(on_waiting: Any) -> None:
        on_waiting("Spark starts again")
        held.append(world.row().run_claim)
        world.clock.advance(5 * SECOND)

    world.stage.open = slowly  # type: ignore[method-assign]
    world.produce(0)
    assert run.wave().rows == 10
    assert held[0] is None
    world.check()


# --- whose row it is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [{"owner": "w2"}, {"run_claim": "other/1"}, {"run_claim": None}, {"stream_epoch": 1}],
    ids=str,
)
def test_a_kept_row_that_isnt_the_runs_any_more_is_left_out_of_the_wave(changed: dict[str, Any]) -> None:
    world = Flowing()
    run = world.begun()
    world.runs.launch("other", "w1")
    world.flow(run, waves=2)
    world.leases._rows[KEY] = replace(world.row(), **changed)
    world.produce(0)
    report = run.wave()
    assert (report.claimed, report.rows) == (0, 0)
    assert "the shard's row was taken" in report.problems[0].why
    assert run.claims.held == {}


def test_a_run_from_which_a_kcl_worker_takes_a_lease_removes_its_claim_and_keeps_no_other() -> None:
    world = Flowing(shards=2)
    run = world.begun()
    world.flow(run, waves=2)
    world.leases._rows[KEY] = as_stolen(world.row())
    lost = run.look()
    assert [each.why for each in lost] == [
        "the shard's row was taken by worker kcl meanwhile; what was committed stays"
    ]
    assert (world.row().holder, world.row().run_claim) == ("kcl", None)
    world.leases.kinds.clear()
    world.produce(1)
    run.wave()
    assert world.leases.kinds == [ChangeKind.CLAIM, ChangeKind.CHECKPOINT, ChangeKind.RELEASE]


def test_a_run_notices_the_kcl_worker_that_takes_a_lease_in_the_middle_of_a_wave() -> None:
    world = Flowing(shards=2)
    run = world.begun()
    world.flow(run, waves=1)

    def taken(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            world.leases._rows[KEY] = as_stolen(world.row())

    run.on_step = taken
    world.produce(0)
    run.wave()
    run.on_step = lambda *_: None
    world.produce(1)
    run.wave()
    assert run.kept.lost_to == {"kcl"}
    assert (world.row().holder, world.row().run_claim) == ("kcl", None)
    assert run.claims.held == {}, "the wave that finds the thief keeps nothing any more"


def test_claims_are_kept_only_while_no_kcl_worker_leads_and_none_took_a_lease() -> None:
    world = Flowing(workers=("w1", "w2"))
    world.settle()
    keeping = KeepsUntilKclIsSeen(world.lock, world.rows)
    assert keeping.may_keep(frozenset())
    assert keeping.may_keep(frozenset({"w2"}))
    assert not keeping.may_keep(frozenset({"w2", "kcl"}))
    leads = world.lock.read()
    world.lock.wipe()
    assert keeping.may_keep(frozenset())
    assert leads is not None
    assert world.lock.take(LockRow("kcl", "v1", leads.duration), seen=None)
    assert not keeping.may_keep(frozenset())


# --- rollbacks, kills and hangs ----------------------------------------------------------------------------------


def test_a_rollback_to_a_commit_that_the_row_doesnt_show_yet_stops_the_shard_of_a_living_run() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=1)
    first = world.table.load().snapshot
    world.flow(run, waves=1)
    world.table.rollback(first)
    world.produce(0)
    report = run.wave()
    assert "rolled back or restored" in report.problems[0].why
    assert world.table.load().snapshot == first
    landed = world.row().landed
    assert landed is not None
    assert world.stands is not None
    assert landed > world.stands, "the release tells the next run of the rollback"
    assert "rolled back or restored" in world.wave(run="next").problems[0].why


def test_a_run_that_takes_over_after_a_kill_reads_from_the_tables_position_and_repairs_the_row() -> None:
    world = Flowing()
    run = world.begun("killed")
    world.flow(run, waves=3)
    assert world.row().checkpoint != world.stands
    world.runs.end("killed")
    world.produce(0)
    assert world.wave(run="next").rows == 10
    assert world.row().checkpoint == world.stands
    world.check()


def test_a_run_that_hangs_in_a_pause_stops_beating() -> None:
    world = Flowing()
    run = world.begun()
    world.flow(run, waves=1)
    assert run.beat()
    world.clock.advance(world.settings.hung_after)
    assert not run.beat()
    run.look()
    assert run.beat()


def test_a_new_runs_beat_counts_from_its_beginning() -> None:
    world = Flowing()
    world.clock.advance(timedelta(hours=1))
    run = world.begun()
    assert run.beat()
    assert isinstance(run.kept, KeptClaims)
