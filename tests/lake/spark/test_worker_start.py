"""What a Python worker of Spark imports before it reads: each run in a deployment at rest starts new workers."""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from headrace.pipeline.lake.spark.engine_zip import engine_zip
from headrace.pipeline.lake.spark.worker_daemon import without_zips_of_installed

SITE = str(Path(pyspark.__file__).parents[1])
ZIP = f"{SITE}/pyspark/python/lib/pyspark.zip"

_STAGE = """
import sys, json
import pyspark.worker, headrace.pipeline.lake.staging.stage_task, headrace.pipeline.lake.staging.host_load, headrace.pipeline.aws.reading.pages
json.dump(sorted(sys.modules), sys.stdout)
"""
_STAGE_A_PAGE = """
import sys, json, struct
from datetime import UTC, datetime, timedelta
from headrace.pipeline.aws.reading.pages_decode import decode_cbor_answer, record_schema
from headrace.pipeline.encoding.cbor import LIST, MAP, encoded, head
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.ports.staging import StagingSpec

now = datetime.now(UTC)
key = ShardKey(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1), "shardId-000000000000")
moment = b"\\xc1" + struct.pack(">BQ", 27, round(now.timestamp() * 1000))
records = b"".join(
    head(MAP, 4) + encoded("SequenceNumber") + encoded(str(10**20 + n))
    + encoded("ApproximateArrivalTimestamp") + moment
    + encoded("Data") + encoded(b"x") + encoded("PartitionKey") + encoded("k")
    for n in range(3)
)
body = head(MAP, 2) + encoded("MillisBehindLatest") + encoded(0) + encoded("Records") + head(LIST, 3) + records
answer = decode_cbor_answer(body, key, now)


class Pages:
    def pages(self, batch):
        yield RecordPage(
            records=answer.records, rows=answer.rows, bytes=answer.bytes, answered=now, behind=answer.behind,
            last_sequence=answer.last_sequence, first_arrival=answer.first_arrival, last_arrival=answer.last_arrival,
            children=None, iterator="next",
        )


names = [*record_schema().names, SORT_KEY]
spec = StagingSpec(sys.argv[1], tuple((name, n) for n, name in enumerate(names, 1)))
batch = Batch(key, None, TRIM, now, timedelta(days=1))
(staged,) = stage_batches([batch], Pages(), spec=spec, limits=BatchLimits(10, 10**6, 60), threads=1).staged
assert staged.rows == 3, staged
json.dump(sorted(sys.modules), sys.stdout)
"""
_DAEMON = """
import gc, os, sys
from headrace.pipeline.lake.spark import worker_daemon

def ready(*_):
    print(sys.modules["pyspark"].__file__)
    print(gc.get_freeze_count() > 50_000)
    sys.exit()

os.setpgid = ready  # the daemon calls it once it has imported PySpark
worker_daemon.main()
"""


def printed_by(code: str, *path: str, argument: str = "") -> str:
    """What a new Python prints, with these entries first on its path."""
    asked = f"import sys; sys.path[:0] = {[*path]!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", asked, argument],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["pandas", "pyiceberg", "pydantic", "sqlalchemy", "grpc", "dagster"])
def test_staging_needs_no_such_package(module: str, staging: list[str]):
    assert [name for name in staging if name == module or name.startswith(f"{module}.")] == []


@pytest.fixture(scope="module")
def staging() -> list[str]:
    """The modules of a worker that is about to stage, with the engine from the shipped zip."""
    found: list[str] = json.loads(printed_by(_STAGE, str(engine_zip())))
    return found


def test_staging_a_page_doesnt_import_pandas(tmp_path: Path):
    """Arrow imports pandas where it converts a value of Python, such as a text to repeat: a third of a CPU second in each new worker."""
    loaded = json.loads(printed_by(_STAGE_A_PAGE, str(engine_zip()), argument=str(tmp_path)))

    assert "pandas" not in loaded


def test_a_zip_of_an_installed_pyspark_isnt_imported_from():
    path = ["", ZIP, "/engine.zip", SITE]

    assert without_zips_of_installed(path) == ["", "/engine.zip", SITE]


@pytest.mark.parametrize(
    "entry", ["/opt/spark/python/lib/pyspark.zip", f"{SITE}/pyspark/python/lib/py4j-src.zip", "pyspark.zip"]
)
def test_another_zip_stays_on_the_path(entry: str):
    assert without_zips_of_installed([entry, SITE]) == [entry, SITE]


def test_the_daemon_imports_the_installed_pyspark_where_spark_puts_the_zip_first():
    told = printed_by(_DAEMON, ZIP, str(engine_zip()))

    assert told.splitlines()[0] == pyspark.__file__


def test_the_garbage_collector_of_workers_leaves_out_what_the_daemon_imported():
    told = printed_by(_DAEMON, ZIP, str(engine_zip()))

    assert told.splitlines()[1] == "True"
