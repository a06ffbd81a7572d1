"""Processors as tasks on a real Spark."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.pipeline.lake.spark.tasks import SparkTasks
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A, B

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_processor_works_on_sparks_workers_from_the_shipped_sources(spark: "SparkSession", tmp_path: Path):
    bed = ProcessorBed(tmp_path)
    bed.land(A, {1: b"a", 2: b"b"})
    bed.land(B, {10: b"a"})
    processing = bed.processing()
    host: Any = processing.ports.host
    host = replace(host, tasks=SparkTasks(lambda _: spark, 2))
    processing = replace(processing, ports=replace(processing.ports, host=host))
    assert [str(wave) for wave in processing.waves()] == ["3 records processed into 3 rows, 0 set aside"]
    assert bed.words() == [("a", 1), ("b", 1), ("a", 1)]
