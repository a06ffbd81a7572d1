"""Staging through a real Spark Connect server, whose workers know of the engine only what is shipped to them: tests/spark.py."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import MissingPackage, Unreachable
from headrace.pipeline.lake.spark import engine_zip as ship_module
from headrace.pipeline.lake.spark import session as session_module
from headrace.pipeline.lake.spark.engine_zip import ON_SERVER, engine_zip, ship
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session
from headrace.pipeline.lake.spark.spark_job import run_tasks
from headrace.pipeline.lake.staging.stage import SparkStage
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.ports.tasks import Now
from headrace.pipeline.settings.model import SparkSettings
from headrace.pipeline.task_identity import DriverIdentity
from tests.lake.samples import a_key
from tests.lake.stage_script import ROOMY, a_batch, a_page, a_spec, files_in, rows_of
from tests.spark import SparkServer
from tests.stand_in import access_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(scope="module")
def spark(spark_server: SparkServer) -> Iterator["SparkSession"]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DISCOVERY, str(spark_server.discovery))
        patch.setenv("AWS_CONFIG_FILE", str(spark_server.aws_config))
        session = spark_session(SparkSettings(), "headrace-test")
        try:
            yield session
        finally:
            session.stop()


class Stream:
    """A stream on the stand-in, and batches that read it."""

    def __init__(self, aws: LocalAws, shards: int = 2) -> None:
        self.client: Any = aws.client("kinesis")
        self.name = f"s-{uuid4().hex[:8]}"
        self.client.create_stream(StreamName=self.name, ShardCount=shards)
        facts = self.client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]
        self.created = facts["StreamCreationTimestamp"]
        self.id = StreamId(facts["StreamARN"], int(self.created.timestamp()))

    def put(self, count: int) -> list[int]:
        entries = [{"Data": f"{n}".encode(), "PartitionKey": f"key-{n}"} for n in range(count)]
        answer = self.client.put_records(StreamName=self.name, Records=entries)
        return sorted(int(record["SequenceNumber"]) for record in answer["Records"])

    def batch(self, shard: int) -> Batch:
        key = ShardKey(self.id, f"shardId-{shard:012d}")
        return Batch(key, None, TRIM, self.created, timedelta(hours=24))


def _stage(spark: "SparkSession", aws: LocalAws) -> SparkStage:
    return SparkStage(lambda _: spark, lambda: KinesisPages(access=access_to(aws)))


def test_a_wave_of_shards_is_staged_as_one_job(spark: "SparkSession", aws: LocalAws, tmp_path: Path):
    stream = Stream(aws, shards=5)
    numbers = stream.put(300)

    manifest = _stage(spark, aws).stage([stream.batch(n) for n in range(5)], a_spec(tmp_path), ROOMY)

    assert sorted(number for _, number in rows_of(manifest)) == numbers
    assert [each.error for each in manifest.staged] == [None] * 5
    assert all(each.upto.arrival is not None for each in manifest.staged)
    assert len(manifest.files) == len(files_in(tmp_path)) == 2


def test_waves_report_how_busy_the_hosts_of_their_tasks_were(
    spark: "SparkSession", aws: LocalAws, tmp_path: Path
):
    """A wave may be too short for a report. The Spark worker, which stays, reports that time with a later wave."""
    stream = Stream(aws, shards=1)
    staging = _stage(spark, aws)
    waves = (staging.stage([stream.batch(0)], a_spec(tmp_path), ROOMY).loads for _ in range(200))

    (load, *_) = next(loads for loads in waves if loads)

    assert load.host == socket.gethostname()
    assert load.cpu is not None
    assert 0 < load.cpu <= 100
    assert timedelta(seconds=2) <= load.span < timedelta(minutes=2)


@pytest.fixture
def with_another_engine(joined_spark: None) -> Iterator["SparkSession"]:
    """A session on a server that has another version of the engine."""
    session = spark_session(SparkSettings(), "headrace-test", isolated=True)
    session.conf.set(ON_SERVER, "headrace-0123456789abcdef.zip")
    yield session
    session.stop()


def test_spark_workers_import_the_modules_that_were_sent_to_them(with_another_engine: "SparkSession"):
    spark = with_another_engine

    def where(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace import pipeline
        from headrace.pipeline.lake.staging import stage_task

        for _ in rows:
            yield pa.RecordBatch.from_pydict({"file": [str(pipeline.__file__), str(stage_task.__file__)]})

    ship(spark)
    found = [row.file for row in spark.range(0, 1, 1, 1).mapInArrow(where, "file string").collect()]

    assert len(found) == 2
    assert all(f"/{engine_zip().name}/headrace/pipeline/" in file for file in found)
    # No module comes from the checkout, or from the copy of which the server's own daemon is started.
    assert not [
        file for file in found if file.startswith((str(Path(__file__).parents[3]), str(engine_zip().parent)))
    ]


def test_the_daemon_of_an_isolated_session_ends_when_it_has_no_worker():
    with subprocess.Popen(
        [sys.executable, "-m", "headrace.pipeline.lake.spark.worker_daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as daemon:
        assert daemon.stdout is not None
        assert len(daemon.stdout.read(4)) == 4  # the daemon prints its port, so it is up
        daemon.send_signal(signal.SIGALRM)

        assert daemon.wait(timeout=30) == 0


def places_of(session: "SparkSession") -> tuple[int, str]:
    """The daemon of the session's Python workers, and the file from which a worker has the engine."""

    def task(_number: int, _now: Now) -> bytes:
        import os

        from headrace import pipeline

        return f"{os.getppid()} {pipeline.__file__}".encode()

    daemon, _, file = run_tasks(session, 1, task)[0].decode().partition(" ")
    return int(daemon), file


def test_sessions_share_workers_unless_they_run_code_of_the_user(joined_spark: None):
    sessions = [
        spark_session(SparkSettings(), "headrace-test", isolated=isolated)
        for isolated in (False, False, True, True)
    ]
    try:
        found = [places_of(session) for session in sessions]
    finally:
        for session in sessions:
            session.stop()

    first, second, third, fourth = (daemon for daemon, _ in found)
    assert first == second
    assert len({first, third, fourth}) == 3
    assert {file for _, file in found} == {f"{engine_zip()}/headrace/pipeline/__init__.pyc"}


def test_a_session_on_a_server_with_another_engine_shares_no_workers(
    joined_spark: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """As after an upgrade of Headrace, while a server of the earlier version goes on."""
    upgraded = tmp_path / "headrace-fedcba9876543210.zip"
    upgraded.write_bytes(engine_zip().read_bytes())
    earlier = spark_session(SparkSettings(), "headrace-test")
    for module in (session_module, ship_module):
        monkeypatch.setattr(module, "engine_zip", lambda: upgraded)
    later = spark_session(SparkSettings(), "headrace-test")
    try:
        (of_earlier, _), (of_later, file) = places_of(earlier), places_of(later)
    finally:
        earlier.stop()
        later.stop()

    assert of_earlier != of_later
    assert f"/{upgraded.name}/headrace/pipeline/" in file


def test_the_modules_are_sent_once_per_session(
    with_another_engine: "SparkSession", monkeypatch: pytest.MonkeyPatch
):
    spark = with_another_engine
    ship(spark)
    monkeypatch.setattr(type(spark), "addArtifacts", lambda *_, **__: pytest.fail("shipped again"))

    assert ship(spark) == engine_zip().name


def test_only_the_failing_shard_fails(spark: "SparkSession", aws: LocalAws, tmp_path: Path):
    stream = Stream(aws, shards=2)
    numbers = stream.put(50)

    manifest = _stage(spark, aws).stage([stream.batch(n) for n in (0, 1, 7)], a_spec(tmp_path), ROOMY)

    assert [each.data_loss for each in manifest.staged] == [False, False, True]
    assert "is gone from Kinesis" in (manifest.staged[2].error or "")
    assert sorted(number for _, number in rows_of(manifest)) == numbers


def test_files_go_to_s3_at_the_specs_endpoint(spark: "SparkSession", aws: LocalAws, tmp_path: Path):
    stream, s3 = Stream(aws, shards=1), aws.client("s3")
    numbers = stream.put(20)
    s3.create_bucket(Bucket=stream.name)
    spec = replace(
        a_spec(f"s3://{stream.name}/lake/data"),
        options=(("endpoint", aws.endpoint), ("region", aws.region)),
        identity=DriverIdentity().now(),
    )

    (file,) = _stage(spark, aws).stage([stream.batch(0)], spec, ROOMY).files

    (stored,) = s3.list_objects_v2(Bucket=stream.name)["Contents"]
    assert (file.path, file.size) == (f"s3://{stream.name}/{stored['Key']}", stored["Size"])
    body = s3.get_object(Bucket=stream.name, Key=stored["Key"])["Body"].read()
    found: list[Any] = pq.read_table(pa.BufferReader(body))["sequence_number"].to_pylist()
    assert [int(number) for number in found] == numbers


def test_with_a_missing_bucket_no_position_moves(spark: "SparkSession", aws: LocalAws):
    stream = Stream(aws, shards=1)
    stream.put(1)
    spec = replace(
        a_spec("s3://nowhere/data"),
        options=(("endpoint", aws.endpoint), ("region", aws.region)),
        identity=DriverIdentity().now(),
    )

    manifest = _stage(spark, aws).stage([stream.batch(0)], spec, ROOMY)

    assert "could not be written to s3://nowhere/data" in (manifest.staged[0].error or "")
    assert (manifest.files, manifest.staged[0].rows) == ((), 0)


def test_a_task_reads_with_the_profile_of_the_settings(spark: "SparkSession", aws: LocalAws, tmp_path: Path):
    stream = Stream(aws, shards=1)
    numbers = stream.put(3)
    asked = Path(os.environ["AWS_CONFIG_FILE"]).with_name("was-asked")
    assert not asked.exists(), "the tasks of other tests have no profile"
    pages = KinesisPages(access=access_to(aws, "streaming"))

    manifest = SparkStage(lambda _: spark, lambda: pages).stage([stream.batch(0)], a_spec(tmp_path), ROOMY)

    assert [number for _, number in rows_of(manifest)] == numbers
    assert asked.exists()


def test_the_error_names_a_profile_that_sparks_host_lacks(
    spark: "SparkSession", aws: LocalAws, tmp_path: Path
):
    stream = Stream(aws, shards=1)
    pages = KinesisPages(access=access_to(aws, "elsewhere"))

    manifest = SparkStage(lambda _: spark, lambda: pages).stage([stream.batch(0)], a_spec(tmp_path), ROOMY)

    why = manifest.staged[0].error or ""
    assert "doesn't have the AWS profile that aws.profile in the settings names ('elsewhere')" in why
    assert (
        "nothing was read, and landed records are safe; add the profile to ~/.aws/config there; or remove aws.profile"
        in why
    )


def test_the_error_for_a_package_missing_on_a_spark_worker_names_it(spark: "SparkSession", tmp_path: Path):
    class Pages:
        def pages(self, batch: Batch) -> Iterator[RecordPage]:
            import a_package_nobody_has  # type: ignore[import-not-found]

            yield a_package_nobody_has.page(batch)

    with pytest.raises(MissingPackage, match="lacks the Python package 'a_package_nobody_has'"):
        SparkStage(lambda _: spark, Pages).stage([a_batch()], a_spec(tmp_path), ROOMY)


def test_the_task_of_a_dead_spark_worker_is_repeated_and_every_row_counts_once(
    spark: "SparkSession", tmp_path: Path
):
    pages: Sequence[RecordPage] = [a_page(1, 2)]
    died = tmp_path / "died"

    class Pages:
        def pages(self, batch: Batch) -> Iterator[RecordPage]:
            if not died.exists():
                died.touch()
                os._exit(1)
            yield from pages

    manifest = SparkStage(lambda _: spark, Pages).stage([a_batch()], a_spec(tmp_path / "data"), ROOMY)

    assert died.exists()
    assert rows_of(manifest) == [(a_key().shard_id, 1), (a_key().shard_id, 2)]


def test_a_wave_that_is_staged_twice_has_two_manifests_and_leaves_orphan_files(
    spark: "SparkSession", aws: LocalAws, tmp_path: Path
):
    stream = Stream(aws, shards=1)
    numbers = stream.put(10)
    stage = _stage(spark, aws)

    abandoned = stage.stage([stream.batch(0)], a_spec(tmp_path), ROOMY)
    manifest = stage.stage([stream.batch(0)], a_spec(tmp_path), ROOMY)

    assert not {file.path for file in abandoned.files} & {file.path for file in manifest.files}
    assert [number for _, number in rows_of(manifest)] == numbers
    assert len(files_in(tmp_path)) == 2


def test_a_job_that_keeps_failing_is_reported_in_one_sentence(spark: "SparkSession", tmp_path: Path):
    class Pages:
        def pages(self, batch: Batch) -> Iterator[RecordPage]:
            os._exit(1)

    with pytest.raises(Unreachable, match="failed: Python worker exited unexpectedly") as caught:
        SparkStage(lambda _: spark, Pages).stage([a_batch()], a_spec(tmp_path), ROOMY)

    assert "\n" not in str(caught.value)


def test_cancel_ends_the_running_job(spark: "SparkSession", tmp_path: Path):
    reached = tmp_path / "reached"
    os.mkfifo(reached)

    class Pages:
        def pages(self, batch: Batch) -> Iterator[RecordPage]:
            reached.write_text("reading")
            threading.Event().wait(120)
            yield from ()

    listening = os.open(reached, os.O_RDONLY | os.O_NONBLOCK)
    stage = SparkStage(lambda _: spark, Pages)
    with ThreadPoolExecutor(1) as pool:
        wave = pool.submit(stage.stage, [a_batch()], a_spec(tmp_path / "data"), ROOMY)
        assert select([listening], [], [], 60)[0], "the job didn't start to read"
        stage.cancel()

        with pytest.raises(Unreachable, match=r"the job was cancelled\. Nothing was committed"):
            wave.result(timeout=30)

    os.close(listening)
    assert files_in(tmp_path / "data") == []


def test_the_session_can_be_used_after_an_error(spark: "SparkSession", aws: LocalAws, tmp_path: Path):
    stream = Stream(aws, shards=1)
    numbers = stream.put(3)

    manifest = _stage(spark, aws).stage([stream.batch(0)], a_spec(tmp_path), ROOMY)

    assert manifest.staged[0].upto.sequence == numbers[-1]
