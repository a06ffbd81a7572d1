"""What every implementation of the lake table does where a person sets the table back between a decision about records that haven't landed
and the commit of what was read by that decision. The position is the same before and after such a decision."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import Origin, Position, Start
from tests.contract.lakes import LAKES, a_lake
from tests.lake.samples import NOON, ORIGIN, STREAM, a_file, a_key, a_landing, a_range, at
from tests.lake.tables import Lake

A = a_key(0)
EXACTLY = NOON + timedelta(hours=1, microseconds=1500)
"""More exact than the whole milliseconds that a snapshot keeps."""


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A table in which the position of shard A is 3."""
    made = a_lake(request, tmp_path)
    made.table.commit(ORIGIN)
    made.table.commit(a_landing(made.table.staging_spec(), A, after=None, numbers=[1, 2, 3]))
    return made


def a_skip(lake: Lake, upto: Position) -> Proposal:
    return Proposal((a_range(A, lake.table.load().positions.of(A), upto, kind=Kind.SKIPPED),))


def rows_after(lake: Lake, position: Position | None) -> Proposal:
    """What a run has read from this position on."""
    file = a_file(lake.table.staging_spec(), {A: [8]})
    return Proposal((a_range(A, position, 8, rows=1, files=[file]),), (file,))


DECISIONS: dict[str, Callable[[Position], Position]] = {
    "a gap": lambda position: replace(position, skipped_until=EXACTLY),
    "a gap is accepted": lambda position: replace(position, gap_accepted=True),
    "a checkpoint of another program": lambda position: replace(position, inside=True),
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_what_was_read_by_a_decision_lands_where_the_table_has_it(lake: Lake, decision: str):
    committed = lake.table.commit(a_skip(lake, DECISIONS[decision](at(3))))
    # As the run that made the decision knows the position, and as another process reads it from the table.
    for position in (committed.state.positions.of(A), lake.handle().load().positions.of(A)):
        assert not lake.handle().commit(rows_after(lake, position)).landing.refused
        assert lake.numbers() == {A.shard_id: [1, 2, 3, 8]}
        lake.rollback(1)


@pytest.mark.parametrize("decision", DECISIONS)
def test_what_was_read_by_a_decision_doesnt_land_where_a_person_has_undone_it(lake: Lake, decision: str):
    committed = lake.table.commit(a_skip(lake, DECISIONS[decision](at(3))))
    late = rows_after(lake, committed.state.positions.of(A))
    lake.before_next_swap(lambda: lake.rollback(1))
    (refused,) = lake.table.commit(late).landing.refused
    assert "what is decided about the records after it has changed" in refused.why
    assert lake.numbers() == {A.shard_id: [1, 2, 3]}
    assert [each.kind for page in lake.pages() for each in page.ranges] == [Kind.LANDED]


def test_what_was_read_before_a_gap_was_recorded_doesnt_land_after_it(lake: Lake):
    late = rows_after(lake, at(3))
    lake.table.commit(a_skip(lake, replace(at(3), skipped_until=NOON)))
    assert lake.table.commit(late).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2, 3]}


def test_a_look_at_a_quiet_shard_keeps_what_was_read_at_the_same_time(lake: Lake):
    late = rows_after(lake, at(3))
    lake.table.commit(Proposal((a_range(A, 3, replace(at(3), seen=NOON)),)))
    assert not lake.table.commit(late).landing.refused


def test_what_was_read_by_one_origin_doesnt_land_where_the_table_has_another(lake: Lake):
    other_life = replace(STREAM, epoch=STREAM.epoch + 1)
    first, second = (Origin(Start(NOON + timedelta(hours=hours)), NOON) for hours in (1, 2))
    key = a_key(0, other_life)
    lake.table.commit(Proposal(origins=((other_life, second),)))
    lake.rollback(1)
    lake.table.commit(Proposal(origins=((other_life, first),)))
    file = a_file(lake.table.staging_spec(), {key: [8]})
    late = Proposal((a_range(key, None, 8, rows=1, files=[file]),), (file,), begun_by={other_life: second})
    (refused,) = lake.table.commit(late).landing.refused
    assert "this range was read by another one" in refused.why
    assert not lake.table.commit(replace(late, begun_by={other_life: first})).landing.refused
