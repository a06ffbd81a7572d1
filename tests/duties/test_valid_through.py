"""The statement `valid-through`, from the leader's clean-up and from waves, over the life of a stream."""

from __future__ import annotations

from datetime import datetime

from pipeline.core.valid_through import APPROXIMATE
from pipeline.duties.cleanup import Cleaning, CleanupDue
from tests.duties.life import DAY, Life


def clean(life: Life) -> None:
    cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
    due = CleanupDue(completed=True, garbage=True)
    cleaning.clean(due, life.stream, listing=life.leases.scan(), state=life.table.load())


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
