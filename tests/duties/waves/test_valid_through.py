"""The statement `valid-through`, from the leader's clean-up and from waves, over the life of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.cleanup import Cleaning, CleanupDue
from tests.duties.life import DAY, STREAM, Life


def clean(life: Life) -> None:
    cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
    due = CleanupDue(completed=True, garbage=True)
    cleaning.clean(due, life.source.describe(STREAM), listing=life.leases.scan(), state=life.table.load())


def stated(life: Life) -> datetime | None:
    return life.table.load().through.get(life.stream)


def last_arrival(life: Life, shard: int) -> datetime:
    at = life.at(shard)
    assert at is not None
    assert at.witness is not None
    return at.witness


def a_stream_that_was_read() -> Life:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    return life


def test_the_statement_begins_at_the_clean_up_after_all_shards_have_positions() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    clean(life)
    assert stated(life) is None
    life.wave()
    assert stated(life) is None
    clean(life)
    assert stated(life) == last_arrival(life, 0) - APPROXIMATE


def test_the_clean_up_commits_it_once() -> None:
    life = a_stream_that_was_read()
    clean(life)
    before = life.table.load().snapshot
    clean(life)
    assert life.table.load().snapshot == before


def test_it_goes_on_with_the_records_that_land() -> None:
    life = a_stream_that_was_read()
    clean(life)
    life.later(DAY / 24)
    life.produce(0)
    life.wave()
    assert stated(life) == last_arrival(life, 0) - APPROXIMATE


def test_children_hold_it_where_their_parent_ended_until_they_are_read() -> None:
    life = a_stream_that_was_read()
    clean(life)
    life.source.split(life.key(0))
    life.later(DAY / 24)
    life.produce(1)
    life.wave()
    parent = last_arrival(life, 0)
    assert stated(life) == parent - APPROXIMATE
    life.later(DAY / 24)
    life.produce(1)
    life.produce(2)
    life.wave()
    assert stated(life) == min(last_arrival(life, 1), last_arrival(life, 2)) - APPROXIMATE


def test_a_quiet_shard_moves_it_when_kinesis_was_asked_again() -> None:
    life = a_stream_that_was_read()
    clean(life)
    before = stated(life)
    assert before is not None
    life.later(DAY / 2)
    life.wave()
    now = stated(life)
    assert now is not None
    assert now > before
    assert now <= life.clock.now() - APPROXIMATE


HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def two_shards_that_were_read() -> Life:
    life = Life(shards=2)
    life.sync()
    for shard in (0, 1):
        life.produce(shard)
    life.wave()
    clean(life)
    return life


def test_in_a_stream_at_rest_the_clean_up_moves_it_once_after_each_full_hour() -> None:
    life = two_shards_that_were_read()
    first, commits = stated(life), []
    assert first is not None
    for minutes in range(5, 185, 5):
        life.later(5 * MINUTE)
        before = life.table.load().snapshot
        clean(life)
        if life.table.load().snapshot != before:
            commits.append(minutes)
            assert stated(life) == life.source.describe(STREAM).asked - APPROXIMATE
    assert commits == [10, 70, 130]
    life.check()


def test_beside_a_shard_with_records_it_is_ten_minutes_late_and_a_clean_up_for_a_quiet_shard() -> None:
    life = two_shards_that_were_read()
    late = []
    for _ in range(48):
        life.later(5 * MINUTE)
        life.produce(0)
        life.wave()
        clean(life)
        until = stated(life)
        assert until is not None
        late.append(life.clock.now() - until)
    assert max(late) <= 15 * MINUTE + APPROXIMATE
    life.check()


def test_a_record_that_no_run_has_read_stops_it() -> None:
    life = two_shards_that_were_read()
    life.later(2 * HOUR)
    life.produce(1)
    clean(life)
    assert stated(life) == last_arrival(life, 1) - APPROXIMATE
    before = life.table.load()
    clean(life)
    assert life.table.load() == before, "each further commit would move nothing"


def test_a_quiet_shard_that_a_wave_reads_moves_it_with_a_commit_that_is_made_anyway() -> None:
    life = two_shards_that_were_read()
    life.later(HOUR)
    before = life.table.load().snapshot
    life.wave(keys=[life.key(1).shard_id])
    assert life.table.load().snapshot == before, "a look alone is worth no commit"
    life.produce(0)
    life.wave(keys=[life.key(0).shard_id, life.key(1).shard_id])
    until = stated(life)
    assert until is not None
    assert life.clock.now() - until <= APPROXIMATE + MINUTE


def test_a_shard_of_which_records_may_be_lost_isnt_called_quiet() -> None:
    life = two_shards_that_were_read()
    life.later(DAY / 2 + HOUR)
    before = life.table.load()
    clean(life)
    assert life.table.load() == before


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda life: (life.source.delete_stream(STREAM), life.source.create_stream(STREAM, 2)),
        lambda life: life.later(DAY / 2 + HOUR),
    ],
    ids=["the stream was created again", "the leader was frozen until records may have left the stream"],
)
def test_answers_that_may_hide_unread_records_dont_call_a_shard_quiet(
    meanwhile: Callable[[Life], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    life = two_shards_that_were_read()
    life.later(2 * HOUR)
    life.produce(1)
    before = life.table.load()

    def no_news(keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        meanwhile(life)
        return frozenset()

    monkeypatch.setattr(life.source, "has_news", no_news)
    clean(life)
    assert life.table.load() == before
