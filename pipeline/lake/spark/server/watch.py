"""The process beside a local Spark server that ends it some minutes after its last user.

    python -c "... main()" FOLDER SECONDS    start the server by the command on standard input, and watch it; without a command, watch the
                                             server that runs, whose first watch was killed

It is no child of the process that started it, and has a session of its own with the server. So neither a Ctrl-C nor the end of the user that
happened to come first reaches the server, which others may use by then.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.lake.spark.server import users as server_users
from headrace.pipeline.lake.spark.server.process import CONF, PID, end, pid_of
from headrace.pipeline.lake.spark.server.users import is_locked, joining, users_of

UNUSED = "unused.json"
LOGS = "logs"
_LOCK = "watch.lock"
_LOOKS = 20
"""So many looks at the users are made while an unused server stays: each takes some microseconds."""
_LOGS_KEPT = 5
_DAY = 24 * 3600.0
_TOUCH_EVERY = 3600.0
"""Seconds. Programs that clean the folder for temporary files delete what nobody has touched for days."""


def start(folder: Path, stays: float, *command: str) -> None:
    """Start the watching process; with a command, it starts the server by that command."""
    root = str(Path(__file__).parents[5])
    program = f"import sys; sys.path.insert(0, {root!r}); from {__name__} import main; main()"
    # No package of the environment is needed, so that the process begins in 20 ms.
    words = [sys.executable, "-I", "-S", "-c", program, str(folder), str(stays)]
    log = newest_log(folder)
    with (_new_log(folder) if command or log.is_dir() else log).open("ab") as out:
        given = json.dumps(command).encode()
        subprocess.run(words, input=given, stdout=out, stderr=out, start_new_session=True, check=True)  # noqa: S603 -- our own module


def is_watched(folder: Path) -> bool:
    with (folder / _LOCK).open("a+", encoding="utf-8") as file:
        return is_locked(file)


def main() -> None:
    folder, stays, command = Path(sys.argv[1]), float(sys.argv[2]), json.load(sys.stdin)
    begins, begun = os.pipe()
    if os.fork():
        # The process that has started this one waits for it, and finds the server's process id afterwards.
        os.close(begun)
        os.read(begins, 1)
        os._exit(0)
    with (folder / _LOCK).open("a+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ends, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended)
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL) if command else None  # noqa: S603 -- of `start`
        if server is not None:
            _write(folder / PID, str(server.pid))
        os.close(begun)
        ServerWatch(folder, stays, server, ends).keep()


@dataclass(slots=True)
class ServerWatch:
    folder: Path
    stays: float
    """Seconds that the server stays after its last user."""
    server: subprocess.Popen[bytes] | None
    """None where another process has started the server."""
    ends: int
    """A pipe that can be read once the server has ended."""
    unused_since: float | None = None
    touched: float = 0.0

    def keep(self) -> None:
        """Return when the server has ended."""
        while self._lives():
            now = time.monotonic()
            if now - self.touched > _TOUCH_EVERY:
                self._touch()
                self.touched = now
            if users_of(self.folder):
                self._is_used()
            elif self.unused_since is None:
                self.unused_since = now
                times = {"since": time.time(), "ends": time.time() + self.stays}
                _write(self.folder / UNUSED, json.dumps(times))
            elif now - self.unused_since >= self.stays and self.end_if_unused():
                return
            select.select([self.ends], [], [], self.stays / _LOOKS)
        self._is_used()

    def _is_used(self) -> None:
        self.unused_since = None
        (self.folder / UNUSED).unlink(missing_ok=True)

    def _lives(self) -> bool:
        if self.server is not None:
            return self.server.poll() is None
        pid = pid_of(self.folder)
        with suppress(OSError):
            if pid is not None:
                os.kill(pid, 0)
                return True
        return False

    def end_if_unused(self) -> bool:
        """End the server, unless a process uses it by now. A process that wants to join it meanwhile waits, and starts another server."""
        with joining(self.folder) as is_mine:
            if not is_mine or users_of(self.folder):
                return False
            end(self.folder)
            self._is_used()
            # The next server begins with new files. What stays are the locks, which a process may be waiting for.
            (self.folder / CONF).unlink(missing_ok=True)
            shutil.rmtree(self.folder / LOGS, ignore_errors=True)
            return True

    def _touch(self) -> None:
        for path in (self.folder, *self.folder.iterdir(), *(self.folder / server_users.FOLDER).glob("*")):
            with suppress(FileNotFoundError):
                os.utime(path)


def delete_old(folders: Path) -> None:
    """Delete the folders of servers that ended more than a day ago. Keys that change every hour would leave very many."""
    for folder in folders.iterdir():
        with suppress(FileNotFoundError):  # another process deletes them, too
            is_old = time.time() - folder.stat().st_mtime > _DAY
            if is_old and not is_watched(folder) and not users_of(folder):
                shutil.rmtree(folder, ignore_errors=True)


def newest_log(folder: Path) -> Path:
    """The log of the last start; the folder of logs where none was written."""
    return max((folder / LOGS).glob("*.out"), default=folder / LOGS)


def _new_log(folder: Path) -> Path:
    logs = folder / LOGS
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in sorted(logs.glob("*.out"))[: 1 - _LOGS_KEPT]:
        path.unlink()
    return logs / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.out"


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole: other processes read it at any time."""
    begun = path.with_suffix(".begun")
    begun.write_text(text, encoding="utf-8")
    begun.replace(path)
