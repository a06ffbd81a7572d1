"""Positions and ledger of very many shards are in a file outside of the table, which the snapshot's summary names."""

from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import ChainBroken, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.state_files import Pointer
from tests.lake.samples import ORIGIN, a_key, a_landing, a_range, at, with_origin
from tests.lake.tables import IcebergLake, summary_of

MANY = [a_key(n) for n in range(4_000)]
DIGITS = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """Positions of thousands of shards with different sequence numbers: more than a summary may hold."""
    made = IcebergLake(tmp_path)
    ranges = tuple(a_range(key, None, at(DIGITS + hash_of(key)), kind=Kind.ADOPT) for key in MANY)
    made.iceberg.commit(with_origin(Proposal(ranges)))
    return made


def hash_of(key: ShardKey) -> int:
    """Sequence numbers that can't be compressed."""
    return pow(7, int(key.shard_id[-12:]) + 1, 10**30 + 57)


def test_large_positions_are_written_to_a_file_and_read_back_completely(lake: IcebergLake):
    summary = summary_of(lake)
    assert summary.keys() & {"headrace.positions", "headrace.ledger"} == set()
    assert sum(len(value) for value in summary.values()) < 2_000
    positions = lake.handle().load().positions
    assert {key: p.sequence for key, p in positions.shards.items()} == {
        key: DIGITS + hash_of(key) for key in MANY
    }
    assert positions.origins == dict(ORIGIN.origins)


def test_the_ledger_is_read_from_the_file_too(lake: IcebergLake):
    (entry,) = read.ledger(lake.iceberg)
    assert [r.key for r in entry.page.ranges] == MANY


def test_each_landing_with_large_positions_has_a_file_of_its_own(lake: IcebergLake):
    key = a_key(5_000)
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), key, after=None, numbers=[1]))
    assert lake.iceberg.load().positions.of(key) == at(1)
    assert len(lake.iceberg.load().positions.shards) == len(MANY) + 1
    assert len(list((lake.folder / "state").iterdir())) == 2


def test_the_files_lie_outside_of_the_tables_location_where_tools_remove_orphans(lake: IcebergLake):
    (file,) = (lake.folder / "state").iterdir()
    assert lake.iceberg.open().location() not in str(file)
    assert Pointer.read(summary_of(lake)["headrace.state"]).names == (file.name,)


def test_small_positions_stay_in_the_summary(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.iceberg.commit(ORIGIN)
    assert "headrace.positions" in summary_of(lake)
    assert not (tmp_path / "state").exists()


def test_a_missing_file_breaks_the_chain_and_is_named(lake: IcebergLake):
    (file,) = (lake.folder / "state").iterdir()
    file.unlink()
    with pytest.raises(ChainBroken, match=file.name):
        lake.iceberg.load()


def test_a_file_that_was_changed_is_refused(lake: IcebergLake):
    (file,) = (lake.folder / "state").iterdir()
    file.write_text(file.read_text().replace("1:", "1: ", 1))
    with pytest.raises(ChainBroken, match="hash differs"):
        lake.iceberg.load()


_HASH = "0" * 64


@pytest.mark.parametrize(
    "pointer",
    [
        f"3:{_HASH}:a.json:{_HASH}",
        f"2:{_HASH}:a.json",
        f"2:a.json:{_HASH}",
        f"2:{_HASH}:a.json:{_HASH}:",
        f"2:{_HASH}:a.json:{_HASH}:../b.json:{_HASH}",
        f"1:../secrets:{_HASH}",
        "1",
        "",
    ],
)
def test_the_error_for_a_pointer_of_an_unknown_form_says_to_upgrade(pointer: str):
    with pytest.raises(WrongShape, match="upgrade Headrace"):
        Pointer.read(pointer)
