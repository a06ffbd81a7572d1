"""The warehouse and the state files on S3, which the stand-in plays."""

import logging
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table import summary
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.deletion_plan import Unnamed
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.table_files import IcebergFiles
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_key, a_landing, a_range, at, numbers_in
from tests.lake.written import write_files
from tests.lineage.lineages import pages_in
from tests.upkeep.compactions import InProcess

A, B = a_key(0), a_key(1)


def a_record(number: int) -> pa.RecordBatch:
    row = {
        "stream": A.stream.name,
        "stream_epoch": A.stream.epoch,
        "shard_id": A.shard_id,
        "sequence_number": str(number),
        "arrival_ts": NOON,
        "data": b"payload",
    }
    return pa.RecordBatch.from_pylist([row], schema=record_schema())


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}.items():
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer("127.0.0.1", port=0)
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
    table.ensure(create=True)
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


def test_the_lineage_table_is_on_s3_beside_the_lake_table(tmp_path: Path, endpoint: str):
    table = open_table(tmp_path, endpoint)
    table.ensure(create=True)
    table.commit(ORIGIN)
    IcebergLineage(table).record()
    table.commit(a_landing(table.staging_spec(), A, after=None, numbers=[1, 2]))
    recorded = IcebergLineage(table).record()
    again = IcebergLineage(open_table(tmp_path, endpoint))
    assert again.recorded() == recorded
    assert (recorded.ranges, recorded.snapshots) == (1, 2)
    assert pages_in(again) == [entry.page for entry in read.ledger(table)]
    assert not list((tmp_path / "warehouse").iterdir())


class Requests(logging.Handler):
    """Every request that the stand-in of S3 answered: method and path."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"(GET|PUT|POST|HEAD|DELETE) (\S+)", record.getMessage())
        self.seen.append(found[0] if found else record.getMessage())


@pytest.fixture
def requests() -> Iterator[Requests]:
    """The stand-in's web server logs a line for each request."""
    handler, log = Requests(), logging.getLogger("werkzeug")
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)


def test_a_wave_with_one_file_takes_at_most_twelve_requests(
    tmp_path: Path, endpoint: str, requests: Requests
):
    """The test does what a run does: read the table, write a file as a Spark task does, commit."""
    table = open_table(tmp_path, endpoint)
    table.ensure(create=True)
    table.commit(ORIGIN)
    for wave in range(1, 4):
        requests.seen.clear()
        table.ensure(create=True)
        assert table.load().positions.of(A) == (at(wave - 1) if wave > 1 else None)
        (file,) = write_files(
            {A: [a_record(wave)]}, table.staging_spec(), now=lambda: NOON, fresh=lambda: uuid4().hex
        )
        landed = table.commit(Proposal((a_range(A, wave - 1 or None, wave, rows=1, files=[file]),), (file,)))
        assert not landed.landing.refused
        assert requests.seen, "the log of the stand-in has lines for the requests"
        assert len(requests.seen) <= 12, "\n".join(requests.seen)
    assert numbers_in(read.rows(table)) == {A.shard_id: [1, 2, 3]}


def test_upkeep_finds_and_deletes_files_on_s3(tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(summary, "LIMIT", 0)
    table = open_table(tmp_path, endpoint)
    table.ensure(create=True)
    table.commit(ORIGIN)
    table.commit(a_landing(table.staging_spec(), A, after=None, numbers=[1]))
    files = IcebergFiles(table)
    staged = a_landing(table.staging_spec(), A, after=1, numbers=[2]).files[0]
    look = files.look()
    # The stand-in keeps what other tests left in the buckets.
    (orphan,) = (each for each in look.stored if each.path == staged.path.removeprefix("s3://"))
    assert orphan.size == staged.size
    assert orphan.path not in look.named
    table_id = table.open().metadata.table_uuid.hex
    states = [each for each in look.stored if each.path.startswith(f"state/headrace/{table_id}-")]
    assert len(states) == 2
    assert {each.path for each in states} <= set(look.named)
    assert files.delete([orphan]) == ((orphan,), None)
    assert orphan not in files.look().stored
    memory = Unnamed(NOON, {orphan.path: timedelta(days=1)})
    files.remember(memory)
    assert files.remembered() == memory
    assert numbers_in(read.rows(table)) == {A.shard_id: [1]}


def test_files_on_s3_are_compacted(tmp_path: Path, endpoint: str):
    table = open_table(tmp_path, endpoint)
    table.ensure(create=True)
    table.commit(ORIGIN)
    for number in range(1, 7):
        table.commit(a_landing(table.staging_spec(), A, after=number - 1 or None, numbers=[number]))
    table.clock.pause(7200)
    rewriter = InProcess(table)
    compacting = Compacting(
        table=IcebergLive(table), rewriter=lambda: rewriter, settings=UpkeepSettings(), clock=table.clock
    )
    done = compacting.run()
    assert [len(group.files) for group in done.done] == [6]
    assert [each.rows for each in read.landed_files(table)] == [6]
    assert numbers_in(read.rows(table)) == {A.shard_id: [1, 2, 3, 4, 5, 6]}
