"""A check: whether each worker's Spark can be reached, and with `--spark` whether its tasks can import what
Headrace needs.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.pipeline.ports.tasks import Now, Work
    from headrace.pipeline.settings.model import SparkSettings, WorkerSettings

_NAME = "Spark"
_CONNECT_PORT: Final = 15_002
_SECONDS: Final = 5.0
_IMPORTED: Final = ("pyarrow", "botocore", "fastavro", "msgspec", "headrace.pipeline.lake.staging.stage")
"""What tasks of Headrace import. The last one is shipped by the driver."""


def spark_is_reached(case: Case) -> Iterator[Diagnosis]:
    workers = () if case.settings is None else case.settings.workers
    for spark, worker in {
        worker.spark.remote or worker.spark.master or "": worker for worker in workers
    }.items():
        if spark.startswith("sc://") and (why := _why_unreachable(spark)) is not None:
            yield Diagnosis(
                _NAME,
                Health.ILL,
                f"worker {worker.id}: {spark} can't be reached ({why})",
                "Start the Spark Connect server, or correct `workers.N.spark.remote`. Runs claim no shard until Spark answers",
            )
        elif case.tries_spark:
            yield _tried(worker, spark)
        elif spark.startswith("sc://"):
            yield Diagnosis(
                _NAME,
                Health.WELL,
                f"worker {worker.id}: {spark} accepts connections",
                "`--spark` runs a task",
            )


def _why_unreachable(remote: str) -> str | None:
    place = urlsplit(remote)
    try:
        socket.create_connection(
            (place.hostname or "", place.port or _CONNECT_PORT), timeout=_SECONDS
        ).close()
    except OSError as error:
        return str(error)
    return None


def _tried(worker: WorkerSettings, spark: str) -> Diagnosis:
    try:
        missing = _missing_in_tasks(worker.spark)
    except HeadraceError as error:
        return Diagnosis(_NAME, Health.ILL, f"worker {worker.id}: {error}")
    except Exception as error:  # noqa: BLE001 - Spark's own errors have no common class, and each means the same here
        first = next(iter(str(error).splitlines()), "")
        return Diagnosis(
            _NAME,
            Health.ILL,
            f"worker {worker.id}: a task on {spark} failed ({type(error).__name__}: {first[:300]})",
            "Look at the log of the Spark server or cluster",
        )
    if missing:
        return Diagnosis(
            _NAME,
            Health.ILL,
            f"worker {worker.id}: a task on {spark} can't import {'; '.join(missing)}",
            "Install Headrace's packages where Spark's tasks run (the same Python, the versions of requirements.lock)",
        )
    return Diagnosis(_NAME, Health.WELL, f"worker {worker.id}: a task on {spark} imports what it needs")


def _missing_in_tasks(spark: SparkSettings) -> list[str]:
    from headrace.pipeline.lake.spark.session import spark_session
    from headrace.pipeline.lake.spark.spark_job import run_tasks

    # The settings' own way to Spark: a session made in another way would show that another Spark
    # works.
    session = spark_session(spark, "headrace doctor")
    try:
        [answer] = run_tasks(session, 1, _importing(_IMPORTED))
    finally:
        session.stop()
    return answer.decode().splitlines()


def _importing(names: tuple[str, ...]) -> Work:
    def import_all(_: int, __: Now) -> bytes:
        import importlib

        missing = []
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError as error:
                missing.append(f"{name} ({error})")
        return "\n".join(missing).encode()

    # An inner function is pickled whole; one of this module would be looked for in a module that tasks don't have.
    return import_all
