"""Staging on classic Spark, in a process of its own, because one process can't hold both clients of PySpark."""

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import sys
from collections.abc import Iterator

from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.errors import MissingPackage
from headrace.pipeline.lake.spark.session import spark_session
from headrace.pipeline.lake.spark.engine_zip import engine_zip, is_connect
from headrace.pipeline.lake.staging.stage import SparkStage
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.settings.model import SparkSettings
from tests.lake.stage_script import ROOMY, a_batch, a_key, a_page, a_spec, rows_of

session = spark_session(SparkSettings(master="local[2]"), "headrace-test")
pages = {a_key(n).shard_id: a_page(1, 2, key=a_key(n)) for n in range(3)}
shipped = engine_zip().name


class Static:
    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        from headrace.pipeline.lake.staging import stage_task

        assert shipped in stage_task.__file__, stage_task.__file__
        yield pages[batch.key.shard_id]


class Lacking:
    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        import a_package_nobody_has

        yield from ()


def stage(source):
    return SparkStage(lambda _: session, lambda: source).stage([a_batch(n) for n in range(3)], a_spec(sys.argv[1]), ROOMY)


assert not is_connect(session)
manifest = stage(Static())
assert [each.error for each in manifest.staged] == [None] * 3, manifest.staged
assert sorted(rows_of(manifest)) == [(a_key(n).shard_id, number) for n in range(3) for number in (1, 2)]
try:
    stage(Lacking())
except MissingPackage as error:
    assert "'a_package_nobody_has'" in str(error)
else:
    raise AssertionError("the missing package caused no error")
session.stop()
print("everything held")
"""


@pytest.mark.slow  # it starts a JVM, which takes 10 s
def test_a_wave_is_staged_by_a_classic_session_too(tmp_path: Path):
    root = Path(__file__).parents[3]
    script = tmp_path / "classic.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(root)!r})\n{_SCRIPT}")

    done = subprocess.run(
        [sys.executable, script, tmp_path / "data"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.stdout.splitlines()[-1:] == ["everything held"], done.stderr[-3000:]
