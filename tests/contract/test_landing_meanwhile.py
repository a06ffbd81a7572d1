"""What every implementation of the lake table promises of commits beside which something happens: another commit comes first, a
staged file goes, or an answer is lost."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import CommitUnknown, Transient
from headrace.pipeline.ports.landing import LandingTable
from tests.contract.lakes import LAKES, a_lake, chain_of, land
from tests.lake.samples import ORIGIN, a_file, a_key, a_landing, a_range
from tests.lake.tables import Lake
from tests.memory.table import LostOnTheWay

A, B, C = (a_key(i) for i in range(3))


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return a_lake(request, tmp_path)


def test_a_staged_file_that_was_deleted_lands_nothing(landed: Lake):
    """Without the check, Iceberg would commit the file's name, and each scan of the table would fail afterwards."""
    before = landed.table.load()
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])
    landed.remove(proposal.files[0])
    with pytest.raises(Transient, match="can't be found any more"):
        landed.table.commit(proposal)
    assert landed.table.load() == before
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}


def test_a_staged_file_that_is_deleted_while_another_commit_comes_first_lands_nothing(landed: Lake):
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])

    def meanwhile() -> None:
        land(landed, B, None, [1])
        landed.remove(proposal.files[0])

    landed.before_next_swap(meanwhile)
    with pytest.raises(Transient, match="can't be found any more"):
        landed.table.commit(proposal)
    assert landed.numbers() == {A.shard_id: [1, 2, 3], B.shard_id: [1]}


def test_a_request_from_before_a_commit_that_was_rolled_back_is_refused(landed: Lake):
    """The head is again the snapshot that the request was built on. Upkeep has deleted the request's file behind that commit."""
    late = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])
    before = landed.numbers()

    def delete_behind_a_fence_and_roll_back() -> None:
        landed.handle().carry()
        landed.remove(late.files[0])
        landed.rollback(1)

    landed.before_next_swap(delete_behind_a_fence_and_roll_back)
    with pytest.raises((Transient, CommitUnknown)):
        landed.table.commit(late)
    assert landed.numbers() == before


def test_files_that_grow_too_old_while_another_commit_comes_first_land_nothing(landed: Lake):
    """A process may be frozen for days between its reading of the table and its commit request."""
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])

    def meanwhile() -> None:
        land(landed, B, None, [1])
        landed.clock.at += timedelta(days=2)

    landed.before_next_swap(meanwhile)
    with pytest.raises(Transient, match="older than"):
        landed.table.commit(proposal)
    assert landed.numbers() == {A.shard_id: [1, 2, 3], B.shard_id: [1]}


def test_after_a_commit_request_without_an_answer_a_deleted_file_makes_the_outcome_unknown(
    landed: Lake,
):
    """The commit request may still reach the catalog."""
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])

    def remove_the_file_and_lose_the_request() -> None:
        landed.remove(proposal.files[0])
        raise LostOnTheWay("request")

    landed.before_next_swap(remove_the_file_and_lose_the_request)
    with pytest.raises(CommitUnknown, match="can't be found any more"):
        landed.table.commit(proposal)
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}


def test_a_commit_is_judged_again_if_a_position_moved_before_the_swap(landed: Lake):
    other = landed.handle()
    theirs = a_landing(other.staging_spec(), A, after=3, numbers=[4, 5])
    landed.before_next_swap(lambda: other.commit(theirs))
    assert not land(landed, A, 3, [4, 5])
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4, 5]}


def test_after_another_engines_commit_before_the_swap_the_table_is_loaded_again_and_the_range_lands(
    landed: Lake,
):
    other = landed.handle()
    theirs = a_landing(other.staging_spec(), B, after=None, numbers=[1])
    landed.before_next_swap(lambda: other.commit(theirs))
    assert land(landed, A, 3, [4])
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4], B.shard_id: [1]}
    assert landed.table.load().positions.shards.keys() == {A, B}


def test_a_commit_whose_answer_was_lost_lands_once_and_is_reported_as_landed(landed: Lake):
    landed.lose("answer")
    committed = landed.table.commit(a_landing(landed.table.staging_spec(), A, after=3, numbers=[4]))
    assert committed.landing.refused == ()
    assert committed.snapshot == landed.handle().load().snapshot
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_a_commit_whose_request_was_lost_lands_once(landed: Lake):
    landed.lose("request")
    assert land(landed, A, 3, [4])
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4]}
    assert len(chain_of(landed, A)) == 2


def test_a_commit_that_gets_no_answer_is_reported_as_unknown_and_can_be_tried_again(landed: Lake):
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])
    landed.lose("request", times=3)
    with pytest.raises(CommitUnknown):
        landed.table.commit(proposal)
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}
    assert not landed.table.commit(proposal).landing.refused
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_a_proposal_sent_again_after_it_landed_is_refused(landed: Lake):
    """D7: the caller took the first request for lost, and sends it again."""
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])
    landed.table.commit(proposal)
    assert landed.handle().commit(proposal).landing.refused
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_concurrent_writers_of_the_same_shards_make_one_chain_of_ranges_for_each_shard(lake: Lake):
    lake.table.commit(ORIGIN)
    keys = (A, B, C)

    def write(number: int) -> int:
        table, landings = lake.handle(), 0
        for turn in range(8):
            landings += len(race_once(table, keys[(number + turn) % 3], keys[(number + turn + 1) % 3]))
        return landings

    with ThreadPoolExecutor(4) as writers:
        landed_by = list(writers.map(write, range(4)))
    numbers = lake.numbers()
    chains = {key: chain_of(lake, key) for key in keys}
    assert sum(landed_by) == sum(map(len, chains.values())) > len(keys)
    for key, chain in chains.items():
        assert [r.after for r in chain] == [None, *(r.upto for r in chain[:-1])]
        assert numbers[key.shard_id] == list(range(1, (chain[-1].upto.sequence or 0) + 1))


def race_once(table: LandingTable, *keys: ShardKey) -> tuple[Range, ...]:
    """Read on in some shards and commit as a wave does, with all rows in one file."""
    positions = table.load().positions
    stands = {key: position.sequence or 0 if (position := positions.of(key)) else 0 for key in keys}
    file = a_file(table.staging_spec(), {key: [n + 1, n + 2] for key, n in stands.items()})
    ranges = tuple(a_range(key, n or None, n + 2, rows=2, files=[file]) for key, n in stands.items())
    return table.commit(Proposal(ranges, (file,))).landing.page.ranges
