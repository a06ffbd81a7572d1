"""The process that forks Spark's Python workers on the local server: PySpark's own, but it ends when idle.

Spark keeps a daemon per Connect session (46 MB) for as long as the server lives, though its workers leave after
a minute without work. Each run of ours is a session, so a server that stays up for days would fill the memory.
Spark starts a daemon that is gone anew when it needs a worker (`spark.python.daemon.module`).
"""

from __future__ import annotations

import os
import signal
import sys

_LOOK_EVERY = 60.0  # seconds; longer than a job takes to ask for its first worker


def _end_if_idle(*_: object) -> None:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        os._exit(0)  # no worker is left, and nobody waits for an answer


def main() -> None:
    from pyspark import daemon

    # Workers are forks: what is imported here would hide the engine that their session was shipped.
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipeline"]:
        del sys.modules[name]
    signal.signal(signal.SIGALRM, _end_if_idle)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY, _LOOK_EVERY)  # forks don't inherit it
    daemon.manager()


if __name__ == "__main__":
    main()
