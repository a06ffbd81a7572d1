"""What a sensor's cursor keeps for a tick in another process."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.duties.fleet.cursor import read_worker, write_worker
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.sensors.results import state_of_cursor, with_sentence
from tests.dagster.fixtures import MakeWorld

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_cursor_keeps_that_a_kcl_worker_leads():
    seen = LeaderWatchMemory(NOW, "v2", other=Sighting("kcl-1:v2", timedelta(seconds=20), moved=True))
    assert read_worker(write_worker(WorkerMemory(leader=seen))).leader == seen


def test_a_cursor_without_the_field_for_a_kcl_leader_can_be_read():
    seen = LeaderWatchMemory(NOW, "v2", Sighting("w1:7", timedelta(seconds=20), moved=True))
    """Earlier versions of Headrace wrote such cursors."""
    said = json.loads(write_worker(WorkerMemory(leader=seen)))
    said["leader"] = said["leader"][:3]
    assert read_worker(json.dumps(said)).leader == seen


@pytest.mark.parametrize("sensor", ["leader", "worker_w1"])
def test_a_cursor_begins_with_the_ticks_sentence_because_dagsters_page_of_a_sensor_shows_it(
    make_world: MakeWorld, sensor: str
):
    world = make_world()
    world.settle()
    result = world.tick(sensor)
    said, bar, state = str(result.cursor).partition(" | ")
    assert bar
    # A tick that asks for a run has no skip reason.
    assert said in str(result.skip_reason) or said.startswith("2 shards due")
    assert state_of_cursor(result.cursor) == state
    assert json.loads(state)


def test_the_watch_shows_its_sentence_also_where_it_remembers_nothing(make_world: MakeWorld):
    world = make_world()
    world.settle()
    result = world.tick("watch")
    assert isinstance(result.skip_reason, dg.SkipReason)
    assert result.skip_reason.skip_message == f"watch: {result.cursor}"


def test_a_cursor_names_runs_as_short_as_dagsters_pages_do():
    run = "d7f84e73-b6b2-44f7-b564-4db87d10aa8c"
    cursor = with_sentence(json.dumps({"run": run}), f"worker w1: run {run} is at work, 1 shard failing")
    assert cursor == f'run d7f84e73 is at work, 1 shard failing | {{"run": "{run}"}}'


def test_ids_with_bars_leave_a_tick_what_the_one_before_it_has_seen():
    """Ids of KCL's workers are any text."""
    seen = LeaderWatchMemory(
        NOW, "v2", other=Sighting("ip-10-0-0-1 | 7f3a:v2", timedelta(seconds=20), moved=True)
    )
    state = write_worker(WorkerMemory(leader=seen))
    cursor = with_sentence(state, "worker w1: ip-10-0-0-1 | 7f3a leads |")
    assert cursor.startswith("ip-10-0-0-1 / 7f3a leads / | {")
    assert state_of_cursor(cursor) == state
    assert read_worker(state_of_cursor(cursor)).leader == seen


def test_a_long_sentence_is_cut_in_the_cursor_and_a_lost_state_stays_lost():
    cursor = with_sentence('{"look":1}', f"leader: {'word ' * 100}| and\nmore")
    assert cursor is not None
    assert len(cursor) < 180
    assert cursor.startswith("word word ")
    assert "… | " in cursor
    assert state_of_cursor(cursor) == '{"look":1}'
    assert with_sentence(None, "leader: nothing to do") == "nothing to do"
    assert state_of_cursor("nothing to do") is None
    assert state_of_cursor("a sentence / with a bar") is None
    assert state_of_cursor(None) is None
