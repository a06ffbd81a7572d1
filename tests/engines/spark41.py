"""A real Spark 4.1 with Iceberg's runtime, which works on Headrace's tables through the embedded catalog.

    with spark41(folder) as spark:
        spark.sql("SELECT count(*) FROM lake.records")
        spark.call("rewrite_data_files(table => 'lake.records')")

Spark 4.1 is the newest one that Iceberg's runtime supports, and the project has a newer one. So it has a venv of its own, and works in
a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from headrace.pipeline.lake.table.catalog import CATALOG_NAME, embedded_catalog
from tests.engines.parts import class_path, python_with

_PYSPARK = "4.1.4"
_SCRIPT = Path(__file__).with_name("spark41_process.py")


class SparkRefused(Exception):
    """A statement failed. The text is Spark's error."""


class Spark41:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._one_at_a_time = Lock()

    def sql(self, statement: str) -> list[list[Any]]:
        """Run a statement, and return its rows. Numbers, text and booleans come as they are, all other values as text."""
        assert self._process.stdin is not None
        with self._one_at_a_time:
            print(json.dumps(statement), file=self._process.stdin, flush=True)
            return self.answer()

    def call(self, procedure: str) -> list[list[Any]]:
        """Call one of Iceberg's procedures: `expire_snapshots(table => 'lake.records')`."""
        return self.sql(f"CALL {CATALOG_NAME}.system.{procedure}")

    def answer(self) -> list[list[Any]]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of Spark 4.1 ended; its log tells why")
        answer = json.loads(line)
        if "error" in answer:
            raise SparkRefused(answer["error"])
        rows: list[list[Any]] = answer["rows"]
        return rows


@contextmanager
def spark41(
    folder: Path, *, catalog: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Spark41]:
    """Start Spark on the embedded catalog of a folder (`landing.home`), or on the `catalog` with these properties of Iceberg's Spark
    catalog. `settings`: further configuration of Spark. Its log is `spark41.log` in the folder."""
    python = python_with("pyspark", _PYSPARK)
    configuration = _configuration(catalog or _embedded(folder), folder) | dict(settings or {})
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK"))}
    with (
        (folder / "spark41.log").open("a") as log,
        subprocess.Popen(
            [str(python), str(_SCRIPT), json.dumps(configuration)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=folder,
        ) as process,
    ):
        try:
            spark = Spark41(process)
            spark.answer()
            yield spark
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)
        finally:
            process.kill()


def _embedded(folder: Path) -> dict[str, str]:
    """Iceberg's JDBC catalog on the SQLite database of `headrace.pipeline.lake.table.catalog.embedded_catalog`."""
    ours = embedded_catalog(folder)
    return {
        "type": "jdbc",
        "uri": ours["uri"].replace("sqlite:///", "jdbc:sqlite:"),
        "warehouse": ours["warehouse"],
        "jdbc.schema-version": "V1",
        # In milliseconds. Without it, Spark's commit fails at once where Headrace is committing.
        "jdbc.busy_timeout": "30000",
    }


def _configuration(catalog: Mapping[str, str], folder: Path) -> dict[str, str]:
    jars = class_path("spark41")
    # The catalog's name is a column of its database: another name finds no table.
    name = f"spark.sql.catalog.{CATALOG_NAME}"
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG_NAME,
        name: "org.apache.iceberg.spark.SparkCatalog",
        # Spark changes the partitioning of a table as it has kept it for 30 s: beside another writer that is always refused.
        f"{name}.cache-enabled": "false",
        **{f"{name}.{key}": value for key, value in catalog.items()},
    }
