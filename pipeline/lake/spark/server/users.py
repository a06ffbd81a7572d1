"""The processes that use a local Spark server.

Each of them has a file in the server's folder, and holds the operating system's lock (flock) on it until it ends, however it ends. So a
process that was killed is a user no longer, while one that was stopped (SIGSTOP), whose session may still be in use, is one.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

FOLDER = "users"
_JOINING = "join.lock"

_held: dict[tuple[Path, int], TextIO] = {}
"""The files by which this process uses servers. A process id is part of the key: a fork has the dictionary of its parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    """What the process does, such as `headrace dev`."""
    pid: int = field(default_factory=os.getpid)

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


def use(folder: Path, name: str) -> None:
    """Count this process as a user of the server in this folder until the process ends, whether a server runs
    there or not.
    """
    key = (folder, os.getpid())
    if key in _held:
        return
    users = users_folder(folder)
    # The file gets its name once it is locked. Without the lock it would count as that of a process that has ended.
    begun = folder / f".{os.getpid()}-{time.monotonic_ns()}"
    file = begun.open("x", encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(json.dumps(asdict(User(name=name))))
    file.flush()
    begun.rename(users / begun.name[1:])
    _held[key] = file


def users_folder(folder: Path) -> Path:
    """The folder with the users' files; it is made where there is none."""
    users = folder / FOLDER
    users.mkdir(mode=0o700, parents=True, exist_ok=True)
    return users


def leave(folder: Path) -> None:
    """No longer count this process as a user of the server in this folder."""
    if file := _held.pop((folder, os.getpid()), None):
        file.close()


def users_of(folder: Path) -> tuple[User, ...]:
    """The living processes that use the server in this folder. Files of processes that have ended are deleted."""
    living = (_user(path) for path in sorted((folder / FOLDER).glob("*")))
    return tuple(user for user in living if user is not None)


def _user(path: Path) -> User | None:
    with suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as file:
        # The lock and no process id tells who lives: ids are used again, and a lock ends with its
        # process.
        if is_locked(file):
            return User(**json.load(file))
        path.unlink()
    return None


def is_locked(file: TextIO) -> bool:
    """Whether another open file holds the lock on this one."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


@contextmanager
def joining(folder: Path) -> Iterator[bool]:
    """Hold the lock under which processes join, start and end the server of this folder, unless another process holds it.

    Yields whether this process holds the lock.
    """
    with (folder / _JOINING).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield True


def joining_process(folder: Path) -> str:
    """The id of the process that holds the lock of `joining`, or held it last."""
    return (folder / _JOINING).read_text(encoding="utf-8")
