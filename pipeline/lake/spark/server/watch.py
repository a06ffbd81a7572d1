"""The process beside a local Spark server that ends it some minutes after its last user.

    python -c "... main()" FOLDER SECONDS    start the server by the command on standard input, and watch it; without a command, watch
                                             a server that runs and whose first watching process was killed

The watching process is no child of the process that started it: together with the server it has an operating
system's session of its own. So neither a Ctrl-C nor the end of the first user reaches the server, which others
may use by then.
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
from headrace.pipeline.lake.spark.server.process import CONF, PID, end, end_process, pid_of
from headrace.pipeline.lake.spark.server.users import User, is_locked, joining, users_of

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
    """Start the watching process. With a command, the watching process starts the server by it; without one, it
    watches the server that runs.
    """
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
        place = os.open(server_users.users_folder(folder), os.O_RDONLY)
        ends, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended)
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL) if command else None  # noqa: S603 -- of `start`
        if server is not None:
            _write(folder / PID, str(server.pid))
        os.close(begun)
        ServerWatch(folder, stays, server, ends, place, pid_of(folder)).keep()


@dataclass(slots=True)
class ServerWatch:
    """The watch of one server. The server's folder may be deleted meanwhile, for example with all temporary
    files: no process can join the server then, and only the watch can still end it.
    """

    folder: Path
    stays: float
    """Seconds that the server stays after its last user."""
    server: subprocess.Popen[bytes] | None
    """None where another process has started the server."""
    ends: int
    """A pipe that can be read once the server has ended."""
    place: int
    """The folder of users, as it was when the watch began. While it is open, no other folder is taken for it."""
    pid: int | None = None
    """The server's process id."""
    users: tuple[User, ...] = ()
    """Those seen at the last look."""
    unused_since: float | None = None
    touched: float = 0.0

    def keep(self) -> None:
        """Watch the server, and return when it has ended."""
        while self._lives():
            # A folder that is being deleted, or a full disk, spoils one look. The watch goes on: nothing else ends the server.
            with suppress(OSError):
                if self._look(time.monotonic()):
                    return
            select.select([self.ends], [], [], self.stays / _LOOKS)
        if self._is_in_place():
            self._is_used()

    def _look(self, now: float) -> bool:
        """Look at the users once. Returns whether the server was ended, because it had none for long enough."""
        if not self._is_in_place():
            return self._look_without_folder(now)
        if now - self.touched > _TOUCH_EVERY:
            self._touch()
            self.touched = now
        self.users = users_of(self.folder)
        if self.users:
            self._is_used()
        elif self.unused_since is None:
            self.unused_since = now
            # For people only: the watch itself goes by the monotonic clock.
            times = {"since": time.time(), "ends": time.time() + self.stays}
            _write(self.folder / UNUSED, json.dumps(times))
        elif now - self.unused_since >= self.stays:
            return self.end_if_unused()
        return False

    def _look_without_folder(self, now: float) -> bool:
        """The users' locks are gone. Those seen last count as long as processes with their ids live. The path is left alone: another server
        may have a folder there by now.
        """
        self.users = tuple(user for user in self.users if _is_alive(user.pid))
        if self.users:
            self.unused_since = None
        elif self.unused_since is None:
            self.unused_since = now
        elif now - self.unused_since >= self.stays:
            self._end_process()
            return True
        return False

    def _is_in_place(self) -> bool:
        """Whether the folder of users is still the one that it was."""
        try:
            return os.path.samestat(os.fstat(self.place), (self.folder / server_users.FOLDER).stat())
        except FileNotFoundError:
            return False

    def _is_used(self) -> None:
        self.unused_since = None
        (self.folder / UNUSED).unlink(missing_ok=True)

    def _lives(self) -> bool:
        if self.server is not None:
            return self.server.poll() is None
        return self.pid is not None and _is_alive(self.pid)

    def end_if_unused(self) -> bool:
        """End the server, unless a process uses it by now. Returns whether the server was ended. A process that
        wants to join meanwhile waits, and starts another server.
        """
        with joining(self.folder) as is_mine:
            if not is_mine or users_of(self.folder):
                return False
            end(self.folder)
            self._end_process()
            self._is_used()
            # The next server begins with new files. What stays are the locks, which a process may be waiting for.
            (self.folder / CONF).unlink(missing_ok=True)
            shutil.rmtree(self.folder / LOGS, ignore_errors=True)
            return True

    def _end_process(self) -> None:
        """End the server also where the file with its process id is gone."""
        if self.pid is not None:
            end_process(self.pid, self.folder)

    def _touch(self) -> None:
        for path in (self.folder, *self.folder.iterdir(), *(self.folder / server_users.FOLDER).glob("*")):
            with suppress(FileNotFoundError):
                os.utime(path)


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def delete_old(folders: Path) -> None:
    """Delete the folders of servers that ended more than a day ago. Keys that change every hour would leave very many."""
    for folder in folders.iterdir():
        with suppress(FileNotFoundError):  # another process deletes them, too
            is_old = time.time() - folder.stat().st_mtime > _DAY
            if is_old and not is_watched(folder) and not users_of(folder):
                shutil.rmtree(folder, ignore_errors=True)


def newest_log(folder: Path) -> Path:
    """The log file of the server's last start; the folder of logs where none was written."""
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
