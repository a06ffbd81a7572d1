"""Rows that another engine has inserted, and that no ledger claims: wrong, until a person accepts the snapshot that brought them."""

from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.proof.accept import Accepting
from tests.lake.samples import a_file
from tests.lake.tables import append_as_others
from tests.proof.proofs import LEFT, Family


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def inserted(family: Family, number: int = 1) -> int:
    append_as_others(family.table.open(), number=number)
    head = family.table.open().current_snapshot()
    assert head is not None
    return head.snapshot_id


def accept(family: Family, snapshot: int) -> str:
    proving = family.proving()
    return Accepting(table=proving.table, lineage=proving.lineage, by="a test").accept(
        snapshot, why="a backfill"
    )


def test_rows_that_a_person_has_accepted_are_named_and_no_longer_wrong(family: Family):
    snapshot = inserted(family)
    assert family.wrong()
    assert accept(family, snapshot) == (
        f"1 row of snapshot {snapshot} accepted (1 of orders/shardId-000000000999): a backfill"
    )
    for anew in (False, True):
        proof = family.prove(anew=anew)
        assert proof.holds
        (told,) = [text for text in proof.unproved if "in no range of the ledger" in text]
        assert told.endswith("A person has accepted rows of another engine there")
    assert "were accepted before" in accept(family, snapshot)


def test_accepted_rows_stay_accepted_where_a_compaction_moves_them(family: Family):
    accept(family, inserted(family))
    assert family.prove().holds
    family.compact()
    assert family.prove().holds
    assert family.prove(anew=True).holds


def test_more_rows_of_the_shard_than_were_accepted_are_wrong_also_in_a_later_proof(family: Family):
    accept(family, inserted(family))
    assert family.prove().holds
    second = inserted(family, number=2)
    assert any("orders/shardId-000000000999 2 (created " in text for text in family.wrong())
    assert any("orders/shardId-000000000999 1 (created " in text for text in family.wrong(anew=True))
    accept(family, second)
    assert family.prove().holds


def test_accepted_rows_past_which_the_position_comes_later_stay_accepted(family: Family):
    append_of_shard(family, LEFT, 39)
    head = family.table.open().current_snapshot()
    assert head is not None
    accept(family, head.snapshot_id)
    assert family.prove().holds
    family.move(LEFT, 39, Kind.SKIPPED)
    family.land((LEFT, 45))
    assert family.prove().holds
    assert family.prove(anew=True).holds


def test_an_accepted_row_hides_no_record_that_is_there_twice(family: Family):
    append_of_shard(family, LEFT, 38, 39)
    head = family.table.open().current_snapshot()
    assert head is not None
    assert accept(family, head.snapshot_id).startswith("1 row of snapshot")
    assert any("38 is there 2 times" in text for text in family.wrong())


def test_rows_in_ranges_of_the_ledgers_accept_no_other_row_of_their_shard(family: Family):
    append_of_shard(family, LEFT, 38)
    head = family.table.open().current_snapshot()
    assert head is not None
    with pytest.raises(WrongShape, match="each row of it is in a range of the ledgers"):
        accept(family, head.snapshot_id)
    append_of_shard(family, LEFT, 39)
    assert any("no range of the ledger" in text and " 39 (created " in text for text in family.wrong())


def append_of_shard(family: Family, key: ShardKey, *numbers: int) -> None:
    table = family.table.open()
    file = a_file(family.table.staging_spec(), {key: list(numbers)})
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(next(data_files((file,), table.metadata)))


def test_only_an_insert_of_another_engine_that_main_leads_to_can_be_accepted(family: Family):
    landed = family.table.load().snapshot
    assert landed is not None
    with pytest.raises(WrongShape, match="is a commit of Headrace"):
        accept(family, landed)
    with pytest.raises(Unknown, match="no snapshot 5 on main"):
        accept(family, 5)
    snapshot = inserted(family)
    family.lake.rollback(1)
    with pytest.raises(Unknown, match="expired or rolled back"):
        accept(family, snapshot)
    family.lake.cherry_pick(snapshot)
    head = family.table.open().current_snapshot()
    assert head is not None
    with pytest.raises(WrongShape, match="is a cherry-pick"):
        accept(family, head.snapshot_id)


def test_acceptances_that_cant_be_read_accept_nothing_and_arent_written_over(family: Family):
    snapshot = inserted(family)
    accept(family, snapshot)
    (kept,) = (family.lake.folder / "state").glob("accepted-*.json")
    kept.write_text("{")
    assert family.wrong()
    with pytest.raises(WrongShape, match="restore the file, or delete it"):
        accept(family, inserted(family, number=2))
    assert kept.read_text() == "{"
