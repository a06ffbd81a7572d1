"""Makes sure that the process of a cancelled run ends, whatever it waits for.

Dagster interrupts a run once, and afterwards its process takes no signal but SIGKILL. A process that then waits
for ever, for a lock that the interruption has left held, say, would keep its memory and the local Spark server.
So would one whose interruption Python threw away, as it does where the interruption comes while Python frees an
object.

To kill the process is safe at each moment: records and positions are one commit, and the leases expire. If
Dagster doesn't know yet how the run has ended, its code server sees that the process is gone, and says so.
"""

import faulthandler
import sys
import time
from datetime import timedelta
from functools import partial
from threading import Thread
from typing import Any

AT_MOST = timedelta(minutes=5)
"""How long a cancelled run may take to release its shards and to tell Dagster: AWS may be slow to answer, and is asked again."""

_LOOKS_EVERY = 1.0
"""Seconds between two looks whether the run was cancelled."""


def end_cancelled_runs() -> None:
    """Make sure that each run which the Dagster code server of this process starts from now on ends soon after it
    is cancelled. In a process without a code server, this does nothing.
    """
    server = sys.modules.get("dagster._grpc.server")
    if server is not None:
        # Dagster has no setting for this. It looks the name up when it starts a run.
        server.start_run_in_subprocess = partial(_run, AT_MOST)  # type: ignore[attr-defined]


def _run(at_most: timedelta, arguments: str, job: Any, events: Any, cancelled: Any) -> None:
    """Dagster's function of the same arguments, in the run's process. `cancelled`: an event, which Dagster also sets at the end of each run."""
    from dagster._grpc.impl import start_run_in_subprocess

    Thread(target=_end, args=(cancelled, at_most), name="headrace-run-end", daemon=True).start()
    start_run_in_subprocess(arguments, job, events, cancelled)  # type: ignore[no-untyped-call]


def _end(cancelled: Any, at_most: timedelta) -> None:
    # Dagster waits for the event in a thread of its own: a second one that waits could take its place.
    while not cancelled.is_set():
        time.sleep(_LOOKS_EVERY)
    # It needs no lock of Python's, and says on stderr where each thread was.
    faulthandler.dump_traceback_later(at_most.total_seconds(), exit=True)
