"""The warehouse and the state files on S3, which the stand-in plays."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pipeline.core.landing import Proposal
from pipeline.core.lineage import Kind
from pipeline.lake import read, summary
from pipeline.lake.catalog import embedded_catalog
from pipeline.lake.iceberg import IcebergTable
from tests.lake.files import ORIGIN, StandingClock, a_key, a_landing, a_range, at, numbers_in

A, B = a_key(0), a_key(1)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}.items():
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    s3 = boto3.client("s3", endpoint_url=address, region_name="us-east-1")
    for bucket in ("lake", "state"):
        s3.create_bucket(Bucket=bucket)
    yield address
    server.stop()


def open_table(folder: Path, endpoint: str) -> IcebergTable:
    properties = embedded_catalog(folder) | {
        "warehouse": "s3://lake/warehouse",
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
    }
    return IcebergTable(properties, "lake.records", state="s3://state/headrace", clock=StandingClock())


def test_rows_positions_and_state_files_are_on_s3(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
):
    table = open_table(tmp_path, endpoint)
    table.ensure()
    table.commit(ORIGIN)
    table.commit(a_landing(table.staging_spec(), A, after=None, numbers=[1, 2]))
    monkeypatch.setattr(summary, "LIMIT", 0)
    table.commit(Proposal((a_range(B, None, 7, kind=Kind.ADOPT),)))
    again = open_table(tmp_path, endpoint)
    assert dict(again.load().positions.shards) == {A: at(2), B: at(7)}
    assert numbers_in(read.rows(again)) == {A.shard_id: [1, 2]}
    assert [len(entry.page.ranges) for entry in read.ledger(again)] == [0, 1, 1]
    assert dict(again.staging_spec().options) == {"endpoint": endpoint, "region": "us-east-1"}
    assert not list((tmp_path / "warehouse").iterdir())
