"""`python -m headrace.pipeline.cli.beside.warm`: start the local Spark server that the workers' runs will join.

It reads the settings that HEADRACE_CONFIG names, as Dagster's code server does. Where no worker uses a local Spark, it
does nothing.
"""

import logging
import os

from headrace.pipeline.cli import INTERRUPTED, tell_errors
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lake.spark.session import is_local, spark_session
from headrace.pipeline.lake.spark.spark_job import run_tasks
from headrace.pipeline.ports.tasks import Now, Work
from headrace.pipeline.settings.file import read_settings


def main() -> int:
    # Shows the progress of a slow start.
    logging.basicConfig(format="headrace: %(message)s")
    settings = read_settings(None, os.environ).settings
    local = next((worker for worker in settings.workers if is_local(worker.spark)), None)
    if local is None:
        return 0
    try:
        session = spark_session(local.spark, f"headrace {local.id}")
        # A job with a Python task, as staging's: the server then has loaded what the first run needs.
        run_tasks(session, 1, _nothing())
        session.stop()
    except HeadraceError as error:
        return tell_errors(error)
    return 0


def _nothing() -> Work:
    def work(_number: int, _now: Now) -> bytes:
        return b""

    return work


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        # `headrace dev` says that it was interrupted.
        raise SystemExit(INTERRUPTED) from None
