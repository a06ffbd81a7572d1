"""Rows and ENDs that are no longer needed are deleted, and their shards are never read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.duties.fleet.cleanup import Cleaning, CleanupDue, CleanupMemory, CleanupReport
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.model import TimeSettings
from tests.duties.life import DAY, STREAM, Life

ALL = CleanupDue(completed=True, garbage=True)
COMPLETED = CleanupDue(completed=True)


def clean(life: Life, due: CleanupDue = ALL) -> CleanupReport:
    cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
    return cleaning.clean(
        due, life.source.describe(STREAM), listing=life.leases.scan(), state=life.table.load()
    )


def clean_up(life: Life, due: CleanupDue = ALL) -> tuple[int, int, int]:
    """How many rows were deleted, how many ENDs were removed, and how many writes were refused."""
    report = clean(life, due)
    return report.deleted, report.dropped, report.refused


def a_split_that_was_read(*, children: bool = True) -> Life:
    life = Life()
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.produce(1)
    life.produce(2)
    life.wave()
    if children:
        life.wave()
    return life


def forgotten(life: Life) -> None:
    """Let a day and more pass, so that Kinesis forgets closed shards. Open shards are read meanwhile."""
    for _ in range(5):
        life.later(DAY / 4)
        life.wave()


def test_the_row_of_an_ended_shard_stays_while_a_listing_shows_the_shard() -> None:
    life = a_split_that_was_read()
    assert clean_up(life) == (0, 0, 0)
    assert life.row(0) is not None


def test_row_and_end_are_deleted_once_kinesis_has_forgotten_the_shard_and_it_is_not_read_again() -> None:
    life = a_split_that_was_read()
    forgotten(life)
    assert clean_up(life) == (1, 1, 0)
    assert (life.row(0), life.at(0)) == (None, None)
    life.sync()
    assert life.row(0) is None
    life.produce(1)
    life.wave()
    life.check()


def test_a_tombstone_stays_while_a_child_is_still_at_its_start() -> None:
    life = a_split_that_was_read(children=False)
    life.later(DAY + timedelta(hours=1))
    assert clean_up(life) == (0, 0, 0)
    assert life.row(0) is not None


def test_a_tombstone_stays_while_the_row_of_its_parent_exists() -> None:
    life = a_split_that_was_read()
    life.source.merge(life.key(1), life.key(2))
    life.produce(3)
    life.wave()
    life.wave()
    forgotten(life)
    life.source.hidden = frozenset()
    assert clean_up(life, COMPLETED) == (1, 0, 0)
    assert (life.row(0), life.row(1) is None, life.row(2) is None) == (None, False, False)
    assert clean_up(life, COMPLETED) == (2, 0, 0)


def test_a_row_at_shard_end_stays_while_the_table_has_no_end_of_the_shard() -> None:
    """The table was rolled back, or another reader wrote the row. Then only the row knows of the shard's end."""
    life = a_split_that_was_read()
    forgotten(life)
    life.table.rollback(1)
    life.clock.advance(DAY)
    assert clean(life).deleted == 0
    assert life.row(0) is not None


def test_the_row_of_an_unread_shard_that_left_the_stream_stays() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.later(DAY + timedelta(hours=1))
    assert clean_up(life) == (0, 0, 0)
    assert life.row(0) is not None


def test_a_shard_whose_row_a_frozen_leader_creates_late_is_not_read_again() -> None:
    """D4: the row of an ended shard comes back, before and after the table's END is removed."""
    for dropped in (False, True):
        life = a_split_that_was_read()
        forgotten(life)
        assert clean(life, ALL if dropped else COMPLETED).deleted == 1
        life.put_row(0)
        assert life.wave().problems == ()
        row = life.row(0)
        assert row is not None
        assert row.checkpoint == SHARD_END
        assert clean(life).deleted == 1
        life.check()


def test_a_shard_whose_end_was_removed_is_not_read_again_when_a_late_listing_shows_it() -> None:
    """D15 of docs/reference/protocol.md."""
    life = a_split_that_was_read()
    forgotten(life)
    clean(life)
    assert life.at(0) is None
    life.source.is_gone = lambda key: False  # type: ignore[method-assign]
    found = life.source._streams["orders"]  # the shard is in every answer again
    found.closed_at[life.key(0).shard_id] = life.clock.now()
    life.produce(1)
    assert life.sync() == []
    life.put_row(0)
    for _ in range(2):
        life.wave()
    life.check()
    assert [r.key for r in life.ledger(Kind.LANDED)].count(life.key(0)) == 1


def test_a_left_over_row_that_no_run_claimed_is_deleted_as_garbage() -> None:
    life = a_split_that_was_read()
    forgotten(life)
    clean(life)
    life.put_row(0, owner=None, children=frozenset({life.key(1).shard_id}))
    assert clean_up(life, COMPLETED) == (0, 0, 0)
    assert clean_up(life) == (1, 0, 0)


def test_a_row_that_changed_since_it_was_read_stays() -> None:
    life = a_split_that_was_read()
    forgotten(life)
    listing, row = life.leases.scan(), life.row(0)
    assert row is not None
    life.lose_rows(0)
    life.put_row(0, checkpoint=SHARD_END, counter=row.counter + 1)
    cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
    report = cleaning.clean(COMPLETED, life.source.describe(STREAM), listing=listing, state=life.table.load())
    assert (report.deleted, report.refused) == (0, 1)


def test_with_the_clean_up_switched_off_rows_stay_and_the_table_still_removes_ends() -> None:
    life = a_split_that_was_read()
    life.settings = replace(life.settings, coordination=CoordinationSettings(cleanup=False))
    forgotten(life)
    assert clean_up(life) == (0, 1, 0)


def test_clean_ups_fall_due_as_often_as_kcls_and_a_lost_memory_causes_one_more() -> None:
    life, times = Life(), TimeSettings()
    now = life.clock.now()
    memory = CleanupMemory()
    assert memory.due(now, times) == ALL
    memory = memory.after(ALL, now)
    assert not memory.due(now + timedelta(minutes=4), times)
    assert memory.due(now + timedelta(minutes=5), times) == COMPLETED
    assert memory.after(COMPLETED, now + timedelta(minutes=29)).due(
        now + timedelta(minutes=30), times
    ) == CleanupDue(garbage=True)
    assert memory.due(now - timedelta(minutes=1), times) == ALL
