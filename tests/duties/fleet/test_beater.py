"""The process that beats between a worker's ticks (`kcl.beat: process`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.duties.fleet.beater import BeaterMemory
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.settings.choices import Mode
from headrace.pipeline.settings.model import BEATS_ALONE
from tests.duties.beating import EVERY, FAILOVER, BeatenWorld
from tests.duties.moves import row_of
from tests.duties.reading import wiring_of


@pytest.mark.parametrize("mode", [Mode.OWN, Mode.KCL_2])
def test_between_two_ticks_that_are_fifteen_seconds_apart_every_lease_moves_each_third_of_the_failover(mode):
    beating = BeatenWorld(mode)
    for _ in range(4):
        beating.world.lead()
        beating.world.work()
        beating.turn()  # the tick beat, or its counter was seen
        for _ in range(4):
            beating.world.clock.advance(EVERY)
            before = beating.counters()
            assert beating.turn().beaten == 2
            assert beating.counters() == [counter + 1 for counter in before]


def test_a_lease_that_was_assigned_since_the_last_tick_gets_its_beat():
    beating = BeatenWorld()
    beating.turn()
    row = row_of(beating.world, 0)
    beating.world.leases.apply(change.assign(row, "k1", "a steal"))
    assert beating.turn().beaten == 1
    beating.world.leases.apply(change.assign(row_of(beating.world, 0), "w1", "given back"))
    assert beating.turn().beaten == 2


@pytest.mark.parametrize("mode", [Mode.OWN, Mode.KCL_2])
def test_a_beat_never_moves_the_counter_of_a_lease_that_another_worker_has_taken(mode):
    beating = BeatenWorld(mode)
    beating.turns(7)  # so that the next turn doesn't search, where that would be a scan
    beating.world.leases.apply(change.assign(row_of(beating.world, 0), "k1", "a steal"))
    taken = row_of(beating.world, 0)
    beating.turn()
    assert row_of(beating.world, 0) == taken
    assert beating.memory.rows.keys() == {row_of(beating.world, 1).key}


def test_a_lease_whose_row_is_gone_is_forgotten_and_the_others_get_their_beats():
    beating = BeatenWorld()
    beating.turn()
    beating.world.leases.wipe(row_of(beating.world, 0).key)
    report = beating.turn()
    assert (report.sentence, report.beaten) == ("worker w1: beats between its ticks", 1)
    assert report.memory.rows.keys() == {row_of(beating.world, 1).key}


def test_where_a_search_costs_a_scan_only_each_third_turn_scans():
    beating = BeatenWorld(Mode.KCL_2)
    scans = []
    for _ in range(7):
        before = beating.world.leases.scans
        beating.turn()
        scans.append(beating.world.leases.scans - before)
    assert scans == [1, 0, 0, 1, 0, 0, 1]


def test_the_rate_of_a_quiet_shard_falls_with_each_beat_by_the_time_between_two_beats():
    beating = BeatenWorld()
    quiet_since = beating.world.clock.now() - timedelta(minutes=5)
    row = replace(row_of(beating.world, 0), throughput_kbps=100.0, looked_at=quiet_since, behind_ms=0)
    beating.world.leases._rows[row.key] = row
    beating.turn()
    rate = row_of(beating.world, 0).throughput_kbps
    assert rate == pytest.approx(100.0 * 0.5 ** (EVERY / timedelta(minutes=1)), abs=1e-5)


def test_a_lease_whose_key_was_an_ended_one_of_the_stream_s_former_life_gets_its_beat():
    """An ended row gets no beat, so nothing else shows the process that the row isn't there any more."""
    beating = BeatenWorld()
    beating.turn()
    ended = {
        row.key: replace(row, checkpoint=SHARD_END, landed=SHARD_END) for row in beating.memory.rows.values()
    }
    beating.memory = replace(beating.memory, rows=ended)
    beating.turns(2 * FAILOVER.total_seconds())
    assert beating.turn().beaten == 2


def test_a_process_that_was_frozen_doesn_t_beat_by_what_it_knew():
    """It demands the counter: between its look and its write the lease went away and came back."""
    beating = BeatenWorld()
    beating.turn()
    duty = wiring_of(beating.world).beater("w1")
    stale = {row.key: replace(row, counter=row.counter - 2) for row in beating.memory.rows.values()}
    before = beating.counters()
    report = duty.turn(replace(beating.memory, rows=stale))
    assert (report.beaten, beating.counters()) == (0, before)
    assert duty.turn(report.memory).beaten == 2


def test_a_beat_of_the_tick_and_one_of_the_process_don_t_harm_each_other():
    beating = BeatenWorld()
    for _ in range(6):
        before = beating.counters()
        beating.turn()
        beating.world.work()
        assert all(after > counter for after, counter in zip(beating.counters(), before, strict=True))
        beating.world.clock.advance(EVERY)
    assert {row.owner for row in beating.world.leases.scan().leases} == {"w1"}


def test_a_running_wave_beats_for_its_own_leases_and_the_process_leaves_them():
    beating = BeatenWorld()
    beating.world.produce(0, 5)
    beating.turn()
    beating.world.killed_run(WaveStep.CLAIMED)
    claimed = beating.counters()
    assert [report.beaten for report in beating.turns(10)] == [0, 0, 0]
    assert beating.counters() == claimed


def test_a_run_that_beats_in_its_worker_s_row_lives_however_long_it_reads():
    beating = BeatenWorld()
    beating.world.produce(0, 5)
    beating.turn()
    beating.world.killed_run(WaveStep.CLAIMED)
    claims = {row.run_claim for row in beating.world.leases.scan().leases if row.run_claim is not None}
    beaten = []
    for _ in range(60):
        for claim in claims:
            beating.world.rows.beat_run("w1", claim)
        beaten.append(beating.turn().beaten)
        beating.world.clock.advance(EVERY)
    assert beating.world.settings.times.lease_duration < 60 * EVERY
    assert set(beaten) == {0}


@pytest.mark.parametrize("mode", [Mode.OWN, Mode.KCL_2])
def test_once_a_wave_has_released_a_lease_the_process_beats_for_it_in_its_next_turn(mode):
    beating = BeatenWorld(mode)
    beating.world.produce(0, 5)
    beating.world.runs.launch("run", "w1")
    beating.world.runs.start("run")
    run = beating.world.a_run(run="run")

    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            beating.turns(7)

    run.on_step = on_step
    run.wave()
    assert beating.turn().beaten == 2


def test_the_leases_of_a_run_that_shows_no_beat_get_the_process_s_beat_as_they_get_the_tick_s():
    beating = BeatenWorld()
    beating.world.produce(0, 5)
    beating.turn()
    beating.world.killed_run(WaveStep.CLAIMED)
    reports = beating.turns(beating.world.settings.times.lease_duration.total_seconds() + 12)
    assert reports[0].beaten == 0
    assert reports[-1].beaten == 2


def test_a_lease_that_is_being_handed_over_gets_beats_until_the_next_owner_has_it():
    beating = BeatenWorld()
    beating.turn()
    beating.world.leases.apply(change.initiate_handover(row_of(beating.world, 0), "k1", "a handover"))
    assert [report.beaten for report in beating.turns(7)] == [2, 2]
    beating.world.leases.apply(change.complete_handover(row_of(beating.world, 0), "handed over"))
    done = row_of(beating.world, 0)
    assert beating.turn().beaten == 1
    assert row_of(beating.world, 0) == done


def test_without_a_tick_it_falls_silent_after_the_time_that_it_may_beat_alone():
    beating = BeatenWorld()
    alone = BEATS_ALONE.total_seconds()
    reports = beating.turns(alone + 3 * EVERY.total_seconds())
    assert [report.beaten for report in reports[:5]] == [2] * 5
    assert reports[-1].beaten == 0
    assert reports[-1].sentence == (
        "worker w1: silent, because neither a tick nor a run of it was seen for 130 seconds; its leases go to other workers. "
        "It beats again with the next tick"
    )
    before = beating.counters()
    assert beating.turn().beaten == 0
    assert beating.counters() == before
    beating.world.work()
    assert beating.turn().beaten == 2


def test_a_process_that_is_started_again_and_again_doesn_t_keep_a_dead_worker_s_leases():
    beating = BeatenWorld()
    beating.world.clock.advance(BEATS_ALONE + timedelta(seconds=10))
    for _ in range(3):
        beating.memory = BeaterMemory()
        assert all(report.beaten == 0 for report in beating.turns(10))
    beating.world.work()
    assert beating.turn().beaten == 2


def test_a_process_that_is_started_again_beside_a_living_worker_beats_at_once():
    beating = BeatenWorld()
    beating.turn()
    beating.memory = BeaterMemory()
    assert beating.turn().beaten == 2


def test_it_may_beat_alone_up_to_the_very_end_of_its_time():
    beating = BeatenWorld()
    beating.turn()
    beating.world.work()
    beating.turn()
    beating.world.clock.advance(BEATS_ALONE)
    assert beating.turn().beaten == 2
    beating.world.clock.advance(timedelta(milliseconds=1))
    assert beating.turn().beaten == 0


def test_once_it_is_at_work_no_clock_of_another_host_counts():
    beating = BeatenWorld()
    beating.turn()
    beating.world.clock.jump(timedelta(hours=1))
    assert beating.turn().beaten == 2


def test_a_process_that_is_started_beside_a_row_without_a_time_waits_for_the_next_tick():
    beating = BeatenWorld()
    row = beating.world.rows.get("w1")
    assert row is not None
    beating.world.rows._rows["w1"] = replace(row, last_update=None)
    assert beating.turn().beaten == 0
    beating.world.work()
    assert beating.turn().beaten == 2


def test_a_process_that_is_started_before_its_worker_has_a_row_waits_for_the_first_tick():
    beating = BeatenWorld()
    beating.world.rows.wipe("w1")
    assert beating.turn().sentence == "worker w1: silent, because the worker's sensor hasn't ticked yet"
    beating.world.work()
    assert beating.turn().beaten == 2


def test_it_is_silent_for_a_worker_that_stops_and_for_one_without_a_row():
    beating = BeatenWorld()
    beating.world.rows.set_stopping("w1", stopping=True)
    assert beating.turn().sentence == "worker w1: silent, because it is stopping"
    beating.world.rows.wipe("w1")
    assert beating.turn().sentence == "worker w1: silent, because the worker's sensor hasn't ticked yet"


def test_its_beats_don_t_make_a_dead_worker_count_as_alive_for_a_leader():
    beating = BeatenWorld()
    before = beating.world.rows.get("w1")
    assert before is not None
    beating.turn()
    after = beating.world.rows.get("w1")
    assert after is not None
    assert after.beaten_at == beating.world.clock.now()
    assert (after.token, after.last_update) == (before.token, before.last_update)


def test_the_tick_says_so_if_the_settings_ask_for_the_process_and_none_beats():
    beating = BeatenWorld()
    beating.world.tick(8)
    alarm = beating.world.work().alarm
    assert alarm is not None
    assert "no process beats for this worker" in alarm
    beating.turn()
    assert beating.world.work().alarm is None
