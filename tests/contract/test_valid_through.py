"""What every implementation of the lake table promises of the statement `valid-through`."""

from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Landing, Proposal
from headrace.pipeline.core.landing.valid_through import quiet_shards, seen_quiet
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage
from headrace.pipeline.core.shards.position import Position
from tests.lake.samples import NOON, ORIGIN, STREAM, a_key, a_landing, a_range, at
from tests.lake.tables import IcebergLake, Lake, MemoryLake, append_as_others, summary_of

A, B = a_key(0), a_key(1)
UP_TO_NOON = {STREAM: NOON - APPROXIMATE}
HOUR = timedelta(hours=1)


@pytest.fixture(params=[MemoryLake, IcebergLake], ids=["memory", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A table with positions of two shards, up to noon."""
    made: Lake = request.param(tmp_path)
    made.table.commit(ORIGIN)
    for key in (A, B):
        made.table.commit(a_landing(made.table.staging_spec(), key, after=None, numbers=[1]))
    return made


def prove(lake: Lake, *shards: str) -> None:
    known = frozenset(shards or (A.shard_id, B.shard_id))
    lake.table.commit(Proposal(proofs=((STREAM, known),)))


def move(lake: Lake, *, kind: Kind = Kind.LANDED, upto: int = 2, hours: int = 1) -> None:
    """Move both shards in one commit, without records."""
    later = Position(upto, arrival=NOON + hours * HOUR)
    ranges = tuple(a_range(key, lake.table.load().positions.of(key), later, kind=kind) for key in (A, B))
    assert not lake.table.commit(Proposal(ranges)).landing.refused


def test_a_proof_makes_a_commit_that_states_something_and_each_commit_carries_it_on(lake: Lake):
    assert lake.table.load().through == {}
    prove(lake)
    assert lake.handle().load().through == UP_TO_NOON
    move(lake)
    assert lake.handle().load().through == {STREAM: NOON + HOUR - APPROXIMATE}


def test_the_answer_to_a_commit_states_what_the_table_does(lake: Lake):
    prove(lake)
    answer = lake.table.commit(a_landing(lake.table.staging_spec(), A, after=1, numbers=[2]))
    assert answer.state.through == lake.table.load().through == UP_TO_NOON


def test_a_proof_for_other_shards_and_a_second_proof_commit_nothing(lake: Lake):
    before = lake.table.load()
    prove(lake, A.shard_id, "shardId-000000000007")
    assert lake.table.load() == before
    prove(lake)
    after = lake.table.load()
    prove(lake)
    assert lake.table.load() == after


def test_an_empty_range_that_saw_quiet_shards_moves_the_statement_and_no_position(lake: Lake):
    prove(lake)
    state = lake.table.load()
    known, now = (STREAM, state.through, state.positions), NOON + 2 * HOUR
    asked = quiet_shards(*known, now=now, retention=timedelta(days=1))
    assert asked == {A: 1, B: 1}
    lake.table.commit(Proposal(seen_quiet(*known, keys=asked, news=(), now=now, by="leader")))
    after = lake.handle().load()
    assert after.through == {STREAM: now - APPROXIMATE}
    assert {key: at.token for key, at in after.positions.shards.items()} == {
        key: at.token for key, at in state.positions.shards.items()
    }
    assert not lake.table.commit(
        a_landing(lake.table.staging_spec(), A, after=1, numbers=[2])
    ).landing.refused


def test_a_shard_that_has_landed_more_meanwhile_isnt_seen_quiet(lake: Lake):
    prove(lake)
    state = lake.table.load()
    move(lake)
    later = lake.table.load()
    ranges = seen_quiet(
        STREAM, state.through, state.positions, keys=[A, B], news=(), now=NOON + 2 * HOUR, by="leader"
    )
    assert len(lake.table.commit(Proposal(ranges)).landing.refused) == 2
    assert lake.handle().load() == later


def test_other_engines_commits_leave_the_statement(lake: Lake):
    prove(lake)
    lake.append_as_others(rows=False)
    assert lake.handle().load().through == UP_TO_NOON


def test_the_carried_state_has_the_statement(lake: Lake):
    prove(lake)
    lake.append_as_others(rows=False)
    assert lake.table.carry().through == lake.handle().load().through == UP_TO_NOON


def test_a_rollback_takes_the_statement_back_to_what_it_was(lake: Lake):
    prove(lake)
    move(lake)
    lake.rollback(1)
    assert lake.table.load().through == UP_TO_NOON
    lake.rollback(1)
    assert lake.table.load().through == {}


def test_a_commit_that_comes_first_is_what_the_next_one_carries_on(lake: Lake):
    prove(lake)
    lake.before_next_swap(lambda: move(lake))
    lake.table.commit(a_landing(lake.handle().staging_spec(), a_key(2), after=None, numbers=[1]))
    assert lake.table.load().through == {STREAM: NOON + HOUR - APPROXIMATE}


def test_a_rollback_before_the_swap_makes_the_proof_worthless(lake: Lake):
    lake.before_next_swap(lambda: lake.rollback(1))
    prove(lake)
    assert lake.table.load().through == {}


def test_a_position_that_a_person_moved_withdraws_the_statement_until_the_next_proof(lake: Lake):
    prove(lake)
    move(lake)
    move(lake, kind=Kind.REPOSITION, upto=1, hours=0)
    assert lake.table.load().through == {}
    prove(lake)
    assert lake.table.load().through == UP_TO_NOON
    assert lake.table.load().positions.of(A) == at(1)


def test_a_repaired_table_states_nothing(lake: Lake):
    prove(lake)
    state = lake.table.load()
    lake.table.rebuild(Landing(LedgerPage(), (), (), state.positions), state.snapshot)
    assert lake.table.load().through == {}


# --- the summary, as other programs read it -----------------------------------------------------------------


@pytest.fixture
def iceberg(tmp_path: Path) -> IcebergLake:
    made = IcebergLake(tmp_path)
    made.iceberg.commit(ORIGIN)
    for key in (A, B):
        made.iceberg.commit(a_landing(made.iceberg.staging_spec(), key, after=None, numbers=[1]))
    return made


def test_a_summary_has_the_time_and_nothing_while_it_isnt_known(iceberg: IcebergLake):
    assert {key for key in summary_of(iceberg) if "valid" in key} == set()
    prove(iceberg)
    summary = summary_of(iceberg)
    assert summary["headrace.valid-through"] == "2026-01-31T11:59:00.000+00:00"
    assert (
        summary["headrace.valid-through.streams"]
        == f'[["{STREAM.arn}",{STREAM.epoch},"2026-01-31T11:59:00.000+00:00"]]'
    )


def test_where_positions_are_in_a_file_the_statement_of_each_stream_is_too(iceberg: IcebergLake):
    digits = 10**55
    many = [a_key(n) for n in range(4_000)]
    known = iceberg.iceberg.load().positions
    ranges = tuple(
        a_range(key, known.of(key), Position(digits + pow(7, n + 1, 10**30 + 57), arrival=NOON))
        for n, key in enumerate(many)
    )
    iceberg.iceberg.commit(Proposal(ranges))
    prove(iceberg, *(key.shard_id for key in many))
    summary = summary_of(iceberg)
    assert "headrace.state" in summary
    assert "headrace.valid-through.streams" not in summary
    assert summary["headrace.valid-through"] == "2026-01-31T11:59:00.000+00:00"
    assert iceberg.handle().load().through == UP_TO_NOON


def test_after_a_commit_of_an_older_version_the_statement_begins_with_a_new_proof(iceberg: IcebergLake):
    prove(iceberg)
    head = iceberg.iceberg.open().current_snapshot()
    assert head is not None
    older = {key: value for key, value in summary_of(iceberg).items() if "valid" not in key}
    append_as_others(
        iceberg.iceberg.open(),
        summary={key: value for key, value in older.items() if key.startswith("headrace.")},
    )
    assert iceberg.iceberg.load().through == {}
    assert iceberg.iceberg.load().positions.of(A) == at(1)
    prove(iceberg)
    assert iceberg.iceberg.load().through == UP_TO_NOON
