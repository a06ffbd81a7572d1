"""Makes the format `headrace` known to a Spark session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.lake.spark.engine_zip import ship
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.source.application import application_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_spark_source(spark: SparkSession, config: Path | str | None = None) -> None:
    """Let `spark.read.format("headrace")` and `spark.readStream.format("headrace")` read the application of a settings
    file, with the AWS credentials that this process has now (docs/use/spark-source.md).

    `config`: the settings file; without it, the file that HEADRACE_CONFIG names, else ./headrace.yaml. Spark's hosts get
    the engine sent. A later call replaces the registration, with the credentials of its own moment.
    """
    from headrace.pipeline.source.data_source import bound_source

    application = application_of(read_settings(config, os.environ).settings)
    ship(spark)
    spark.dataSource.register(bound_source(application))
