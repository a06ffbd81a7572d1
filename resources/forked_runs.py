"""Lets runs start as forks of a process that has imported their packages, instead of importing them anew.

Dagster's code server starts each run in a new Python, which spends most of its first two CPU seconds on imports.
Python's multiprocessing knows another way, the fork server: a process that the code server starts with its first
run, that imports the packages below and nothing else, and that ends with the code server. A fork of it does what
the new Python would do.

The user's modules and the settings are imported and read by each run, as ever. A package that is upgraded, and
Headrace itself, reaches the runs when the code server is started again, as it reaches the sensors.
"""

import multiprocessing
import os
import sys
import tempfile

PACKAGES = (
    "headrace.pipeline.lake.spark.quiet_pandas",
    "dagster._grpc.impl",
    "dagster._core.executor.in_process",
    "dagster._core.storage.runs.sqlite",
    "dagster._core.storage.event_log.sqlite",
    "dagster._core.storage.schedules.sqlite",
    "dagster._core.storage.local_compute_log_manager",
    "dagster_aws.utils",
    "dagster_pyspark",
    "boto3.session",
    "pyiceberg.catalog.sql",
    "grpc",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "pyspark.sql.connect.session",
    "headrace.pipeline.app.adapters",
    "headrace.pipeline.lake.table.lake_table",
    "headrace.pipeline.lineage.table",
    "headrace.pipeline.lake.staging.sessions",
    "headrace.pipeline.lake.staging.stage",
    "headrace.pipeline.lake.staging.stage_codec",
    "headrace.pipeline.app.wiring",
    "headrace.resources.imported",
)
"""A fork has only the thread that forked, so that a lock which another thread held stays locked for ever. None of these
modules starts a thread in Python. The C libraries of numpy and pyarrow start one each, when these are imported; both
libraries end their threads or take their locks before a fork, and start anew after it (`pthread_atfork`), as Spark's
own Python workers rely on."""

_LONGEST_FOLDER = 70
"""Letters of the folder for temporary files. The fork server's socket lies there, and a socket's path may have 107."""


def fork_runs() -> None:
    """Let the Dagster code server of this process fork its runs. In a process without a code server, this does
    nothing.
    """
    server = sys.modules.get("dagster._grpc.server")
    if server is None or not _can_fork():
        return
    context = multiprocessing.get_context("forkserver")
    # The settings and the user's modules aren't among these: each run reads them itself, as they are then.
    context.set_forkserver_preload([*PACKAGES])
    # Dagster has no setting for this. A property counts before the attribute, which the server set before it loaded the
    # definitions.
    server.DagsterApiServer._mp_ctx = property(lambda _: context, lambda *_: None)  # noqa: SLF001 -- see above


def _can_fork() -> bool:
    # Libraries of macOS don't survive a fork, and the fork server of Python 3.11.0 obeys every user of the host
    # (CVE-2022-42919).
    is_safe = sys.platform == "linux" and sys.version_info >= (3, 11, 1)
    return is_safe and len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER
