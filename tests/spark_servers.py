"""Processes that look like local Spark servers, each with its real watch, for tests that need no Spark."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.pipeline.lake.spark.server import watch as server_watch
from headrace.pipeline.lake.spark.server.process import CLASS, CONF, end, is_server, pid_of
from tests.eventually import eventually


def a_server(folder: Path, stays: float) -> int:
    """Start a process with a server's command line, and its watch. Returns the server's process id."""
    folder.mkdir(exist_ok=True)
    program = "import signal; signal.pause()"
    options = ("--class", CLASS, "--properties-file", str(folder / CONF))
    server_watch.start(folder, stays, sys.executable, "-c", program, *options)
    pid = pid_of(folder)
    assert pid is not None
    eventually(lambda: is_server(pid, folder), "the server has begun", every=0.01)
    return pid


@contextmanager
def a_running_server(folder: Path, stays: float = 60) -> Iterator[int]:
    """A server for as long as the block lasts."""
    try:
        yield a_server(folder, stays)
    finally:
        end(folder)
