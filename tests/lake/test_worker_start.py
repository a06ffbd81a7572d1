"""What a Python worker of Spark imports before it reads: each run in a deployment at rest starts new workers."""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pipeline.lake.ship import engine_zip
from pipeline.lake.worker_daemon import without_zips_of_installed

SITE = str(Path(pyspark.__file__).parents[1])
ZIP = f"{SITE}/pyspark/python/lib/pyspark.zip"

_STAGE = """
import sys, json
import pyspark.worker, pipeline.lake.stage_task, pipeline.lake.gauge, pipeline.aws.pages
json.dump(sorted(sys.modules), sys.stdout)
"""
_DAEMON = """
import os, sys
from pipeline.lake import worker_daemon

def ready(*_):
    print(sys.modules["pyspark"].__file__)
    sys.exit()

os.setpgid = ready  # the daemon calls it once it has imported PySpark
worker_daemon.main()
"""


def printed_by(code: str, *path: str) -> str:
    """What a new Python prints, with these entries first on its path."""
    asked = f"import sys; sys.path[:0] = {[*path]!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=False, timeout=120
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

    assert told == pyspark.__file__
