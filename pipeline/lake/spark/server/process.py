"""The process of a local Spark server: whether it lives, how much memory it takes, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.lake.spark.server.classes import keep

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
CONF = "server.conf"
PID = "server.pid"
ADDRESS = "connect.json"
_LOOK_EVERY = 0.25
_ENDS_WITHIN = 60.0
"""Seconds that a server has to end by itself; after that it is killed."""
_COLUMNS = ("pid", "uid", "stat", "rss", "etime", "command")
_FOLDER_IN_COMMAND = re.compile(rf"--properties-file (.+)/{re.escape(CONF)}( |$)")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    pid: int
    memory: int
    """Bytes of the JVM that are in the host's memory."""
    age: float
    """Seconds."""
    folder: Path | None
    """The server's folder; None for a Spark Connect server that this Headrace hasn't started."""


def is_server(pid: int, folder: Path) -> bool:
    """Whether the process with this id is the Spark server of this folder. A file that is old may name an id that
    another process has by now.
    """
    return any(process.folder == folder for process in _processes("-p", str(pid)))


def processes_of_user() -> list[ServerProcess]:
    """The Spark Connect servers of this user on this host."""
    return list(_processes("-A", uid=os.getuid()))


def _processes(*which: str, uid: int | None = None) -> Iterator[ServerProcess]:
    columns = [word for column in _COLUMNS for word in ("-o", f"{column}=")]
    # `ps` is on Linux and macOS alike, where /proc is not. `-ww`, since the folder stands far
    # behind in the JVM's long command line.
    command = ["ps", "-ww", *which, *columns]
    shown = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 -- no part of the command comes from outside
    for line in shown.stdout.splitlines():
        words = line.split(maxsplit=len(_COLUMNS) - 1)
        # A zombie (state Z) has ended; its parent just hasn't asked for its exit code yet.
        if len(words) < len(_COLUMNS) or f"--class {CLASS}" not in words[-1] or words[2].startswith("Z"):
            continue
        if uid is None or int(words[1]) == uid:
            in_command = _FOLDER_IN_COMMAND.search(words[-1])
            folder = Path(in_command[1]) if in_command else None
            yield ServerProcess(int(words[0]), int(words[3]) * 1024, _seconds(words[4]), folder)


def _seconds(elapsed: str) -> float:
    """The seconds of ps's `[[days-]hours:]minutes:seconds`."""
    days, _, clock = elapsed.rpartition("-")
    hours, minutes, seconds = [0, *map(int, clock.split(":"))][-3:]
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)


def pid_of(folder: Path) -> int | None:
    """The process id of the server that was started last in this folder."""
    try:
        return int((folder / PID).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def end(folder: Path) -> None:
    """Stop the server of this folder, wait until it has ended, and delete the files by which processes find it."""
    # First the address: whoever looks for the server from here on starts another one.
    (folder / ADDRESS).unlink(missing_ok=True)
    pid = pid_of(folder)
    if pid is not None:
        end_process(pid, folder)
    (folder / PID).unlink(missing_ok=True)


def end_process(pid: int, folder: Path) -> None:
    """Stop this process if it is the server of this folder, and wait until it has ended. The folder itself may
    have been deleted.
    """
    if not is_server(pid, folder):
        return
    until, is_killed = time.monotonic() + _ENDS_WITHIN, False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while is_server(pid, folder):
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                is_killed = True
            time.sleep(_LOOK_EVERY)
    if not is_killed:
        keep(folder)
