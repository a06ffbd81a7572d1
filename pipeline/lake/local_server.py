"""Starting the local Spark Connect server, or joining the server that runs already, however slow the machine is.

PySpark's own start kills a server that isn't up after 120 s. It also refuses to start a server beside one that it can't
reach: a server that is slow to answer, or one whose starting process was killed before it had written the server's address
and token. This module waits for a server that is alive, replaces a server that no process can reach, and raises if a server died.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.waiting import PATIENCE, telling, warn
from headrace.pipeline.lake_ports import OnWaiting

if TYPE_CHECKING:
    import grpc
    from pyspark.sql.connect.local_server import Discovery, LocalConnectServer

_LOOK_EVERY = 0.25
_ENDS_WITHIN = 60.0
"""Seconds that a server has to end by itself; after that it is killed."""

_log = logging.getLogger("headrace")


def bring_up(
    master: str, conf: Mapping[str, str], *, patience: timedelta = PATIENCE, on_waiting: OnWaiting = warn
) -> LocalConnectServer:
    """Start or join the local server, and return once it answers."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.local_server import Discovery, LocalConnectServer

    discovery = Discovery()
    where = partial(_where_its_log_is, discovery)
    with telling(on_waiting, "the local Spark server", at_most=patience, more=where):
        try:
            # A lock between processes. While one starts the server, the others wait here, and then join that server.
            with discovery:
                server = LocalConnectServer(discovery)
                if not _is_worth_waiting_for(server):
                    _end_unreachable(discovery)
                    _launch(master, conf, discovery, patience)
                    server = LocalConnectServer(discovery)
        except (PySparkException, subprocess.TimeoutExpired) as error:
            raise _failed(str(error), discovery) from error
        _await_answer(server, discovery, patience)
    return server


def is_server(pid: int) -> bool:
    """Whether this process id is a Spark Connect server. An old pid file may name an id that another process has by now."""
    command = ["ps", "-ww", "-p", str(pid), "-o", "stat=", "-o", "command="]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 -- no part of the command comes from outside
    # A zombie (state Z) has ended; its parent just hasn't asked for its exit code yet.
    return "SparkConnectServer" in shown and not shown.startswith("Z")


def _is_worth_waiting_for(server: LocalConnectServer) -> bool:
    from pyspark.version import __version__

    return server.pid is not None and server.spark_version == __version__ and is_server(server.pid)


def _end_unreachable(discovery: Discovery) -> None:
    """Stop a server that can't be joined: its starting process was killed before it wrote the token, or it has another Spark
    version. Spark's script starts no server while its pid file names a process called java, even a zombie; so the pid file
    is deleted, too.
    """
    pid = discovery.daemon_pid()
    if pid is not None and is_server(pid):
        _log.warning("stopping the local Spark server of process %s: this process can't join it", pid)
        end(pid)
    Path(discovery.daemon_pid_path).unlink(missing_ok=True)


def end(server: int) -> None:
    """Stop the server with this process id, and wait until it has ended."""
    until = time.monotonic() + _ENDS_WITHIN
    with suppress(ProcessLookupError):
        os.kill(server, signal.SIGTERM)
        while is_server(server):
            if time.monotonic() > until:
                os.kill(server, signal.SIGKILL)
            time.sleep(_LOOK_EVERY)


def _launch(master: str, conf: Mapping[str, str], discovery: Discovery, patience: timedelta) -> None:
    from pyspark.sql.connect.local_server import ServerLauncher

    launcher = ServerLauncher(master, dict(conf), discovery)
    launcher._READY_TIMEOUT = int(patience.total_seconds())  # noqa: SLF001 -- PySpark has no setting for its 120 s
    launcher.launch()


def _await_answer(server: LocalConnectServer, discovery: Discovery, patience: timedelta) -> None:
    """Wait until the server answers by gRPC. A port that accepts connections isn't enough: the JVM may still be starting."""
    import grpc

    def require_alive() -> None:
        if server.pid is None or not is_server(server.pid):
            raise _failed("it died", discovery)

    with grpc.insecure_channel(f"{server.host}:{server.port}") as channel:
        if not answers(channel, patience, meanwhile=require_alive):
            raise _failed(f"it didn't answer for {patience.total_seconds():.0f} s", discovery)


def answers(
    channel: grpc.Channel, patience: timedelta, *, meanwhile: Callable[[], None] = lambda: None
) -> bool:
    """Whether a gRPC server answers within that time. `meanwhile` is called every second, and may raise."""
    import grpc

    until = time.monotonic() + patience.total_seconds()
    ready = grpc.channel_ready_future(channel)
    while time.monotonic() < until:
        with suppress(grpc.FutureTimeoutError):
            ready.result(timeout=1)
            return True
        meanwhile()
    return False


def _failed(why: str, discovery: Discovery) -> Unreachable:
    return Unreachable(
        f"the local Spark server didn't start: {why.strip()}. Nothing was read; its log is {_log_file(discovery)}"
    )


def _where_its_log_is(discovery: Discovery) -> str:
    return f"; its log is {_log_file(discovery)}"


def _log_file(discovery: Discovery) -> Path:
    """The newest log file; the folder of logs where none was written."""
    folder = Path(discovery.directory) / "logs"
    return max(folder.glob("*.out"), key=lambda file: file.stat().st_mtime, default=folder)
