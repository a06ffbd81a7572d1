"""The ledger as a data frame, and `headrace lineage` on top of it."""

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.cli import main
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lineage.frame import COLUMNS, lineage_frame
from headrace.pipeline.lineage.table import IcebergLineage
from tests.lake.samples import a_key, a_landing, a_range, with_origin
from tests.lake.tables import IcebergLake
from tests.memory.leases import MemoryLeaseStore


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = IcebergLake(tmp_path)
    spec = lake.iceberg.staging_spec()
    lake.iceberg.commit(with_origin(a_landing(spec, a_key(0), after=None, numbers=[1, 2])))
    lake.iceberg.commit(a_landing(spec, a_key(1), after=None, numbers=[5]))
    end = Position(2, ended=True, children=("shardId-000000000007",))
    lake.iceberg.commit(Proposal((a_range(a_key(0), after=Position(2), upto=end),)))
    return lake


def test_each_range_is_a_row_in_the_order_of_the_snapshots(lake: IcebergLake):
    frame = lineage_frame(IcebergLineage(lake.iceberg).entries())
    assert list(frame.columns) == list(COLUMNS)
    assert frame["shard"].tolist() == [a_key(0).shard_id, a_key(1).shard_id, a_key(0).shard_id]
    assert frame["rows"].tolist() == [2, 1, 0]
    assert frame["after"].tolist() == ["the start", "the start", "2"]
    assert frame["upto"].tolist() == ["2", "5", "2, ended"]
    assert frame["children"].tolist() == ["", "", "shardId-000000000007"]
    assert frame["at"].is_monotonic_increasing


def test_a_table_without_a_landing_is_an_empty_frame_of_the_same_columns(tmp_path: Path):
    frame = lineage_frame(IcebergLineage(IcebergLake(tmp_path).iceberg).entries())
    assert frame.empty
    assert list(frame.columns) == list(COLUMNS)


@pytest.fixture
def settings(lake: IcebergLake, tmp_path: Path) -> Path:
    file = tmp_path / "headrace.yaml"
    catalog = {name: lake.iceberg.catalog.properties[name] for name in ("type", "uri", "warehouse")}
    file.write_text(
        "application: app\nstreams: [{name: orders}]\n"
        f"landing: {{table: {lake.iceberg.identifier}, state: {tmp_path / 'state'}, catalog: {catalog}}}\n"
    )
    return file


def test_the_command_prints_the_lineage_of_one_shard(settings: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["lineage", "--config", str(settings), "--shard", a_key(0).shard_id]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-2] == "2 records in 2 ranges of 1 shard"
    assert a_key(1).shard_id not in said


def test_shards_of_two_lives_of_a_stream_are_told_apart(
    settings: Path, lake: IcebergLake, capsys: pytest.CaptureFixture[str]
):
    stream = a_key(0).stream
    again = ShardKey(replace(stream, epoch=stream.epoch + 1), a_key(0).shard_id)
    landing = a_landing(lake.iceberg.staging_spec(), again, after=None, numbers=[9])
    [(_, origin)] = with_origin(landing).origins
    lake.iceberg.commit(replace(landing, origins=((again.stream, origin),)))
    assert main(["lineage", "--config", str(settings), "--shard", a_key(0).shard_id]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "stream_epoch" in said[0]
    assert [str(stream.epoch + 1) in line for line in said[1:4]] == [False, False, True]
    assert any(line.endswith(" in 3 ranges of 2 shards") for line in said)


def test_the_command_writes_csv_that_pandas_reads_back(
    settings: Path, lake: IcebergLake, capsys: pytest.CaptureFixture[str]
):
    assert main(["lineage", "--config", str(settings), "--csv"]) == 0
    back = pd.read_csv(io.StringIO(capsys.readouterr().out), dtype={"upto": str})
    assert back["upto"].tolist() == lineage_frame(IcebergLineage(lake.iceberg).entries())["upto"].tolist()


def test_the_command_prints_the_same_before_and_after_a_recording(
    settings: Path, lake: IcebergLake, capsys: pytest.CaptureFixture[str]
):
    def said(*more: str) -> str:
        assert main(["lineage", "--config", str(settings), *more]) == 0
        return capsys.readouterr().out

    before = said(), said("--csv")
    IcebergLineage(lake.iceberg).record()
    assert (said(), said("--csv")) == before


def test_the_command_says_aside_that_a_part_of_the_history_has_no_ledger(
    settings: Path, lake: IcebergLake, capsys: pytest.CaptureFixture[str]
):
    lake.expire_all_but_the_head(forget=True)
    assert main(["lineage", "--config", str(settings)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-2] == "0 records in 1 range of 1 shard"
    assert said.err.startswith(
        "1 part of the history without a ledger; the first: the ledgers of snapshots before"
    )


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease table with one shard of which no record has landed."""
    store = MemoryLeaseStore([Lease(f"shardId-00000000000{n}") for n in (0, 1, 7)])
    monkeypatch.setattr(Adapters, "leases", lambda _: store)


@pytest.mark.usefixtures("leases")
def test_the_command_says_if_no_record_of_a_shard_has_landed(
    settings: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["lineage", "--config", str(settings), "--shard", "shardId-000000000007"]) == 0
    assert capsys.readouterr().out == "no range of records has landed of shardId-000000000007\n"


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("more", [(), ("--csv",)])
def test_the_error_for_an_unknown_shard_names_similar_ones_as_that_of_consume_does(
    more: tuple[str, ...], settings: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["lineage", "--config", str(settings), "--shard", "shardId-000000000002", *more]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "there is no shard 'shardId-000000000002' (similar names: shardId-00000000000" in said.err
