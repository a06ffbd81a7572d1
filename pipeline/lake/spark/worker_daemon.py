"""PySpark's daemon, the process that forks Spark's Python workers, changed to end when it has no workers.

    sessions of Headrace's own tasks share one daemon, which imports what staging needs and stays as long as the server
    a session that Spark isolates, for code of the user or for another version of the engine, has a daemon of its own

Spark keeps each daemon (46 MB) as long as the server runs, though the daemon's workers end after a minute without work.
A run that parses is a session of its own, so a server that runs for days would fill the memory. When Spark needs a
worker and the daemon has ended, it starts a new daemon (`spark.python.daemon.module` names this module).

The daemon and its workers import PySpark as it is installed, and not from the zip that Spark puts before it on their
path: Python compiles the modules of a zip anew in each process, for half a CPU second.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

MEMORY = {"MIMALLOC_ALLOW_THP": "0", "MIMALLOC_PURGE_DELAY": "100"}
"""Environment of Spark's workers. Arrow's allocator asks for huge pages, gives them back between two pages of a shard,
and gets them again filled with zeros, which was a fifth of a task's CPU. It also gives back what was free for 10 ms,
less than a row group takes; after 100 ms the peak of `bench/memory.py` is the same (450 MB), while it is 490 to 560 MB
if nothing is given back.
"""
_NEEDED = ("numpy", "pyarrow.compute", "pyarrow.parquet", "msgspec", "botocore.session", "botocore.client")
"""Packages that each worker of staging needs. The daemon imports them once, and its workers, which are forks, have
them."""
_ENGINE = (
    "headrace.pipeline.aws.reading.pages",
    "headrace.pipeline.lake.staging.host_load",
    "headrace.pipeline.lake.staging.stage_task",
    "headrace.pipeline.lake.staging.stage_codec",
)
"""Modules of staging. All workers of a shared daemon import them from the zip on the server's path."""
_SESSION = "SPARK_JOB_ARTIFACT_UUID"
"""Spark's environment variable for a daemon and its workers: the session that they belong to."""
_SHARED = "default"
"""Its value where no session is isolated."""
# Importing numpy and pyarrow starts a thread of OpenBLAS and of jemalloc. Both libraries prepare their locks before a
# fork and start their threads anew after it.
_LOOK_EVERY = 60.0
"""Seconds. Longer than Spark takes to ask a new daemon for its first worker."""


def _end_if_idle(*_: object) -> None:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        # The daemon has no worker left, so no task waits for it.
        os._exit(0)


def without_zips_of_installed(path: list[str]) -> list[str]:
    """The path without PySpark's zips that lie in an installed PySpark, from which Python can import the same
    modules."""
    return [entry for entry in path if not _is_zip_of_installed(Path(entry), path)]


def _is_zip_of_installed(entry: Path, path: list[str]) -> bool:
    """Whether an entry is `pyspark/python/lib/pyspark.zip` in a folder of the path. Each version of PySpark carries its
    own."""
    return entry.parts[-4:] == ("pyspark", "python", "lib", "pyspark.zip") and str(entry.parents[3]) in path


def main() -> None:
    os.environ |= MEMORY  # before Arrow is loaded
    sys.path[:] = without_zips_of_installed(sys.path)
    from pyspark import daemon

    # Only shared workers get the engine before they fork: they have the server's version of it, and no other.
    is_shared = os.environ.get(_SESSION) == _SHARED
    for name in (*_NEEDED, *(_ENGINE if is_shared else ())):
        with suppress(ImportError):  # staging tells which package is missing
            importlib.import_module(name)
    if not is_shared:
        # Workers are forks of this process: modules that are imported here would hide those in the zip of the worker's
        # session.
        for name in [name for name in sys.modules if name.partition(".")[0] == "headrace"]:
            del sys.modules[name]
    # Python's garbage collector then leaves out what was imported: else each worker looks through it again and again,
    # and so also gets a copy of most of its memory.
    gc.collect()
    gc.freeze()
    if not is_shared:
        signal.signal(signal.SIGALRM, _end_if_idle)
        # A timer, because forked workers don't inherit it.
        signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY, _LOOK_EVERY)
    daemon.manager()


if __name__ == "__main__":
    main()
