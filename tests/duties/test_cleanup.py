"""What is over is cleared away, and never comes back to be read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pipeline.core.checkpoint import SHARD_END
from pipeline.core.lineage import Kind
from pipeline.duties.cleanup import Cleaning, CleanupDue, CleanupMemory, CleanupReport
from pipeline.settings.model import CoordinationSettings, TimeSettings
from tests.duties.life import DAY, Life

ALL = CleanupDue(completed=True, garbage=True)
COMPLETED = CleanupDue(completed=True)


def clean(life: Life, due: CleanupDue = ALL) -> CleanupReport:
    cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
    return cleaning.clean(due, life.stream, listing=life.leases.scan(), state=life.table.load())


def cleared(life: Life, due: CleanupDue = ALL) -> tuple[int, int, int]:
    """Rows deleted, ENDs dropped, refused deletions."""
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
    """Time goes by until Kinesis knows nothing of closed shards; the open ones are seen meanwhile."""
    for _ in range(5):
        life.later(DAY / 4)
        life.wave()


def test_a_row_of_an_ended_shard_stays_while_a_listing_shows_the_shard() -> None:
    life = a_split_that_was_read()
    assert cleared(life) == (0, 0, 0)
    assert life.row(0) is not None


def test_it_goes_with_its_end_once_kinesis_has_forgotten_the_shard_and_is_not_read_again() -> None:
    life = a_split_that_was_read()
    forgotten(life)
    assert cleared(life) == (1, 1, 0)
    assert (life.row(0), life.at(0)) == (None, None)
    life.sync()
    assert life.row(0) is None
    life.produce(1)
    life.wave()
    life.check()


def test_a_tombstone_stays_while_a_child_is_still_at_its_start() -> None:
    life = a_split_that_was_read(children=False)
    life.later(DAY + timedelta(hours=1))
    assert cleared(life) == (0, 0, 0)
    assert life.row(0) is not None


def test_a_tombstone_stays_while_its_parents_row_does() -> None:
    life = a_split_that_was_read()
    life.source.merge(life.key(1), life.key(2))
    life.produce(3)
    life.wave()
    life.wave()
    forgotten(life)
    life.source.hidden = frozenset()
    assert cleared(life, COMPLETED) == (1, 0, 0)
    assert (life.row(0), life.row(1) is None, life.row(2) is None) == (None, False, False)
    assert cleared(life, COMPLETED) == (2, 0, 0)


def test_a_row_that_says_end_while_the_table_does_not_is_kept() -> None:
    """A rolled back table, or a reader that isn't ours: the row is the only witness."""
    life = a_split_that_was_read()
    forgotten(life)
    life.table.rollback(1)
    life.clock.advance(DAY)
    assert clean(life).deleted == 0
    assert life.row(0) is not None


def test_a_row_of_an_unread_shard_that_vanished_is_no_garbage() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.later(DAY + timedelta(hours=1))
    assert cleared(life) == (0, 0, 0)
    assert life.row(0) is not None


def test_a_frozen_leaders_late_create_resurrects_nothing() -> None:
    """D4: the row of a shard that ended comes back, before and after the table let go of its END."""
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


def test_an_end_that_was_let_go_is_not_read_again_when_a_late_listing_shows_the_shard() -> None:
    """D15 of docs/protocol.md."""
    life = a_split_that_was_read()
    forgotten(life)
    clean(life)
    assert life.at(0) is None
    life.source.is_gone = lambda key: False  # type: ignore[method-assign]
    found = life.source._streams["orders"]  # the shard is back in every answer
    found.closed_at[life.key(0).shard_id] = life.clock.now()
    life.produce(1)
    assert life.sync() == []
    life.put_row(0)
    for _ in range(2):
        life.wave()
    life.check()
    assert [r.key for r in life.ledger(Kind.LANDED)].count(life.key(0)) == 1


def test_a_left_over_row_that_no_run_came_to_is_garbage() -> None:
    life = a_split_that_was_read()
    forgotten(life)
    clean(life)
    life.put_row(0, owner=None, children=frozenset({life.key(1).shard_id}))
    assert cleared(life, COMPLETED) == (0, 0, 0)
    assert cleared(life) == (1, 0, 0)


def test_a_row_that_moved_meanwhile_stays() -> None:
    life = a_split_that_was_read()
    forgotten(life)
    listing, row = life.leases.scan(), life.row(0)
    assert row is not None
    life.lose_rows(0)
    life.put_row(0, checkpoint=SHARD_END, counter=row.counter + 1)
    cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
    report = cleaning.clean(COMPLETED, life.stream, listing=listing, state=life.table.load())
    assert (report.deleted, report.refused) == (0, 1)


def test_without_cleanup_rows_stay_and_the_table_still_lets_go() -> None:
    life = a_split_that_was_read()
    life.settings = replace(life.settings, coordination=CoordinationSettings(cleanup=False))
    forgotten(life)
    assert cleared(life) == (0, 1, 0)


def test_rounds_come_at_kcls_cadence_and_a_lost_memory_costs_one_more() -> None:
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
