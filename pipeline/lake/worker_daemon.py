"""PySpark's daemon, the process that forks Spark's Python workers, changed to end when it has no workers.

Spark keeps a daemon (46 MB) for each Connect session as long as the server runs, though the daemon's workers end after a
minute without work. Each run of Headrace is a session, so a server that runs for days would fill the memory. When Spark needs a
worker and the daemon has ended, it starts a new daemon (`spark.python.daemon.module` names this module).
"""

from __future__ import annotations

import os
import signal
import sys

_LOOK_EVERY = 60.0
"""Seconds. Longer than Spark takes to ask a new daemon for its first worker."""


def _end_if_idle(*_: object) -> None:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        # The daemon has no worker left, so no task waits for it.
        os._exit(0)


def main() -> None:
    from pyspark import daemon

    # Workers are forks of this process: modules that are imported here would hide those in the zip of the worker's session.
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipeline"]:
        del sys.modules[name]
    signal.signal(signal.SIGALRM, _end_if_idle)
    # A timer, because forked workers don't inherit it.
    signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY, _LOOK_EVERY)
    daemon.manager()


if __name__ == "__main__":
    main()
